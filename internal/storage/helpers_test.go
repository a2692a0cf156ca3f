package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
)

type sink chan *Append

// OffsetsAssigned implements Sink.
func (s sink) OffsetsAssigned(a *Append) { s <- a }

func testConfig(profile string) Config {
	return Config{Profile: modelProfiles()[profile],
		Segment: segment.Limits{Bytes: 1 << 20, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20}}
}

// openDir opens /d with small journal files. The logs found there get profile and lead.
func openDir(fsys vfs.FS, profile string, change ...func(*Options)) (*Dir, error) {
	d, err := openUnled(fsys, profile, change...)
	if err == nil {
		lead(d.Logs()...)
	}
	return d, err
}

// openUnled is openDir, but the logs have no leader epoch yet.
func openUnled(fsys vfs.FS, profile string, change ...func(*Options)) (*Dir, error) {
	opt := Options{FS: fsys, Holder: "pid 4711", JournalFileSize: 64 << 10, JournalBytes: 256 << 10,
		Config: func(string, ID) Config { return testConfig(profile) }}
	for _, f := range change {
		f(&opt)
	}
	return OpenDir(Location{Path: "/d"}, opt)
}

// lead makes logs lead in their last epoch, or in epoch 0. It returns them.
func lead(logs ...*Log) []*Log {
	for _, l := range logs {
		last, _ := l.LastEpoch()
		l.SetLeaderEpoch(max(0, last), true)
		if l.observer() == (noopObserver{}) {
			l.Observe(alone{l: l})
		}
	}
	return logs
}

// alone observes a log that has no other replica.
type alone struct {
	noopObserver
	l *Log
}

// Reverted implements Observer.
func (a alone) Reverted(int64, error) { a.l.ResumeEpoch(epochOf(a.l)) }

// epochOf returns the epoch in which a log accepts appends.
func epochOf(l *Log) int32 {
	l.producersMu.Lock()
	defer l.producersMu.Unlock()
	return l.fence.epoch
}

func mustOpen(t testing.TB, fsys vfs.FS, profile string, change ...func(*Options)) *Dir {
	t.Helper()
	d, err := openDir(fsys, profile, change...)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// makeLogs creates n logs, partitions of one topic.
func makeLogs(t testing.TB, d *Dir, n int, profile string) []*Log {
	t.Helper()
	specs := make([]Spec, n)
	for i := range specs {
		specs[i] = Spec{ID: ID{Topic: [16]byte{1}, Partition: int32(i)}, Topic: "t", Config: testConfig(profile)}
	}
	logs, err := d.Create(specs)
	must(t, err)
	return lead(logs...)
}

func testBatch(t testing.TB, size int, p *record.Producer) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{Producer: p})
	b.Append(1, nil, bytes.Repeat([]byte{'v'}, size), nil)
	data, err := b.Build()
	must(t, err)
	return data
}

// appendInBatch appends like a request that is handled together with others.
func appendInBatch(l *Log, a *Append) {
	if epochOf(l) == noEpoch {
		lead(l)
	}
	var b groupcommit.Batch
	l.Append(a, &b)
	b.Run()
}

// send appends one batch and returns when it has offsets or was refused.
func send(l *Log, data []byte) *Append {
	if epochOf(l) == noEpoch {
		lead(l)
	}
	a := &Append{Batches: data, LeaderEpoch: epochOf(l), Sink: make(sink, 1)}
	l.Append(a, nil)
	if !answered(a, patience) {
		return &Append{Err: errNoAnswer}
	}
	return a
}

var errNoAnswer = errors.New("an append has no answer")

