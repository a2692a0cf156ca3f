package shareleader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// walk is a random history of a world, with what was promised so far. Three brokers lead in turn,
// and former leaders serve until they are notified. Logs lose records. Calls of the coordinator are
// late, lost and repeated.
type walk struct {
	*world
	mu     sync.Mutex // of rnd and of the promises
	rnd    *rand.Rand
	wrong  string
	faults bool

	consumers []*consumer // by member and broker
	fetches   []*fetch
	holds     map[int64]hold   // by record, of the present leader's memory
	finished  map[int64]bool   // the answer to an accept, reject or gap was success
	counted   map[int64]int    // the count of the last delivery whose release was answered with success
	may       map[int64]string // why a record may be finished
	rejected  map[int64]bool   // the answer to a reject was success
	other     map[int64]bool   // a member has also accepted it, or said that it is a gap
	deleted   map[int64]bool   // DeleteRecords has deleted it, in some log
	came      map[int64]int    // how often a record that was lost came back, with an earlier log
	copies    map[int64]int    // of records, as dead letters
	delivered int
	answered  int
}

// hold is a record that a member holds.
type hold struct {
	by    *consumer
	count int
	until time.Time
	load  uint64
	epoch int32
}

func newWalk(w *world, seed uint64) *walk {
	k := &walk{world: w, rnd: rand.New(rand.NewPCG(seed, 1)), faults: true, holds: map[int64]hold{}, finished: map[int64]bool{},
		counted: map[int64]int{}, may: map[int64]string{}, rejected: map[int64]bool{}, other: map[int64]bool{},
		copies: map[int64]int{}, deleted: map[int64]bool{}, came: map[int64]int{}}
	if k.rnd.IntN(2) == 0 {
		w.settings.Letters.Topic = "dlq"
		for _, b := range w.brokers {
			b.opt.Letters = &walkLetters{k: k, b: b}
		}
	}
	w.settings.Locks, w.settings.Deliveries, w.settings.Lock = 12, 4, 20*time.Second
	w.desk.Deliver(k.deliver)
	for _, id := range []string{"a", "b", "c"} {
		for _, b := range w.brokers {
			k.consumers = append(k.consumers, w.join(b, id))
		}
	}
	return k
}

// n returns a random number below n.
func (k *walk) n(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rnd.IntN(n)
}

func (k *walk) fail(format string, args ...any) {
	if k.wrong == "" {
		k.wrong = fmt.Sprintf(format, args...)
	}
}

// deliver delivers a call: at once, late, lost, or stored without its answer; copies may follow.
func (k *walk) deliver(_ sharetest.Kind, do, again, lose func()) {
	k.mu.Lock()
	faults := k.faults
	k.mu.Unlock()
	if !faults {
		do()
		return
	}
	late := time.Duration(k.n(4000)) * time.Millisecond
	switch r := k.n(20); {
	case r < 11:
		do()
	case r < 14:
		time.AfterFunc(late, do)
	case r < 16:
		again()
		time.AfterFunc(late, lose)
	case r < 17:
		time.AfterFunc(late, lose)
	default:
		do()
		time.AfterFunc(3*late, again)
	}
}

// took checks what a member has got.
func (k *walk) took(c *consumer, p *Partition, epoch int32, load uint64, list []taken) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	leads := epoch == k.world.epoch // a former leader may deliver what is finished at the present one
	for _, d := range list {
		for _, r := range d.records {
			h, held := k.holds[r]
			switch {
			case !leads:
			case held && h.epoch == epoch && h.load == load && h.by != c && now.Before(h.until):
				k.fail("record %d is held by %s until %v and delivered to %s", r, h.by.id, h.until, c.id)
			case k.copies[r] > 0 && k.came[r] == 0:
				k.fail("record %d was copied as a dead letter and is delivered to %s", r, c.id)
			case k.finished[r]:
				k.fail("record %d is finished and delivered to %s", r, c.id)
			case d.Count <= k.counted[r]:
				k.fail("record %d is delivered with count %d after an answered release with %d", r, d.Count, k.counted[r])
			case d.Count > k.settings.Deliveries:
				k.fail("record %d is delivered with count %d", r, d.Count)
			}
			if leads || !held {
				k.holds[r] = hold{by: c, count: d.Count, until: now.Add(k.settings.Lock), load: load, epoch: epoch}
			}
			if k.delivered++; d.Count >= k.settings.Deliveries {
				k.may[r] = "limit"
			}
		}
	}
}

// fetch lets a consumer fetch.
func (k *walk) fetch(c *consumer, most int64) {
	if c.s.ended {
		if c.open() != nil {
			return
		}
	}
	f := &fetch{c: c, most: most, cut: 1 + k.n(3), strict: k.n(3) == 0}
	p := c.partition()
	f.got = func(list []taken) { k.took(c, p, p.epoch, p.load, list) }
	k.fetches = append(k.fetches, f)
	f.join(p)
}

