package view

import "github.com/chronik-io/chronik/internal/text"

// Bounds of a response of GET /v1/waits.
const (
	// MaxWaits is the maximum number of requests in one response.
	MaxWaits = 100
	// MaxWaitSteps is the maximum number of steps of one request: it may wait in many partitions.
	MaxWaitSteps = 4
	// MaxWaitText is the maximum length in bytes of each text that a client chose.
	MaxWaitText = 256
)

// Waits is the response of GET /v1/waits.
type Waits struct {
	Broker int32 `json:"broker"`
	// Waiting is the number of requests without an answer, Idle how many of them wait as their
	// clients ask, for records. Abandoned is the number of requests whose clients have gone.
	Waiting   int `json:"waiting"`
	Idle      int `json:"idle"`
	Abandoned int `json:"abandoned"`
	// List has the oldest requests, first those that are not idle.
	List []Wait `json:"waits"`
}

// Wait is a request that waits, or a connection that is not read.
type Wait struct {
	Connection uint64 `json:"connection"`
	Listener   string `json:"listener"`
	Address    string `json:"address"`
	ClientID   string `json:"clientId"`
	Principal  string `json:"principal"`
	// Request is the name of the API, empty for a request that is not read yet.
	Request string `json:"request"`
	Version int16  `json:"version"`
	// AgeMs is the time since the whole request arrived, or since the broker stopped to read.
	AgeMs float64 `json:"ageMs"`
	Idle  bool    `json:"idle"`
	// Steps are where it waits, at most MaxWaitSteps. More is the number of further ones.
	Steps []WaitStep `json:"steps"`
	More  int        `json:"more"`
}

// WaitStep is a step at which a request waits, and for what.
type WaitStep struct {
	Step      Step    `json:"step"`
	Partition string  `json:"partition"` // TOPIC-PARTITION, empty if the step has none
	Dir       string  `json:"dir"`       // the log directory whose disk it waits for
	Brokers   []int32 `json:"brokers"`   // the other brokers for which it waits
	For       string  `json:"for"`       // in words
}

// Step is a step of a request's path through the broker.
type Step string

// The steps, in the order of a request's path.
const (
	StepThrottle    Step = "throttle"    // the connection is not read: its client is over a quota
	StepMemory      Step = "memory"      // the connection is not read: too many bytes of requests are in memory
	StepHandler     Step = "handler"     // a goroutine works for it, or reads a disk
	StepPlace       Step = "place"       // for a place for work that computes for long
	StepTransaction Step = "transaction" // for the coordinator of its transaction
	StepLog         Step = "log"         // for offsets: the log commits, or waits for its journal
	StepJournal     Step = "journal"     // for a write or an fdatasync of the journal
	StepReplication Step = "replication" // for other brokers to have its records
	StepSnapshot    Step = "snapshot"    // for a snapshot of the cluster, during which nothing new is visible
	StepRecords     Step = "records"     // for records to fetch
	StepDisk        Step = "disk"        // for reads of a disk
	StepCoordinator Step = "coordinator" // for the coordinator of its group or transactional id
	StepGroup       Step = "group"       // for the other members of its group
	StepMetadata    Step = "metadata"    // for a change of the metadata
	StepBrokers     Step = "brokers"     // for answers of other brokers
	StepAnswer      Step = "answer"      // its answer is ready, and not yet written
)

// Trace is the response of GET /v1/waits/trace: one request, from its arrival to its answer.
type Trace struct {
	Wait
	// TookMs is the time from the arrival of the request until its answer was taken for
	// writing; 0 if it has none yet.
	TookMs float64 `json:"tookMs"`
	// Seen has the steps in their order. A step that is shorter than the time between two looks may
	// be missing.
	Seen []TraceStep `json:"seen"`
	// Skipped is the number of requests that ended sooner than asked.
	Skipped int `json:"skipped"`
}

// TraceStep is what a traced request waited for from one moment to the next step.
type TraceStep struct {
	AtMs  float64    `json:"atMs"` // since the arrival
	Steps []WaitStep `json:"steps"`
}

// Cut returns a text that a client chose, at most MaxWaitText bytes of it, with a mark if it was
// longer.
func Cut(s string) string {
	if len(s) <= MaxWaitText {
		return s
	}
	const more = "…"
	return text.Cut(s, MaxWaitText-len(more)) + more
}
