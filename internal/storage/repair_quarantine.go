package storage

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Quarantine stores frames that no log can accept now, in files in the journal's frame format:
// those of damaged logs, of logs whose files cannot be written in this run, and of unknown logs.
// The frames are not lost, and the journal can release its files.
type Quarantine struct {
	d     *Dir
	seq   uint64 // of the checkpoint before the one that will name the files
	files map[string]*quarantineFile
}

type quarantineFile struct {
	f   vfs.File
	end int64
}

func newQuarantine(d *Dir) *Quarantine {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return &Quarantine{d: d, seq: d.last.Seq, files: map[string]*quarantineFile{}}
}

// Add appends a frame to the file of its log in the log directory. It returns the file's name, for
// checkpoint.Log.QuarantineFile.
func (a *Quarantine) Add(f *journal.Frame) (string, error) {
	return a.addIn(a.d.path, f, stem(f.Stream))
}

// addIn appends a frame to DIR/NAME-<checkpoint sequence>.frames and returns the file's name in
// DIR.
func (a *Quarantine) addIn(dir string, f *journal.Frame, name string) (base string, err error) {
	base = framesName(name, a.seq)
	defer func() {
		if err != nil {
			err = fmt.Errorf("quarantine journal frames: %w", err)
		}
	}()
	full := path.Join(dir, base)
	x := a.files[full]
	if x == nil {
		if err := a.d.opt.FS.MkdirAll(dir); err != nil {
			return "", err
		}
		_ = a.d.opt.FS.Remove(full) // an earlier start that crashed may have left it
		file, err := a.d.opt.FS.Create(full)
		if err != nil {
			return "", err
		}
		x = &quarantineFile{f: file}
		a.files[full] = x
		a.d.log.Error("journal frames quarantined: no partition can take them now; see chronikctl cluster health", zap.String("file", full))
	}
	b := f.Encode(nil)
	_, err = x.f.WriteAt(b, x.end)
	x.end += int64(len(b))
	return base, err
}

// discard removes the files, which no checkpoint names.
func (a *Quarantine) discard() {
	for name := range a.files {
		_ = a.d.opt.FS.Remove(name) // after an error the next start removes it
	}
}

// Close makes the files durable and closes them.
func (a *Quarantine) Close() error {
	var first error
	for name, x := range a.files {
		if err := cmp.Or(x.f.Datasync(), x.f.Close(), a.d.opt.FS.SyncDir(path.Dir(name))); err != nil && first == nil {
			first = fmt.Errorf("quarantine journal frames: %w", err)
		}
	}
	return first
}

// quarantineFrames is the quarantine file of a log. It holds all frames of the log beyond the
// recovery point, so that neither this process nor a recovery needs the journal for the log. The
// chunks in memory are then only a cache.
type quarantineFrames struct {
	name string      // of the file, in the log directory
	lsn  journal.LSN // frames of the journal up to it no longer count for the log
}

// quarantineCopy is one log whose frames are being copied.
type quarantineCopy struct {
	found
	oldest journal.LSN
	name   string
}

// quarantineLogs copies the journal's frames of logs with failed segments into one file for each
// log, with one pass over the journal. replayQuarantine repairs the logs from these files later;
// until then they pin neither the journal nor memory. Appends to logs out of use that wait in the
// journal's queue are rolled back. It returns an error for each log that has frames to copy and has
// no file. The error matches errInFlight if appends or writes in flight must end first. The caller
// must not hold flushMu of the logs.
func (d *Dir) quarantineLogs(logs []*Log) map[*Log]error {
	copies, errs := map[ID]*quarantineCopy{}, map[*Log]error{}
	defer func() {
		for _, c := range copies {
			c.l.unlockFromQuarantine()
		}
	}()
	for _, l := range logs {
		if c, err := l.lockForQuarantine(); c != nil {
			copies[l.id] = c
		} else if err != nil {
			errs[l] = err
		}
	}
	if len(copies) == 0 {
		return errs
	}
	if err := d.quarantine(copies); err != nil {
		for _, c := range copies {
			errs[c.l] = err
		}
		return errs
	}
	for _, c := range copies {
		c.finish(d.journal.Assigned())
	}
	return errs
}

