package view

import "time"

// Groups are the groups that a broker coordinates.
type Groups struct {
	List []Group // in any order
	// Shards counts the partitions of __consumer_offsets by the state of their coordinator.
	Shards map[string]int
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
// many records are between them; both are -1 if the broker does not lead the partition.
type GroupOffset struct {
	Topic               string
	Partition           int32
	Committed, End, Lag int64
}

// Add adds an offset whose lag is not set.
func (g *Group) Add(o GroupOffset) {
	if o.Lag = -1; o.End >= 0 {
		o.Lag = max(o.End-o.Committed, 0)
		g.Lag += o.Lag
	}
	g.Offsets = append(g.Offsets, o)
}
