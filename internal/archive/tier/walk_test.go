package tier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// walk takes random steps through the histories of one partition. After each, a reader gets what
// was acknowledged.
type walk struct {
	*world
	rng     *rand.Rand
	steps   []string
	pending []func() // collections that have not deleted anything yet
	nested  bool
	unclean int          // elections
	older   *metadata.KV // what a copy of the metadata names; nil: there is no copy
}

func (k *walk) note(format string, args ...any) {
	k.steps = append(k.steps, fmt.Sprintf(format, args...))
}

// both reports whether both brokers are in sync.
func (k *walk) both() bool { return len(k.record().ISR) == 2 }

// step is one step. Those of a copy in progress are nested.
func (k *walk) step() {
	switch n := k.rng.IntN(19); {
	case n < 3:
		batches := 1 + k.rng.IntN(5)
		k.note("produce %d", batches)
		k.more(batches)
	case n < 6 && !k.nested:
		k.copy()
	case n == 6:
		to := k.segment()
		k.note("retain from %d on", to)
		k.leader().retainBelow(to)
		if k.both() {
			k.confirm()
		}
	case n == 7:
		b, to := k.other(), k.segment()
		k.note("broker %d, which does not lead, retains from %d on", b.id, to)
		b.retainBelow(to)
		if !k.nested {
			b.copyAll()
		}
	case n == 8 && len(k.values) > 0:
		k.remove()
	case n == 9 && k.both():
		k.note("broker %d leads", k.other().id)
		k.fail(k.other().id, k.leader().id)
		k.know()
		k.other().follow()
		k.replicate()
	case n == 10 && k.both():
		k.note("broker %d leads alone", k.leader().id)
		k.elect(k.record().LeaderEpoch+1, true, k.leader().id)
		k.know()
	case n == 11 && !k.both():
		k.note("broker %d is in sync", k.other().id)
		k.follow()
		k.replicate()
		k.elect(k.record().LeaderEpoch, true, k.leader().id, k.other().id)
		k.follow()
	case n == 12 && !k.both():
		k.note("broker %d leads, unclean", k.other().id)
		k.elect(k.record().LeaderEpoch+1, false, k.other().id)
		k.know()
		k.revise()
		if k.rng.IntN(2) == 0 {
			k.more(1)
		}
	case n == 13:
		k.note("a collection begins")
		k.pending = append(k.pending, k.collect())
	case n == 14 && len(k.pending) > 0:
		i := k.rng.IntN(len(k.pending))
		k.note("collection %d deletes", i)
		k.pending[i]()
		k.pending = slices.Delete(k.pending, i, i+1)
	case n == 15 && !k.nested:
		k.shrink()
	case n == 16 && !k.both():
		k.lag()
	case n == 17:
		k.note("the metadata are copied")
		kv, _, err := k.meta.Get(k.t.Context(), metadata.TierKey(tp))
		must.OK(k.t, err)
		k.older = &kv
	case n == 18 && k.older != nil && !k.nested && k.unclean < 2:
		k.restart()
	}
}

// restart recovers the metadata from the copy. The leader has the whole log.
func (k *walk) restart() {
	before := k.tier()
	k.backdate(*k.older)
	k.pending = nil // collections end with their brokers
	id := k.leader().id
	k.elect(k.record().LeaderEpoch+metadata.Gap(metadata.ID{k.generations}), k.rng.IntN(2) == 0, id)
	k.note("recovered from %+v instead of %+v", k.tier(), before)
	k.know()
	b := k.leader()
	b.retain()
	b.copyAll()
	e := b.partition().Ends()
	if err := b.healthy(); err != nil {
		if !before.Empty() && before.Start < e.LocalStart || !strings.Contains(err.Error(), "chronikctl topic trim") {
			k.t.Errorf("the metadata named %+v, the log is %+v: %v", before, e, err)
			return
		}
		k.note("trim to %d", e.LocalStart)
		k.delete(e.LocalStart)
		b.copyAll()
	}
	must.OK(k.t, b.healthy())
	start := b.partition().Ends().LogStart
	if k.unclean == 0 && start > max(k.gone, e.LocalStart) { // otherwise the log may have begun below what was deleted
		k.t.Errorf("after a recovery the log begins at %d, before it did at %d", start, k.gone)
	}
	k.gone = start
}

