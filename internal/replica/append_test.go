package replica

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

var pair = []int32{1, 2}

func TestAcksLeaderIsAcknowledgedByItsOwnLog(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair) // the follower has no records yet
	a := begin(t, p, AcksLeader, 3)
	must(t, a.wait(t))
	if a.BaseOffset != 0 || a.LogStart != 0 || a.AppendTime != -1 || p.log.Ends().Durable != 3 {
		t.Errorf("%+v, durable end %d", &a.Append, p.log.Ends().Durable)
	}
	if e := p.Ends(); e.HighWatermark != 0 || e.Ack != 3 {
		t.Errorf("%+v", e)
	}
}

func TestAcksAllIsAcknowledgedInOrderByTheHighWatermark(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 4, pair, pair)
	var order []int64
	var list []*outcome
	for range 5 {
		d := begin(t, p, AcksAll, 2)
		inner := d.Done
		d.Done = func(a *Append) { order = append(order, a.BaseOffset); inner(a) }
		list = append(list, d)
	}
	waitFor(t, "the leader's log holds it", func() bool { return p.Ends().Ack == 10 })
	step := func(follower, epoch int32, end, high int64) {
		t.Helper()
		acknowledge(p, follower, epoch, end)
		for i, d := range list {
			if d.pending() != (d.inner.Next > high) {
				t.Errorf("follower %d at %d: append %d waits: %t", follower, end, i, d.pending())
			}
		}
		if e := p.Ends(); e.HighWatermark != high {
			t.Errorf("high watermark %d, want %d", e.HighWatermark, high)
		}
	}
	step(2, 4, 1, 1) // inside a batch
	step(2, 3, 10, 1)
	step(2, 5, 10, 1)
	step(3, 4, 10, 1)
	step(2, 4, 6, 6)
	step(2, 4, 4, 6)
	step(2, 4, 99, 10)
	for i, offset := range order {
		if offset != int64(2*i) {
			t.Errorf("finished in the order %v", order)
		}
	}
}

// Delete fails the appends that wait for the ISR, and those that come later.
func TestDeleteFailsWaitingAppends(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	d := begin(t, p, AcksAll, 1)
	waitFor(t, "the append waits for the follower", func() bool { return p.Ends().Ack == 1 })
	p.Delete()
	if err := d.wait(t); !errors.Is(err, ErrDeleted) {
		t.Errorf("the waiting append: %v", err)
	}
	if err := begin(t, p, AcksAll, 1).wait(t); !errors.Is(err, ErrDeleted) {
		t.Errorf("a later append: %v", err)
	}
}

func TestAcksNoneDoesNotWait(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	a := begin(t, p, AcksNone, 1)
	if a.pending() || a.Err != nil || a.BaseOffset != 0 {
		t.Errorf("%+v", &a.Append)
	}
}

func TestAppendsAreRefusedByRoleEpochAndISR(t *testing.T) {
	for _, c := range []struct {
		name   string
		role   func(*Partition)
		epoch  int32
		acks   Acks
		minISR int
		want   error
	}{
		{"no role yet", func(*Partition) {}, -1, AcksAll, 1, ErrNotLeader},
		{"follower", func(p *Partition) { follow(p, 2, 5, pair, pair) }, -1, AcksAll, 1, ErrNotLeader},
		{"older epoch", func(p *Partition) { lead(p, 5, pair, pair) }, 4, AcksAll, 1, ErrFencedEpoch},
		{"newer epoch", func(p *Partition) { lead(p, 5, pair, pair) }, 6, AcksAll, 1, ErrUnknownEpoch},
		{"ISR too small", func(p *Partition) { lead(p, 5, pair, []int32{1}) }, 5, AcksAll, 2, ErrNotEnoughReplicas},
		{"which acks=1 does not ask for", func(p *Partition) { lead(p, 5, pair, []int32{1}) }, 5, AcksLeader, 2, nil},
		{"no more in sync than there are", func(p *Partition) { lead(p, 5, []int32{1}, []int32{1}) }, 5, AcksAll, 3, nil},
		{"an older role comes late", func(p *Partition) {
			lead(p, 5, []int32{1}, []int32{1})
			follow(p, 2, 4, pair, pair)
			lead(p, 3, pair, pair)
		}, 5, AcksAll, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lone(t, vfs.Memory())
			c.role(p)
			minISR(p, c.minISR)
			d := &outcome{ended: make(chan struct{}, 1)}
			d.LeaderEpoch, d.Acks, d.Batches = c.epoch, c.acks, batch(t, 1)
			d.Done = func(*Append) { d.ended <- struct{}{} }
			p.Append(&d.Append, nil)
			if err := d.wait(t); !errors.Is(err, c.want) || (err != nil) != (d.BaseOffset == -1) {
				t.Errorf("%v at %d, want %v", err, d.BaseOffset, c.want)
			}
			if end := p.Ends().LogEnd; (end == 0) != (c.want != nil) {
				t.Errorf("log end %d", end)
			}
		})
	}
}

