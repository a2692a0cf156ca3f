package replica

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// freezable returns a manager that has only n partitions, without roles.
func freezable(t testing.TB, n int32) (*Manager, []*Partition) {
	t.Helper()
	m, list := freezableIn(t, openStorage(t, vfs.Memory(), "/d"), n)
	t.Cleanup(func() { m.thaw(func(FreezeID) bool { return true }) })
	return m, list
}

func freezableIn(t testing.TB, s *storage.Manager, n int32) (*Manager, []*Partition) {
	t.Helper()
	m := &Manager{partitions: map[metadata.TopicPartition]*Partition{}}
	m.env.self, m.env.park, m.env.limits = self, purgatory.New(), new(Options).limits()
	m.env.now = func() time.Duration { return 0 }
	specs := make([]storage.Spec, n)
	for i := range n {
		specs[i] = storage.Spec{ID: storage.ID{Topic: [16]byte{1}, Partition: i}, Topic: "t", Config: config(t, "sync")}
	}
	logs, err := s.CreateIn(s.Dirs()[0], specs)
	must(t, err)
	list := make([]*Partition, n)
	for i, l := range logs {
		list[i] = newPartition(l, &m.env)
		m.setLocked(list[i].tp(), list[i])
	}
	return m, list
}

// freeze freezes, and ends the test if that is refused.
func freeze(t testing.TB, m *Manager, attempt int64) []Cut {
	t.Helper()
	cuts, ok := m.Freeze(FreezeID{1, attempt})
	if !ok {
		t.Fatal("the freeze is refused")
	}
	return cuts
}

// storedAll waits until all records of a partition are durable, and the partition is notified.
func storedAll(t testing.TB, p *Partition) {
	t.Helper()
	waitFor(t, "stored", func() bool { return p.log.AckEnd() == p.log.Ends().LogEnd })
	p.Advanced()
}

func TestNothingNewIsVisibleDuringAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time, a freeze might end within the test
		m, list := freezable(t, 3)
		p, alone := list[0], list[1]
		lead(p, 7, pair, pair)
		lead(alone, 3, []int32{self}, []int32{self})
		follow(list[2], 2, 1, pair, pair)
		must(t, begin(t, p, AcksLeader, 4).wait(t))
		acknowledge(p, 2, 7, 2)
		must(t, begin(t, alone, AcksAll, 5).wait(t))

		cuts := freeze(t, m, 1)
		want := []Cut{{TopicPartition: p.tp(), Epoch: 7, End: 4}, {TopicPartition: alone.tp(), Epoch: 3, End: 5}}
		if fmt.Sprint(cuts) != fmt.Sprint(want) {
			t.Errorf("the cuts are %+v, want %+v", cuts, want)
		}
		waiting := map[string]*outcome{"acks=1": begin(t, p, AcksLeader, 1), "acks=all": begin(t, alone, AcksAll, 1)}
		flushed := make(chan error, 1)
		alone.Flush(3, 1, 0, func(err error) { flushed <- err })
		storedAll(t, p)
		storedAll(t, alone)
		acknowledge(p, 2, 7, 5)
		lead(p, 7, pair, pair)                        // another view of the same role
		lead(alone, 4, []int32{self}, []int32{self})  // another epoch
		must(t, begin(t, alone, AcksNone, 1).wait(t)) // its answer says nothing
		if p.Ends().HighWatermark != 2 || alone.Ends().HighWatermark != 5 || len(flushed) != 0 {
			t.Errorf("visible during the freeze: %+v, %+v, %d flushes", p.Ends(), alone.Ends(), len(flushed))
		}
		for what, a := range waiting {
			if !a.pending() {
				t.Errorf("%s was answered: %v", what, a.Err)
			}
			if steps := a.Waits(nil); len(steps) != 1 || steps[0].Step != view.StepSnapshot {
				t.Errorf("%s waits for %+v", what, steps)
			}
		}
		storedAll(t, alone)
		m.Thaw(FreezeID{1, 1})
		for what, a := range waiting {
			if err := a.wait(t); err != nil {
				t.Errorf("%s after the freeze: %v", what, err)
			}
		}
		<-flushed
		if p.Ends().HighWatermark != 5 || alone.Ends().HighWatermark != 7 {
			t.Errorf("visible after the freeze: %+v, %+v", p.Ends(), alone.Ends())
		}
	})
}

