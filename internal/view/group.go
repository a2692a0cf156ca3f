package view

import "time"

// Groups are the groups that a broker coordinates.
type Groups struct {
	List []Group // in any order
	// Shards counts the partitions of __consumer_offsets by the state of their coordinator.
	Shards map[string]int
	// Led are share groups with the offsets of the share partitions that this broker leads,
	// whatever broker coordinates them.
	Led []Group
}

// Group is a group of any kind.
type Group struct {
	ID, Kind, State string // Kind: "classic", "consumer", "streams" or "share"
	// Lag is the sum of the known lags of Offsets, in records.
	Lag     int64
	Offsets []GroupOffset
	// Assignor and Members are known of a group that was asked for alone.
	Assignor string
	Members  []GroupMember
	// Since is since when it has been in State, or earlier. Only findings know it, of groups that
	// rebalance.
	Since time.Time
}

// GroupMember is a member of a group.
type GroupMember struct {
	ID, Instance, ClientID, Host string
	Assigned                     map[string][]int32 // by topic; nil if the assignment is not a consumer's
}

// GroupOffset is a committed offset. End is the high watermark of the partition, and Lag is how
// many records the group has to read; both are -1 if the broker does not lead the partition.
//
// Of a share group, Committed is the start offset, -1 if it is not decided. Lag does not have the
// records after it that are finished.
type GroupOffset struct {
	Topic               string
	Partition           int32
	Committed, End, Lag int64
	Share               *SharePartition // nil: it is no share group
}

// SharePartition is a share partition on the leader of its data partition.
type SharePartition struct {
	// Loaded reports that the leader has it in memory. Otherwise the numbers are 0.
	Loaded bool
	// Acquired records are held by members. Available ones were delivered before. Archiving ones
	// wait for their copy in the topic of dead letters.
	Acquired, Available, Archiving int64
	// Redelivered deliveries and Archived records are counted since the leader has it in memory.
	// Archived records were rejected, or reached the delivery limit.
	Redelivered, Archived int64
	Error                 string // why the position is not known
}

// LagBetween returns how many records a group has to read up to the offset end, from the offset
// committed on. Below start, where the log begins, there are none: committed may be far below it.
//
// A share group has finished that many of the offsets from committed on, other groups 0. As many of
// them as possible count as below start.
func LagBetween(committed, finished, start, end int64) int64 {
	from := max(committed, start)
	return max(end-from-max(finished-(from-committed), 0), 0)
}

// Add adds an offset whose lag is not set, of a partition whose log begins at start.
func (g *Group) Add(o GroupOffset, start int64) {
	if o.Lag = -1; o.End >= 0 {
		o.Lag = LagBetween(o.Committed, 0, start, o.End)
		g.Lag += o.Lag
	}
	g.Offsets = append(g.Offsets, o)
}

// AddShare adds the position of a share group, with its lag.
func (g *Group) AddShare(o GroupOffset) {
	g.Lag += max(o.Lag, 0)
	g.Offsets = append(g.Offsets, o)
}