// revise takes what a leader has after an unclean election for what was acknowledged.
func (k *walk) revise() {
	b := k.leader()
	l := b.partition().Log()
	e := l.Ends()
	for int64(len(k.values)) < e.LogEnd {
		k.values = append(k.values, "")
	}
	k.values = k.values[:e.LogEnd]
	for at := e.LogStart; at < e.LogEnd; {
		s, err := l.Read(at, e.LogEnd, 1, true)
		must.OK(k.t, err)
		must.OK(k.t, record.Batch(s.Parts[0]).Each(record.Limits{}, func(r record.Record) error {
			if r.Offset >= e.LogStart {
				k.values[r.Offset] = string(r.Key)
			}
			return nil
		}))
		at = s.Next()
		s.Release()
	}
	if k.unclean++; k.unclean > 1 { // the store may lack what it had when this log dropped records
		b.copyAll()
		k.accept()
	}
	k.gone = b.partition().Ends().LogStart
	if x := k.tier(); x != nil && k.gone < x.Start && x.Start <= e.LogEnd {
		k.t.Errorf("the log begins at %d, and records below %d were deleted", k.gone, x.Start)
	}
}

// accept takes what the store has below the local log for what was acknowledged: of two unclean
// elections, the second leader may be the one that has copied it.
func (k *walk) accept() {
	p := k.leader().partition()
	e := p.Ends()
	for at := e.LogStart; at < e.LocalStart; {
		res, err := p.Read(replica.ReadRequest{Offset: at, MaxBytes: 1, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
		must.OK(k.t, err)
		must.OK(k.t, record.Batch(res.Parts[0]).Each(record.Limits{}, func(r record.Record) error {
			if r.Offset < e.LocalStart {
				k.values[r.Offset] = string(r.Key)
			}
			return nil
		}))
		at = res.Next()
		res.Release()
	}
}

// lag lets the broker that is not in sync begin its log within the copied records, if it can.
func (k *walk) lag() {
	k.follow()
	to, end := k.segment(), k.other().partition().Log().Ends().LogEnd
	if x := k.tier(); !x.Empty() && x.End > end+1 {
		to = end + 1 + k.rng.Int64N(x.End-end-1)
	}
	k.leader().retainBelow(to)
	e := k.leader().partition().Ends()
	to = e.LocalStart + k.rng.Int64N(e.LogEnd-e.LocalStart+1)
	k.note("the log begins at %d, and broker %d, which is not in sync, fetches up to %d", e.LocalStart, k.other().id, to)
	k.fetch(to)
}

// segment returns where a segment of a local log may begin: also within an object.
func (k *walk) segment() int64 {
	if k.rng.IntN(2) == 0 {
		return math.MaxInt64
	}
	return k.rng.Int64N(int64(len(k.values)) + 1)
}

func (k *walk) more(batches int) {
	if k.both() {
		k.produce(batches, 1+k.rng.IntN(4))
	} else {
		k.add(batches)
	}
}

// know lets the leader of the metadata lead. The other one may not know.
func (k *walk) know() {
	must.OK(k.t, k.leader().follow())
	if k.rng.IntN(2) == 0 {
		must.OK(k.t, k.other().follow())
	}
	p := k.leader().partition()
	if k.both() {
		must.OK(k.t, k.other().follow())
		k.replicate()
		return
	}
	eventually(k.t, "it leads", func() bool { return p.Ends().HighWatermark == p.Log().Ends().LogEnd })
}

// remove deletes records.
func (k *walk) remove() {
	to := k.gone + k.rng.Int64N(int64(len(k.values))-k.gone+1)
	k.note("delete below %d", to)
	list := []replica.Deletion{{Topic: tp.Topic, Offset: to}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.leader().m.DeleteRecords(context.Background(), list)
	}()
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
			if k.both() {
				k.confirm()
			}
			time.Sleep(10 * time.Microsecond)
		}
	}
	must.OK(k.t, list[0].Err)
	k.gone = to
}

