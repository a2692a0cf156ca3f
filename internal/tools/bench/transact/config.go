package transact

import (
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Config describes a measurement.
type Config struct {
	frame.Comparison
	// Size is the size of a record's value in bytes.
	Size int `json:"message_size"`
	// Keep keeps the topics.
	Keep bool `json:"keep"`
}

// maxSize is the largest value of a record in bytes.
const maxSize = 1 << 20

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

// Title implements frame.Load.
func (l Load) Title() string { return l.Name }

// Says implements frame.Load.
func (l Load) Says() string { return l.About }

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

// check returns an error for every invalid setting.
func (c Config) check() error {
	var x settings.Checks
	frame.CheckLoads(&x, c.Comparison, Loads())
	x.Between("message-size", c.Size, 1, maxSize)
	return x.Err()
}
