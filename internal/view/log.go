package view

// MaxLogs is the maximum number of logs in one response.
const MaxLogs = 10_000

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
