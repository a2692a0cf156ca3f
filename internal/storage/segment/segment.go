package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// LogSuffix ends the name of a segment's file of batches.
const LogSuffix = ".log"

// Name returns the name without suffix of the segment with a base offset:
// twenty digits, as Kafka names it.
func Name(base int64) string { return fmt.Sprintf("%020d", base) }

// ParseName returns the base offset in the name of a .log file.
func ParseName(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, LogSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0
}

// Segment is one file of batches. One goroutine at a time may call the methods
// that change it; readers may call Find, Read and the lookups at any time.
type Segment struct {
	base  int64
	dir   string
	files *Files

	stage    atomic.Int32 // what the file is called
	moving   atomic.Bool  // it is being renamed
	replaced atomic.Bool  // what stands at the path is another segment's, or about to be

	size   atomic.Int64 // readable bytes
	synced atomic.Int64 // bytes that a datasync has covered
	err    atomic.Pointer[error]

	examining sync.Mutex // held by Examine; before all others
	saving    sync.Mutex // held while the index files are written or removed; before mu
	unindexed bool       // they were removed for good; guarded by saving

	mu        sync.Mutex // guards what follows; never held across a call to the disk
	x         *index     // nil: not in memory
	appending bool       // x stays in memory
	stale     bool       // the index files must not be read
	changes   int        // counts appends, cuts, builds and distrust
	maxTs     int64      // -1: none
	maxAt     int64      // last offset of the batch with maxTs
	known     bool       // x, or its files, and maxTs and maxAt are those of the whole file
	since     int        // bytes appended since the last index entry
	first     first
	cached    cached // of Files.indexes, which guards it

	allocated bool  // the file is longer than its batches
	backed    int64 // bytes that are on their way to the disk, or there; of whoever appends

	begun  time.Time // by this process: it was made or opened then
	chance float64   // 0 to 1: which part of the jitter it rolls earlier

	flaws  atomic.Pointer[[]Flaw] // that reads met; replaced with mu held
	places places
	ahead  atomic.Int64 // up to where the system was asked to read (reading.read)
}

// Create makes the files of a new segment in dir. The caller syncs dir before
// anything in the segment is acknowledged.
func Create(files *Files, dir string, base int64, preallocate int64) (*Segment, error) {
	return create(files, dir, base, preallocate, false)
}

// Renew is Create for a start: a file of that name, which the crash left, nobody reads,
// and nothing in it counts, be it that it comes back; so it is emptied instead of removed.
// ext4 without a journal makes files slowly where it has just removed as many.
func Renew(files *Files, dir string, base int64, preallocate int64) (*Segment, error) {
	return create(files, dir, base, preallocate, true)
}

func create(files *Files, dir string, base, preallocate int64, renew bool) (*Segment, error) {
	s := newSegment(files, dir, base)
	h, err := s.create(renew)
	if err != nil {
		return nil, err
	}
	defer files.release(h)
	if err := s.removeFiles(suffixes[1:]); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if preallocate > 0 {
		if err := h.f.Allocate(0, preallocate); err != nil {
			return nil, fmt.Errorf("create segment: %w", err)
		}
		s.allocated = true
	}
	s.x, s.known, s.appending = &index{}, true, true
	return s, nil
}

