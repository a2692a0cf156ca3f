package view

import "time"

// Shares are the share groups as the leaders of this broker have them: only those with a share
// partition in memory.
type Shares struct {
	Groups   []ShareGroup // sorted by id
	Sessions int
	// Partitions counts share partitions by state: "loading", "ready", "failed".
	Partitions map[string]int
	// Loads counts states that were loaded, and Refused writes that were refused, since the start.
	Loads, Refused int64
	// Slow are the share partitions for which something takes time, or has failed.
	Slow []SlowShare
}

// ShareGroup is a share group with the sums over its share partitions in memory.
type ShareGroup struct {
	ID       string
	Sessions int
	// Records counts the offsets from the start to the end offset by state: "acquired",
	// "available", "archiving" and "finished".
	Records map[string]int64
	// These count since the first of the share partitions came into memory. Acknowledged is by
	// type: "gap", "accept", "release", "reject", "renew". TimedOut deliveries ended with a lock or
	// with a session. Archived records were rejected, or reached the delivery limit.
	Delivered, Redelivered, TimedOut, Archived int64
	Acknowledged                               map[string]int64
	// Copied counts dead letters that were copied to their topic, and Uncopied copies that failed
	// and are repeated. Failing is by reason for how many seconds copies have failed, the longest
	// of the share partitions.
	Copied, Uncopied int64
	Failing          map[string]float64
	Offsets          []GroupOffset
}

// SlowShare is a share partition for which something takes time, or has failed.
type SlowShare struct {
	Group, Topic string
	Partition    int32
	// Failed reports that its stored state cannot be used (KAFKA_STORAGE_ERROR).
	Failed bool
	// Absent reports that its coordinator has no state of it, although members fetch.
	Absent bool
	// Loading, Full and Writing are for how long it has been loading, or its loads have failed, its
	// window has been full without a move of Start, and a write has had no answer. 0: not at all.
	Loading, Full, Writing time.Duration
	// Unloaded is why the last try to load failed, empty if its coordinator has not answered.
	Unloaded string
	// Uncopied is for how long copies of dead letters have failed, and Uncopyable why the last one
	// did.
	Uncopied   time.Duration
	Uncopyable string
	// Start is the share-partition start offset. Acquired records are held by members, Archiving
	// ones wait for their copy in the topic of dead letters.
	Start, Acquired, Archiving int64
}

// LedShares are the share partitions of a group in a topic, as the leaders of the data partitions
// have them.
type LedShares struct {
	Group      string     `json:"group"`
	Topic      string     `json:"topic"`
	Partitions []LedShare `json:"partitions"`
}

// LedShare is a share partition on its leader. Numbers of records are offsets: some may have no
// record.
type LedShare struct {
	Partition int32 `json:"partition"`
	// Loaded reports that the leader has it in memory. Otherwise the following fields are 0, except
	// HighWatermark.
	Loaded        bool  `json:"loaded"`
	HighWatermark int64 `json:"highWatermark"`
	// Start and End are the share-partition start and end offset.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// The numbers of records from Start to End, by state.
	Acquired  int64 `json:"acquired"`
	Available int64 `json:"available"`
	Archiving int64 `json:"archiving"`
	Finished  int64 `json:"finished"`
	// The others are numbers of events since the leader has the share partition in memory.
	Delivered   int64 `json:"delivered"`
	Redelivered int64 `json:"redelivered"`
	TimedOut    int64 `json:"timedOut"`
	Accepted    int64 `json:"accepted"`
	Released    int64 `json:"released"`
	Rejected    int64 `json:"rejected"`
	Archived    int64 `json:"archived"`
	// Error is why the leader could not be asked.
	Error string `json:"error"`
}
