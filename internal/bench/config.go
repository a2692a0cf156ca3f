// Package bench measures a Kafka-compatible broker honestly: a success is an
// answer with error 0 and a valid offset, warm-up is excluded, the measured
// interval is exactly what is divided by, every sample is recorded, and payload
// and wire bytes are told apart.
//
// It owns what a run is (Config), what it measured (Result) and Run, which
// prepares the topic, starts the generators of bench/load against the clock of
// bench/meter, and checks afterwards that every acknowledged record is there.
// cmd/chronik-bench and bench/compare call it, bench/report prints its Result. It
// speaks the protocol from outside and must not know the broker's insides.
package bench

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/bench/load"
	"github.com/chronik-io/chronik/internal/cli"
)

// Mode is what a run does.
type Mode string

// The modes.
const (
	ModeProduce Mode = "produce"
	ModeConsume Mode = "consume"
	ModeE2E     Mode = "e2e"
	ModeMixed   Mode = "mixed"
)

// Clients is the kind of load; every report names it.
type Clients string

// The kinds of clients.
const (
	// ClientsOwn is N connections with prebuilt requests, one record each, each
	// waiting for its answer (or Pipeline in flight).
	ClientsOwn Clients = "own"
	// ClientsShared is N tasks on one kgo producer without linger, each waiting
	// for its record's delivery.
	ClientsShared Clients = "shared"
	// ClientsBatched is N kgo producers with kgo's defaults, as many records in
	// flight as they like.
	ClientsBatched Clients = "batched"
)

// Acks is what a producer waits for: "0", "1" or "all".
type Acks string

// The values of Acks.
const (
	AcksNone   Acks = "0"
	AcksLeader Acks = "1"
	AcksAll    Acks = "all"
)

// Config is what a run is. Complete fills in defaults and checks it.
type Config struct {
	Brokers []string `json:"bootstrap_servers"`
	Topic   string   `json:"topic"`
	Mode    Mode     `json:"mode"`
	Clients Clients  `json:"clients"`
	// Batched is Clients "batched" by its short flag.
	Batched bool `json:"-"`
	// Concurrency is the number of connections, tasks or producers; 0 is 128, or
	// 1 for Clients "batched".
	Concurrency int `json:"concurrency"`
	// Pipeline is the number of requests in flight on a connection of Clients
	// "own"; 0 is 1.
	Pipeline int `json:"pipeline"`
	// MessageSize is the bytes of a record's value.
	MessageSize int    `json:"message_size"`
	Acks        Acks   `json:"acks"`
	Compression string `json:"compression"`
	// Rate is the records a second of all clients together, sent at intended
	// times whether answers arrive or not; 0 is as fast as answers allow.
	Rate     float64       `json:"rate,omitempty"`
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
	// CreateTopic makes the topic if it is missing, with Partitions,
	// ReplicationFactor and TopicConfig; DeleteTopic deletes it afterwards. The
	// default topic is made without it (see Makes).
	CreateTopic       bool              `json:"create_topic"`
	DeleteTopic       bool              `json:"delete_topic"`
	Partitions        int               `json:"partitions"`
	ReplicationFactor int               `json:"replication_factor"`
	TopicConfig       map[string]string `json:"topic_config,omitempty"`
	// Verify reads the topic afterwards and looks for every acknowledged record.
	Verify bool `json:"verify"`
	// FetchMaxBytes is what a raw fetch asks for of one partition.
	FetchMaxBytes int `json:"fetch_max_bytes"`
	// Consumers makes the receiver of ModeE2E so many raw connections, each with a fetch of the topic's one partition, each
	// receiving every record; 0 is one kgo consumer of all partitions.
	Consumers int `json:"consumers,omitempty"`
	// ServerPID is the broker's process on this machine, 0 for none.
	ServerPID int `json:"server_pid,omitempty"`
	// Admin is the HOST:PORT of the broker's admin port, "off" for none; empty is port
	// 9644 of the first broker, if the measured topic is known there.
	Admin string `json:"admin,omitempty"`
}

// Bounds of a Config.
const (
	MaxConcurrency = 1 << 16
	MaxPipeline    = 1 << 10
	MaxMessageSize = 64 << 20
)

// Default is the run of a command line without flags.
func Default() Config {
	return Config{
		Brokers: []string{"127.0.0.1:9092"}, Topic: "chronik-bench", Mode: ModeProduce, Pipeline: 1, MessageSize: 256,
		Acks: AcksAll, Compression: "none", Warmup: 5 * time.Second, Duration: 30 * time.Second,
		Partitions: 1, ReplicationFactor: 1, FetchMaxBytes: 4 << 20,
	}
}

// Makes reports whether a run makes its topic if it is missing: it was asked to, or the
// topic is this program's own and the run fills it.
func (c Config) Makes() bool {
	return c.CreateTopic || c.Topic == Default().Topic && c.Mode != ModeConsume
}