// create makes the file of batches.
func (s *Segment) create(renew bool) (*handle, error) {
	s.files.forget(s.Path())
	h, err := s.files.acquire(s.Path(), true)
	// What is there was left by a crash or a failed attempt; nothing in it counts.
	switch {
	case errors.Is(err, fs.ErrExist) && renew:
		if h, err = s.files.acquire(s.Path(), false); err == nil {
			if err = h.f.Truncate(0); err != nil {
				s.files.release(h)
			}
		}
	case errors.Is(err, fs.ErrExist):
		if err = s.files.fs.Remove(s.Path()); err == nil {
			h, err = s.files.acquire(s.Path(), true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	return h, nil
}

// Open returns the segment that stands in dir, of which the first size bytes
// count. It opens no descriptor.
func Open(files *Files, dir string, base, size int64) *Segment {
	s := newSegment(files, dir, base)
	s.size.Store(size)
	s.synced.Store(size)
	return s
}

func newSegment(files *Files, dir string, base int64) *Segment {
	return &Segment{base: base, dir: dir, files: files, maxTs: -1, maxAt: -1, begun: time.Now(), chance: rand.Float64()}
}

// Base returns the offset that the segment is named after.
func (s *Segment) Base() int64 { return s.base }

// Size returns the bytes that may be read.
func (s *Segment) Size() int64 { return s.size.Load() }

// Synced returns the bytes that a datasync has covered.
func (s *Segment) Synced() int64 { return s.synced.Load() }

// Path returns the path of the file of batches.
func (s *Segment) Path() string { return s.stem() + stages[s.stage.Load()] }

// ProducersPath returns the path of the file of producers.
func (s *Segment) ProducersPath() string { return s.stem() + ProducersSuffix }

func (s *Segment) stem() string { return path.Join(s.dir, Name(s.base)) }

// Err returns the first failed write or datasync, after which the file is dead.
func (s *Segment) Err() error {
	if p := s.err.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *Segment) latch(err error) error {
	s.err.CompareAndSwap(nil, &err)
	return err
}

// Append writes chunks of whole batches, in order, with one vectored write, and
// then makes them readable. After a failed write the segment is dead; bytes before
// the append remain readable. A file that can't be opened kills nothing.
func (s *Segment) Append(chunks [][]byte, indexInterval int) error {
	return s.append(chunks, indexInterval, vfs.File.WriteVecAt)
}

// AppendOnce is Append of many bytes that nobody is expected to read soon: they
// need not stay in the system's memory.
func (s *Segment) AppendOnce(chunks [][]byte, indexInterval int) error {
	return s.append(chunks, indexInterval, vfs.WriteVecOnce)
}

func (s *Segment) append(chunks [][]byte, indexInterval int, write func(vfs.File, [][]byte, int64) (int, error)) error {
	if err := s.Err(); err != nil {
		return err
	}
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("append to segment: %w", err)
	}
	defer s.files.release(h)
	if err := s.files.latched(h); err != nil {
		return s.latch(err)
	}
	s.learn(h)
	s.files.setDirty(h, true)
	at := s.Size()
	n, err := write(h.f, chunks, at)
	if err != nil {
		return s.latch(fmt.Errorf("append to segment: %w", err))
	}
	s.note(chunks, at, indexInterval)
	s.writeBack(h, at+int64(n))
	return nil
}

// backAt is how many bytes are sent to the disk together, ahead of the next sync.
// Without that a segment that is written to fast has hundreds of megabytes to sync
// when a sweep comes to it, and the journal's datasyncs wait behind them.
const backAt = 1 << 20

// writeBack starts to write what was appended, but for the last page, which the
// next append may go on with.
func (s *Segment) writeBack(h *handle, end int64) {
	const page = 4 << 10
	if s.backed = max(s.backed, s.Synced()/page*page); end-s.backed >= backAt {
		vfs.StartWriteback(h.f, s.backed, end/page*page-s.backed)
		s.backed = end / page * page
	}
}

// Sync makes the batches durable and saves the indexes. It is a no-op where
// nothing was appended since the last one and the indexes are saved. After an error the segment is dead.
func (s *Segment) Sync() error {
	if err := s.SyncBatches(); err != nil {
		return err
	}
	s.saveIndex()
	return nil
}

// SyncBatches is Sync that leaves the indexes to the next one: they are two more files
// to make, which of 10,000 segments takes longer than their datasyncs.
func (s *Segment) SyncBatches() error {
	if err := s.Err(); err != nil {
		return err
	}
	size := s.Size()
	if s.synced.Load() >= size && size > 0 {
		return nil
	}
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	defer s.files.release(h)
	if err := s.datasync(h); err != nil {
		return err
	}
	s.synced.Store(size)
	return nil
}

// datasync latches its error, and that of a datasync before closing.
func (s *Segment) datasync(h *handle) error {
	err := s.files.latched(h)
	if err == nil {
		if err = h.f.Datasync(); err != nil {
			err = fmt.Errorf("sync segment: %w", err)
		}
	}
	if err != nil {
		s.err.Store(&err)
		return err
	}
	s.files.setDirty(h, false)
	return nil
}

// Seal is called when the next segment begins: the last timestamp enters the
// time index, space that was allocated and not used is given back, and
// everything is synced.
func (s *Segment) Seal() error {
	if err := s.seal(); err != nil {
		return err
	}
	s.sealed()
	return nil
}

func (s *Segment) seal() error {
	s.mu.Lock()
	s.noteTime()
	s.mu.Unlock()
	if !s.allocated || s.Err() != nil {
		return s.Sync()
	}
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("seal segment: %w", err)
	}
	defer s.files.release(h)
	if err := h.f.Truncate(s.Size()); err != nil {
		return s.latch(fmt.Errorf("seal segment: %w", err))
	}
	s.allocated = false
	s.synced.Store(min(s.Synced(), s.Size()-1)) // the size is not
	return s.Sync()
}

// Cut shortens the file to size bytes, which end where offset next begins, and
// syncs it. A dead file can be cut to what is synced.
func (s *Segment) Cut(size, next int64) error {
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("cut segment: %w", err)
	}
	defer s.files.release(h)
	if err := s.files.latched(h); err != nil && size > s.Synced() {
		return s.latch(err)
	}
	s.size.Store(size)
	s.backed = min(s.backed, size)
	defer s.places.forget()
	if err := h.f.Truncate(size); err != nil {
		return s.latch(fmt.Errorf("cut segment: %w", err))
	}
	if err := h.f.Datasync(); err != nil {
		return s.latch(fmt.Errorf("cut segment: %w", err))
	}
	s.files.setDirty(h, false)
	s.synced.Store(size)
	s.allocated = false
	err = s.cutIndex(size, next)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutFlawsLocked(size)
	if s.maxAt >= next {
		s.maxTs, s.maxAt, s.known = -1, -1, false
	}
	if size == 0 {
		s.maxTs, s.maxAt, s.first, s.since, s.known = -1, -1, first{}, 0, true
	}
	return err
}

// Forget closes the segment's descriptor, if it is open: the file is about to be
// renamed or removed by others.
func (s *Segment) Forget() { s.files.forget(s.Path()) }

// Remove deletes the segment's files; those that are missing are no error.
func (s *Segment) Remove() error {
	s.files.forget(s.Path())
	s.forgetIndex()
	s.saving.Lock()
	defer s.saving.Unlock()
	s.unindexed = true
	if err := s.removeFiles(suffixes[:]); err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	return nil
}
