// Package bench measures a Kafka-compatible broker: a success is a response with error 0 and a
// valid offset, warm-up is excluded, rates are divided by exactly the measured interval, every
// sample is recorded, and payload and wire bytes are counted separately.
//
// It owns the description of a run (Config), its measurements (Result) and Run, which prepares the
// topic, starts the generators of bench/load against the clock of bench/meter, and checks
// afterwards that every acknowledged record exists. cmd/chronik-bench and bench/compare call it,
// bench/results prints its Result. It speaks the protocol from outside and must not know the
// broker's internals.
package bench

import (
	"net"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/tools/bench/load"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Mode is the kind of a run.
type Mode string

// The modes.
const (
	ModeProduce Mode = "produce"
	ModeConsume Mode = "consume"
	ModeE2E     Mode = "e2e"
	ModeMixed   Mode = "mixed"
)

// Clients is the kind of clients; every report names it.
type Clients string

// The kinds of clients.
const (
	// ClientsOwn is N connections with prebuilt requests of one record each. Each connection waits
	// for its response, or has Pipeline requests in flight.
	ClientsOwn Clients = "own"
	// ClientsShared is N tasks on one kgo producer without linger. Each task waits for the delivery
	// of its record.
	ClientsShared Clients = "shared"
	// ClientsBatched is N kgo producers with kgo's defaults, without a limit of records in flight.
	ClientsBatched Clients = "batched"
)

// Acks is the acknowledgement that a producer waits for: "0", "1" or "all".
type Acks string

// The values of Acks.
const (
	AcksNone   Acks = "0"
	AcksLeader Acks = "1"
	AcksAll    Acks = "all"
)

// Config describes a run. Complete fills in defaults and checks it.
type Config struct {
	Brokers []string `json:"bootstrap_servers"`
	// Authorities is a PEM file of the authorities of the brokers' certificates. Empty means
	// without TLS.
	Authorities string  `json:"tls_ca,omitempty"`
	Topic       string  `json:"topic"`
	Mode        Mode    `json:"mode"`
	Clients     Clients `json:"clients"`
	// Batched is the short flag for Clients "batched".
	Batched bool `json:"-"`
	// Concurrency is the number of connections, tasks or producers; 0 means 128, or 1 for Clients
	// "batched".
	Concurrency int `json:"concurrency"`
	// Pipeline is the number of requests in flight on a connection of Clients "own"; 0 means 1.
	Pipeline int `json:"pipeline"`
	// MessageSize is the size of a record's value in bytes.
	MessageSize int    `json:"message_size"`
	Acks        Acks   `json:"acks"`
	Compression string `json:"compression"`
	// Rate is the number of records per second of all clients together. They are sent at intended
	// times, whether responses arrive or not. 0 means as fast as responses allow.
	Rate     float64       `json:"rate,omitempty"`
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
	// CreateTopic creates the topic if it is missing, with Partitions, ReplicationFactor and
	// TopicConfig. DeleteTopic deletes it afterwards. The default topic is created without it (see
	// Makes).
	CreateTopic       bool              `json:"create_topic"`
	DeleteTopic       bool              `json:"delete_topic"`
	Partitions        int               `json:"partitions"`
	ReplicationFactor int               `json:"replication_factor"`
	TopicConfig       map[string]string `json:"topic_config,omitempty"`
	// Verify reads the topic afterwards and checks that every acknowledged record is there.
	Verify bool `json:"verify"`
	// ClientID is the client id of the load, to which quotas may apply; empty: wire.ClientID.
	ClientID string `json:"client_id,omitempty"`
	// FetchMaxBytes is the size limit of a raw fetch of one partition.
	FetchMaxBytes int `json:"fetch_max_bytes"`
	// Consumers replaces the receiver of ModeE2E with that many raw connections, each with a fetch
	// of the topic's only partition, so that each receives every record. 0 means one kgo consumer
	// of all partitions.
	Consumers int `json:"consumers,omitempty"`
	// ServerPID is the broker's process on this machine, 0 for none.
	ServerPID int `json:"server_pid,omitempty"`
	// Admin is the HOST:PORT of the broker's admin port, "off" for none. Empty means port 9644 of
	// the first broker, if it knows the measured topic.
	Admin string `json:"admin,omitempty"`
}

// Limits of a Config.
const (
	MaxConcurrency = 1 << 16
	MaxPipeline    = 1 << 10
	MaxMessageSize = 64 << 20

	minFetch, maxFetch = 1 << 10, 1 << 30 // bytes
	maxReplicas        = 1<<15 - 1
)

// Default returns the run of a command line without flags.
func Default() Config {
	return Config{
		Brokers: []string{settings.Broker}, Topic: "chronik-bench", Mode: ModeProduce, Pipeline: 1, MessageSize: 256,
		Acks: AcksAll, Compression: "none", Warmup: 5 * time.Second, Duration: 30 * time.Second,
		Partitions: 1, ReplicationFactor: 1, FetchMaxBytes: 4 << 20,
	}
}

// Makes reports whether a run creates its topic if it is missing: if CreateTopic is set, or if it
// is the default topic and the run writes to it.
func (c Config) Makes() bool {
	return c.CreateTopic || c.Topic == Default().Topic && c.Mode != ModeConsume
}

// Complete returns the configuration with its defaults filled in, or an error that names every
// invalid setting and the reason.
func (c Config) Complete() (Config, error) {
	x := &settings.Checks{}
	c.Clients = c.kind(x)
	if c.Concurrency == 0 {
		c.Concurrency = 128
		if c.Clients == ClientsBatched {
			c.Concurrency = 1
		}
	}
	if c.Pipeline == 0 {
		c.Pipeline = 1
	}
	x.Brokers("bootstrap-servers", c.Brokers...)
	if c.Topic == "" {
		x.Add("--topic: must not be empty; leave it out for %s", Default().Topic)
	}
	x.OneOf("mode", string(c.Mode), string(ModeProduce), string(ModeConsume), string(ModeE2E), string(ModeMixed))
	c.checkLoad(x)
	c.checkTopic(x)
	return c, x.Err()
}

func (c Config) kind(x *settings.Checks) Clients {
	if c.Batched {
		if c.Clients != "" && c.Clients != ClientsBatched {
			x.Add("--batched: contradicts --clients %s; remove one of them", c.Clients)
		}
		return ClientsBatched
	}
	if c.Clients == "" {
		return ClientsOwn
	}
	x.OneOf("clients", string(c.Clients), string(ClientsOwn), string(ClientsShared), string(ClientsBatched))
	return c.Clients
}

func (c Config) checkLoad(x *settings.Checks) {
	x.Between("concurrency", c.Concurrency, 1, MaxConcurrency)
	x.Between("pipeline", c.Pipeline, 1, MaxPipeline)
	if c.Pipeline > 1 && c.Clients != ClientsOwn {
		x.Add("--pipeline: only clients \"own\" limit requests in flight; remove it, %q decide themselves", c.Clients)
	}
	least := 0
	if c.Verify || c.Mode == ModeE2E {
		least = load.StampSize
	}
	x.Between("message-size", c.MessageSize, least, MaxMessageSize)
	x.OneOf("acks", string(c.Acks), string(AcksNone), string(AcksLeader), string(AcksAll))
	x.OneOf("compression", c.Compression, "none", "gzip", "snappy", "lz4", "zstd")
	x.Rate("rate", c.Rate, rates())
	if c.Rate > 0 && c.Mode == ModeConsume {
		x.Add("--rate: a consume run has no send times; use it with produce, e2e or mixed")
	}
	x.NotNegative("warmup", c.Warmup)
	x.Positive("duration", c.Duration)
	if c.Verify && c.Mode == ModeConsume {
		x.Add("--verify: a consume run has no acknowledged records; use it with produce, e2e or mixed")
	}
	x.Between("fetch-max-bytes", c.FetchMaxBytes, minFetch, maxFetch)
	x.Between("consumers", c.Consumers, 0, MaxConcurrency)
	if c.Consumers > 0 && c.Mode != ModeE2E {
		x.Add("--consumers: only an e2e run has consumers of the records that it sends; add --mode e2e, or remove it")
	}
	if !settings.PID().Accepts(c.ServerPID) {
		x.Add("--server-pid: %d is negative; give the broker's process id, or 0 for none", c.ServerPID)
	}
}

func (c Config) checkTopic(x *settings.Checks) {
	x.Partitions(c.Partitions)
	x.Between("replication-factor", c.ReplicationFactor, 1, maxReplicas)
	if c.Consumers > 0 && c.CreateTopic && c.Partitions != 1 {
		x.Add("--partitions: with --consumers a topic must have one partition, not %d; remove --partitions", c.Partitions)
	}
	for k := range c.TopicConfig {
		if strings.TrimSpace(k) == "" {
			x.Add("--topic-config: a setting without a name; write name=value")
		}
	}
	if c.Admin != "" && c.Admin != adminOff {
		if _, _, err := net.SplitHostPort(c.Admin); err != nil {
			x.Add("--admin: %q is not host:port; write for example 127.0.0.1:%s, or off", c.Admin, adminPort)
		}
	}
	if len(c.TopicConfig) > 0 && !c.Makes() {
		x.Add("--topic-config: the run does not create the topic; add --create-topic, or remove it")
	}
}