func TestAShrunkISRIsReported(t *testing.T) {
	for minISR := range 3 {
		p := lone(t, vfs.Memory())
		lead(p, 0, pair, pair)
		a := begin(t, p, AcksAll, 1)
		waitFor(t, "it waits", func() bool { return p.Ends().Ack == 1 })
		r := roleFor(p, self, 0, pair, []int32{1})
		r.View.MinISR = minISR
		p.SetRole(r)
		if err := a.wait(t); errors.Is(err, ErrNotEnoughReplicasAfterAppend) != (minISR == 2) || (err == nil) != (minISR < 2) {
			t.Errorf("min ISR %d: %v", minISR, err)
		}
	}
}

func TestLosingLeadershipEndsWaitingAppends(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 1, pair, pair)
	a := begin(t, p, AcksAll, 1)
	follow(p, 2, 2, pair, pair)
	if err := a.wait(t); !errors.Is(err, ErrNotLeader) {
		t.Error(err)
	}
	if id, epoch := p.Leader(); id != 2 || epoch != 2 {
		t.Errorf("leader %d in epoch %d", id, epoch)
	}
	acknowledge(p, 2, 2, 1)
	if e := p.Ends(); e.HighWatermark != 0 {
		t.Errorf("a follower counts no followers: %+v", e)
	}
}

// holdCommit makes an append hold up the committing goroutine until release is closed.
func holdCommit(t *testing.T, p *Partition) (first *outcome, release chan struct{}) {
	t.Helper()
	first, release = &outcome{ended: make(chan struct{}, 1)}, make(chan struct{})
	entered := make(chan struct{})
	first.LeaderEpoch, first.Acks, first.Batches = -1, AcksNone, batch(t, 1)
	first.Done = func(*Append) { close(entered); <-release; first.ended <- struct{}{} }
	go p.Append(&first.Append, nil)
	<-entered
	return first, release
}

func TestAnAppendGetsOffsetsAfterLeadershipIsLost(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 1, pair, pair)
	first, release := holdCommit(t, p)
	all, one := begin(t, p, AcksAll, 1), begin(t, p, AcksLeader, 1)
	follow(p, 2, 2, pair, pair)
	close(release)
	must(t, first.wait(t))
	for _, d := range []*outcome{all, one} {
		if err := d.wait(t); !errors.Is(err, ErrNotLeader) {
			t.Errorf("acks=%d: %v", d.Acks, err)
		}
	}
}

// An append expires in each of its phases and is reused afterwards.
func TestExpireInEachPhase(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	again := func(d *outcome) {
		t.Helper()
		if !d.pending() {
			<-d.ended
		}
		d.Acks = AcksLeader
		p.Append(&d.Append, nil)
		must(t, d.wait(t))
		if d.times != 2 || d.Expire() {
			t.Errorf("Done ran %d times in two uses", d.times)
		}
	}
	// Waiting for its condition.
	waits := begin(t, p, AcksAll, 1)
	if !waits.Expire() || waits.pending() || waits.Expire() || waits.times != 1 || !errors.Is(waits.Err, ErrTimedOut) ||
		waits.BaseOffset != -1 {
		t.Fatalf("waiting: %+v, Done ran %d times", &waits.Append, waits.times)
	}
	again(waits)
	// Queued, or getting offsets: an earlier append holds up the committing goroutine.
	first, release := holdCommit(t, p)
	queued := begin(t, p, AcksAll, 1)
	second := &outcome{ended: make(chan struct{}, 1)}
	in, out := make(chan struct{}), make(chan struct{})
	second.LeaderEpoch, second.Acks, second.Batches = -1, AcksNone, batch(t, 1)
	second.Done = func(*Append) { close(in); <-out; second.ended <- struct{}{} }
	p.Append(&second.Append, nil)
	numbered := begin(t, p, AcksAll, 1)
	if !queued.Expire() || queued.pending() || !errors.Is(queued.Err, ErrTimedOut) {
		t.Fatalf("queued: %+v", &queued.Append)
	}
	close(release)
	<-in // second and numbered are one group, whose first append is notified
	if !numbered.Expire() || !numbered.pending() || numbered.Expire() {
		t.Fatal("being numbered: it ends when it is numbered")
	}
	close(out)
	if err := numbered.wait(t); !errors.Is(err, ErrTimedOut) || numbered.BaseOffset != -1 {
		t.Fatalf("being numbered: %v", err)
	}
	must(t, first.wait(t))
	must(t, second.wait(t))
	again(queued)
	again(numbered)
	if (&Append{}).Expire() {
		t.Error("one that was never appended expires")
	}
}

