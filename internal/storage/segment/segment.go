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

// Name returns the name, without suffix, of the segment with a base offset: twenty digits, as in
// Kafka.
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

// ParseAborted returns the base offset in the name of an index of aborted transactions.
func ParseAborted(name string) (int64, bool) {
	stem, ok := strings.CutSuffix(name, AbortedSuffix)
	if !ok {
		return 0, false
	}
	return ParseName(stem + LogSuffix)
}

// Segment is one file of batches. One goroutine at a time may call the methods that change it;
// readers may call ReadInto and the lookups at any time.
type Segment struct {
	base  int64
	dir   string
	files *Files

	stage    atomic.Int32 // index in stages of the suffix of the file's name
	renaming atomic.Bool  // the file is being renamed
	replaced atomic.Bool  // another segment has taken the file's place, or is about to

	size   atomic.Int64 // readable bytes
	synced atomic.Int64 // bytes covered by a datasync
	err    atomic.Pointer[error]

	examining vfs.Mutex // held by Examine; acquired before all others
	mending   vfs.Mutex // held by Truncate, and while a header is written; acquired before the following
	saving    vfs.Mutex // held while the index files are written or removed; acquired before mu
	unindexed bool      // the index files were removed for good; guarded by saving

	mu        sync.Mutex // guards the following fields; never held across disk I/O
	x         *index     // nil: not in memory
	appending bool       // a writer appends: x stays in memory
	stale     bool       // the index files must not be read
	changes   int        // counts appends, truncations, builds and distrust
	maxTs     int64      // -1: none
	maxAt     int64      // last offset of the batch with maxTs; -1: none
	known     bool       // x, or its files, and maxTs and maxAt cover the whole file
	since     int        // bytes appended since the last index entry
	first     first
	cached    cached // state in Files.indexes, which guards it

	aborted aborted

	allocated bool  // the file is longer than its batches
	backed    int64 // end of the bytes sent to the disk; owned by the writer

	begun  time.Time // when this process created or opened the segment
	jitter float64   // part of the jitter, 0 to 1, by which the segment rolls earlier

	flaws     atomic.Pointer[[]Flaw] // damage found by reads; replaced with mu held
	facts     atomic.Pointer[Facts]  // changed by Establish, Inherit and Truncate
	positions readPositions
	content   atomic.Uint64 // identifies the bytes in Files.verified; see renew
	ahead     atomic.Int64  // end of the bytes that the system was asked to read ahead (reading.read)
}

// Create creates the files of a new segment in dir. The caller must sync dir before it acknowledges
// anything in the segment.
func Create(files *Files, dir string, base int64, preallocate int64) (*Segment, error) {
	return create(files, dir, base, preallocate, false)
}

// Renew is Create for recovery. A leftover file of that name has no readers and holds nothing
// valid, even if a crash brings its bytes back, so Renew truncates it instead of replacing it. ext4
// without a journal is slow at creating files when it has just removed as many.
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

