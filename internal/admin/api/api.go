// Package api declares the JSON of the admin port that both the broker and chronikctl use.
//
// It owns the names that docs/admin.md promises and holds no code. The admin package writes these
// types and chronikctl reads them; it imports no other package of the broker.
package api

import "time"

// Limits of the lists in one response.
const (
	MaxConnections = 10_000
	MaxLogs        = 10_000
)

// Connections is the response of GET /v1/connections.
type Connections struct {
	Broker int32        `json:"broker"` // its id
	More   bool         `json:"more"`   // there are further connections
	List   []Connection `json:"connections"`
}

// Connection is an open connection of a client, with its traffic since it was opened.
type Connection struct {
	ID          uint64     `json:"id"` // unique until the broker stops
	Listener    string     `json:"listener"`
	Address     string     `json:"address"`
	ClientID    string     `json:"clientId"`
	Software    string     `json:"software"`
	Version     string     `json:"softwareVersion"`
	Principal   string     `json:"principal"`
	Opened      time.Time  `json:"opened"`
	LastRequest *time.Time `json:"lastRequest"` // nil before the first request
	InFlight    int        `json:"inFlight"`
	ThrottledMs int64      `json:"throttledMs"`
	Requests    int64      `json:"requests"`
	BytesIn     int64      `json:"bytesIn"`
	BytesOut    int64      `json:"bytesOut"`
	RecordsIn   int64      `json:"recordsIn"`
}

// Brokers is the response of GET /v1/brokers.
type Brokers struct {
	Broker int32    `json:"broker"` // the one that answers
	List   []Broker `json:"brokers"`
}

// Broker is a registered broker, as the metadata of the one that answers describe it.
type Broker struct {
	ID        int32  `json:"id"`
	Address   string `json:"address"` // of its first listener
	State     string `json:"state"`   // fenced, starting, active, draining, drained
	Leads     int    `json:"leads"`   // partitions that it leads
	Replicas  int    `json:"replicas"`
	OutOfSync int    `json:"outOfSync"` // replicas that are not in the ISR, without those that are being added
}

// Rights is the response of GET /v1/rights: the configuration by which requests need rights. It is
// that of one broker; rules are in the metadata.
type Rights struct {
	Authorization  string   `json:"authorization"`  // "acl" or "none"
	SuperUsers     []string `json:"superUsers"`     // principals
	AllowEveryone  bool     `json:"allowEveryone"`  // on resources without a rule
	InternalTopics []string `json:"internalTopics"` // which only super users may change
}

// Logs is the response of GET /v1/logs.
type Logs struct {
	More bool  `json:"more"` // there are further logs
	List []Log `json:"logs"`
}

// Log is a partition's log on the broker.
type Log struct {
	Topic          string   `json:"topic"`
	TopicID        string   `json:"topicId"`
	Partition      int32    `json:"partition"`
	Dir            string   `json:"dir"`
	Leader         int32    `json:"leader"` // -1: unknown
	LeaderEpoch    int32    `json:"leaderEpoch"`
	ISR            []int32  `json:"isr"`
	Replicas       []int32  `json:"replicas"`
	LogStart       int64    `json:"logStart"`
	HighWatermark  int64    `json:"highWatermark"`
	DurableEnd     int64    `json:"durableEnd"`
	LogEnd         int64    `json:"logEnd"`
	Bytes          int64    `json:"bytes"`
	Segments       int      `json:"segments"`
	Profile        string   `json:"profile"`
	CleanupPolicy  string   `json:"cleanupPolicy"`
	RetentionMs    int64    `json:"retentionMs"`    // -1: no limit
	RetentionBytes int64    `json:"retentionBytes"` // -1: no limit
	DirtyRatio     *float64 `json:"dirtyRatio"`     // nil if the log is not compacted
	Retained       string   `json:"retained"`       // why the oldest segment still exists; empty if there is none
	Error          string   `json:"error"`          // why the log cannot be used; empty if it can
	Damaged        string   `json:"damaged"`        // the first range of offsets that cannot be read; empty if there is none
}