// Complete returns the configuration with its defaults filled in, or an error
// that names every setting that is wrong and why.
func (c Config) Complete() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	c.Clients = c.kind(bad)
	if c.Concurrency == 0 {
		c.Concurrency = 128
		if c.Clients == ClientsBatched {
			c.Concurrency = 1
		}
	}
	if c.Pipeline == 0 {
		c.Pipeline = 1
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			bad("--bootstrap-servers: %q is not host:port; write for example %s", b, Default().Brokers[0])
		}
	}
	if len(c.Brokers) == 0 {
		bad("--bootstrap-servers: name at least one host:port, for example %s", Default().Brokers[0])
	}
	if c.Topic == "" {
		bad("--topic: must not be empty; leave it out for %s", Default().Topic)
	}
	if !slices.Contains([]Mode{ModeProduce, ModeConsume, ModeE2E, ModeMixed}, c.Mode) {
		bad("--mode: %q is none of produce, consume, e2e, mixed", c.Mode)
	}
	c.checkLoad(bad)
	c.checkTopic(bad)
	return c, cli.WithCode(cli.ExitUsage, errors.Join(errs...))
}

func (c Config) kind(bad func(string, ...any)) Clients {
	if c.Batched {
		if c.Clients != "" && c.Clients != ClientsBatched {
			bad("--batched: contradicts --clients %s; leave one of them out", c.Clients)
		}
		return ClientsBatched
	}
	switch c.Clients {
	case "":
		return ClientsOwn
	case ClientsOwn, ClientsShared, ClientsBatched:
	default:
		bad("--clients: %q is none of own, shared, batched", c.Clients)
	}
	return c.Clients
}

func (c Config) checkLoad(bad func(string, ...any)) {
	if c.Concurrency < 1 || c.Concurrency > MaxConcurrency {
		bad("--concurrency: %d is not within 1 and %d", c.Concurrency, MaxConcurrency)
	}
	if c.Pipeline < 1 || c.Pipeline > MaxPipeline {
		bad("--pipeline: %d is not within 1 and %d", c.Pipeline, MaxPipeline)
	}
	if c.Pipeline > 1 && c.Clients != ClientsOwn {
		bad("--pipeline: only clients \"own\" count requests in flight; leave it out, %q decide themselves", c.Clients)
	}
	least := 0
	if c.Verify || c.Mode == ModeE2E {
		least = load.StampSize
	}
	if c.MessageSize < least || c.MessageSize > MaxMessageSize {
		bad("--message-size: %d is not within %d and %d", c.MessageSize, least, MaxMessageSize)
	}
	if !slices.Contains([]Acks{AcksNone, AcksLeader, AcksAll}, c.Acks) {
		bad("--acks: %q is none of 0, 1, all", c.Acks)
	}
	if !slices.Contains([]string{"none", "gzip", "snappy", "lz4", "zstd"}, c.Compression) {
		bad("--compression: %q is none of none, gzip, snappy, lz4, zstd", c.Compression)
	}
	if c.Rate < 0 {
		bad("--rate: %g is negative; 0 is as fast as answers allow", c.Rate)
	}
	if c.Rate > 0 && c.Mode == ModeConsume {
		bad("--rate: a consume run has no send times; it works with produce, e2e and mixed")
	}
	if c.Warmup < 0 {
		bad("--warmup: %v is negative; 0s is none", c.Warmup)
	}
	if c.Duration <= 0 {
		bad("--duration: must be above zero, not %v", c.Duration)
	}
	if c.Verify && c.Mode == ModeConsume {
		bad("--verify: a consume run acknowledges nothing; it works with produce, e2e and mixed")
	}
	if c.FetchMaxBytes < 1<<10 || c.FetchMaxBytes > 1<<30 {
		bad("--fetch-max-bytes: %d is not within 1 KiB and 1 GiB", c.FetchMaxBytes)
	}
	if c.Consumers < 0 || c.Consumers > MaxConcurrency {
		bad("--consumers: %d is not within 0 and %d", c.Consumers, MaxConcurrency)
	}
	if c.Consumers > 0 && c.Mode != ModeE2E {
		bad("--consumers: only an e2e run has consumers that receive what is sent; add --mode e2e, or leave it out")
	}
	if c.ServerPID < 0 {
		bad("--server-pid: %d is negative; give the broker's process id, or 0 for none", c.ServerPID)
	}
}

func (c Config) checkTopic(bad func(string, ...any)) {
	if c.Partitions < 1 {
		bad("--partitions: %d is below 1, the least that a topic has", c.Partitions)
	}
	if c.ReplicationFactor < 1 || c.ReplicationFactor > 1<<15-1 {
		bad("--replication-factor: %d is not within 1 and %d", c.ReplicationFactor, 1<<15-1)
	}
	if c.Consumers > 0 && c.CreateTopic && c.Partitions != 1 {
		bad("--partitions: each of --consumers receives every record of one partition; leave --partitions out, not %d", c.Partitions)
	}
	for k := range c.TopicConfig {
		if strings.TrimSpace(k) == "" {
			bad("--topic-config: a setting without a name; write name=value")
		}
	}
	if c.Admin != "" && c.Admin != adminOff {
		if _, _, err := net.SplitHostPort(c.Admin); err != nil {
			bad("--admin: %q is not host:port; write for example 127.0.0.1:%s, or off", c.Admin, adminPort)
		}
	}
	if len(c.TopicConfig) > 0 && !c.Makes() {
		bad("--topic-config: the topic is not made; add --create-topic, or leave it out")
	}
}
