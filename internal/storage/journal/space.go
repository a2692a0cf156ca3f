package journal

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/chronik-io/chronik/internal/vfs"
)

const suffix = ".journal"

func fileName(seq uint64) string { return fmt.Sprintf("%020d%s", seq, suffix) }

// parseName returns the sequence in a journal file's name.
func parseName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil
}

const (
	zeroStep  = 256 << 10 // bytes of zeros between two datasyncs of the current file
	zeroAhead = 8 << 20   // how far the zeros of the current file extend beyond the frames
)

// space owns the journal's files: those that hold needed entries, those that can be overwritten,
// and the next one. Its preparer goroutine prepares space ahead of the writer, so that neither a
// rename nor writing zeros delays a group.
type space struct {
	opt          *Options
	wakeWriter   func()      // wakes the writer: there may be space now
	smallTraffic func() bool // see Journal.SmallTraffic

	// names is held while files are named, renamed and collected for reuse: by the preparer, Fresh
	// and Resume. The writer never takes it.
	names vfs.Mutex

	mu      sync.Mutex
	live    []*file // oldest first; the last one is cur unless cur is nil
	cur     *file   // the current file; nil before the first Fresh, and after a failure until Fresh
	next    *file   // prepared: named, and zeroed if it is new
	free    []spare // no longer needed
	maxSeq  uint64
	want    int64 // bytes that the next file must hold; more than FileSize for a large entry
	reach   int64 // position to which the current file must be zeroed for what waits
	lastErr error // why the preparer could not make space
	ended   bool

	wake chan struct{} // capacity 1: the preparer has work
	quit chan struct{} // closed by stop: the preparer ends
}

// spare is a file whose frames are no longer needed.
type spare struct {
	name string
	size int64
}

func (s *space) init(opt *Options, wakeWriter func(), smallTraffic func() bool) error {
	s.opt, s.wakeWriter, s.smallTraffic = opt, wakeWriter, smallTraffic
	s.wake, s.quit = make(chan struct{}, 1), make(chan struct{})
	infos, err := opt.FS.List(opt.Dir)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	for _, in := range infos {
		if seq, ok := parseName(in.Name); ok {
			s.maxSeq = max(s.maxSeq, seq)
		}
	}
	return nil
}

func (s *space) path(name string) string { return path.Join(s.opt.Dir, name) }

// fits reports whether n bytes can be written now, with limit bytes of files in use at most. If
// not, it has requested everything that helps, and a call of wakeWriter follows.
func (s *space) fits(n, limit int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == nil || s.cur.dead() {
		return true // the write will return the reason
	}
	used := s.usedLocked()
	if s.cur.off.Load()+n <= s.cur.capacity && used <= limit {
		if s.cur.off.Load()+n <= s.cur.zeroed.Load() {
			return true
		}
		s.reach = max(s.reach, s.cur.off.Load()+n) // may be more than zeroAhead away
		s.wakePreparerLocked()
		return false
	}
	if s.fullLocked(limit) {
		s.opt.Sweep()
		return false
	}
	if s.next != nil && dataStart+n <= s.next.zeroed.Load() {
		return true
	}
	s.want = max(s.want, dataStart+n)
	s.wakePreparerLocked()
	return false
}

// stuck reports whether only others can make space: by a Release, or by freeing space on the disk.
func (s *space) stuck() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastErr != nil || s.fullLocked(s.opt.MaxBytes)
}

// fullLocked reports whether the next file must wait for a Release, with limit bytes of files in
// use at most. A Release never frees the current file, which a large entry may have made as large
// as the limit. If it is the only one, the next file does not wait.
func (s *space) fullLocked(limit int64) bool {
	return (len(s.live) > 1 || s.opt.Broken.Has(CountCurrent)) && s.usedLocked()+s.opt.FileSize > limit
}

func (s *space) usedLocked() (n int64) {
	for _, f := range s.live {
		n += f.capacity
	}
	return n
}

// inUse returns the names of the files that hold needed entries, or may.
func (s *space) inUse() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.live))
	for _, f := range s.live {
		names = append(names, f.name)
	}
	return names
}

