package journal

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/pkg/durability"
)

// group is what is written together. The busy goroutine owns it.
type group struct {
	file     *file // of the last write
	stage    stage
	entries  []*Entry // written, and their owners are not notified yet
	records  int
	bytes    int64
	unsynced unsynced
	syncTime time.Duration // exponential mean of datasync times
	// lastSmall is about when the latest small entry arrived of a stream without a bulk load, in
	// nanoseconds after start: the system's clock may be set back by hours.
	lastSmall atomic.Int64
	start     time.Time
	splits    uint64 // how many groups were split
}

// unsynced summarizes the entries written since the last datasync.
type unsynced struct {
	entries, records int
	bytes            int64
	// due is when the first interval of a profile ends; zero if all entries wait for the datasync.
	due time.Time
}

// writeBack is how long entries stay unsynced if their profile leaves that to the system: about as
// long as the system's own write-back delay.
const writeBack = 5 * time.Second

// add adds entries that were written.
func (u *unsynced) add(entries []*Entry) {
	for _, e := range entries {
		u.entries++
		u.records += e.Records
		u.bytes += int64(len(e.Payload))
		if !e.onWrite() {
			continue
		}
		due := e.arrived.Add(writeBack)
		if e.Profile.Sync == durability.SyncInterval {
			due = e.arrived.Add(e.Profile.Interval)
		}
		if u.due.IsZero() || due.Before(u.due) {
			u.due = due
		}
	}
}

// Submit queues entries of one stream. They are written when batch is run, or soon if batch is nil,
// and become durable in the order of the calls for their stream. Submit never blocks. If it returns
// an error, ErrStopped, nothing was queued and no owner is notified.
func (j *Journal) Submit(batch *groupcommit.Batch, entries ...*Entry) error {
	j.mu.Lock()
	if j.state != running {
		j.mu.Unlock()
		return ErrStopped
	}
	now := time.Now()
	for _, e := range entries {
		e.arrived = now
		s := e.Stream
		s.queue.push(e)
		if !s.listed {
			s.listed = true
			j.ready.push(s)
		}
		j.waiting.add(e)
	}
	wake := batch == nil && j.wakeLocked(now)
	j.mu.Unlock()
	if batch != nil {
		batch.AddSync(j)
	}
	if wake {
		j.wakeWriter()
	}
	return nil
}

// WriteGroup writes a group of up to inlineBytes itself if datasyncs take no longer than
// inlineSync: for longer ones, the wake-up of a goroutine is negligible.
const (
	inlineBytes = 128 << 10
	inlineSync  = 400 * time.Microsecond
)

// WriteGroup implements groupcommit.Syncer: it starts the write of entries submitted with a batch.
// If the writer is parked and the group will not take long, the caller writes the group and
// notifies its owners. Whether entries are durable when it returns is open: an owner is notified of
// that, after the datasync.
//
// That saves the wake-ups of two goroutines. On a machine with idle processors these take as long
// as the datasync, and more processor time (docs/performance-notes.md, Goroutine hand-overs).
// Entries that arrive while the caller writes are left to the writer: under load there is always
// a next group, and the writer stays busy with it.
func (j *Journal) WriteGroup() {
	runtime.Gosched() // as the writer does
	j.mu.Lock()
	now := time.Now()
	if !j.wakeLocked(now) {
		j.mu.Unlock()
		return
	}
	if !j.inlineLocked(now) {
		j.mu.Unlock()
		j.wakeWriter()
		return
	}
	j.parked = true // wakeLocked expected a wake-up, which does not follow
	j.busy, j.waiting.wakeAt = true, time.Time{}
	j.mu.Unlock()

	j.writeAndSync(j.notifyNow)

	j.mu.Lock()
	j.freeLocked()
	now = time.Now()
	wake := j.parked && (j.state != running || j.lateLocked(now)) || j.wakeLocked(now)
	j.mu.Unlock()
	if wake {
		j.wakeWriter()
	}
}

// Wake implements groupcommit.Syncer: it leaves the entries to the writer.
func (j *Journal) Wake() {
	j.mu.Lock()
	wake := j.wakeLocked(time.Now())
	j.mu.Unlock()
	if wake {
		j.wakeWriter()
	}
}

// writeAndSync writes the queued group, notifies the owners of entries acknowledged when written,
// syncs the group if an entry needs that, and notifies the other owners. After an error the journal
// has failed, and the entries that were not reported are never acknowledged. The caller must be
// busy and must call freeLocked afterwards.
func (j *Journal) writeAndSync(tell func(batch)) {
	err := j.writeWaiting()
	if err == nil {
		err = j.acknowledge(tell)
	}
	if err != nil {
		j.fail(err)
	}
}

// freeLocked clears busy. It also clears noSpace: space may have become available, and the
// wake-up for it lost, while a caller of WriteGroup was busy.
func (j *Journal) freeLocked() {
	j.busy, j.noSpace = false, false
	j.idle.Broadcast()
}

// writeWaiting writes up to one group: a piece of a large entry, a single write of up to 4 MiB if
// an entry is impatient, otherwise several writes up to the limits of the group.
func (j *Journal) writeWaiting() error {
	g := &j.group
	j.mu.Lock()
	limit := j.waiting.limits()
	j.mu.Unlock()
	for {
		now := time.Now()
		if j.pieceDue(now) {
			return j.writePiece()
		}
		t := j.take(limits{limit.records - g.records, limit.bytes - g.bytes}, now)
		if len(t.entries) == 0 && t.part == nil {
			j.recycle(t.entries)
			if t.began {
				continue
			}
			return nil
		}
		err := j.writeTaken(g, t)
		if t.part != nil {
			t.entries = append(t.entries, t.part.entry)
		}
		g.entries = append(g.entries, t.entries...)
		g.unsynced.add(t.entries)
		j.recycle(t.entries)
		if err != nil || !t.more || !t.patient || g.records >= limit.records || g.bytes >= limit.bytes {
			return err
		}
	}
}

