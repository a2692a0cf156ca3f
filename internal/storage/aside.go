package storage

import (
	"errors"
	"fmt"
	"math"
	"path"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// aside keeps frames that no log takes now: those of logs that were found
// damaged, of logs whose files can't be written in this run, and of logs that
// nobody knows. They go to a file of their own, in the journal's frame format, so
// that they neither are lost nor hold the journal.
type aside struct {
	d     *Dir
	seq   uint64 // of the checkpoint before the one that will speak of the files
	files map[string]*asideFile
}

type asideFile struct {
	f   vfs.File
	end int64
}

func newAside(d *Dir) *aside {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return &aside{d: d, seq: d.ckptSeq, files: map[string]*asideFile{}}
}

// keep appends a frame to DIR/NAME-<checkpoint sequence>.frames and returns the
// file's name in DIR.
func (a *aside) keep(f *journal.Frame, dir, name string) (string, error) {
	base := asideName(name, a.seq)
	full := path.Join(dir, base)
	x := a.files[full]
	if x == nil {
		if err := a.d.opt.FS.MkdirAll(dir); err != nil {
			return "", fmt.Errorf("keep journal frames aside: %w", err)
		}
		_ = a.d.opt.FS.Remove(full) // of an earlier start that crashed here
		file, err := a.d.opt.FS.Create(full)
		if err != nil {
			return "", fmt.Errorf("keep journal frames aside: %w", err)
		}
		x = &asideFile{f: file}
		a.files[full] = x
		a.d.log.Error("journal holds frames that no partition takes now; they are kept aside", zap.String("file", full))
	}
	b := f.Encode(nil)
	if _, err := x.f.WriteAt(b, x.end); err != nil {
		return "", fmt.Errorf("keep journal frames aside: %w", err)
	}
	x.end += int64(len(b))
	return base, nil
}

func asideName(name string, seq uint64) string { return fmt.Sprintf("%s-%d.frames", name, seq) }

// close makes everything that was kept durable.
func (a *aside) close() error {
	var first error
	for name, x := range a.files {
		err := x.f.Datasync()
		if e := x.f.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = a.d.opt.FS.SyncDir(path.Dir(name))
		}
		if err != nil && first == nil {
			first = fmt.Errorf("keep journal frames aside: %w", err)
		}
	}
	return first
}

// asideFrames are the frames of a log in a file of their own: what the journal holds of
// it beyond the recovery point. Neither this process nor a start needs the journal for
// the log then.
type asideFrames struct {
	name string      // of the file, in the log directory
	end  int64       // of the last frame
	lsn  journal.LSN // no frame of the journal up to it counts
}

// asideCopy is one log whose frames are being copied.
type asideCopy struct {
	found
	oldest journal.LSN
	need   int64 // where the frames must lead
	name   string
}

// copyAside copies what the journal holds of logs whose segments fail, each into a file
// of its own, with one pass over the journal: the logs are repaired from there, and do
// not keep the journal from being freed meanwhile. A log with something in flight
// is left for the next time. A log of which the journal doesn't hold everything
// goes offline for good. flushMu of the logs must not be held.
func (d *Dir) copyAside(logs []*Log) error {
	copies, from := map[ID]*asideCopy{}, journal.LSN(math.MaxUint64)
	for _, l := range logs {
		if c := l.beginAside(); c != nil {
			defer l.endAside()
			copies[l.id], from = c, min(from, c.oldest)
		}
	}
	if len(copies) == 0 {
		return nil
	}
	w := newAside(d)
	err := d.journal.Read(d.journal.Oldest(from), d.journal.Notified(), func(fr journal.Frame) error {
		c := copies[fr.Stream]
		if c == nil || c.err != nil || fr.LSN < c.oldest || fr.NextEnd <= c.lc.rp.offset {
			return nil
		}
		if c.err = c.extend(&fr); c.err != nil {
			return nil
		}
		var err error
		c.name, err = w.keep(&fr, d.path, c.l.String())
		return err
	})
	if e := w.close(); e != nil {
		return e
	}
	if err != nil && !errors.Is(err, journal.ErrDamaged) { // a file that failed may have lost what was only written
		return err
	}
	for _, c := range copies {
		c.finish(d)
	}
	return nil
}

// beginAside takes the locks under which frames are copied, and says which; nil if
// there is nothing to copy or this is not the moment.
func (l *Log) beginAside() *asideCopy {
	if !l.tryOwn() {
		return nil
	}
	l.flushMu.Lock()
	entry, oldest := l.checkpointed()
	l.mu.RLock()
	need, n := l.flushed, len(l.tail.chunks)
	usable := l.failure != nil && l.offline == nil && !l.closed
	inFlight := l.carrying || n > 0 && !l.tail.chunks[n-1].ready
	if n > l.tail.flushed {
		need = l.tail.chunks[n-1].next
	}
	l.mu.RUnlock()
	if usable && !inFlight && oldest != math.MaxUint64 {
		return &asideCopy{found: found{l: l, lc: &entry, end: entry.rp.offset}, oldest: oldest, need: need}
	}
	l.endAside()
	l.dir.journal.Sync() // what is in flight comes to its end
	return nil
}

func (l *Log) endAside() {
	l.flushMu.Unlock()
	l.disown()
}

// finish notes that the frames are aside, or that they are lost.
func (c *asideCopy) finish(d *Dir) {
	if c.err == nil && c.end < c.need {
		c.err = fmt.Errorf("%w: segment and journal failed, so that acknowledged records of [%d, %d) are lost", ErrCorrupt, c.end, c.need)
	}
	l := c.l
	l.mu.Lock()
	if c.err == nil {
		l.aside = &asideFrames{name: c.name, end: c.end, lsn: d.journal.Assigned()}
	} else {
		c.lc.offline = c.err.Error()
		c.lc.rp.lsn = math.MaxInt64
		l.asFound = c.lc
	}
	l.mu.Unlock()
	if c.err != nil {
		l.goOffline(c.err)
	}
}
