package stream

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/replica"
)

// Stats are totals since the start of the process.
type Stats struct {
	// Connections are those that this broker made to leaders.
	Connections uint64
	// Sent and Received are frames with records, and their bytes.
	SentFrames, SentBytes         uint64
	ReceivedFrames, ReceivedBytes uint64
	// Waits counts how often a follower's window was full.
	Waits uint64
	// Truncated are records that this broker's replicas discarded because their leaders do not have
	// them. Refused are truncations that would have discarded committed records.
	Truncated, Refused uint64
}

// counters are the totals. They are counted for each frame, not for each record.
type counters struct {
	connections, sentFrames, sentBytes, receivedFrames, receivedBytes, waits, truncated, refused atomic.Uint64
}

// Stats returns the totals.
func (s *Streams) Stats() Stats {
	c := &s.count
	return Stats{
		Connections: c.connections.Load(), SentFrames: c.sentFrames.Load(), SentBytes: c.sentBytes.Load(),
		ReceivedFrames: c.receivedFrames.Load(), ReceivedBytes: c.receivedBytes.Load(), Waits: c.waits.Load(),
		Truncated: c.truncated.Load(), Refused: c.refused.Load(),
	}
}

// Stopped is a replica that does not follow its leader in its leader epoch.
type Stopped struct {
	Partition *replica.Partition
	Leader    int32
	// Ahead: the log has records of a later leader epoch than the leader's. Otherwise following it
	// would discard committed records.
	Ahead bool
}

// Stopped returns the replicas that have stopped, sorted by leader and name.
func (s *Streams) Stopped() (list []Stopped) {
	s.mu.Lock()
	parts := make([]*part, 0, 16)
	for _, t := range s.parts {
		if x := t.following.Load(); x != nil && x.halted.Load() != 0 {
			parts = append(parts, t)
		}
	}
	s.mu.Unlock()
	for _, t := range parts {
		if x := t.following.Load(); x != nil {
			if cause := frame.Cause(x.halted.Load()); cause != 0 {
				list = append(list, Stopped{t.p, x.from.leader, cause == frame.EpochAhead})
			}
		}
	}
	slices.SortFunc(list, func(a, b Stopped) int {
		return cmp.Or(cmp.Compare(a.Leader, b.Leader), cmp.Compare(a.Partition.String(), b.Partition.String()))
	})
	return list
}
