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

// ErrStopped is returned by Submit, and passed to owners, while the journal is stopped after a
// failure or after Close.
var ErrStopped = errors.New("journal is stopped")

// ErrDropped is passed to the owners of entries that Drop removed.
var ErrDropped = errors.New("entry was dropped before it was written")

// Options configure a journal; the log directory that owns it provides them. Before Resume, all
// functions but Absent and Stalls must be set; these two may be nil.
type Options struct {
	FS  vfs.FS
	Dir string
	// ID is the journal's identity, written into every file. The journal rejects files with another
	// ID.
	ID [16]byte
	// FileSize is the capacity of a file in bytes, at least 64 KiB. An entry that needs more gets a
	// larger file of its own.
	FileSize int64
	// MaxBytes bounds the files that hold entries still needed, in bytes, at least 4 × FileSize.
	// Beyond it, entries wait for a Release.
	MaxBytes int64
	// Absent returns how many connections produced recently and have no request waiting; nil means
	// that the number is unknown. See durability.Group. It must not block.
	Absent func() int
	// Sweep is called, from any goroutine and often, when half of MaxBytes is in use: the directory
	// should flush logs so that old files can be released. It must not block.
	Sweep func()
	// Stalls is called when Stalled begins to return an error, and when it ends. It must not block.
	Stalls func()
	// Failed is called once per failure, after the owner of every entry that is not durable has
	// been notified. It must not block.
	Failed func(error)
	// UnsyncedBytes bounds the payload bytes that are written but not synced because no entry's
	// profile asks for a datasync; beyond it the journal syncs on its own. Default 8 MiB.
	UnsyncedBytes int64
	// Synced is called after every datasync that made entries durable, with their statistics.
	Synced func(GroupStats)
	// DurableThrough is called after a datasync that made entries durable whose owners received
	// Written: all such entries up to the LSN are durable. It is called in order with the calls to
	// owners and must not block.
	DurableThrough func(LSN)
	// Broken disables rules, for tests.
	Broken Broken
}

// unsyncedBytes is the default of Options.UnsyncedBytes. A datasync of that much takes a few
// milliseconds, and a bulk load then needs only one datasync for every 8 MiB.
const unsyncedBytes = 8 << 20

// GroupStats describes what one datasync made durable.
type GroupStats struct {
	Records int
	Bytes   int64         // payload
	Sync    time.Duration // of the datasync
}

// Owner is notified of an entry's outcome. Exactly one of its methods is called per entry, by the
// notifier goroutine, by WriteGroup, or by Drop for entries that it removes. The methods must not
// block. From that call on, the journal does not use the entry or its payload.
type Owner interface {
	// Written is called for an entry whose profile acknowledges written records, when the write has
	// returned. Options.DurableThrough reports later that it is durable. Entries of one stream are
	// reported in LSN order.
	Written(e *Entry)
	// Durable is called in LSN order for every other entry when it is durable. It is called with an
	// error for an entry that was not acknowledged and never will be.
	Durable(e *Entry, err error)
}

// Entry is the content of a future frame. The submitter sets the exported fields except LSN. It
// must not modify them or the payload until the journal calls the Owner.
type Entry struct {
	Stream  *Stream
	Type    Type
	Carried bool
	Payload []byte // less than 2 GiB
	Epoch   int32  // of a Gap
	PrevEnd int64  // log end before the entry
	NextEnd int64  // log end after it
	Records int
	// Profile determines the window. nil marks a control entry: it does not wait, and it may use
	// the space reserved for carried entries, whose writing allows a Release.
	Profile *durability.Profile
	// Internal marks an entry of a log that the broker itself writes. No large one is written in
	// pieces for it.
	Internal bool
	Owner    Owner
	// LSN is set by the journal before it calls the Owner.
	LSN LSN

	arrived time.Time
}

func (e *Entry) control() bool { return e.Profile == nil }

// onWrite reports whether the entry is acknowledged when it is written.
func (e *Entry) onWrite() bool { return e.Profile != nil && e.Profile.Ack == durability.Written }

// patient reports whether the entry may wait for others.
func (e *Entry) patient() bool { return e.Profile != nil && e.Profile.MaxWait > 0 }

// size returns an upper bound of the entry's size in a file, in bytes.
func (e *Entry) size() int64 { return frameHeader + int64(len(e.Payload)) + 8 }

// state is that of the goroutine that writes.
type state uint8

const (
	stopped state = iota // before Resume and after a failure
	running
	closing // writes what is queued, then closes
	closed
)

// writeMax bounds the bytes of one write. Only a group whose entries may all wait takes several
// writes. A request of a bulk load may contain 8 MiB for many partitions and is answered when the
// last of them is durable. With 16 partitions, 1 MiB gave 622 MB/s and 4 MiB gave 695; 8 MiB gave
// no more. A request that arrives meanwhile waits for one such write.
const writeMax = 4 << 20

