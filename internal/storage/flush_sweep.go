package storage

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
)

// carryMax is the maximum unsynced size of a log whose batches a sweep carries forward: it writes
// them to the journal again instead of syncing a segment. 10,000 partitions with one small record
// each cost one journal write instead of 10,000 fdatasyncs.
const carryMax = 16 << 10

// carryWait bounds how long a sweep waits for carried entries.
const carryWait = time.Second

// carryAhead bounds the carried bytes in flight, and so how long produce requests wait behind them.
const carryAhead = 256 << 10

// signal wakes the goroutine that waits on c, now or at its next wait.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits for t. It returns false at once if the directory is being closed.
func (d *Dir) sleep(t time.Duration) bool { return pause.Wait(d.quit, t) }

// sweepBackoff bounds the pause after a sweep that freed nothing. It is needed because a journal
// writer that waits for space requests the next sweep at once.
var sweepBackoff = pause.Backoff{First: 5 * time.Millisecond, Most: time.Second}

// maintain is the maintenance goroutine. It runs sweeps and repairs, and reopens a failed journal.
func (d *Dir) maintain() {
	label.Goroutine("storage sweep", d.path)
	var retry, resume <-chan time.Time
	vain, sweeps := 0, d.sweeps // vain counts the last sweeps that freed nothing
	for {
		if d.sweepDue() {
			signal(d.sweeps)
		}
		select {
		case <-d.quit:
			return
		case err := <-d.failures:
			d.reopen(err)
		case <-sweeps:
			first, full := d.journal.Oldest(0).File, d.journal.Full()
			err := d.sweep()
			if err != nil {
				d.logOnce(nil, "checkpoint sweep failed", err)
			}
			d.swept(err, full)
			if err == nil && d.journal.Oldest(0).File != first {
				vain = 0
				continue
			}
			vain++
			sweeps, resume = nil, time.After(sweepBackoff.After(vain))
		case <-resume:
			sweeps, resume = d.sweeps, nil
		case <-d.repairs:
			retry = d.repairDue()
		case <-retry:
			retry = d.repairDue()
		}
	}
}

// sweep makes the older half of the journal files unnecessary and releases them. It syncs one log
// at a time, since many concurrent fdatasyncs delay those of the journal.
func (d *Dir) sweep() error {
	target := d.journal.SweepTarget()
	if target == 0 {
		return nil
	}
	d.awaitDurable(target)
	var carried atomic.Int64
	var failed []*Log
	pace, budget := pacer{d: d}, d.sizes.File/2
	for _, l := range d.Logs() {
		l.mu.RLock()
		oldest, state := l.oldestLocked(), l.life.state
		l.mu.RUnlock()
		if oldest > target || !state.Allows(loglife.Read) {
			continue
		}
		if state.Allows(loglife.Quarantine) {
			failed = append(failed, l)
			continue
		}
		if n := l.carry(&carried, budget); n > 0 {
			budget -= n
			if !d.awaitCarry(&carried, carryAhead) {
				budget = 0
			}
			continue
		}
		begin := time.Now()
		if err := l.flushAndSync(); err != nil {
			d.logOnce(l, "segment sync failed", err)
			failed = append(failed, l)
		}
		pace.after(time.Since(begin))
	}
	due, err := d.dueForRepair(failed)
	before := d.mendings(due)
	errs := d.quarantineLogs(due)
	maps.DeleteFunc(before, func(l *Log, _ *mending) bool { return errs[l] == nil || errors.Is(errs[l], errInFlight) })
	d.postpone(before, errs)
	for l := range before {
		err = errors.Join(err, errs[l])
	}
	// On a timeout, in a journal without space, the carried logs still need their old frames; the
	// next sweep syncs their segments.
	d.awaitCarry(&carried, 0)
	if err := errors.Join(err, d.checkpoint(nil)); err != nil {
		return err
	}
	d.stats.sweeps.Inc()
	return nil
}

// awaitDurable requests an fdatasync of the journal and waits until it is durable through an LSN or
// has failed.
func (d *Dir) awaitDurable(lsn journal.LSN) {
	for journal.LSN(d.syncedLSN.Load()) < lsn {
		d.journal.Sync()
		if d.Err() != nil || !d.sleep(100*time.Microsecond) {
			return
		}
	}
}

// awaitCarry waits until at most n carried bytes are in flight, and reports whether that happened
// within d.carryWait.
func (d *Dir) awaitCarry(carried *atomic.Int64, n int64) bool {
	for deadline := time.Now().Add(d.carryWait); carried.Load() > n; {
		if time.Now().After(deadline) || !d.sleep(100*time.Microsecond) {
			return false
		}
	}
	return true
}

