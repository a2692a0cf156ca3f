package shareleader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/testing/sharetest"
)

// desk is a topic of dead letters. It implements Letters and Copier: each call copies two records,
// or fails.
type desk struct {
	mu     sync.Mutex
	fails  bool
	calls  []string
	copies map[int64]int
}

func (d *desk) Copier(Source) Copier { return d }

func (d *desk) Copy(_ context.Context, to LettersTo, letters []window.Letters) (got []window.Letters, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, fmt.Sprint(to.Topic, letters))
	if d.fails {
		return nil, errors.New("no topic")
	}
	for _, l := range letters {
		for o := l.First; o <= l.Last && len(got) < 2; o++ {
			d.copies[o]++
			got = append(got, window.Letters{First: o, Last: o})
		}
	}
	return got, nil
}

// with returns a change of options that copies to d.
func (d *desk) with(o *Options) {
	d.copies = map[int64]int{}
	o.Letters = d
}

// copyAhead rejects records, and holds the write that the first ones are archived.
func copyAhead(w *world) string {
	d := &desk{copies: map[int64]int{}}
	for _, b := range w.brokers {
		b.opt.Letters = d
	}
	w.settings.Letters.Topic = "dlq"
	w.put(5, false)
	a := w.join(w.leader(), "a")
	got := a.fetch(10)
	release := func() {}
	w.desk.Deliver(func(k sharetest.Kind, do, _, _ func()) {
		d.mu.Lock()
		copied := len(d.copies) > 0
		d.mu.Unlock()
		if k == sharetest.Write && copied {
			before := release
			release = func() { before(); do() }
			return
		}
		do()
	})
	rejected := a.ack(0, 4, window.Reject)
	synctest.Wait()
	calls, view := fmt.Sprint(d.calls), lettersOf(a.partition())
	w.desk.Deliver(nil)
	release()
	time.Sleep(time.Second)
	s, _ := a.partition().Stats()
	return differ(show(got), "0-4:1", rejected, "ok", calls, "[dlq[{0 4 1}]]", view.Pending, int64(3), s.Start, int64(5),
		fmt.Sprint(d.copies), "map[0:1 1:1 2:1 3:1 4:1]", lettersOf(a.partition()).Copied, uint64(5))
}

func lettersOf(p *Partition) LettersView {
	p.lock()
	defer p.unlock()
	return p.letters.view(p)
}

func TestDeadLettersAreArchivedBeforeTheNextAreCopied(t *testing.T) { check(t, 1, copyAhead) }

// Copies that fail are repeated, and operators see why. A group that has no topic any more archives
// what waits.
func TestDeadLettersThatCannotBeCopiedWait(t *testing.T) {
	d := &desk{fails: true}
	check(t, 1, func(w *world) string {
		w.settings.Letters.Topic = "dlq"
		w.put(1, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(10)
		rejected := a.ack(0, 0, window.Reject)
		time.Sleep(time.Minute)
		synctest.Wait()
		view := lettersOf(a.partition())
		failed := view.Failed > 10 && view.Failed < 30 && view.Failing > 50*time.Second
		w.settings.Letters = LettersTo{Unknown: "no configs"}
		a.partition()
		time.Sleep(time.Second)
		unknown := lettersOf(a.partition())
		w.settings.Letters.Unknown = ""
		a.partition()
		synctest.Wait()
		s, _ := a.partition().Stats()
		return differ(show(got), "0-0:1", rejected, "ok", view.Pending, int64(1), view.Err, "no topic", failed, true,
			unknown.Pending, int64(1), unknown.Err, "no configs", s.Start, int64(1),
			len(d.copies), 0)
	}, d.with)
}

// 10,000 rejects at once are copied in parts, and each is archived.
func TestManyDeadLettersAtOnce(t *testing.T) {
	d := &desk{}
	check(t, 1, func(w *world) string {
		w.settings.Locks, w.settings.Letters.Topic = 10_000, "dlq"
		w.put(10_000, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(10_000)
		rejected := a.ack(0, 9_999, window.Reject)
		time.Sleep(time.Minute)
		synctest.Wait()
		s, _ := a.partition().Stats()
		twice := 0
		for _, n := range d.copies {
			if n > 1 {
				twice++
			}
		}
		return differ(show(got), "0-9999:1", rejected, "ok", s.Start, int64(10_000), len(d.copies), 10_000, twice, 0)
	}, d.with)
}

// TestTheReasonOfAFailedCopyIsNamed: metrics have a copy that fails with its reason, and totals
// that outlive the share partition. A record without a topic for dead letters is no copy.
func TestTheReasonOfAFailedCopyIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		w := newWorld(t, 1, d.with)
		defer w.close()
		w.put(3, false)
		a := w.join(w.leader(), "a")
		a.fetch(3)
		a.ack(0, 0, window.Reject) // no topic yet
		synctest.Wait()
		w.settings.Letters.Topic, d.fails = "dlq", true
		a.ack(1, 1, window.Reject)
		time.Sleep(time.Second)
		v, s := lettersOf(a.partition()), w.leader().Survey()
		if v.Copied != 0 || v.Reason != "other" || v.Failing == 0 || s.Letters["g"][0] != 0 || s.Letters["g"][1] == 0 {
			t.Errorf("%+v, %v", v, s.Letters)
		}
		w.settings.Letters.Unknown = "they are unreadable"
		a.partition()
		time.Sleep(time.Second)
		if v := lettersOf(a.partition()); v.Reason != "configs" {
			t.Errorf("%+v", v)
		}
		d.mu.Lock()
		d.fails = false
		d.mu.Unlock()
		w.settings.Letters.Unknown = ""
		a.partition()
		time.Sleep(time.Second)
		v, s = lettersOf(a.partition()), w.leader().Survey()
		if v.Copied != 1 || v.Reason != "" || v.Failing != 0 || s.Letters["g"][0] != 1 {
			t.Errorf("%+v, %v", v, s.Letters)
		}
	})
}

// Records are deleted while they wait for their copies, and no member takes any since the load.
func TestDeletedRecordsNeedNoCopy(t *testing.T) {
	d := &desk{fails: true}
	check(t, 2, func(w *world) string {
		w.settings.Letters.Topic = "dlq"
		w.put(5, false)
		a := w.join(w.leader(), "a")
		got := a.fetch(10)
		rejected := a.ack(0, 4, window.Reject)
		synctest.Wait()
		w.elect(1, false, 0)
		w.notify(w.brokers[0])
		w.trim(3)
		d.mu.Lock()
		d.fails, d.calls = false, nil
		d.mu.Unlock()
		b := w.join(w.leader(), "b")
		b.fetch(10)
		time.Sleep(time.Second)
		return differ(show(got), "0-4:1", rejected, "ok", fmt.Sprint(d.copies), "map[3:1 4:1]")
	}, d.with)
}