// A follower raises its high watermark neither because of its leader nor because its log start
// moves.
func TestAFollowerShowsNothingNewDuringAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time, a freeze might end within the test
		m, list := freezable(t, 2)
		for _, p := range list {
			follow(p, 2, 1, pair, pair)
			done := make(chan error, 1)
			replicate(p, 1, 0, 0, func() []byte { b := record.Batch(batch(t, 5).Bytes); b.SetLeaderEpoch(1); return b }(),
				func(err error) { done <- err })
			must(t, <-done)
			storedAll(t, p)
		}
		if cuts := freeze(t, m, 1); len(cuts) != 0 {
			t.Errorf("cuts of followers: %+v", cuts)
		}
		must(t, list[0].LeaderHigh(1, 4))
		must(t, moveStart(list[1].log, 3))
		if a, b := list[0].high.Load(), list[1].high.Load(); a != 0 || b != 0 {
			t.Errorf("during the freeze: %d, %d", a, b)
		}
		m.Thaw(FreezeID{1, 1})
		if a, b := list[0].high.Load(), list[1].high.Load(); a != 4 || b != 3 {
			t.Errorf("after it: %d, %d", a, b)
		}
	})
}

// A repeated batch of a producer, whose first append waits for the end of the freeze, waits too.
func TestADuplicateIsNotAnsweredDuringAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time, a freeze might end within the test
		m, list := freezable(t, 1)
		p := list[0]
		lead(p, 0, pair, pair)
		b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 1}})
		b.Append(1, nil, []byte("v"), nil)
		raw, err := b.Build()
		must(t, err)
		send := func() *outcome {
			d := &outcome{ended: make(chan struct{}, 1)}
			d.LeaderEpoch, d.Acks, d.Batches = -1, AcksLeader, record.Accepted{Bytes: append([]byte(nil), raw...)}
			d.Done = func(*Append) { d.ended <- struct{}{} }
			p.Append(&d.Append, nil)
			return d
		}
		freeze(t, m, 1)
		first := send()
		storedAll(t, p)
		again := send()
		if !first.pending() || !again.pending() {
			t.Error("answered during the freeze")
		}
		m.Thaw(FreezeID{1, 1})
		must(t, first.wait(t))
		must(t, again.wait(t))
	})
}

func TestADeletionOfRecordsIsNotAnsweredDuringAFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time, a freeze might end within the test
		m, list := freezable(t, 1)
		p := list[0]
		lead(p, 0, []int32{self}, []int32{self})
		must(t, begin(t, p, AcksAll, 5).wait(t))
		freeze(t, m, 1)
		answered := make(chan error, 1)
		go func() {
			_, err := p.DeleteRecords(context.Background(), 3)
			answered <- err
		}()
		waitFor(t, "it waits", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.starts != nil || len(answered) > 0
		})
		if len(answered) > 0 || p.Ends().LogStart != 3 {
			t.Errorf("%d answers, %+v", len(answered), p.Ends())
		}
		m.Thaw(FreezeID{1, 1})
		must(t, <-answered)
	})
}

// Each freeze has an id above those before it. One that another one replaced has ended.
func TestIdsOfFreezesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time, a freeze might end within the test
		m, list := freezable(t, 1)
		lead(list[0], 0, []int32{self}, []int32{self})
		first, second := FreezeID{2, 5}, FreezeID{3, 1}
		if m.Frozen(first) || m.Frozen(FreezeID{}) {
			t.Error("it is frozen")
		}
		for _, c := range []struct {
			id FreezeID
			ok bool
		}{{FreezeID{}, false}, {first, true}, {first, false}, {FreezeID{2, 4}, false}, {FreezeID{1, 9}, false}} {
			if _, ok := m.Freeze(c.id); ok != c.ok || c.id != (FreezeID{}) && !m.Frozen(first) {
				t.Errorf("freeze %v: %v", c.id, ok)
			}
		}
		if _, ok := m.Freeze(second); !ok || m.Frozen(first) || !m.Frozen(second) {
			t.Error("a later controller's freeze has not replaced the former")
		}
		m.Thaw(first)
		if !m.Frozen(second) {
			t.Error("the end of a former freeze ends the later one")
		}
		m.Thaw(second)
		if m.Frozen(second) {
			t.Error("it is frozen")
		}
		if _, ok := m.Freeze(second); ok || m.Frozen(second) {
			t.Error("a repeated request freezes again")
		}
	})
}

func TestAFreezeEndsWithoutAThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, list := freezable(t, 1)
		p := list[0]
		lead(p, 0, []int32{self}, []int32{self})
		freeze(t, m, 1)
		time.Sleep(MaxFreeze / 2)
		freeze(t, m, 2)
		a := begin(t, p, AcksAll, 1)
		time.Sleep(MaxFreeze - 1)
		synctest.Wait()
		if !m.Frozen(FreezeID{1, 2}) || !a.pending() {
			t.Error("it ended early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if m.Frozen(FreezeID{1, 2}) || a.pending() {
			t.Error("it does not end")
		}
	})
}

