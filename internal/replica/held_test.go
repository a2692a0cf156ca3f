package replica

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

// truncate truncates a partition's log.
func truncate(t testing.TB, p *Partition, end int64) {
	t.Helper()
	cuts := []storage.Truncation{{Log: p.log, End: end}}
	p.log.Dir().Truncate(cuts)
	must(t, cuts[0].Err)
}

// What is read of a log is the cut's while this broker leads in its epoch. After an election it is,
// too, once the high watermark has passed the cut, if the log was not truncated below it.
func TestWhatWasReadIsTheCuts(t *testing.T) {
	for what, c := range map[string]struct {
		then  func(t testing.TB, p *Partition)
		valid bool
	}{
		"it leads":                  {func(testing.TB, *Partition) {}, true},
		"it leads in another epoch": {func(_ testing.TB, p *Partition) { lead(p, 8, pair, pair) }, false},
		"another one leads":         {func(_ testing.TB, p *Partition) { follow(p, 2, 8, pair, pair) }, false},
		"another one confirms the cut": {func(t testing.TB, p *Partition) {
			follow(p, 2, 8, pair, pair)
			must(t, p.LeaderHigh(8, 4))
		}, true},
		"another one confirms some of it": {func(t testing.TB, p *Partition) {
			follow(p, 2, 8, pair, pair)
			must(t, p.LeaderHigh(8, 3))
		}, false},
		"another one has less, and then other records": {func(t testing.TB, p *Partition) {
			follow(p, 2, 8, pair, pair)
			truncate(t, p, 0)
			done := make(chan error, 1)
			replicate(p, 8, 0, 0, func() []byte { b := record.Batch(batch(t, 6).Bytes); b.SetLeaderEpoch(8); return b }(),
				func(err error) { done <- err })
			must(t, <-done)
			storedAll(t, p)
			must(t, p.LeaderHigh(8, 6))
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			m, list := freezable(t, 1)
			p := list[0]
			lead(p, 7, pair, pair)
			must(t, begin(t, p, AcksLeader, 4).wait(t))
			cuts := freeze(t, m, 1)
			m.Thaw(FreezeID{1, 1})
			h, err := m.Take(cuts[0])
			must(t, err)
			defer h.Release()
			c.then(t, p)
			if err := h.Void(); (err == nil) != c.valid || err != nil && !errors.Is(err, ErrVoid) {
				t.Errorf("%v; high watermark %d", err, p.high.Load())
			}
		})
	}
}

// Logs stay as a freeze has cut them until they are taken, another freeze begins, or some time has
// passed.
func TestLogsAreHeldForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, list := freezable(t, 2)
		for _, p := range list {
			lead(p, 7, []int32{self}, []int32{self})
		}
		cuts := freeze(t, m, 1)
		other := cuts[0]
		other.End++
		if _, err := m.Take(other); !errors.Is(err, ErrVoid) {
			t.Errorf("another cut: %v", err)
		}
		h, err := m.Take(cuts[0])
		must(t, err)
		if _, err := m.Take(cuts[0]); !errors.Is(err, ErrVoid) {
			t.Errorf("twice: %v", err)
		}
		must(t, begin(t, list[0], AcksNone, 5).wait(t)) // what another freeze cuts differs
		storedAll(t, list[0])
		again := freeze(t, m, 2)
		if _, err := m.Take(cuts[0]); !errors.Is(err, ErrVoid) {
			t.Errorf("after another freeze: %v", err)
		}
		time.Sleep(holdTime - 1)
		second, err := m.Take(again[1])
		must(t, err)
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if _, err := m.Take(again[0]); !errors.Is(err, ErrVoid) {
			t.Errorf("after the time: %v", err)
		}
		h.Release()
		second.Release()
	})
}

// The timer of a former freeze may have fired when the next one stops it: it then waits for the
// lock that Freeze holds, and runs late.
func TestALateTimerEndsNoHoldsOfTheNextFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, list := freezable(t, 1)
		lead(list[0], 7, []int32{self}, []int32{self})
		freeze(t, m, 1)
		former := m.env.freezing.untaken
		cuts := freeze(t, m, 2)
		former.Reset(0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		h, err := m.Take(cuts[0])
		must(t, err)
		h.Release()
	})
}
