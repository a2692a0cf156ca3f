package bench

import (
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
	"github.com/chronik-io/chronik/internal/tools/bench/wire"
)

// Bind adds a flag for every setting to fs, with c's values as defaults; parsing fs fills c. The
// caller must still call Complete.
func (c *Config) Bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Brokers, "bootstrap-servers", c.Brokers, "initial brokers, host:port,…")
	fs.StringVar(&c.Authorities, "tls-ca", c.Authorities, "connect with TLS 1.3, and check the brokers' certificates with the authorities in this PEM file")
	fs.StringVar(&c.Topic, "topic", c.Topic, "topic of the run")
	fs.StringVar((*string)(&c.Mode), "mode", string(c.Mode), "produce; consume (reads the topic from its start, repeatedly); "+
		"e2e (time from send to receive); mixed (produce and consume concurrently)")
	fs.StringVar(
		(*string)(&c.Clients),
		"clients",
		string(c.Clients),
		"own (each of N connections sends one record and waits for its response; "+
			"raw prebuilt requests; consume: raw fetches; the consumer of e2e is one kgo client, or --consumers), shared (N tasks on one kgo producer without linger, "+
			"each waiting for its record's delivery), batched (N kgo producers with kgo's defaults, without a limit in flight) (default own)",
	)
	fs.BoolVar(&c.Batched, "batched", c.Batched, "short for --clients batched")
	fs.VarP(&atLeastOne{&c.Concurrency}, "concurrency", "c", "connections (own), tasks (shared) or producers (batched), "+
		settings.Range(1, MaxConcurrency)+" (default 128; batched 1)")
	fs.Var(&atLeastOne{&c.Pipeline}, "pipeline", "requests in flight on each connection of --clients own, "+settings.Range(1, MaxPipeline))
	fs.DurationVarP(&c.Duration, "duration", "d", c.Duration, "measured time, "+settings.Positive)
	fs.DurationVar(&c.Warmup, "warmup", c.Warmup, "time before the measured time, not counted, "+settings.NotNegative().String())
	fs.IntVarP(&c.MessageSize, "message-size", "s", c.MessageSize, fmt.Sprintf("size of a record's value in bytes, %s; "+
		"with --verify or --mode e2e at least %d", settings.Range(0, MaxMessageSize), load.StampSize))
	fs.StringVar((*string)(&c.Acks), "acks", string(c.Acks), "0 (counts records written to the socket, without confirmation), 1 or all")
	fs.StringVar(
		&c.Compression,
		"compression",
		c.Compression,
		"none, gzip, snappy, lz4 or zstd; values are text that compresses by about a quarter",
	)
	fs.Float64Var(&c.Rate, "rate", c.Rate, "open loop: records per second of all clients together, latencies counted from the intended "+
		"send times, "+rates().String())
	fs.BoolVar(
		&c.CreateTopic,
		"create-topic",
		c.CreateTopic,
		"create the topic if it is missing; "+Default().Topic+" is created without it",
	)
	fs.BoolVar(&c.DeleteTopic, "delete-topic", c.DeleteTopic, "delete the topic afterwards")
	fs.IntVar(&c.Partitions, "partitions", c.Partitions, "partitions of a created topic, "+settings.PartitionBounds().String())
	fs.IntVar(&c.ReplicationFactor, "replication-factor", c.ReplicationFactor,
		"replicas of a created topic, "+settings.Range(1, maxReplicas))
	// A flag that is set changes the map of its default.
	fs.StringToStringVar(&c.TopicConfig, "topic-config", maps.Clone(c.TopicConfig),
		"config of a created topic, name=value; may be repeated")
	fs.BoolVar(&c.Verify, "verify", c.Verify, "read the topic afterwards: it must have every acknowledged record once")
	fs.StringVar(&c.ClientID, "client-id", c.ClientID, "client id of the load, to which quotas may apply (default "+wire.ClientID+")")
	fs.IntVar(&c.FetchMaxBytes, "fetch-max-bytes", c.FetchMaxBytes, "maximum bytes of a raw fetch, "+settings.Range(minFetch, maxFetch))
	fs.IntVar(
		&c.Consumers,
		"consumers",
		c.Consumers,
		"e2e: number of raw connections that each wait in a fetch of the topic's only partition and "+
			"receive every record, "+cli.Between(0, MaxConcurrency).Or(0, "one kgo consumer").String(),
	)
	fs.IntVar(&c.ServerPID, "server-pid", c.ServerPID,
		"process id of the broker on this machine: shows its CPU time per request (Linux), "+settings.PID().String())
	fs.StringVar(&c.Admin, "admin", c.Admin, "HOST:PORT of chronik's admin port, for the broker's version and its fdatasyncs "+
		"during the run; off for none "+
		"(default port "+adminPort+" of the first broker)")
}

// fastest is the largest rate of records per second.
const fastest = 1_000_000_000

// rates returns the accepted rates of records per second.
func rates() cli.Bounds[float64] {
	return cli.Between(settings.Slowest, fastest).Or(0, "as fast as responses allow")
}

// atLeastOne is a flag that rejects 0, which stands for its default.
type atLeastOne struct{ n *int }

func (f *atLeastOne) String() string {
	if f.n == nil || *f.n == 0 {
		return ""
	}
	return strconv.Itoa(*f.n)
}

func (f *atLeastOne) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n == 0 {
		return errors.New("must be an integer of at least 1")
	}
	*f.n = n // Complete checks the limits
	return nil
}

// Type returns the type that --help shows.
func (*atLeastOne) Type() string { return "int" }
