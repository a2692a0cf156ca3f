package storage

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	logtest "go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/storage/diskguard"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

const mib = 1 << 20

// gaugeFS is a disk whose free space a test sets, separately for /j and everything else.
type gaugeFS struct {
	vfs.FS
	free, journal, total atomic.Uint64
	dead                 atomic.Bool
	held                 atomic.Pointer[held]
}

// held blocks a query and reports it.
type held struct {
	asked chan struct{}
	once  sync.Once
	let   <-chan struct{}
}

// hold blocks queries until let is closed. asked is closed when a query waits.
func (g *gaugeFS) hold(let <-chan struct{}) (asked <-chan struct{}) {
	h := &held{asked: make(chan struct{}), let: let}
	g.held.Store(h)
	return h.asked
}

func newGauge(free uint64) *gaugeFS {
	g := &gaugeFS{FS: vfs.Memory()}
	g.free.Store(free)
	g.journal.Store(1 << 40)
	g.total.Store(1 << 40)
	return g
}

// Free implements vfs.FS.
func (g *gaugeFS) Free(dir string) (available, total uint64, err error) {
	if h := g.held.Load(); h != nil {
		h.once.Do(func() { close(h.asked) })
		<-h.let
	}
	switch {
	case g.dead.Load():
		return 0, 0, syscall.EIO
	case strings.HasPrefix(dir, "/j"):
		return g.journal.Load(), g.total.Load(), nil
	default:
		return g.free.Load(), g.total.Load(), nil
	}
}

// guarded sets a threshold of 100 MiB.
func guarded(o *Options) { o.MinFree = func() int64 { return 100 * mib } }

// leave sets the free space in addition to the reserved bytes, and waits until the guard has
// measured it.
func (g *gaugeFS) leave(t *testing.T, d *Dir, free int64) {
	t.Helper()
	eventually(t, "the guard looks", func() bool {
		g.free.Store(uint64(free + d.memory.deferred.Load() + d.journal.Preparing()))
		signal(d.guard.wake)
		s := d.LastSpace()
		return s.Free-s.Owed == free
	})
}

// ours creates two logs, one for clients and an internal one.
func ours(t *testing.T, d *Dir) (client, internal *Log) {
	t.Helper()
	logs := makeLogs(t, d, 2, "sync")
	c := logs[1].Config()
	c.Cleanup.Internal = true
	logs[1].Configure(c)
	return logs[0], logs[1]
}

// Below the threshold clients' records are refused, below half of it all records. Each level ends
// at a tenth above its threshold. Refused records get no offset.
func TestALowDiskRefusesRecordsUntilItHasSpace(t *testing.T) {
	fsys := newGauge(1000 * mib)
	d := mustOpen(t, fsys, "sync", guarded)
	client, internal := ours(t, d)
	data := testBatch(t, 100, nil)
	for _, step := range []struct {
		free             int64
		level            diskguard.Level
		client, internal bool // are accepted
	}{
		{100 * mib, diskguard.OK, true, true},
		{100*mib - 1, diskguard.Low, false, true},
		{105 * mib, diskguard.Low, false, true}, // less than a tenth above the threshold
		{50 * mib, diskguard.Low, false, true},
		{50*mib - 1, diskguard.Critical, false, false},
		{54 * mib, diskguard.Critical, false, false},
		{55 * mib, diskguard.Low, false, true},
		{110*mib - 1, diskguard.Low, false, true},
		{110 * mib, diskguard.OK, true, true},
		{10 * mib, diskguard.Critical, false, false},
		{200 * mib, diskguard.OK, true, true},
	} {
		fsys.leave(t, d, step.free)
		if s := d.LastSpace(); s.Level != step.level || (s.Message == "") != (s.Level == diskguard.OK) {
			t.Fatalf("%d bytes free: %+v, want %s", step.free, s, step.level)
		}
		for l, taken := range map[*Log]bool{client: step.client, internal: step.internal} {
			before := l.Ends().LogEnd
			a := send(l, data)
			if taken != (a.Err == nil) || !taken && !errors.Is(a.Err, ErrLowSpace) || taken != (l.Ends().LogEnd == before+1) {
				t.Errorf("%d bytes free: %s at %d answers %v and ends at %d", step.free, l, before, a.Err, l.Ends().LogEnd)
			}
		}
		if room := d.CanCreate() == nil; room != step.client {
			t.Errorf("%d bytes free: room for partitions: %v", step.free, room)
		}
	}
	put(t, client, 1, 100)
	holds(t, client, client.Ends().LogEnd)
	holds(t, internal, internal.Ends().LogEnd)
}

