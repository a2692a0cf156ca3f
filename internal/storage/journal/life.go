package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Fresh creates a file that holds no frame, with a sequence above every file and an LSN above every
// LSN seen, and makes its header durable. The journal must be stopped: before the first Resume, or
// after a failure was reported. minNext is the smallest LSN that may be assigned from now on.
//
// The caller must make the returned position its redo pointer, durably, and then call Resume: from
// then on no frame of an older file counts.
func (j *Journal) Fresh(minNext LSN) (Position, error) {
	j.mu.Lock()
	if j.state != stopped {
		j.mu.Unlock()
		return Position{}, fmt.Errorf("begin fresh file of journal %s: the journal is in use", j.opt.Dir)
	}
	if j.opt.Broken.Has(ReuseLSNs) {
		j.next = j.Durable() + 1
	}
	j.next = max(j.next, minNext)
	first := j.next
	j.mu.Unlock()

	s := &j.space
	s.names.Lock()
	defer s.names.Unlock()
	f, err := s.newFile(0)
	if err != nil {
		return Position{}, err
	}
	f.first, f.id = first, j.opt.ID
	err = f.writeHeader()
	if err == nil {
		err = f.sync()
	}
	if err != nil {
		s.discard(f)
		return Position{}, fmt.Errorf("begin journal file: %w", err)
	}
	s.begin(f)
	j.assigned.Store(uint64(first) - 1)
	j.durable.Store(uint64(first) - 1)
	j.notified.Store(uint64(first) - 1)
	return Position{File: f.seq, LSN: first}, nil
}

// Position is a position in the journal: a file and the first LSN that is needed.
type Position struct {
	File uint64
	LSN  LSN
}

// Resume lets the journal accept entries and releases all files older than the fresh one.
func (j *Journal) Resume() error {
	s := &j.space
	s.mu.Lock()
	if s.cur == nil {
		s.mu.Unlock()
		return fmt.Errorf("resume journal %s: it has no fresh file", j.opt.Dir)
	}
	fresh := s.cur
	s.mu.Unlock()
	s.release(^uint64(0))
	if err := s.reclaim(fresh); err != nil {
		return fmt.Errorf("resume journal: %w", err)
	}
	j.mu.Lock()
	if j.state == stopped {
		j.state = running
	}
	j.mu.Unlock()
	s.mu.Lock()
	s.wakePreparerLocked()
	s.mu.Unlock()
	return nil
}

// Release reports that no file before at.File is needed any longer: a checkpoint that names this
// position is durable. Release goes by files, not by frames: the named file may hold no needed
// frame while the header of its successor is not known to be durable.
func (j *Journal) Release(at Position) { j.space.release(at.File) }

// Missing returns the files in use that were removed: the next start would need them, and until
// then they can be written. It waits for the disk without a lock. A file that is released meanwhile
// may be removed, so only files that are in use before and afterwards count.
func (j *Journal) Missing() (gone []string) {
	for _, name := range j.space.inUse() {
		if _, err := j.opt.FS.Stat(j.space.path(name)); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	used := j.space.inUse()
	return slices.DeleteFunc(gone, func(name string) bool { return !slices.Contains(used, name) })
}

// Rotate makes the next write begin a new file, so that a clean stop leaves a journal whose needed
// part is empty. It waits until every written entry is durable and its owner has been notified: a
// checkpoint that names the new file must cover all acknowledged entries. Rotate fails if the
// journal has failed or fails meanwhile: the new file would otherwise declare lost entries durable.
// No entry may be queued, and no Owner may call Rotate. The caller must then call Resume or Close.
func (j *Journal) Rotate() (Position, error) {
	j.mu.Lock()
	for j.busy || j.notifying.Load() > 0 || j.state == running && j.group.unsynced.entries > 0 {
		if !j.asked {
			j.asked = true // written entries must not wait for their interval
			j.wakeWriter()
		}
		j.idle.Wait()
	}
	if j.state != running {
		j.mu.Unlock()
		return Position{}, fmt.Errorf("rotate journal %s: %w", j.opt.Dir, ErrStopped)
	}
	if j.waiting.entries > 0 {
		j.mu.Unlock()
		return Position{}, fmt.Errorf("rotate journal %s: entries are queued", j.opt.Dir)
	}
	j.state = stopped
	j.mu.Unlock()
	return j.Fresh(0)
}

// Oldest returns the redo pointer for a checkpoint that needs the frames from lsn on: the newest
// file that begins at or before lsn and whose header is known to be durable. A checkpoint must not
// name a file that a power loss could remove.
func (j *Journal) Oldest(lsn LSN) Position {
	s := &j.space
	s.mu.Lock()
	defer s.mu.Unlock()
	var at Position
	for _, f := range s.live {
		if at.File == 0 || f.first <= lsn && f.durable.Load() {
			at = Position{File: f.seq, LSN: lsn}
		}
	}
	return at
}

// SweepTarget returns the LSN through which frames must become unnecessary so that about half of
// the files in use can be released; 0 if only one is in use.
func (j *Journal) SweepTarget() LSN {
	s := &j.space
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.live) - 1 // the current file is never released
	if n <= 0 {
		return 0
	}
	// Use the start of the next file: a file that a large entry skipped holds no frame.
	return max(min(s.live[(n-1)/2+1].first-1, j.Notified()), 1)
}

// Used returns the size of the files in use, in bytes.
func (j *Journal) Used() int64 {
	j.space.mu.Lock()
	defer j.space.mu.Unlock()
	return j.space.usedLocked()
}

// Full reports whether entries wait for a Release.
func (j *Journal) Full() bool {
	j.space.mu.Lock()
	defer j.space.mu.Unlock()
	return j.space.fullLocked(j.opt.MaxBytes)
}

// Growth returns how many more bytes the journal may take of its file system.
func (j *Journal) Growth() int64 {
	s := &j.space
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.opt.MaxBytes + 2*s.opt.FileSize - s.usedLocked()
	if s.next != nil {
		n -= s.next.capacity
	}
	for _, f := range s.free {
		n -= f.size
	}
	return max(n, 0)
}

// Preparing returns how many bytes the journal will take of its file system without another entry:
// the parts of the current and next file that are not zeroed yet, and the next file if it is not
// prepared yet.
func (j *Journal) Preparing() (n int64) {
	s := &j.space
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil {
		return 0
	}
	for _, f := range []*file{s.cur, s.next} {
		if f != nil {
			n += max(f.capacity-f.zeroed.Load(), 0)
		}
	}
	switch {
	case s.next != nil:
	case len(s.free) > 0:
		n += max(s.opt.FileSize-s.free[len(s.free)-1].size, 0)
	default:
		n += s.opt.FileSize
	}
	return n
}

// Stalled returns why the journal cannot make space for entries, or nil if it can.
func (j *Journal) Stalled() error {
	j.space.mu.Lock()
	defer j.space.mu.Unlock()
	return j.space.lastErr
}