// quarantine makes the files of copies. There is one file for each, or none after an error.
func (d *Dir) quarantine(copies map[ID]*quarantineCopy) error {
	if err := d.hasRoom(sizeOf(copies)); err != nil {
		return err
	}
	from := journal.LSN(math.MaxUint64)
	for _, c := range copies {
		from = min(from, c.oldest)
	}
	w := newQuarantine(d)
	var err error
	unread := d.journal.Read(d.journal.Oldest(from), d.journal.Notified(), func(fr journal.Frame) error {
		if c := copies[fr.Stream]; c != nil && c.err == nil && fr.LSN >= c.oldest && fr.NextEnd > c.end {
			err = c.copy(w, &fr)
		}
		return err
	})
	// A failed journal file may lack frames that were written and not synced, or may be unreadable,
	// while memory still holds them. If memory lacks them too, only frames that are known to be
	// damaged are given up.
	for _, c := range copies {
		if err == nil && c.err == nil {
			err = c.takeMemory(w)
		}
		if err == nil && unread != nil && !errors.Is(unread, journal.ErrDamaged) && (c.err != nil || c.end < c.l.logEnd.Load()) {
			err = unread
		}
	}
	if err = cmp.Or(err, w.Close()); err != nil {
		w.discard()
		return err
	}
	return nil
}

// sizeOf returns about how many bytes the frames beyond the recovery points of logs have. Then a
// full disk does not cost reading them.
func sizeOf(copies map[ID]*quarantineCopy) (n int64) {
	for _, c := range copies {
		n += max(c.l.Size()-c.lc.Point.Bytes(), 0)
	}
	return n
}

// lockForQuarantine takes the locks under which a log's frames are copied, and returns the copy
// to make. It returns none, without the locks, if the log has no frames to copy, or errInFlight. It
// does not wait for a deletion, which holds flushMu of its logs and may itself wait for logs that
// this caller has locked.
func (l *Log) lockForQuarantine() (*quarantineCopy, error) {
	if !l.is(loglife.Quarantine) {
		return nil, nil
	}
	inFlight := fmt.Errorf("quarantine the frames of %s: %w", l, errInFlight)
	if !l.tryAcquireCommit() {
		return nil, inFlight
	}
	l.flushMu.Lock()
	if cause := l.Err(); cause != nil {
		l.revertQueued(cause)
	}
	entry, oldest := l.checkpointed(true)
	switch {
	case !l.is(loglife.Quarantine):
		inFlight = nil
	case l.inFlight():
		l.dir.journal.Sync() // completes them
	case oldest == math.MaxUint64:
		inFlight = nil
	default:
		return &quarantineCopy{found: found{l: l, Follower: *Follow(&entry)}, oldest: oldest}, nil
	}
	l.unlockFromQuarantine()
	return nil, inFlight
}

func (l *Log) unlockFromQuarantine() {
	l.flushMu.Unlock()
	l.releaseCommit()
}

// copy copies a frame. It returns only errors of writing the copy; a frame that does not continue
// the log sets c.err, which ends the copying of this log.
func (c *quarantineCopy) copy(w *Quarantine, fr *journal.Frame) error {
	if c.err = c.Take(fr); c.err != nil {
		return nil
	}
	var err error
	c.name, err = w.Add(fr)
	return err
}

// takeMemory copies what follows the frames in memory; usually there is nothing. It may begin
// within a chunk, to which frames that could not be read were joined. The chunks are retained,
// because eviction may release them at the same time.
func (c *quarantineCopy) takeMemory(w *Quarantine) error {
	c.l.mu.RLock()
	rest := slices.Clone(c.l.tail.chunks[c.l.tail.find(c.end):])
	for _, k := range rest {
		k.buf.Retain()
	}
	c.l.mu.RUnlock()
	defer func() {
		for _, k := range rest {
			k.buf.Release()
		}
	}()
	for _, k := range rest {
		fr := journal.Frame{Stream: c.l.id, Type: journal.Batches, LSN: k.last, PrevEnd: k.base, NextEnd: k.next, Payload: k.data}
		if k.base < c.end {
			fr.PrevEnd, fr.Payload = c.end, k.data[k.batchAt(c.end):]
		}
		if k.gap {
			fr.Type, fr.Epoch = journal.Gap, c.l.storedEpoch(k.epoch)
		}
		if err := c.copy(w, &fr); err != nil || c.err != nil {
			return err
		}
	}
	return nil
}

// finish records that the frames are quarantined. If some are lost, the log goes offline
// permanently: its segment and the journal have both failed.
func (c *quarantineCopy) finish(lsn journal.LSN) {
	l := c.l
	if end := l.logEnd.Load(); c.err == nil && c.end < end {
		c.err = fmt.Errorf("%w: the journal lacks acknowledged records of [%d, %d)", ErrCorrupt, c.end, end)
	}
	if c.err != nil {
		l.giveUp(c.lc, c.err)
		return
	}
	l.mu.Lock()
	l.applyEventLocked(loglife.FramesQuarantined, nil)
	l.life.quarantine = &quarantineFrames{name: c.name, lsn: lsn}
	bytes := l.tail.cacheAll()
	l.mu.Unlock()
	l.dir.memory.flushed(l, bytes) // readers use it until the memory is needed
}
