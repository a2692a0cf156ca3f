package transact

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// Config describes a measurement.
type Config struct {
	A Side `json:"a"`
	// B is nil if only one broker is measured.
	B *Side `json:"b,omitempty"`
	// Loads are names of Loads; all of them if empty.
	Loads    []string      `json:"loads"`
	Rounds   int           `json:"rounds"`
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"` // of each load
	// Size is the size of a record's value in bytes.
	Size int `json:"message_size"`
	// Keep keeps the topics.
	Keep bool `json:"keep"`
}

// Side is a broker, or a cluster.
type Side struct {
	Name    string   `json:"name"`
	Brokers []string `json:"bootstrap_servers"`
	// PID is the broker's process on this machine, 0 if its processor time is not measured.
	PID int `json:"server_pid,omitempty"`
}

// Limits of a Config.
const (
	maxRounds = 1000
	maxSize   = 1 << 20
)

// Load is a kind of load. Each producer makes one transaction after the other.
type Load struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	Producers int    `json:"producers"`
	// Partitions is the number of partitions of a transaction. Producers do not share any.
	Partitions int `json:"partitions"`
	// Records is the number of records of a transaction, over all its partitions.
	Records int `json:"records"`
	// Plain: without transactions; the producers are idempotent and wait for each Records records,
	// so that as many are in flight as with transactions.
	Plain bool `json:"plain,omitempty"`
	// Follow: the producer waits until a read_committed consumer has received the transaction.
	Follow bool `json:"follow,omitempty"`
}

// Loads returns every load.
func Loads() []Load {
	return []Load{
		{Name: "one", About: "one producer, a record in one partition", Producers: 1, Partitions: 1, Records: 1},
		{Name: "ten", About: "one producer, a record in each of 10 partitions", Producers: 1, Partitions: 10, Records: 10},
		{Name: "hundred", About: "one producer, a record in each of 100 partitions", Producers: 1, Partitions: 100, Records: 100},
		{Name: "many", About: "128 producers, a record in a partition of its own", Producers: 128, Partitions: 1, Records: 1},
		{Name: "batch", About: "16 producers, 100 records in a partition of its own", Producers: 16, Partitions: 1, Records: 100},
		{Name: "plain", About: "as batch without transactions: idempotent, waits for each 100 records", Producers: 16, Partitions: 1,
			Records: 100, Plain: true},
		{Name: "latency", About: "one producer and a read_committed consumer, one record at a time", Producers: 1, Partitions: 1,
			Records: 1, Follow: true},
	}
}

// loads returns the loads of c.
func (c Config) loads() (list []Load) {
	for _, l := range Loads() {
		if len(c.Loads) == 0 || slices.Contains(c.Loads, l.Name) {
			list = append(list, l)
		}
	}
	return list
}

// check returns an error for every invalid setting.
func (c Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	side := func(flag string, s Side) {
		if len(s.Brokers) == 0 {
			bad("--%s: name at least one host:port, for example %s", flag, bench.Default().Brokers[0])
		}
		for _, b := range s.Brokers {
			if _, _, err := net.SplitHostPort(b); err != nil {
				bad("--%s: %q is not host:port; write for example %s", flag, b, bench.Default().Brokers[0])
			}
		}
	}
	pid := func(flag string, s Side) {
		if s.PID == 0 {
			return
		}
		if _, err := meter.ProcessCPU(s.PID); err != nil {
			bad("--pid-%s: the processor time of process %d can't be read; name the broker's process on this machine, or remove it", flag, s.PID)
		}
	}
	side("a", c.A)
	pid("a", c.A)
	if c.B != nil {
		side("b", *c.B)
		pid("b", *c.B)
		if c.A.Name == c.B.Name {
			bad("--name-b: both sides are named %q; choose different names", c.A.Name)
		}
	}
	var names []string
	for _, l := range Loads() {
		names = append(names, l.Name)
	}
	for _, name := range c.Loads {
		if !slices.Contains(names, name) {
			bad("--loads: %q is not one of %s", name, strings.Join(names, ", "))
		}
	}
	if c.Rounds < 1 || c.Rounds > maxRounds {
		bad("--rounds: %d is not between 1 and %d", c.Rounds, maxRounds)
	}
	if c.Size < 1 || c.Size > maxSize {
		bad("--message-size: %d is not between 1 and %d", c.Size, maxSize)
	}
	if c.Warmup < 0 {
		bad("--warmup: %v is negative; 0s means none", c.Warmup)
	}
	if c.Duration <= 0 {
		bad("--duration: must be above zero, not %v", c.Duration)
	}
	return cli.WithCode(cli.ExitUsage, errors.Join(errs...))
}
