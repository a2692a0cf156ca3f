package stream

import (
	"cmp"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// counters are the totals. They are counted for each frame, not for each record.
type counters struct {
	connections, sentFrames, sentBytes, receivedFrames, receivedBytes, waits, truncated, refused atomic.Uint64
}

// Stats returns the totals since the start of the process.
func (s *Streams) Stats() view.Streams {
	c := &s.count
	return view.Streams{
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

// isHalted reports whether the partition is a replica that has stopped.
func (t *part) isHalted() bool {
	x := t.following.Load()
	return x != nil && x.halted.Load() != 0
}

// Stopped returns the replicas that have stopped, sorted by leader and name.
func (s *Streams) Stopped() (list []Stopped) {
	for _, t := range s.halted.All((*part).isHalted) {
		if x := t.following.Load(); x != nil {
			if cause := frame.Cause(x.halted.Load()); cause != 0 {
				list = append(list, Stopped{t.p, x.from.leader, cause == frame.EpochAhead})
			}
		}
	}
	sorts.Sort(list, func(a, b Stopped) int {
		return cmp.Or(cmp.Compare(a.Leader, b.Leader), cmp.Compare(a.Partition.String(), b.Partition.String()))
	})
	return list
}