// shrink removes old records of the store, by size.
func (k *walk) shrink() {
	k.conf.RetentionBytes = int64(k.rng.IntN(40 << 10))
	k.note("retention.bytes %d", k.conf.RetentionBytes)
	k.leader().copyAll()
	start := k.leader().partition().Ends().LogStart
	if start < k.gone {
		k.t.Errorf("the log start moves from %d to %d", k.gone, start)
	}
	if kept := (int64(len(k.values)) - start) * 1100; start > k.gone && kept < k.conf.RetentionBytes {
		k.t.Errorf("%d bytes are left of %d", kept, k.conf.RetentionBytes)
	}
	k.gone, k.conf.RetentionBytes = start, -1
}

var errLost = errors.New("the answer is lost")

// copy is a round of the leader, with faults.
func (k *walk) copy() {
	var faults []*faultstore.Fault
	defer func() {
		k.alter = nil
		for _, f := range faults {
			f.Off()
		}
	}()
	rule := faultstore.Rule{Ops: faultstore.Put, From: 1 + k.rng.IntN(4), Count: 1}
	what := k.rng.IntN(8)
	b := k.leader()
	k.note("copy %d", what)
	switch what {
	case 0:
		rule.Err = faultstore.ErrInjected
	case 1:
		rule.Lost = errLost
	case 2:
		rule.Ops, rule.Err = faultstore.Get, faultstore.ErrInjected
	case 3, 4:
		rule.Before = func(faultstore.Call) {
			if !k.nested {
				k.nested = true
				k.step()
				k.step()
				k.nested = false
			}
		}
	case 5:
		n := 0
		k.alter = func(x *metadata.TierChange) (revision int64, err error) {
			if n++; n == 1 {
				_, _ = k.ctl.AlterTier(context.Background(), x)
				return 0, errLost
			}
			return k.ctl.AlterTier(context.Background(), x)
		}
	case 6: // it takes effect after a later step, or not at all
		var late func()
		k.alter = func(x *metadata.TierChange) (revision int64, err error) {
			if late == nil {
				y := *x
				late = func() { _, _ = k.ctl.AlterTier(context.Background(), &y) }
				return 0, errLost
			}
			return k.ctl.AlterTier(context.Background(), x)
		}
		defer func() {
			if late != nil {
				k.alter = nil
				k.nested = true
				k.step()
				k.nested = false
				late()
			}
		}()
	}
	if rule.Err != nil || rule.Lost != nil || rule.Before != nil {
		faults = append(faults, k.store.Add(rule))
	}
	b.copyAll()
}

// history is one walk.
func history(t *testing.T, seed uint64, broken breakrules.Removed[Rule]) {
	k := &walk{world: newWorld(t, "sync", func(o *Options) { o.Broken = broken }), rng: rand.New(rand.NewPCG(seed, 1))}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, strings.Join(k.steps, "; "))
		}
	}()
	for range 60 {
		k.step()
		if t.Failed() {
			return
		}
		must.OK(t, k.leader().follow())
		if err := k.leader().check(); err != nil {
			t.Error(err)
			return
		}
	}
	k.note("the end")
	k.follow()
	k.more(5)
	b := k.leader()
	b.copyAll()
	b.copyAll()
	must.OK(t, b.healthy())
	b.retain()
	if end := k.tier().End; end < int64(len(k.values))-20 {
		t.Errorf("%d records of %d are copied", end, len(k.values))
	}
	must.OK(t, b.check())
	for _, finish := range append(k.pending, k.collect()) {
		finish()
	}
	must.OK(t, b.check())
	k.onlyNamed()
}

// onlyNamed compares the objects of the store with those that are named.
func (w *world) onlyNamed() {
	finish := w.collect()
	before := w.names()
	finish()
	if after := w.names(); !slices.Equal(before, after) {
		w.t.Errorf("a collection left %d objects that nothing names", len(before)-len(after))
	}
}

// Whatever happens to leaders, calls and the store, readers get every acknowledged record once.
func TestWalks(t *testing.T) {
	for seed := range tries.Of(t, "CHRONIK_TIER_WALKS", 20) {
		t.Run("", func(t *testing.T) { history(t, uint64(seed), breakrules.Removed[Rule]{}) })
	}
}
