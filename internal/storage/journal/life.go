package journal

import "fmt"

// Fresh prepares a file that no frame was ever put in, above every file and
// LSN seen, and makes its header durable. The journal must stand still: before
// the first Resume, or after a failure was told. minNext is the smallest LSN that
// may be given from now on.
//
// The caller makes the returned position its redo pointer, durably, and then
// calls Resume: no frame of an older file counts any more.
func (j *Journal) Fresh(minNext LSN) (Position, error) {
	j.mu.Lock()
	if j.state != stopped {
		j.mu.Unlock()
		return Position{}, fmt.Errorf("journal %s: a fresh file was asked for while it is in use", j.opt.Dir)
	}
	if j.opt.Broken.has(Reuse) {
		j.next = j.Durable() + 1
	}
	j.next = max(j.next, minNext)
	first := j.next
	j.mu.Unlock()

	s := &j.space
	s.names.Lock()
	defer s.names.Unlock()
	f, err := s.make(0)
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

// Position is a place in the journal: a file and the first LSN that matters.
type Position struct {
	File uint64
	LSN  LSN
}

// Resume lets entries in. Files older than the fresh one are given up.
func (j *Journal) Resume() error {
	s := &j.space
	s.mu.Lock()
	if s.cur == nil {
		s.mu.Unlock()
		return fmt.Errorf("journal %s: no fresh file", j.opt.Dir)
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
	s.kickLocked()
	s.mu.Unlock()
	return nil
}

// Release says that no file before the one at a position is needed any more: a
// checkpoint that names this position is durable. Files go by the one that is
// named and not by their frames: the one named may hold none that is needed,
// while its successor's header is not known durable yet.
func (j *Journal) Release(at Position) { j.space.release(at.File) }

// Rotate makes the next write begin a file of its own, so that a clean stop
// leaves a journal whose needed part is empty. It waits for the group that is
// being written, until what is written is durable, and until every owner of an earlier one was told: a checkpoint that names
// the new file must cover all that is acknowledged. It fails where the journal has failed, before
// or meanwhile: that file would say of what was lost that it is durable. Nothing may be queued, and
// no Owner may call it. Resume must follow, or Close.
func (j *Journal) Rotate() (Position, error) {
	j.mu.Lock()
	for j.busy || j.telling.Load() > 0 || j.state == running && j.group.unsynced.entries > 0 {
		if !j.asked {
			j.asked = true // what is written shall not wait for its interval
			j.poke()
		}
		j.idle.Wait()
	}
	if j.state != running {
		j.mu.Unlock()
		return Position{}, fmt.Errorf("journal %s can't begin a new file: %w", j.opt.Dir, ErrStopped)
	}
	if j.waiting.entries > 0 {
		j.mu.Unlock()
		return Position{}, fmt.Errorf("journal %s: entries wait, so that it can't begin a new file", j.opt.Dir)
	}
	j.state = stopped
	j.mu.Unlock()
	return j.Fresh(0)
}

// Oldest returns the redo pointer for a checkpoint that needs the frames from
// lsn on: the newest file that begins at or before lsn, and whose header is known
// to be on the disk; one that a power loss may take back must not be named.
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

// SweepTarget returns the LSN through which frames should become unnecessary so
// that about half of the files in use can be given up; 0 if only one is in use.
func (j *Journal) SweepTarget() LSN {
	s := &j.space
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.live) - 1 // the current one is never given up
	if n <= 0 {
		return 0
	}
	// By where the next file begins: one that was passed over by a large entry holds no frame.
	return max(min(s.live[(n-1)/2+1].first-1, j.Notified()), 1)
}

// Used returns the bytes of the files that are in use.
func (j *Journal) Used() int64 {
	j.space.mu.Lock()
	defer j.space.mu.Unlock()
	return j.space.usedLocked()
}

// Full reports whether entries wait for a Release.
func (j *Journal) Full() bool { return j.Used()+j.opt.FileSize > j.opt.MaxBytes }

// Growth returns how many bytes the journal may yet take of its file system.
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

// Preparing returns how many bytes the journal takes of its file system without
// another entry: what the files that are in use and next have not been zeroed of yet,
// and a next one that nobody has begun.
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

// Stalled returns why the journal cannot make room for entries, nil if it can.
func (j *Journal) Stalled() error { return j.space.stalled() }