// pacer makes a sweep pause while the journal has space. Thousands of consecutive fdatasyncs would
// slow down every journal write.
type pacer struct {
	d    *Dir
	debt time.Duration
}

// paceStep is the shortest pause that is worth a timer.
const paceStep = 2 * time.Millisecond

// after records that the sweep used the disk for some time, and pauses for as long, but for at most
// 20 ms for each call.
func (p *pacer) after(busy time.Duration) {
	if p.d.journal.Used() > p.d.sizes.All/4*3 {
		p.debt = 0
		return
	}
	if p.debt += min(busy, 10*paceStep); p.debt >= paceStep {
		p.d.sleep(p.debt)
		p.debt = 0
	}
}

func (l *Log) flushAndSync() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.flushLocked(); err != nil {
		return err
	}
	return l.syncLocked()
}

// carry writes the log's unflushed batches to the journal again as one new entry, so that its older
// frames become unnecessary. It returns the size of the entry, 0 if the log is busy or has too many
// bytes. No append may be committed between reading the tail and Submit, because later batches must
// follow the carried entry.
func (l *Log) carry(all *atomic.Int64, budget int64) int64 {
	if !l.tryAcquireCommit() {
		return 0
	}
	defer l.releaseCommit()
	l.mu.Lock()
	rest := l.tail.chunks[l.tail.flushed:]
	n := l.tail.unflushedBytes()
	ok := !l.carrying && l.lowestUnsynced == 0 && l.life.state.Allows(loglife.Append) && len(rest) > 0 &&
		n <= min(carryMax, budget) && rest[len(rest)-1].ready && l.rp.Offset == l.flushed &&
		!slices.ContainsFunc(rest, func(c *chunk) bool { return c.gap }) // a frame with batches cannot describe a gap
	var payload []byte
	var prev, next int64
	if ok {
		payload = make([]byte, 0, n)
		for _, c := range rest {
			payload = append(payload, c.data...)
		}
		prev, next = rest[0].base, rest[len(rest)-1].next
		l.carrying = true
	}
	l.mu.Unlock()
	if !ok {
		return 0
	}
	all.Add(n)
	e := &journal.Entry{
		Stream: l.stream, Type: journal.Batches, Carried: true, Payload: payload, PrevEnd: prev, NextEnd: next,
		Owner: carriedOwner{l, all},
	}
	if err := l.dir.journal.Submit(nil, e); err != nil {
		e.Owner.Durable(e, err)
		return 0
	}
	return n
}

func (l *Log) isCarrying() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.carrying
}

// carriedOwner is notified when a carried entry is durable.
type carriedOwner struct {
	l   *Log
	all *atomic.Int64 // carried bytes in flight
}

// Written implements journal.Owner. A carried entry has no profile.
func (o carriedOwner) Written(*journal.Entry) {}

// Durable implements journal.Owner. The frames before e become unnecessary.
func (o carriedOwner) Durable(e *journal.Entry, err error) {
	defer o.all.Add(-int64(len(e.Payload)))
	l := o.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.carrying = false
	if err != nil {
		return
	}
	if l.rp.Offset != e.PrevEnd || l.flushed != e.PrevEnd {
		return // some chunks were flushed meanwhile: the log still needs its old frames
	}
	for _, c := range l.tail.chunks[l.tail.flushed:] {
		if c.next <= e.NextEnd {
			c.setLSN(e.LSN)
		}
	}
	l.rp.LSN = max(l.rp.LSN, e.LSN-1)
}

// relieveMemory is the goroutine that flushes logs under memory pressure. It is separate from
// maintain, whose sweeps may take seconds.
func (d *Dir) relieveMemory() {
	label.Goroutine("storage memory", d.path)
	for {
		select {
		case <-d.quit:
			return
		case <-d.pressure:
			d.flushLargest()
			d.weigh()
		}
	}
}

// flushLargest flushes the logs with the most unflushed bytes until enough memory is free. With
// 10,000 small logs it flushes many per call, because collecting the sizes visits every log.
func (d *Dir) flushLargest() {
	type load struct {
		l *Log
		n int64
	}
	if !d.memory.underPressure() {
		return
	}
	d.journal.Sync() // only durable chunks can be flushed; memory pressure starts the next call
	var loads []load
	for _, l := range d.Logs() {
		l.mu.RLock()
		if n := l.tail.unflushedBytes(); n > 0 {
			loads = append(loads, load{l, n})
		}
		l.mu.RUnlock()
	}
	sorts.Sort(loads, func(a, b load) int { return cmp.Compare(b.n, a.n) })
	for _, x := range loads {
		if d.memory.pressureRelieved() {
			return
		}
		_ = x.l.flush() // the error is latched in the log
	}
}
