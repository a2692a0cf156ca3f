package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// ErrStopped is returned by Submit, and told to owners, while the journal
// stands still after a failure and after Close.
var ErrStopped = errors.New("journal is stopped")

// ErrDropped is told to the owners of entries that Drop took back.
var ErrDropped = errors.New("entry was dropped before it was written")

// Options are what a journal needs from the log directory that owns it.
type Options struct {
	FS  vfs.FS
	Dir string
	// ID is the journal's identity, written into every file. A file with
	// another one is foreign and refused.
	ID [16]byte
	// FileSize is the capacity of a file in bytes, at least 64 KiB. One entry
	// that needs more gets a larger file of its own.
	FileSize int64
	// MaxBytes bounds the files that hold entries still needed; entries wait
	// for a Release beyond it. At least 4 × FileSize.
	MaxBytes int64
	// Absent tells how many connections produced lately and have no request
	// waiting; nil means that it isn't known. See durability.Group. It must not block.
	Absent func() int
	// Sweep is called, from any goroutine and often, when half of MaxBytes is in
	// use: the directory should make old files unnecessary. It must not block.
	Sweep func()
	// Failed is called once per failure, after every entry that is not durable
	// was told. It must not block.
	Failed func(error)
	// UnsyncedBytes bounds the payload that was written and not synced because
	// nobody's profile asked for that: beyond it the journal syncs on its own
	// account. Default 8 MiB.
	UnsyncedBytes int64
	// Synced is called after every datasync with what it made durable.
	Synced func(GroupStats)
	// DurableThrough is called after a datasync that made entries durable whose
	// owners had Written: all of them up to an LSN are. It is called like the
	// owners, in order with them, and must not block. It may be nil.
	DurableThrough func(LSN)
	// Broken is for tests.
	Broken Broken
}

// unsyncedBytes is the default of Options.UnsyncedBytes. A datasync of that much
// takes a few milliseconds, and a bulk load needs one for so many bytes only.
const unsyncedBytes = 8 << 20

// GroupStats describes what one datasync made durable.
type GroupStats struct {
	Records int
	Bytes   int64         // payload
	Sync    time.Duration // of the datasync
}

// Owner is notified of an entry's outcome. Exactly one of its methods is called per
// entry, from the journal's notifier goroutine or from WriteGroup, or for entries that Drop
// takes back, by Drop. They must not block. From that call on the journal doesn't use
// the entry or its payload.
type Owner interface {
	// Written is called for an entry whose profile acknowledges what is written,
	// once the write has returned. Options.DurableThrough reports later that
	// it is durable. Entries of one stream are reported in LSN order.
	Written(e *Entry)
	// Durable is called in LSN order for every other entry when it is durable, and
	// with an error for an entry that is neither written nor ever will be
	// acknowledged.
	Durable(e *Entry, err error)
}

// Entry is one frame to be. The submitter sets the exported fields but LSN and
// must not touch them, nor the payload's bytes, until Owner.Durable.
type Entry struct {
	Stream  *Stream
	Type    Type
	Carried bool
	Payload []byte // less than 2 GiB
	PrevEnd int64  // log end before the entry
	NextEnd int64  // log end after it
	Records int
	// Profile gives the window; nil means that the entry does not wait and may
	// use the space that is kept for carried entries, which make room.
	Profile *durability.Profile
	Owner   Owner
	// LSN is set by the journal before Owner.Durable.
	LSN LSN

	arrived time.Time
}

func (e *Entry) control() bool { return e.Profile == nil }

// onWrite reports whether the entry is acknowledged when it is written.
func (e *Entry) onWrite() bool { return e.Profile != nil && e.Profile.Ack == durability.Written }

// patient: the entry does not mind waiting for others.
func (e *Entry) patient() bool { return e.Profile != nil && e.Profile.MaxWait > 0 }

// size is an upper bound of what the entry takes in a file.
func (e *Entry) size() int64 { return frameHeader + int64(len(e.Payload)) + 8 }

type state uint8

const (
	stopped state = iota // before Resume and after a failure
	running
	closing // drains what is queued
	closed
)

// writeMax is how many bytes are written, and synced, at once at most. A request of a bulk
// load may bring 8 MiB for many partitions, and is answered when the last one is
// durable (measured with 16 partitions: 622 MB/s at 1 MiB, 695 at 4, no more at 8);
// what comes meanwhile waits for one such write.
const writeMax = 4 << 20