func (s *space) wakePreparerLocked() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fileFor returns the current file for the next n bytes, and makes the next file the current one if
// necessary. fits must have returned true. Only the busy goroutine calls it.
func (s *space) fileFor(n int64, first LSN) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.cur
	if cur == nil {
		return nil, ErrStopped
	}
	if cur.off.Load()+n <= min(cur.capacity, cur.zeroed.Load()) {
		return cur, nil
	}
	if s.next == nil {
		return nil, fmt.Errorf("no journal file is prepared: %w", s.lastErr)
	}
	s.mu.Unlock()
	err := cur.end()
	s.mu.Lock()
	if err != nil {
		return nil, err
	}
	s.next.first, s.next.id = first, s.opt.ID
	s.setCurrentLocked(s.next)
	if s.usedLocked() >= s.opt.MaxBytes/2 {
		s.opt.Sweep()
	}
	s.wakePreparerLocked()
	return s.cur, nil
}

// setCurrentLocked makes f the current file.
func (s *space) setCurrentLocked(f *file) {
	f.off.Store(dataStart)
	s.live = append(s.live, f)
	s.cur, s.next, s.want, s.reach = f, nil, 0, 0
}

// begin makes f, whose header is durable, the current file after Fresh. The caller must hold names.
func (s *space) begin(f *file) {
	s.mu.Lock()
	cur, next := s.cur, s.next
	s.setCurrentLocked(f)
	s.lastErr = nil
	s.mu.Unlock()
	if cur != nil {
		_ = cur.close() // everything in it is durable: the journal was stopped
	}
	if next != nil {
		s.dispose(next)
	}
}

// prepareAhead wakes the preparer after a sync of the current file, long before the writer would
// have to wait for it. Only the busy goroutine calls it.
func (s *space) prepareAhead(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if off := f.off.Load(); f.zeroed.Load() < min(f.capacity, off+zeroAhead/2) || s.next == nil && off > f.capacity/4 {
		s.wakePreparerLocked()
	}
}

// abandon stops using the current file after a failure.
func (s *space) abandon() {
	s.mu.Lock()
	cur := s.cur
	s.cur = nil
	s.mu.Unlock()
	if cur != nil {
		_ = cur.latch(errDeadFile)
		_ = cur.close() // nothing is written to it again
	}
}

// release releases the files with a sequence below before, except the current one.
func (s *space) release(before uint64) {
	s.mu.Lock()
	var gone []*file
	for len(s.live) > 0 && s.live[0] != s.cur && s.live[0].seq < before {
		gone = append(gone, s.live[0])
		s.live = s.live[1:]
	}
	s.mu.Unlock()
	for _, f := range gone {
		s.retire(f.name, f.zeroed.Load(), f.dead() || f.capacity != s.opt.FileSize)
	}
	s.wakeWriter()
}

// retire keeps a file for reuse, or removes it.
func (s *space) retire(name string, size int64, remove bool) {
	s.mu.Lock()
	keep := int64(len(s.free)+len(s.live)+1)*s.opt.FileSize <= s.opt.MaxBytes
	if !remove && keep {
		s.free = append(s.free, spare{name: name, size: size})
	}
	s.mu.Unlock()
	if remove || !keep {
		// A file that could not be removed only takes up space: its sequence is below the first
		// needed one, and the next start tries again.
		_ = s.opt.FS.Remove(s.path(name))
	}
}

// reclaim retires every file that is older than the fresh one and not in use.
func (s *space) reclaim(fresh *file) error {
	s.names.Lock()
	defer s.names.Unlock()
	infos, err := s.opt.FS.List(s.opt.Dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := map[string]bool{}
	for _, f := range s.live {
		known[f.name] = true
	}
	for _, f := range s.free {
		known[f.name] = true
	}
	if s.next != nil {
		known[s.next.name] = true
	}
	s.mu.Unlock()
	for _, in := range infos {
		if seq, ok := parseName(in.Name); ok && !known[in.Name] && seq < fresh.seq {
			s.retire(in.Name, in.Size, in.Size > s.opt.FileSize)
		}
	}
	return nil
}

// stop ends the preparer.
func (s *space) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.quit)
	}
}

func (s *space) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, f := range []*file{s.cur, s.next} {
		if f != nil {
			if e := f.close(); e != nil && err == nil {
				err = e
			}
		}
	}
	return err
}