// The error has the path, the free space, the threshold and a remedy.
func TestALowDiskIsExplained(t *testing.T) {
	fsys := newGauge(30 * mib)
	d := mustOpen(t, fsys, "sync", guarded) // space is low from the start
	client, _ := ours(t, d)
	err := send(client, testBatch(t, 10, nil)).Err
	want := "free space reserve reached: log directory /d has 30 MiB free, the threshold is 100 MiB (chronik.disk.min.free.bytes): " +
		"all records of partitions that this broker leads are refused: clients' until 110 MiB are free, those of internal topics until 55 MiB are; delete records or " +
		"topics, lower retention, or enlarge the disk"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Records that got offsets before space ran low count, and everything except new records works.
func TestALowDiskAffectsNothingElse(t *testing.T) {
	fsys := newGauge(1000 * mib)
	faults := errfs.New(fsys)
	d := mustOpen(t, faults, "sync", guarded)
	client, internal := ours(t, d)
	put(t, client, 3, 100)
	held := make(chan struct{})
	hold, let := gated(t)
	faults.Add(inJournal(d, errfs.Rule{Ops: errfs.Datasync, Count: 1, Before: func(errfs.Call) {
		close(held)
		<-hold
	}}))
	if a := send(client, testBatch(t, 100, nil)); a.Err != nil {
		t.Fatal(a.Err)
	}
	<-held
	fsys.leave(t, d, 10*mib)
	let()
	eventually(t, "what was in flight counts", func() bool { return client.Ends().Durable == 4 })
	holds(t, client, 4)
	if err := client.SetLogStart(2); err != nil {
		t.Error(err)
	}
	if err := d.Delete(internal); err != nil {
		t.Error(err)
	}
	// An append that learned of the partition before is accepted.
	if _, err := d.Create([]Spec{{ID: ID{Topic: [16]byte{9}}, Topic: "late", Config: testConfig("sync")}}); err != nil {
		t.Error(err)
	}
}

// A change is logged once. Retention is requested at once, and again at intervals.
func TestALowDiskIsLoggedOnceAndRequestsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := logtest.New(zapcore.InfoLevel)
		fsys := newGauge(1000 * mib)
		d, err := openDir(fsys, "sync", guarded, func(o *Options) { o.Logger = zap.New(core) })
		must(t, err)
		defer d.Close()
		var before time.Time
		asked := func() bool {
			again := !d.guard.lastReclaim.Equal(before)
			before = d.guard.lastReclaim
			return again
		}
		said := func() []string {
			var all []string
			for _, e := range logged.TakeAll() {
				all = append(all, e.Level.String())
			}
			return all
		}
		pass := func(after time.Duration) {
			time.Sleep(after)
			synctest.Wait()
		}
		pass(2 * time.Second)
		if s, n := said(), asked(); len(s) != 0 || n {
			t.Fatalf("with room: %v, %v", s, n)
		}
		for _, step := range []struct {
			free  uint64
			after time.Duration
			said  string
			asked bool
		}{
			{90 * mib, 1100 * time.Millisecond, "warn", true},
			{90 * mib, 20 * time.Second, "", false},
			{90 * mib, 12 * time.Second, "", true},
			{10 * mib, 2 * time.Second, "error", false},
			{90 * mib, 2 * time.Second, "warn", false},
			{900 * mib, 2 * time.Second, "info", false},
			{900 * mib, time.Minute, "", false},
			{90 * mib, 2 * time.Second, "warn", true},
			{900 * mib, 2 * time.Second, "info", false},
			{90 * mib, 2 * time.Second, "warn", true}, // low again: another request
		} {
			fsys.free.Store(step.free)
			pass(step.after)
			if s, n := strings.Join(said(), " "), asked(); s != step.said || n != step.asked {
				t.Errorf("%d MiB for %s: said %q and asked %v, want %q and %v", step.free/mib, step.after, s, n, step.said, step.asked)
			}
		}
	})
}