// acknowledge acknowledges some of what a consumer holds, or has held.
func (k *walk) acknowledge(c *consumer) {
	by := window.AckType(k.n(5))
	if c.s.ended {
		return
	}
	v := c.b.view
	v.mu.Lock()
	batches := v.log.clone().batches
	v.mu.Unlock()
	k.mu.Lock()
	type one struct {
		offset, record int64
		count, came    int
	}
	var list []one
	for _, b := range batches {
		for at := b.base; at <= b.last; at++ {
			if h, ok := k.holds[b.record(at)]; ok && h.by == c {
				if len(list) == 0 || list[len(list)-1].offset+1 == at {
					list = append(list, one{at, b.record(at), h.count, k.came[b.record(at)]})
				}
			}
		}
	}
	if len(list) == 0 {
		k.mu.Unlock()
		return
	}
	list = list[:1+k.rnd.IntN(len(list))]
	for _, x := range list {
		if by != window.Renew {
			h := k.holds[x.record]
			h.until = time.Time{} // it ends with this acknowledgement, whatever its answer is
			k.holds[x.record] = h
		}
		if by == window.Accept || by == window.Reject || by == window.Gap {
			k.may[x.record] = "acknowledged"
			k.other[x.record] = k.other[x.record] || by != window.Reject
		}
	}
	k.mu.Unlock()
	now := time.Now()
	c.partition().Acknowledge(c.s, []window.Ack{{First: list[0].offset, Last: list[len(list)-1].offset, Types: []window.AckType{by}}}, true,
		func(code *kerr.Error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			if code != nil {
				return
			}
			for _, x := range list {
				if came := k.came[x.record]; came != x.came || came > 0 && c.b != k.leader() {
					continue // the former leader knows it as it was before the log lost it
				}
				switch by {
				case window.Release:
					k.counted[x.record] = max(k.counted[x.record], x.count)
				case window.Renew:
					if h := k.holds[x.record]; h.by == c && !h.until.IsZero() {
						h.until = now.Add(k.settings.Lock)
						k.holds[x.record] = h
					}
				default:
					k.finished[x.record] = true
					k.rejected[x.record] = k.rejected[x.record] || by == window.Reject
					k.answered++
				}
			}
		})
}

// end ends a session of a consumer in one of the ways there are.
func (k *walk) end(c *consumer) {
	k.mu.Lock()
	for r, h := range k.holds {
		if h.by == c {
			h.until = time.Time{}
			k.holds[r] = h
		}
	}
	k.mu.Unlock()
	if k.n(2) == 0 {
		c.end()
	} else {
		c.s.End()
	}
}

// stop ends all waits.
func (k *walk) stop() {
	for _, f := range k.fetches {
		f.stop()
	}
	k.fetches = nil
}

// step makes one step.
func (k *walk) step() {
	c := k.consumers[k.n(len(k.consumers))]
	if k.n(3) > 0 { // most go to the leader
		for _, x := range k.consumers {
			if x.id == c.id && x.b == k.leader() {
				c = x
			}
		}
	}
	switch r := k.n(100); {
	case r < 25:
		k.put(int64(1+k.n(4)), k.n(6) == 0)
	case r < 28:
		k.skip(int64(1 + k.n(3)))
	case r < 55:
		k.fetch(c, int64(1+k.n(6)))
	case r < 80:
		k.acknowledge(c)
	case r < 84:
		k.end(c)
	case r < 90:
		time.Sleep(time.Duration(k.n(5000)) * time.Millisecond)
	case r < 92:
		time.Sleep(21 * time.Second)
	case r < 95:
		k.stop()
	case r < 96:
		k.delete(int64(k.n(4)))
	case r < 97:
		k.stopLeader()
	case r < 98:
		if to, lose := int32(k.n(len(k.brokers))), int64(max(0, k.n(8)-4)); k.n(3) > 0 {
			k.elect(to, false, lose)
		} else {
			k.electOwn(to, lose)
		}
	default:
		k.notify(k.brokers[k.n(len(k.brokers))])
	}
	synctest.Wait()
}

// delete deletes the first records of the log. They may come back with an earlier log, but not to
// the group.
func (k *walk) delete(n int64) {
	v := k.leader().view
	k.mu.Lock()
	for _, b := range v.log.batches {
		for at := b.base; at <= b.last && at < v.log.start+n; at++ {
			k.deleted[b.record(at)] = true
		}
	}
	k.mu.Unlock()
	k.trim(v.log.start + n)
}

// electOwn elects a broker with the log with which it led last. What was promised of records that
// come back with it does not hold any more, as they were lost meanwhile.

func (k *walk) electOwn(to int32, lose int64) {
	had, has := k.leader().view.records(), k.brokers[to].view.records()
	k.mu.Lock()
	for r := range has {
		if had[r] {
			continue
		}
		k.came[r]++
		delete(k.finished, r)
		delete(k.counted, r)
		delete(k.rejected, r)
	}
	k.mu.Unlock()
	k.elect(to, true, lose)
}