// Journal is the journal of one log directory. All methods may be called concurrently unless they
// say otherwise.
type Journal struct {
	opt      Options
	maxWrite int64
	sizes    sizes
	space    space

	mu      sync.Mutex
	state   state
	ready   fifo[*Stream] // streams with queued entries, in round-robin order
	waiting window        // summary of all queued entries
	steps   atomic.Uint64 // number of successful writes and datasyncs
	busy    bool          // a goroutine writes a group: the writer or a caller of WriteGroup
	idle    *sync.Cond    // signaled when busy becomes false or notifying becomes 0
	parked  bool          // the writer waits for wake
	wakeBy  time.Time     // when the parked writer wakes at the latest; zero: not until it is woken
	noSpace bool          // the writer waits for space: only control entries may be written
	part    *part         // the large entry of which pieces are written; waiting counts it
	wake    chan struct{} // capacity 1: the parked writer must check the queue

	next     LSN // the next LSN; owned by the busy goroutine, and by Fresh while stopped
	assigned atomic.Uint64
	durable  atomic.Uint64
	notified atomic.Uint64

	group group // owned by the busy goroutine
	// asked: a caller waits for written entries to become durable.
	asked bool

	outcomes  chan batch    // to the notifier, in order; when it is full, the writer waits, which closes it at its end
	notifying atomic.Int64  // batches that the notifier has not finished
	free      chan []*Entry // slices to use again; one more is left to the collector; never closed
	done      sync.WaitGroup
}

// Open prepares the journal in opt.Dir, which must exist. It writes nothing and accepts no entries
// before Fresh and Resume. The caller must call Close.
func Open(opt Options) (*Journal, error) {
	opt.FileSize &^= block - 1
	if opt.FileSize < 64<<10 || opt.MaxBytes < 4*opt.FileSize {
		return nil, fmt.Errorf("open journal %s: file size %d must be at least 65536 bytes, total size %d at least 4 files",
			opt.Dir, opt.FileSize, opt.MaxBytes)
	}
	j := &Journal{
		opt:      opt,
		maxWrite: min(writeMax, opt.FileSize/8),
		wake:     make(chan struct{}, 1),
		outcomes: make(chan batch, 8),
		free:     make(chan []*Entry, 16),
		next:     1,
	}
	j.sizes = newSizes(j.maxWrite)
	j.group.start = time.Now().Add(-smallFor)
	if j.opt.UnsyncedBytes <= 0 {
		j.opt.UnsyncedBytes = unsyncedBytes
	}
	if j.opt.Absent == nil {
		j.opt.Absent = func() int { return 1 } // a request may still arrive
	}
	j.idle = sync.NewCond(&j.mu)
	if err := j.space.init(&j.opt, j.wakeWriter, func() bool { return j.SmallTraffic(time.Now()) }); err != nil {
		return nil, err
	}
	j.done.Add(3)
	go j.write()
	go j.notify()
	go func() { defer j.done.Done(); j.space.prepare() }()
	return j, nil
}

// Drop removes the stream's entries that are not being written yet and passes ErrDropped to their
// owners. Entries that are being written are reported as usual.
func (j *Journal) Drop(s *Stream) {
	j.mu.Lock()
	var dropped []*Entry
	if p := j.part; p != nil && p.entry.Stream == s && !j.opt.Broken.Has(KeepPart) {
		dropped, j.part = append(dropped, p.entry), nil // without its first block, there is no frame
	}
	dropped = append(dropped, s.queue.all()...)
	s.queue.reset() // the writer takes the stream off ready
	for _, e := range dropped {
		j.waiting.count(e, -1)
	}
	j.waiting.taken(j.ready.all())
	wake := j.noSpace // others may need less
	j.mu.Unlock()
	if wake {
		j.wakeWriter()
	}
	for _, e := range dropped {
		e.Owner.Durable(e, ErrDropped)
	}
}

// Durable returns the highest LSN known to be synced.
func (j *Journal) Durable() LSN { return LSN(j.durable.Load()) }

// Assigned returns the highest LSN ever assigned, including those of lost entries. No frame at or
// below it will be written from now on.
func (j *Journal) Assigned() LSN { return LSN(j.assigned.Load()) }

// Sync requests a datasync of the queued and written entries. It does not wait for it.
func (j *Journal) Sync() {
	j.mu.Lock()
	wake := false
	if j.state == running && (j.waiting.entries > 0 || j.busy || j.group.unsynced.entries > 0) {
		j.asked = true
		wake = j.parked && !j.busy
	}
	j.mu.Unlock()
	if wake {
		j.wakeWriter()
	}
}

// Notified returns the LSN through which all owners have been notified.
func (j *Journal) Notified() LSN { return LSN(j.notified.Load()) }

// Pulse returns the number of completed writes and datasyncs, and reports whether one is running or
// due. If that remains so for long and the number does not change, the journal or its disk hangs.
// Entries whose profile lets them wait for others are not due.
func (j *Journal) Pulse() (progress uint64, waiting bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	due := j.waiting.entries > 0 && (j.noSpace || !time.Now().Before(j.waiting.wakeAt))
	return j.steps.Load(), due || j.busy || j.asked
}

// Close writes the queued entries if the journal is running, and stops the goroutines. Entries that
// could be written only after a Release, or after space was freed on the disk, fail with
// ErrStopped. From now on Submit fails.
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
	j.wakeWriter()
	j.done.Wait()
	return j.space.close()
}