// acknowledge notifies the owners of the group. In a mixed group, owners of entries acknowledged
// when written do not wait for the datasync. It returns the error of the datasync: then no owner of
// the others was notified.
func (j *Journal) acknowledge(tell func(batch)) error {
	g := &j.group
	written, rest := j.split(g.entries)
	g.entries = rest // the entries that fail if the sync below fails: split may have recycled the slice
	last := j.Assigned()
	if len(written) > 0 {
		b := batch{entries: written, written: true}
		if len(rest) == 0 {
			b.notified = last
		}
		tell(b)
	}
	j.mu.Lock()
	due, _ := j.syncDueLocked(time.Now())
	j.mu.Unlock()
	if len(rest) == 0 && !due {
		g.entries, g.records, g.bytes = rest, 0, 0
		return nil
	}
	if err := j.sync(last); err != nil {
		return err
	}
	g.entries, g.records, g.bytes = j.slice(), 0, 0
	tell(batch{entries: rest, notified: last, through: last})
	return nil
}

// split separates the entries acknowledged when written from those that wait for the datasync. An
// entry whose stream has an earlier one of the latter waits, too: the stream's profile has changed,
// and its written end must not pass records that are acknowledged when durable. Both parts keep the
// order of the group; one of them may be the group's own slice.
func (j *Journal) split(entries []*Entry) (written, rest []*Entry) {
	n := 0
	for _, e := range entries {
		if e.onWrite() {
			n++
		}
	}
	switch n {
	case 0:
		return nil, entries
	case len(entries):
		return entries, j.slice()
	}
	written, rest = j.slice(), j.slice()
	j.group.splits++
	for _, e := range entries {
		if e.onWrite() && (e.Stream.syncs != j.group.splits || j.opt.Broken.Has(WrittenFirst)) {
			written = append(written, e)
			continue
		}
		rest = append(rest, e)
		if e.Profile != nil {
			e.Stream.syncs = j.group.splits
		}
	}
	j.recycle(entries)
	return written, rest
}

// sync makes everything written so far durable; last is the LSN of the last written entry.
func (j *Journal) sync(last LSN) error {
	j.mu.Lock()
	j.asked = false // later requests may concern entries queued later
	j.mu.Unlock()
	start := time.Now()
	g := &j.group
	if err := g.file.sync(); err != nil {
		return err
	}
	took := time.Since(start)
	j.space.prepareAhead(g.file)
	g.syncTime += (took - g.syncTime) / 8
	j.durable.Store(uint64(last))
	j.steps.Add(1)
	if g.unsynced.entries > 0 {
		j.opt.Synced(GroupStats{Records: g.unsynced.records, Bytes: g.unsynced.bytes, Sync: took})
	}
	g.unsynced = unsynced{}
	return nil
}

// sync makes everything written durable. After the first error the file is dead: the kernel may
// have dropped the pages and would report the next attempt as a success.
func (f *file) sync() error {
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	if f.err != nil {
		return fmt.Errorf("%s: %w: %w", f.name, errDeadFile, f.err)
	}
	if err := f.f.Datasync(); err != nil {
		f.latchLocked(err)
		return fmt.Errorf("sync journal file: %w", err)
	}
	f.dirty = false
	f.durable.Store(f.begun)
	return nil
}

// latch remembers the first error of the file, after which it is neither written nor synced.
func (f *file) latch(err error) error {
	f.syncMu.Lock()
	defer f.syncMu.Unlock()
	f.latchLocked(err)
	return err
}

func (f *file) latchLocked(err error) {
	if f.err == nil {
		f.err = err
		f.failed.Store(!errors.Is(err, errClosed))
	}
}

// writeTaken writes the frames of the entries at the next block, with one write if they fit in the
// stage, and then ends the part, if any.
func (j *Journal) writeTaken(g *group, t taken) error {
	var total int64
	cached := t.part == nil // no owner waits for the disk
	for _, e := range t.entries {
		total += e.size()
		cached = cached && e.onWrite()
	}
	if t.part != nil {
		total += frameHeader
		g.file = t.part.file
	} else {
		f, err := j.space.fileFor(total+block, t.entries[0].LSN)
		if err != nil {
			return err
		}
		g.file = f
	}
	f, durable := g.file, j.Durable()
	g.stage.begin(f, f.off.Load(), total+block, cached)
	for i, e := range t.entries {
		var head [frameHeader]byte
		putFrame(head[:], e, f.salt, durable, t.part == nil && i == len(t.entries)-1)
		g.stage.add(head[:])
		g.stage.add(e.Payload)
		g.stage.add(zeros[:align(g.stage.pos(), 8)-g.stage.pos()])
		g.count(e)
	}
	if t.part != nil {
		g.count(t.part.entry)
		if !j.opt.Broken.Has(NoSkip) {
			g.putSkip(t.part, durable)
		}
	}
	err := f.write(&g.stage)
	if err == nil && t.part != nil {
		err = g.endPart(t.part, durable)
	}
	if err != nil {
		return fmt.Errorf("write %d journal entries: %w", len(t.entries), err)
	}
	j.steps.Add(1)
	return nil
}

func (g *group) count(e *Entry) {
	g.records += e.Records
	g.bytes += int64(len(e.Payload))
}

// zeros pad frames and blocks and fill new parts of files.
var zeros [64 << 10]byte