// A disk that does not report its free space changes nothing.
func TestASilentDiskChangesNothing(t *testing.T) {
	fsys := newGauge(10 * mib)
	d := mustOpen(t, fsys, "sync", guarded)
	client, _ := ours(t, d)
	fsys.dead.Store(true)
	signal(d.guard.wake)
	eventually(t, "the guard looks", func() bool { return !d.LastSpace().Known })
	if a := send(client, testBatch(t, 10, nil)); !errors.Is(a.Err, ErrLowSpace) || d.LastSpace().Level != diskguard.Critical {
		t.Errorf("it was low: %v, %+v", a.Err, d.LastSpace())
	}
	fsys.dead.Store(false)
	fsys.leave(t, d, 1000*mib)
	if a := send(client, testBatch(t, 10, nil)); a.Err != nil || !d.LastSpace().Known {
		t.Errorf("there is room: %v, %+v", a.Err, d.LastSpace())
	}
}

// What a leader sends is stored as long as the disk has room at all: a replica that refused it
// would leave the ISR. It waits for memory as ever.
func TestAFollowerIgnoresTheReserve(t *testing.T) {
	fsys := newGauge(10 * mib) // critical
	d := mustOpen(t, fsys, "sync", guarded)
	client, _ := ours(t, d)
	for i := range int64(3) {
		if a := follow(client, at(t, i, 1, 1000)); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	eventually(t, "it counts", func() bool { return client.AckEnd() == 3 })
	client.SetLeaderEpoch(followEpoch+1, true)
	a := &Append{Kind: Client, LeaderEpoch: followEpoch + 1, Batches: testBatch(t, 10, nil), Sink: make(sink, 1)}
	client.Append(a, nil)
	if <-a.Sink.(sink); !errors.Is(a.Err, ErrLowSpace) {
		t.Errorf("as a leader: %v", a.Err)
	}
}

// A late measurement, as on a busy machine, costs space that the disk may not have. No more is
// accepted than the last measurement allowed. Internal topics are not affected.
func TestALateMeasurementBoundsAppends(t *testing.T) {
	fsys := newGauge(1000 * mib)
	d := mustOpen(t, fsys, "sync", guarded)
	client, internal := ours(t, d)
	fsys.leave(t, d, 110*mib)
	let := make(chan struct{})
	asked := fsys.hold(let)
	data, sent := testBatch(t, 64<<10, nil), 0
	var err error
	for ; err == nil && sent < 20*mib; sent += len(data) {
		err = send(client, data).Err
	}
	if !errors.Is(err, ErrLowSpace) || d.LastSpace().Level != diskguard.OK || sent > 5*mib+2*len(data) {
		t.Errorf("after %d bytes: %v, %+v", sent, err, d.LastSpace())
	}
	if a := send(internal, data); a.Err != nil {
		t.Errorf("an internal topic: %v", a.Err)
	}
	<-asked
	close(let)
	eventually(t, "records are taken again", func() bool { return send(client, data).Err == nil })
}

// Records in memory and journal files in preparation will be on the disk, so they count as used.
func TestReservedBytesCountAsUsed(t *testing.T) {
	fsys := newGauge(1000 * mib)
	d := mustOpen(t, fsys, "sync", guarded)
	client, _ := ours(t, d)
	put(t, client, 1, 10)
	fsys.leave(t, d, 100*mib) // has the reserved bytes in addition
	if s := d.LastSpace(); s.Level != diskguard.OK || s.Owed < d.memory.deferred.Load() || s.Owed == 0 {
		t.Errorf("%+v", s)
	}
	fsys.free.Store(100 * mib)
	signal(d.guard.wake)
	eventually(t, "it is low", func() bool { return d.LastSpace().Level == diskguard.Low })
	if m := d.LastSpace().Message; !strings.Contains(m, "of it reserved for records in memory") {
		t.Error(m)
	}
}

// A journal on its own disk needs space to grow, no more: it may fill that disk.
func TestAJournalsOwnDiskIsGuarded(t *testing.T) {
	fsys := newGauge(1000 * mib)
	opt := Options{FS: fsys, JournalFileSize: 64 << 10, JournalBytes: 256 << 10,
		Config: func(string, ID) Config { return testConfig("sync") }}
	guarded(&opt)
	d, err := OpenDir(Location{Path: "/d", Journal: "/j"}, opt)
	must(t, err)
	defer d.Close()
	client, _ := ours(t, d)
	put(t, client, 1, 10)
	grow := d.journal.Growth()
	if most := opt.JournalBytes + 2*opt.JournalFileSize; grow <= 0 || grow >= most {
		t.Fatalf("the journal may grow by %d, of %d", grow, most)
	}
	look := func(journal int64) Space {
		fsys.journal.Store(uint64(journal))
		signal(d.guard.wake)
		eventually(t, "the guard looks", func() bool { return d.LastSpace().JournalFree == journal })
		return d.LastSpace()
	}
	if s := look(2 * grow); s.Level != diskguard.OK {
		t.Errorf("room to grow: %+v", s)
	}
	if s := look(grow/2 - 1); s.Level != diskguard.Critical || !strings.HasPrefix(s.Message, "journal directory /j has ") {
		t.Errorf("no room to grow: %+v", s)
	}
	if a := send(client, testBatch(t, 10, nil)); !errors.Is(a.Err, ErrLowSpace) {
		t.Errorf("%v", a.Err)
	}
	if s := look(2 * grow); s.Level != diskguard.OK {
		t.Errorf("room again: %+v", s)
	}
}

// Fast writes cause early measurements, since a disk can fill within a second.
func TestFastWritesAreMeasuredSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newGauge(104 * mib)
		d, err := openDir(fsys, "sync", guarded)
		must(t, err)
		defer d.Close()
		l := makeLogs(t, d, 1, "sync")[0]
		synctest.Wait()
		fsys.free.Store(10 * mib)
		begun, sent := time.Now(), 0
		for data := testBatch(t, 64<<10, nil); send(l, data).Err == nil; sent += len(data) {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begun); took >= measureInterval/2 || sent < mib || sent > 3*mib {
			t.Errorf("refused after %s and %d bytes", took, sent)
		}
	})
}