func TestADuplicateWaitsForItsFirstAppend(t *testing.T) {
	p := lone(t, vfs.Memory())
	lead(p, 0, pair, pair)
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 1}})
	b.Append(1, nil, []byte("v"), nil)
	raw, err := b.Build()
	must(t, err)
	send := func() *outcome {
		d := &outcome{ended: make(chan struct{}, 1)}
		d.LeaderEpoch, d.Acks, d.Batches = -1, AcksAll, record.Accepted{Bytes: append([]byte(nil), raw...)}
		d.Done = func(*Append) { d.ended <- struct{}{} }
		p.Append(&d.Append, nil)
		return d
	}
	first, repeated := send(), send()
	waitFor(t, "stored", func() bool { return p.Ends().Ack == 1 })
	late := send()
	if !first.pending() || !repeated.pending() || !late.pending() {
		t.Fatal("acknowledged before the follower has it")
	}
	acknowledge(p, 2, 0, 1)
	after := send()
	for _, d := range []*outcome{first, repeated, late, after} {
		if must(t, d.wait(t)); d.BaseOffset != 0 || p.Ends().LogEnd != 1 {
			t.Errorf("%+v", &d.Append)
		}
	}
}

func TestRecordsThatAFailedJournalDiscardsAreErrors(t *testing.T) {
	fs := errfs.New(vfs.Memory())
	p := lone(t, fs)
	lead(p, 0, []int32{1}, []int32{1})
	must(t, begin(t, p, AcksAll, 2).wait(t))
	fault := fs.Add(errfs.Rule{Ops: errfs.Datasync, Err: syscall.EIO})
	for _, acks := range []Acks{AcksAll, AcksLeader} {
		if err := begin(t, p, acks, 1).wait(t); !errors.Is(err, storage.ErrFailed) {
			t.Errorf("acks=%d: %v", acks, err)
		}
	}
	if e := p.Ends(); e.HighWatermark != 2 || e.Ack != 2 {
		t.Errorf("%+v", e)
	}
	fault.Off()
}

// Appends, acknowledgements, expiries and role changes arrive in random order. The ends stay
// ordered and the high watermark never decreases. Each append ends once, without error only when
// its condition holds (I2, I4).
func TestNoEarlyAcknowledgementWhateverHappens(t *testing.T) {
	p := lone(t, vfs.Memory())
	rapid.Check(t, func(t *rapid.T) {
		epoch := p.LeaderEpoch() + 1
		lead(p, epoch, pair, pair)
		high := p.Ends().HighWatermark
		isr, acked := pair, int64(0) // acked: what the follower acknowledged in this epoch
		var wg sync.WaitGroup
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				acks := rapid.SampledFrom([]Acks{AcksAll, AcksLeader, AcksNone}).Draw(t, "acks")
				expire := rapid.IntRange(0, 3).Draw(t, "expire") == 0
				d := &outcome{}
				d.LeaderEpoch, d.Acks = -1, acks
				d.Batches = batchFor(t, rapid.IntRange(1, 3).Draw(t, "records"))
				wg.Add(1)
				d.Done = func(a *Append) {
					defer wg.Done()
					if d.times++; d.times > 1 {
						t.Errorf("Done ran twice")
					}
					e := p.Ends()
					if a.Err == nil && (acks == AcksAll && e.HighWatermark < a.inner.Next || acks == AcksLeader && e.Ack < a.inner.Next) {
						t.Errorf("acks=%d for [%d, %d) at %+v", acks, a.inner.Base, a.inner.Next, e)
					}
				}
				p.Append(&d.Append, nil)
				if expire && acks != AcksNone {
					go d.Expire()
				}
			case 2:
				end := p.Ends().LogEnd - int64(rapid.IntRange(0, 3).Draw(t, "behind"))
				acked = max(acked, end)
				acknowledge(p, 2, epoch, end)
			case 3:
				isr = rapid.SampledFrom([][]int32{{1}, pair}).Draw(t, "isr")
				lead(p, epoch, pair, isr)
				high = p.Ends().HighWatermark
			case 4:
				epoch++
				isr, acked = pair, 0
				lead(p, epoch, pair, pair)
				high = p.Ends().HighWatermark
			case 5:
				epoch++
				follow(p, 2, epoch, pair, pair)
				epoch++
				isr, acked = pair, 0
				lead(p, epoch, pair, pair)
				high = p.Ends().HighWatermark
			}
			e := p.Ends()
			if len(isr) == 2 && e.HighWatermark > max(high, acked) {
				t.Errorf("the high watermark is %d, it was %d and the follower has %d", e.HighWatermark, high, acked)
			}
			if e.LogStart > e.LastStable || e.LastStable > e.HighWatermark || e.HighWatermark > e.Ack || e.Ack > e.LogEnd ||
				e.HighWatermark < high {
				t.Errorf("ends %+v, high watermark was %d", e, high)
			}
			high = e.HighWatermark
		}
		lead(p, epoch, pair, []int32{1})
		wg.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waitISR.head != nil || p.waitLeader.head != nil || p.waitISR.tail != nil || p.waitLeader.tail != nil {
			t.Error("an append was left in a queue")
		}
	})
}

func batchFor(t *rapid.T, records int) record.Accepted {
	b := record.NewBuilder(record.BatchOptions{})
	for range records {
		b.Append(1, nil, []byte("v"), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return record.Accepted{Bytes: out, Batches: 1, Records: records}
}
