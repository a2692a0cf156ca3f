package bench

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// Bind adds a flag for every setting to fs, with c's values as defaults; parsing
// fs fills c. Complete must still be called.
func (c *Config) Bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Brokers, "bootstrap-servers", c.Brokers, "brokers to start from, host:port,…")
	fs.StringVar(&c.Topic, "topic", c.Topic, "topic to measure with")
	fs.StringVar((*string)(&c.Mode), "mode", string(c.Mode), "produce; consume (reads the topic from its start, again and again); "+
		"e2e (time from send to receive); mixed (produce and consume side by side)")
	fs.StringVar((*string)(&c.Clients), "clients", string(c.Clients), "own (each of N connections sends one record and waits for its answer; "+
		"raw prebuilt requests; consume: raw fetches; the consumer of e2e is one kgo client, or --consumers), shared (N tasks on one kgo producer without linger, "+
		"each waiting for its record's delivery), batched (N kgo producers with kgo's defaults, as many in flight as they like) (default own)")
	fs.BoolVar(&c.Batched, "batched", c.Batched, "short for --clients batched")
	fs.VarP(&atLeastOne{&c.Concurrency}, "concurrency", "c", "connections (own), tasks (shared) or producers (batched) "+
		"(default 128; batched 1)")
	fs.Var(&atLeastOne{&c.Pipeline}, "pipeline", "requests in flight on each connection of --clients own")
	fs.DurationVarP(&c.Duration, "duration", "d", c.Duration, "measured time")
	fs.DurationVar(&c.Warmup, "warmup", c.Warmup, "time before it that is not counted")
	fs.IntVarP(&c.MessageSize, "message-size", "s", c.MessageSize, "bytes of a record's value")
	fs.StringVar((*string)(&c.Acks), "acks", string(c.Acks), "0 (counts what was written to the socket: nothing confirms it), 1 or all")
	fs.StringVar(&c.Compression, "compression", c.Compression, "none, gzip, snappy, lz4 or zstd; values are text that shrinks by about a quarter")
	fs.Float64Var(&c.Rate, "rate", c.Rate, "open loop: records a second of all clients together, latencies counted from the intended "+
		"send times; 0: as fast as answers allow")
	fs.BoolVar(&c.CreateTopic, "create-topic", c.CreateTopic, "make the topic if it is missing; "+Default().Topic+" is made without it")
	fs.BoolVar(&c.DeleteTopic, "delete-topic", c.DeleteTopic, "delete the topic afterwards")
	fs.IntVar(&c.Partitions, "partitions", c.Partitions, "partitions of a topic that is made")
	fs.IntVar(&c.ReplicationFactor, "replication-factor", c.ReplicationFactor, "replicas of a topic that is made")
	fs.StringToStringVar(&c.TopicConfig, "topic-config", c.TopicConfig, "setting of a topic that is made, name=value; may be repeated")
	fs.BoolVar(&c.Verify, "verify", c.Verify, "read the topic afterwards: every acknowledged record must be there once")
	fs.IntVar(&c.FetchMaxBytes, "fetch-max-bytes", c.FetchMaxBytes, "bytes that a raw fetch asks for")
	fs.IntVar(&c.Consumers, "consumers", c.Consumers, "e2e: so many raw connections that each wait in a fetch of the topic's one partition and "+
		"receive every record; 0: one kgo consumer")
	fs.IntVar(&c.ServerPID, "server-pid", c.ServerPID, "process of the broker on this machine: shows its CPU time for each request (Linux)")
	fs.StringVar(&c.Admin, "admin", c.Admin, "HOST:PORT of chronik's admin port, for the broker's version and its fdatasyncs "+
		"during the run; off for none "+
		"(default port "+adminPort+" of the first broker)")
}

// atLeastOne is a flag whose zero is its default and cannot be written.
type atLeastOne struct{ n *int }

func (f *atLeastOne) String() string {
	if f.n == nil || *f.n == 0 {
		return ""
	}
	return strconv.Itoa(*f.n)
}

func (f *atLeastOne) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.Unwrap(err)
	}
	if n == 0 {
		return errors.New("must be at least 1: with none nothing is sent")
	}
	*f.n = n // Complete checks the bounds
	return nil
}

// Type is what --help shows and cli.FlagError explains.
func (*atLeastOne) Type() string { return "int" }