// stopLeader lets the leader stop as planned, and another broker lead. Members still acknowledge at
// the former leader, which is there again when it is notified.
func (k *walk) stopLeader() {
	old := k.leader()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(k.n(3000))*time.Millisecond)
	old.Release(ctx)
	cancel()
	for range k.n(4) {
		k.acknowledge(k.consumers[k.n(len(k.consumers))])
	}
	synctest.Wait()
	k.elect(int32(k.n(len(k.brokers))), false, 0)
	old.closing.Store(false)
}

// walkLetters copies the dead letters of a broker's share partitions in a walk, late, in part, or
// not at all. It knows what was copied. It implements Letters and Copier.
type walkLetters struct {
	k  *walk
	b  *broker
	of Source
}

func (d *walkLetters) Copier(of Source) Copier { return &walkLetters{d.k, d.b, of} }

func (d *walkLetters) Copy(ctx context.Context, _ LettersTo, letters []window.Letters) (got []window.Letters, err error) {
	k := d.k
	if k.faulty() {
		late := time.NewTimer(time.Duration(k.n(3000)) * time.Millisecond)
		defer late.Stop()
		select {
		case <-late.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	v := d.b.view
	v.mu.Lock()
	batches, other := v.log.clone().batches, v.epoch != d.of.Epoch
	v.mu.Unlock()
	if other {
		return nil, errors.New("the log may have other records")
	}
	for _, l := range letters {
		for o := l.First; o <= l.Last; o++ {
			if k.faulty() && k.n(3) == 0 {
				return nil, errors.New("some were copied")
			}
			k.mu.Lock()
			for _, b := range batches {
				if o >= b.base && o <= b.last {
					k.copies[b.record(o)]++
				}
			}
			k.mu.Unlock()
			got = append(got, window.Letters{First: o, Last: o, Count: l.Count})
		}
	}
	return got, nil
}

func (k *walk) faulty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.faults
}

// run makes steps, and then lets one member finish the log. It returns what was wrong.
func (k *walk) run(steps int) string {
	for i := 0; i < steps && k.wrong == ""; i++ {
		k.step()
	}
	if k.wrong != "" {
		return k.wrong
	}
	k.mu.Lock()
	k.faults = false
	k.mu.Unlock()
	k.stop()
	for _, b := range k.brokers {
		k.notify(b)
	}
	time.Sleep(time.Minute)
	for _, c := range k.consumers {
		k.end(c)
	}
	synctest.Wait()
	last := k.join(k.leader(), "last")
	for idle := 0; idle < 4; {
		f := &fetch{c: last, most: 100, cut: 10}
		p := last.partition()
		f.got = func(list []taken) { k.took(last, p, p.epoch, p.load, list) }
		f.join(p)
		synctest.Wait()
		f.stop()
		if idle++; len(f.taken) > 0 {
			idle = 0
		}
		for _, d := range f.taken {
			for _, r := range d.records {
				k.may[r] = "acknowledged"
			}
			if r := last.ack(d.First, d.Last, window.Accept); r.String() != "ok" {
				k.fail("the last member's acknowledgement of %d-%d: %s", d.First, d.Last, r)
			}
		}
		time.Sleep(time.Second)
	}
	v := k.leader().view
	if s := k.desk.Summary(k.key); k.wrong == "" && s.Start < v.log.end && v.log.end > v.log.start {
		if stats, ok := last.partition().Stats(); !ok || stats.Start < v.log.end {
			// A hole at the end is archived with the next batch.
			if n := len(v.log.batches); n > 0 && v.log.batches[n-1].last >= stats.Start {
				k.fail("the group is stuck at %d of %d", stats.Start, v.log.end)
			}
		}
	}
	for _, b := range v.log.batches {
		for at := max(b.base, v.log.start); at <= b.last && !b.gone; at++ {
			if k.deleted[b.record(at)] {
				continue
			}
			if k.may[b.record(at)] == "" {
				k.fail("record %d at %d is finished without a reason", b.record(at), at)
			}
			if r := b.record(at); k.settings.Letters.Topic != "" && k.rejected[r] && !k.other[r] && k.copies[r] == 0 {
				k.fail("record %d at %d was rejected and has no copy", r, at)
			}
		}
	}
	return k.wrong
}

// TestWalks makes random histories. CHRONIK_SHARE_WALKS is for how long, one second by default.
func TestWalks(t *testing.T) {
	most := time.Second
	if d, err := time.ParseDuration(os.Getenv("CHRONIK_SHARE_WALKS")); err == nil {
		most = d
	}
	delivered, answered, seed := 0, 0, uint64(0)
	for begun := time.Now(); time.Since(begun) < most; seed++ {
		k := walked(t, seed)
		delivered, answered = delivered+k.delivered, answered+k.answered
		if k.wrong != "" {
			t.Fatalf("walk %d: %s", seed, k.wrong)
		}
	}
	t.Logf("%d walks, %d deliveries, %d answered acknowledgements", seed, delivered, answered)
}

// walked makes a walk in a bubble of its own.
func walked(t *testing.T, seed uint64, change ...func(*Options)) (k *walk) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, change...)
		k = newWalk(w, seed)
		k.run(300)
		k.stop()
		w.close()
		time.Sleep(time.Minute) // late copies
	})
	return k
}