// put appends batches of one record and waits until they are acknowledged and durable under any
// profile.
func put(t testing.TB, l *Log, n, size int) {
	t.Helper()
	for range n {
		if a := send(l, testBatch(t, size, nil)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	synced(t, l)
}

// synced waits until everything appended is acknowledged and durable.
func synced(t testing.TB, l *Log) {
	t.Helper()
	eventually(t, "the records are durable", func() bool {
		l.dir.journal.Sync()
		return l.AckEnd() >= l.logEnd.Load() && l.durable.Load() >= l.logEnd.Load()
	})
}

// points returns how far the calls of a script are apart in which a test loses the power. `make
// crash` sets CHRONIK_EVERY_CALL and tries all, others try every third, and few under the race
// detector.
func points(few int) int {
	if os.Getenv("CHRONIK_EVERY_CALL") != "" {
		return 1
	}
	return race.Some(3, few)
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Since(start) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// gated returns a channel on which calls of the disk wait until let is called. They wait no longer
// than the test: one that fails before it calls let would otherwise close its directory after
// that, and wait for them without end.
func gated(t testing.TB) (wait <-chan struct{}, let func()) {
	gate := make(chan struct{})
	let = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(let) // before the one that closes the directory, which is open already
	return gate, let
}

// inJournal limits a rule to the journal's current file. Without it, the rule could act on the next
// file instead, which the journal prepares in the background and whose failure ends nothing. The
// next file becomes the current one with its first sync.
func inJournal(d *Dir, r errfs.Rule) errfs.Rule {
	r.When = func(c errfs.Call) bool {
		return path.Base(c.Path) == fmt.Sprintf("%020d.journal", d.journal.Oldest(math.MaxUint64).File)
	}
	return r
}

// countReopened counts how often a directory accepts records again after its journal failed. A nil
// Err is not enough: the call fails before the directory notices.
func countReopened(n *atomic.Int32) func(*Options) {
	return func(o *Options) { o.reopened = func(*Dir) { n.Add(1) } }
}

// holds fails the test unless the log has exactly n records, whole and in order.
func holds(t testing.TB, l *Log, n int64) {
	t.Helper()
	must(t, l.Offline())
	at := l.Ends().LogStart
	err := guard(func() error {
		for _, b := range (&world{rng: newRandom(1)}).content(l) {
			if b.base != at {
				t.Errorf("%s: batch %d stands where %d should", l, b.base, at)
			}
			at = b.next
		}
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%s holds records up to %d, want %d: %v", l, at, n, err)
	}
}

// isQuarantined reports whether the log's frames are in a quarantine file.
func (l *Log) isQuarantined() bool { return l.is(loglife.Replay) }

// sync syncs the segments and moves the recovery point.
func (l *Log) sync() error {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	return l.syncLocked()
}

// lastSeq returns the number of the last checkpoint.
func (d *Dir) lastSeq() uint64 {
	d.ckptMu.Lock()
	defer d.ckptMu.Unlock()
	return d.last.Seq
}

// Truncate truncates the log to end; see Dir.Truncate.
func (l *Log) Truncate(end int64) error { return l.cutOne(Truncation{Log: l, End: end}) }

// Reset empties the log; it continues at start.
func (l *Log) Reset(start int64) error { return l.cutOne(Truncation{Log: l, End: start, Reset: true}) }

func (l *Log) cutOne(c Truncation) error {
	cuts := []Truncation{c}
	l.dir.Truncate(cuts)
	return cuts[0].Err
}

// SetLogStart moves the log start; see Dir.MoveStarts.
func (l *Log) SetLogStart(start int64) error {
	m := []StartMove{{Log: l, To: start}}
	l.dir.MoveStarts(m)
	return m[0].Err
}

// postponeRepair makes the maintenance goroutine repair no log that a test puts into a state.
func postponeRepair(l *Log) {
	l.dir.mu.Lock()
	defer l.dir.mu.Unlock()
	l.dir.broken[l] = &mending{at: time.Now().Add(time.Hour)}
}

// Create creates logs at once, each in the directory that AssignDirs chooses.
func (m *Manager) Create(specs []Spec) ([]*Log, error) {
	byDir, err := m.AssignDirs(specs, nil)
	if err != nil {
		return nil, err
	}
	err = m.concurrently(slices.Collect(maps.Keys(byDir)), func(d *Dir) error { return m.createIn(d, byDir[d]) })
	if err != nil {
		return nil, err
	}
	made := make([]*Log, len(specs))
	for i := range specs {
		made[i] = m.Get(specs[i].ID)
	}
	return made, nil
}