// Journal is the journal of one log directory. All methods may be called
// concurrently unless they say otherwise.
type Journal struct {
	opt      Options
	maxWrite int64
	space    space

	mu       sync.Mutex
	state    state
	ready    fifo[*Stream] // streams with queued entries, in turn
	waiting  window        // of all queued entries
	steps    atomic.Uint64 // writes and datasyncs that ended well
	busy     bool          // somebody writes a group: the writer, or a caller of WriteGroup
	idle     *sync.Cond    // busy became false, or telling 0
	parked   bool          // the writer waits for wake
	alarm    time.Time     // when the parked writer looks at what waits anyway; zero: never
	roomless bool          // the writer waits for space: only control entries pass
	wake     chan struct{}

	next     LSN // the next LSN; the writer's, and Fresh's while stopped
	assigned atomic.Uint64
	durable  atomic.Uint64
	notified atomic.Uint64

	group group // of who is busy
	// asked: somebody waits for what is written to become durable.
	asked bool

	told    chan batch   // to the notifier
	telling atomic.Int64 // batches for the notifier that it is not through with
	free    chan []*Entry
	done    sync.WaitGroup
}

// Open prepares the journal below opt.Dir, which must exist. It writes nothing
// and takes no entries before Fresh and Resume. Close must be called.
func Open(opt Options) (*Journal, error) {
	opt.FileSize &^= block - 1
	if opt.FileSize < 64<<10 || opt.MaxBytes < 4*opt.FileSize {
		return nil, fmt.Errorf("journal %s: file size %d (at least 65536) and total %d (at least 4 files) don't fit", opt.Dir, opt.FileSize, opt.MaxBytes)
	}
	j := &Journal{
		opt:      opt,
		maxWrite: min(writeMax, opt.FileSize/8),
		wake:     make(chan struct{}, 1),
		told:     make(chan batch, 8),
		free:     make(chan []*Entry, 16),
		next:     1,
	}
	if j.opt.UnsyncedBytes <= 0 {
		j.opt.UnsyncedBytes = unsyncedBytes
	}
	if j.opt.Absent == nil {
		j.opt.Absent = func() int { return 1 } // somebody may come
	}
	j.idle = sync.NewCond(&j.mu)
	if err := j.space.init(&j.opt, j.poke); err != nil {
		return nil, err
	}
	j.done.Add(3)
	go j.write()
	go j.notify()
	go func() { defer j.done.Done(); j.space.prepare() }()
	return j, nil
}

// Drop takes the stream's entries back that are not yet being written and tells
// their owners ErrDropped. Entries being written are told as usual.
func (j *Journal) Drop(s *Stream) {
	j.mu.Lock()
	dropped := append([]*Entry(nil), s.queue.all()...)
	s.queue.reset() // the writer takes it off the list
	for _, e := range dropped {
		j.waiting.count(e, -1)
	}
	j.waiting.taken(j.ready.all())
	j.mu.Unlock()
	for _, e := range dropped {
		e.Owner.Durable(e, ErrDropped)
	}
}

// Durable returns the highest LSN known synced.
func (j *Journal) Durable() LSN { return LSN(j.durable.Load()) }

// Assigned returns the highest LSN ever given, also to entries that were lost:
// no frame at or below it will be written any more.
func (j *Journal) Assigned() LSN { return LSN(j.assigned.Load()) }

// Sync asks for a datasync of what is queued and written. It doesn't wait for it.
func (j *Journal) Sync() {
	j.mu.Lock()
	wake := false
	if j.state == running && (j.waiting.entries > 0 || j.busy || j.group.unsynced.entries > 0) {
		j.asked = true
		wake = j.parked && !j.busy
	}
	j.mu.Unlock()
	if wake {
		j.poke()
	}
}

// Notified returns the LSN through which all owners have been told.
func (j *Journal) Notified() LSN { return LSN(j.notified.Load()) }

// Pulse returns a number that grows with every write and datasync that ends, and whether one runs or
// is due. If that stays so and the number stays the same for long, the journal hangs, or its disk
// does. Entries that wait for others because their profile says so are not due.
func (j *Journal) Pulse() (progress uint64, waiting bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	due := j.waiting.entries > 0 && (j.roomless || !time.Now().Before(j.waiting.wakeAt))
	return j.steps.Load(), due || j.busy || j.asked
}

// Close writes what is queued, if the journal runs, and stops the goroutines.
// Entries that only a Release or space on the disk would let pass are told
// ErrStopped. Submit fails from now on.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.state == closed || j.state == closing {
		j.mu.Unlock()
		return nil
	}
	if j.state == running {
		j.state = closing
	} else {
		j.state = closed
	}
	j.mu.Unlock()
	j.poke()
	j.done.Wait()
	return j.space.close()
}