// create creates the file of batches.
func (s *Segment) create(renew bool) (*handle, error) {
	s.files.forget(s.Path())
	h, err := s.files.acquire(s.Path(), true)
	// A crash or a failed attempt left the existing file; nothing in it is valid.
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

// Open returns the existing segment in dir, whose first size bytes are valid. It opens no
// descriptor.
func Open(files *Files, dir string, base, size int64) *Segment {
	s := newSegment(files, dir, base)
	s.size.Store(size)
	s.synced.Store(size)
	return s
}

func newSegment(files *Files, dir string, base int64) *Segment {
	s := &Segment{base: base, dir: dir, files: files, maxTs: -1, maxAt: -1, begun: time.Now(), jitter: rand.Float64()}
	if files != nil { // otherwise only its paths are used
		s.renew()
	}
	return s
}

// Base returns the base offset of the segment.
func (s *Segment) Base() int64 { return s.base }

// Size returns the number of readable bytes.
func (s *Segment) Size() int64 { return s.size.Load() }

// Synced returns the number of bytes covered by a datasync.
func (s *Segment) Synced() int64 { return s.synced.Load() }

// Path returns the path of the file of batches.
func (s *Segment) Path() string { return s.stem() + stages[s.stage.Load()] }

// AbortedPath returns the path of the index of aborted transactions.
func (s *Segment) AbortedPath() string { return s.stem() + AbortedSuffix }

// ProducersPath returns the path of the producer snapshot.
func (s *Segment) ProducersPath() string { return s.stem() + ProducersSuffix }

// Accompanying returns the paths of the files that are copied with the batches as they are. Some
// may be missing.
func (s *Segment) Accompanying() []string {
	return []string{s.stem() + indexSuffixes[0], s.stem() + indexSuffixes[1], s.ProducersPath()}
}

func (s *Segment) stem() string { return path.Join(s.dir, Name(s.base)) }

// Err returns the error of the first failed write or datasync, after which the segment is
// read-only.
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

// Append writes chunks of whole batches, in order, and then makes them readable. While others need
// the disk (Files.YieldTo), the disk gets one piece after the other. After a failed write the
// segment is read-only; bytes before the append remain readable. A failure to open the file has no
// such consequence.
func (s *Segment) Append(chunks [][]byte, indexInterval int) error {
	return s.append(chunks, indexInterval, false)
}

// AppendUncached is Append for many bytes that are unlikely to be read soon: they need not stay in
// the page cache.
func (s *Segment) AppendUncached(chunks [][]byte, indexInterval int) error {
	return s.append(chunks, indexInterval, true)
}

func (s *Segment) append(chunks [][]byte, indexInterval int, uncached bool) error {
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
	s.loadForAppend(h)
	s.files.setDirty(h, true)
	at, piece, begin := s.Size(), int64(0), time.Now()
	if s.files.yields() {
		piece = s.files.pace.size()
	}
	end, err := s.write(h, chunks, at, uncached, piece)
	if err == nil {
		err = s.writeBack(h, end, piece)
	}
	if piece > 0 {
		s.files.pace.took(begin, time.Now())
	}
	if err != nil {
		s.renew() // a failed write-back may also have dropped earlier bytes
		return s.latch(fmt.Errorf("append to segment: %w", err))
	}
	s.note(chunks, at, indexInterval)
	return nil
}

// write writes chunks at a position and returns where they end.
func (s *Segment) write(h *handle, chunks [][]byte, at int64, uncached bool, piece int64) (end int64, err error) {
	if !uncached {
		n, err := h.f.WriteVecAt(chunks, at)
		return at + int64(n), err
	}
	if piece == 0 {
		n, err := vfs.WriteVecUncached(h.f, chunks, at)
		return at + int64(n), err
	}
	for _, c := range chunks {
		for len(c) > 0 {
			n, err := vfs.WriteVecUncached(h.f, [][]byte{c[:min(int64(len(c)), piece)]}, at)
			at, c = at+int64(n), c[n:]
			if err == nil {
				err = s.writeBack(h, at, piece)
			}
			if err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

// backAt is how many bytes are sent to the disk at once, ahead of the next sync. Otherwise a
// segment with a high write rate has hundreds of megabytes to sync when a sweep reaches it, and the
// datasyncs of the journal wait for them.
const backAt = 1 << 20

// page is the unit of what is sent to the disk: the next append may extend the last one.
const page = 4 << 10

// writeBack sends appended bytes to the disk, except for the last page, which the next append may
// extend. It waits for the disk after each piece, and not at all if the append is not paced.
func (s *Segment) writeBack(h *handle, end, piece int64) error {
	end = end / page * page
	s.backed = max(s.backed, s.Synced()/page*page)
	for piece > 0 && end-s.backed >= piece {
		if err := vfs.Writeback(h.f, s.backed, piece); err != nil {
			return err
		}
		s.backed += piece
	}
	if end-s.backed >= backAt {
		vfs.StartWriteback(h.f, s.backed, end-s.backed)
		s.backed = end
	}
	return nil
}

// Sync makes the batches durable and saves the indexes. It does nothing if both were done since the
// last append. After an error the segment is read-only.
func (s *Segment) Sync() error {
	if err := s.SyncBatches(); err != nil {
		return err
	}
	s.SaveIndex()
	return nil
}

// SyncBatches is Sync without saving the indexes, which the next Sync does: creating two more files
// for each of 10,000 segments takes longer than their datasyncs.
func (s *Segment) SyncBatches() error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.SyncAborted(); err != nil {
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

// datasync is fdatasync while there is no write to the file.
func (s *Segment) datasync(h *handle) error {
	err := s.fdatasync(h)
	if err == nil {
		s.files.setDirty(h, false)
	}
	return err
}

// fdatasync latches its error, and that of a datasync that Files ran before closing the file.
func (s *Segment) fdatasync(h *handle) error {
	err := s.files.latched(h)
	if err == nil {
		if err = h.f.Datasync(); err != nil {
			err = fmt.Errorf("sync segment: %w", err)
		}
	}
	if err != nil {
		s.err.CompareAndSwap(nil, &err)
		s.renew() // the system may have dropped what was written
	}
	return err
}

// Seal must be called when the next segment begins. It adds the last timestamp to the time index,
// frees allocated space that is not used, and syncs the segment.
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
	s.synced.Store(min(s.Synced(), s.Size()-1)) // the new size is not synced
	return s.Sync()
}

// Truncate truncates the file to size bytes, which end where offset next begins, and syncs it. A
// segment that failed can be truncated to its synced size.
func (s *Segment) Truncate(size, next int64) error {
	h, err := s.open()
	if err != nil {
		return fmt.Errorf("truncate segment: %w", err)
	}
	defer s.files.release(h)
	s.mending.Lock()
	defer s.mending.Unlock()
	if err := s.files.latched(h); err != nil && size > s.Synced() {
		return s.latch(err)
	}
	s.size.Store(size)
	s.truncateFacts(size, next)
	s.backed = min(s.backed, size)
	s.content.Store(0)
	defer s.renew()            // before other bytes are appended
	defer s.positions.forget() // first: who knows the new content must not use an old position
	if err := h.f.Truncate(size); err != nil {
		return s.latch(fmt.Errorf("truncate segment: %w", err))
	}
	if err := h.f.Datasync(); err != nil {
		return s.latch(fmt.Errorf("truncate segment: %w", err))
	}
	s.files.setDirty(h, false)
	s.synced.Store(size)
	s.allocated = false
	err = s.truncateIndex(size, next)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.truncateFlawsLocked(size)
	if s.maxAt >= next {
		s.maxTs, s.maxAt, s.known = -1, -1, false
	}
	if size == 0 {
		s.maxTs, s.maxAt, s.first, s.since, s.known = -1, -1, first{}, 0, true
	}
	return err
}

// Forget closes the segment's descriptor, if it is open: another component is about to rename or
// remove the file.
func (s *Segment) Forget() { s.files.forget(s.Path()) }

// Remove deletes the segment's files. Missing files are not an error.
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
