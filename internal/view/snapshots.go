package view

// SnapshotTag is the number of the tagged field (KIP-482) with which an operator asks for snapshots
// of the cluster: chronik's own, ignored by other clients and brokers. In an UpdateFeatures it has
// a SnapshotAsk, and the answer a SnapshotAnswer. In a DescribeQuorum it is empty, and the answer
// has a SnapshotList. All are JSON.
const SnapshotTag uint32 = 20481

// The actions of a SnapshotAsk.
const (
	CreateSnapshot = "create"
	DeleteSnapshot = "delete"
	VerifySnapshot = "verify"
)

// SnapshotAsk is a request of an operator.
type SnapshotAsk struct {
	Action string `json:"action"`
	// Number is that of the snapshot to delete or to verify.
	Number int64 `json:"number,omitempty"`
	// AllowOffline permits a snapshot without partitions that no broker can read.
	AllowOffline bool `json:"allowOffline,omitempty"`
}

// SnapshotAnswer is the answer to a SnapshotAsk. Its outcome follows in Snapshots.
type SnapshotAnswer struct {
	ID    int64  `json:"id,omitempty"`
	Term  uint64 `json:"term,omitempty"`
	Error string `json:"error,omitempty"`
}

// SnapshotList is all about the snapshots of a cluster.
type SnapshotList struct {
	Snapshots []Snapshot `json:"snapshots"` // the newest last
	// Service is what the broker that leads the metadata does; nil if it was not reached, for the
	// reason in Error.
	Service *Snapshots `json:"service,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// Snapshot is a complete snapshot. Times are in ms since 1970.
type Snapshot struct {
	Number        int64  `json:"number"`
	TimeMs        int64  `json:"timeMs"`
	EndedMs       int64  `json:"endedMs"`
	Partitions    int    `json:"partitions"`
	Offline       int    `json:"offline"` // without records, because no broker could read them
	Bytes         int64  `json:"bytes"`
	UploadedBytes int64  `json:"uploadedBytes"`  // that it added to the store
	VerifiedMs    int64  `json:"verifiedMs"`     // 0: never
	Note          string `json:"note,omitempty"` // of the brokers about their uploads
	Damage        string `json:"damage,omitempty"`
}

// Snapshots is what the broker that leads the metadata does about snapshots.
type Snapshots struct {
	URL        string `json:"url"` // empty: there is no object store
	IntervalMs int64  `json:"intervalMs"`
	// Term is that of the metadata leader: with another one, the ids of requests begin again.
	Term    uint64           `json:"term"`
	Running *RunningSnapshot `json:"running,omitempty"`
	// Failures is how many snapshots in a row were not taken, and LastError why the last was not.
	// If there is a schedule, those for which operators asked do not count: they get the outcome.
	Failures      int    `json:"failures"`
	LastError     string `json:"lastError,omitempty"`
	LastFailureMs int64  `json:"lastFailureMs,omitempty"`
	// Asked is the id of the last request of an operator. Outcomes are those of the last ones.
	Asked    int64             `json:"asked"`
	Outcomes []SnapshotOutcome `json:"outcomes,omitempty"`
}

// RunningSnapshot is a snapshot that is being taken.
type RunningSnapshot struct {
	Number        int64 `json:"number"` // 0 until the cut is taken
	SinceMs       int64 `json:"sinceMs"`
	UploadedBytes int64 `json:"uploadedBytes"`
	TotalBytes    int64 `json:"totalBytes"` // an estimate
}

// SnapshotOutcome is what became of a request of an operator.
type SnapshotOutcome struct {
	ID     int64 `json:"id"`
	Number int64 `json:"number,omitempty"`
	// Error is empty if it succeeded. Offline: partitions without a log are the reason.
	Error   string `json:"error,omitempty"`
	Offline bool   `json:"offline,omitempty"`
}