// written is a record of the walk below: the offset after it, and what was visible when it was
// written, by partition.
type written struct {
	in     int
	next   int64
	causes []int64
}

// knowledge is what the clients of all partitions know.
type knowledge struct {
	list    []*Partition
	waiting map[*outcome]int
	acked   []int64
	records []written
}

// visible returns the end of what clients know of each partition.
func (k *knowledge) visible() []int64 {
	for a, i := range k.waiting {
		select {
		case <-a.ended:
			if delete(k.waiting, a); a.Err == nil {
				k.acked[i] = max(k.acked[i], a.inner.Next)
			}
		default:
		}
	}
	all := make([]int64, len(k.list))
	for i, p := range k.list {
		all[i] = max(k.acked[i], p.Ends().HighWatermark)
	}
	return all
}

func (k *knowledge) append(t testing.TB, i int, acks Acks) {
	causes := k.visible()
	a := begin(t, k.list[i], acks, 1)
	storedAll(t, k.list[i])
	k.waiting[a] = i
	k.records = append(k.records, written{i, k.list[i].log.Ends().LogEnd, causes})
}

// Clients of two brokers write because of what they have seen anywhere: answers, and records below
// the high watermark. A snapshot freezes one broker after the other, and is confirmed when both
// still are. Then each record below the cuts has all that its writer had seen below them, and so is
// all that was known when the snapshot began.
func TestACutHasTheCausesOfItsRecords(t *testing.T) {
	confirmed := 0
	rapid.Check(t, func(r *rapid.T) {
		var managers []*Manager
		var stores []*storage.Manager
		k := &knowledge{waiting: map[*outcome]int{}}
		for range 2 {
			s := openStorage(t, vfs.Memory(), "/d")
			stores = append(stores, s)
			m, list := freezableIn(t, s, 2)
			managers = append(managers, m)
			k.list = append(k.list, list...)
		}
		k.acked = make([]int64, len(k.list))
		for _, p := range k.list {
			lead(p, 0, pair, pair)
		}
		attempt, frozen := int64(0), 0
		var known, cuts []int64
		for range rapid.IntRange(5, 40).Draw(r, "steps") {
			i := rapid.IntRange(0, len(k.list)-1).Draw(r, "partition")
			switch action := rapid.IntRange(0, 7).Draw(r, "action"); action {
			case 0, 1:
				k.append(t, i, AcksLeader)
			case 2:
				k.append(t, i, AcksAll)
			case 3, 4:
				acknowledge(k.list[i], 2, 0, k.list[i].log.Ends().LogEnd)
			case 5, 6: // the snapshot continues
				if frozen == 0 {
					attempt++
					known, cuts = k.visible(), nil
				}
				if frozen < len(managers) {
					for _, c := range freeze(t, managers[frozen], attempt) {
						cuts = append(cuts, c.End)
					}
					frozen++
					continue
				}
				whole := managers[0].Frozen(FreezeID{1, attempt}) && managers[1].Frozen(FreezeID{1, attempt})
				for _, m := range managers {
					m.Thaw(FreezeID{1, attempt})
				}
				if frozen = 0; whole {
					confirmed++
					k.verify(r, known, cuts)
				}
			case 7: // one ends early
				managers[i/2].Thaw(FreezeID{1, attempt})
			}
		}
		for _, m := range managers {
			m.thaw(func(FreezeID) bool { return true })
		}
		for _, s := range stores {
			must(t, s.Close())
		}
	})
	if !testing.Short() && confirmed == 0 { // which tries a fifth of the walks
		t.Error("no snapshot was confirmed")
	}
}

func (k *knowledge) verify(t *rapid.T, known, cuts []int64) {
	for i := range cuts {
		if known[i] > cuts[i] {
			t.Fatalf("%s was known up to %d, and is cut at %d", k.list[i], known[i], cuts[i])
		}
	}
	for _, w := range k.records {
		if w.next > cuts[w.in] {
			continue
		}
		for i, cause := range w.causes {
			if cause > cuts[i] {
				t.Fatalf("the snapshot has %s up to %d, whose record %d was written when %s was known up to %d, and that is cut at %d",
					k.list[w.in], cuts[w.in], w.next-1, k.list[i], cause, cuts[i])
			}
		}
	}
}
