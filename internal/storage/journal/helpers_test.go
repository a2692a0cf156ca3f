package journal

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "/j"

var testID = [16]byte{'j', 'o', 'u', 'r', 'n', 'a', 'l'}

var (
	eager = &durability.Profile{Name: "sync", MaxRecords: 10_000, MaxBytes: 50 << 20}
	low   = &durability.Profile{Name: "low", MaxWait: 2 * time.Millisecond, MaxRecords: 500, MaxBytes: 5 << 20}
	loose = &durability.Profile{Name: "os", Ack: durability.Written, Sync: durability.SyncOS}
	ticks = &durability.Profile{Name: "interval", Ack: durability.Written, Sync: durability.SyncInterval, Interval: 2 * time.Millisecond}
	high  = &durability.Profile{Name: "high", MaxWait: 50 * time.Millisecond, MaxRecords: 10_000, MaxBytes: 50 << 20}
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorder is an Owner that records the outcomes of entries.
type recorder struct {
	mu      sync.Mutex
	entries []*Entry
	errs    map[*Entry]error
	twice   bool
	changed *sync.Cond
	check   func(*Entry, error)
}

func newRecorder() *recorder {
	o := &recorder{errs: map[*Entry]error{}}
	o.changed = sync.NewCond(&o.mu)
	return o
}

func (o *recorder) Written(e *Entry) { o.Durable(e, nil) }

func (o *recorder) Durable(e *Entry, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.errs[e]; again {
		o.twice = true
	}
	o.entries = append(o.entries, e)
	o.errs[e] = err
	if o.check != nil {
		o.check(e, err)
	}
	o.changed.Broadcast()
}

// wait waits until n outcomes are recorded and returns their entries in that order.
func (o *recorder) wait(n int) []*Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.entries) < n {
		o.changed.Wait()
	}
	return append([]*Entry(nil), o.entries...)
}

func (o *recorder) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.entries)
}

func (o *recorder) err(e *Entry) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.errs[e]
}

// verify checks that every owner was notified once, and that successes came in LSN order.
func (o *recorder) verify(t testing.TB) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.twice {
		t.Error("an owner was notified twice")
	}
	last, at := LSN(0), map[*Stream]int64{}
	for _, e := range o.entries {
		if o.errs[e] != nil {
			continue
		}
		if e.LSN <= last {
			t.Errorf("LSN %d was reported after %d", e.LSN, last)
		}
		if e.PrevEnd != at[e.Stream] && !e.Carried {
			t.Errorf("stream %v: offset %d was reported, expected %d", e.Stream.id, e.PrevEnd, at[e.Stream])
		}
		last, at[e.Stream] = e.LSN, e.NextEnd
	}
}

// opened is a journal under test.
type opened struct {
	*Journal
	failed chan error
	swept  chan struct{}
	at     Position // position of the fresh file
}

// open opens a journal with a fresh file and resumes it.
func open(t testing.TB, fsys vfs.FS, change func(*Options)) *opened {
	t.Helper()
	j := closedIn(t, fsys, change)
	j.begin(t, 0)
	return j
}

// closedIn opens a journal that accepts no entries yet.
func closedIn(t testing.TB, fsys vfs.FS, change func(*Options)) *opened {
	t.Helper()
	j := &opened{failed: make(chan error, 16), swept: make(chan struct{}, 1)}
	opt := Options{FS: fsys, Dir: testDir, ID: testID, FileSize: 64 << 10, MaxBytes: 4 << 20}
	opt.Failed = func(err error) { j.failed <- err }
	opt.Synced, opt.DurableThrough = func(GroupStats) {}, func(LSN) {}
	opt.Sweep = func() {
		select {
		case j.swept <- struct{}{}:
		default:
		}
	}
	if change != nil {
		change(&opt)
	}
	var err error
	j.Journal, err = Open(opt)
	ok(t, err)
	return j
}

func (j *opened) begin(t testing.TB, minNext LSN) {
	t.Helper()
	at, err := j.Fresh(minNext)
	ok(t, err)
	j.at = at
	ok(t, j.Resume())
}

func memory(t testing.TB) vfs.FS {
	t.Helper()
	m := vfs.Memory()
	ok(t, m.MkdirAll(testDir))
	return m
}

func crashing(t testing.TB, seed uint64) *crashfs.FS {
	t.Helper()
	f := crashfs.New(seed)
	ok(t, f.MkdirAll(testDir))
	ok(t, f.SyncDir("/"))
	return f
}

// allModes returns what a power loss can do to a file that, like a journal, never overwrites a
// sector that holds acknowledged bytes.
func allModes() []crashfs.Mode { return append(crashfs.Modes(), crashfs.GarbleSectors) }

func newStream(n int) *Stream { return NewStream(StreamID{Topic: [16]byte{1}, Partition: int32(n)}) }

// give submits an entry in one of three equivalent ways.
func (j *opened) give(way int, e *Entry) error {
	if way%3 == 0 {
		return j.Submit(nil, e)
	}
	err := j.Submit(new(groupcommit.Batch), e)
	if way%3 == 1 {
		j.Wake()
	} else {
		j.WriteGroup()
	}
	return err
}

// entry returns an entry of one record at an offset.
func entry(s *Stream, at int64, size int, p *durability.Profile, o Owner) *Entry {
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(at) + byte(i)
	}
	return &Entry{Stream: s, Type: Batches, Payload: payload, PrevEnd: at, NextEnd: at + 1, Records: 1, Profile: p, Owner: o}
}

// frames scans the journal and returns the frames of the chain. It checks that their LSNs are
// dense, but for those of skip frames.
func frames(fsys vfs.FS, from Position) ([]Frame, Extent, error) {
	var all []Frame
	ext, err := scan(&reader{fs: fsys, dir: testDir, id: testID}, from, func(f Frame) error {
		f.Payload = append([]byte(nil), f.Payload...)
		if n := len(all); n > 0 && all[n-1].LSN+1 != f.LSN && all[n-1].LSN+2 != f.LSN {
			return fmt.Errorf("LSN %d follows %d", f.LSN, all[n-1].LSN)
		}
		all = append(all, f)
		return nil
	})
	return all, ext, err
}

// holds returns an error unless the frames contain the entry as it was submitted.
func holds(all []Frame, e *Entry) error {
	for _, f := range all {
		if f.LSN != e.LSN {
			continue
		}
		if f.Stream != e.Stream.id || f.PrevEnd != e.PrevEnd || f.NextEnd != e.NextEnd || !bytes.Equal(f.Payload, e.Payload) {
			return fmt.Errorf("frame %d is not what was submitted", f.LSN)
		}
		return nil
	}
	return errors.New("acknowledged frame is missing")
}