// With several directories a new partition goes where there is space.
func TestPartitionsAreCreatedWhereThereIsSpace(t *testing.T) {
	fsys := &twoDisks{FS: vfs.Memory()}
	fsys.full.Store("/b")
	m, err := Open([]Location{{Path: "/a"}, {Path: "/b"}},
		Options{FS: fsys, JournalFileSize: 64 << 10, JournalBytes: 256 << 10, MinFree: func() int64 { return 100 * mib }})
	must(t, err)
	defer m.Close()
	if err := m.CanCreate(); err != nil {
		t.Errorf("/a has room: %v", err)
	}
	place := func(topic byte) string {
		logs, err := m.Create([]Spec{{ID: ID{Topic: [16]byte{topic}}, Topic: string('a' + rune(topic)),
			Config: Config{Profile: modelProfiles()["sync"], Segment: segment.Limits{Bytes: 1 << 20, Ms: 1 << 40}}}})
		must(t, err)
		return logs[0].Dir().Path()
	}
	for i := range byte(3) {
		if at := place(i); at != "/a" {
			t.Errorf("made in %s", at)
		}
	}
	fsys.full.Store("/")
	for _, d := range m.Dirs() {
		signal(d.guard.wake)
		eventually(t, "the guard looks", func() bool { return d.LastSpace().Level != diskguard.OK })
	}
	if err := m.CanCreate(); !errors.Is(err, ErrLowSpace) {
		t.Errorf("nobody has room: %v", err)
	}
	if at := place(9); at != "/b" {
		t.Errorf("what must be made is made where there are the fewest, not in %s", at)
	}
}

// twoDisks is a disk that is full below one path.
type twoDisks struct {
	vfs.FS
	full atomic.Value
}

// Free implements vfs.FS.
func (f *twoDisks) Free(dir string) (available, total uint64, err error) {
	if strings.HasPrefix(dir, f.full.Load().(string)) {
		return mib, 1 << 40, nil
	}
	return 1 << 40, 1 << 40, nil
}

// When the guard reports a change of the free space, appends already find the new state.
func TestAReportedMeasurementIsInForce(t *testing.T) {
	fsys := newGauge(1000 * mib)
	d := mustOpen(t, fsys, "sync", guarded)
	client, _ := ours(t, d)
	for i := range 100 {
		free, want := uint64(10*mib), diskguard.Critical
		if i%2 == 1 {
			free, want = 1000*mib, diskguard.OK
		}
		fsys.free.Store(free)
		signal(d.guard.wake)
		for d.LastSpace().Level != want {
			runtime.Gosched()
		}
		if err := client.Refusal(Client); (err == nil) != (want == diskguard.OK) {
			t.Fatalf("%s, and records get %v", want, err)
		}
	}
}
