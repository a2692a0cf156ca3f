package replica

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// at returns a batch of one record as a leader sends it.
func at(t *testing.T, offset int64) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{BaseOffset: offset})
	b.Append(1, nil, []byte("v"), nil)
	data, err := b.Build()
	must(t, err)
	data.SetLeaderEpoch(1)
	return data
}

// After a truncation below the high watermark, or a reset, the high watermark is not beyond the log
// end. Waiting readers are answered, and the high watermark rises again with the leader's.
func TestTruncationLowersTheHighWatermark(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair[:1], pair[:1])
	for range 4 {
		must(t, begin(t, p, AcksLeader, 1).wait(t))
	}
	if e := p.Ends(); e.HighWatermark != 4 {
		t.Fatalf("%+v", e)
	}
	follow(p, 2, 1, pair, pair)
	must(t, p.LeaderHigh(1, 4))
	watch := &completions{}
	p.env.park.Watch(watch, time.Now().Add(time.Hour), p.key())
	defer p.env.park.Close()
	before := watch.n.Load()
	must(t, cut(p.log, 3, false))
	if e := p.Ends(); e.HighWatermark != 3 || e.LogEnd != 3 || watch.n.Load() == before {
		t.Errorf("after a truncation: %+v, completed %d times", e, watch.n.Load()-before)
	}
	numbered := make(chan error, 1)
	replicate(p, 1, 3, 3, at(t, 3), func(err error) { numbered <- err }) // the leader sends 3, but sent 4 before
	must(t, <-numbered)
	must(t, cut(p.log, 4, false)) // waits until the batch is durable
	if e := p.Ends(); e.HighWatermark != 3 || e.LogEnd != 4 {
		t.Errorf("after the leader sent a high watermark of 3: %+v", e)
	}
	must(t, cut(p.log, 2, true))
	if e := p.Ends(); e.HighWatermark != 2 || e.LogStart != 2 || e.LogEnd != 2 {
		t.Errorf("after a reset: %+v", e)
	}
	before = watch.n.Load()
	must(t, cut(p.log, 9, true))
	if e := p.Ends(); e.HighWatermark != 9 || e.LogStart != 9 || e.LogEnd != 9 || watch.n.Load() == before {
		t.Errorf("after a reset to a later start: %+v, completed %d times", e, watch.n.Load()-before)
	}
}
