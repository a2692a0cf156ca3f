package inspect_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Disks in memory are a small heap with much garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

const root = "/d"

var location = storage.Location{Path: root}

// profileOf returns the durability profile of a topic. Topic os is acknowledged when written.
func profileOf(topic string) durability.Profile {
	if topic == "os" {
		return durability.Profile{Name: "os", Ack: durability.Written, Sync: durability.SyncOS}
	}
	return durability.Profile{Name: "sync", MaxRecords: 10000, MaxBytes: 50 << 20}
}

func configOf(topic string) storage.Config {
	c := storage.Config{Profile: profileOf(topic),
		Segment: segment.Limits{Bytes: 8 << 10, Ms: 1 << 40, IndexInterval: 512, IndexBytes: 10 << 20}}
	if topic == "compacted" {
		c.Cleanup = storage.Cleanup{Compact: true, TimestampAfter: time.Hour, Tombstones: time.Hour}
	}
	return c
}

func options(fsys vfs.FS) storage.Options {
	return storage.Options{FS: fsys, Holder: "pid 4711", JournalFileSize: 64 << 10, JournalBytes: 4 << 20,
		Cleaning: storage.Cleaning{Backoff: time.Millisecond},
		Config:   func(topic string, _ storage.ID) storage.Config { return configOf(topic) }}
}

func open(t testing.TB, fsys vfs.FS) *storage.Dir {
	t.Helper()
	d, err := storage.OpenDir(location, options(fsys))
	must.OK(t, err)
	return d
}

// topics lists the names of the fixture's topics, each with one partition; idOf returns their ids.
var topics = []string{"a", "b", "compacted", "cut", "empty", "flushed", "journalonly", "os"}

func idOf(i int) storage.ID { return storage.ID{Topic: [16]byte{byte(i + 1)}, Partition: 0} }

func create(t testing.TB, d *storage.Dir) map[string]*storage.Log {
	t.Helper()
	var specs []storage.Spec
	for i, name := range topics {
		specs = append(specs, storage.Spec{ID: idOf(i), Topic: name, Config: configOf(name)})
	}
	_, err := d.Create(specs)
	must.OK(t, err)
	return logsOf(d)
}

func logsOf(d *storage.Dir) map[string]*storage.Log {
	m := map[string]*storage.Log{}
	for _, l := range d.Logs() {
		m[l.Topic()] = l
	}
	return m
}

// bounds allows compaction of everything up to the stable end.
type bounds struct{ l *storage.Log }

func (bounds) Appended(*groupcommit.Batch) {}
func (bounds) Advanced()                   {}
func (bounds) Reverted(int64, error)       {}
func (bounds) Truncated(int64)             {}
func (bounds) StartMoved()                 {}
func (b bounds) High() (int64, int32)      { return b.l.AckEnd(), 0 }
func (b bounds) Stable() int64             { return b.l.AckEnd() }
func (b bounds) Copied() int64             { return math.MaxInt64 }
func (b bounds) Deleted() int64            { return 0 }

type sink chan *storage.Append

func (s sink) OffsetsAssigned(a *storage.Append) { s <- a }

// put appends n batches of two records each and waits until they are acknowledged.
func put(t testing.TB, l *storage.Log, n int) {
	t.Helper()
	for i := range n {
		b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7, Sequence: int32(l.Ends().LogEnd)}})
		for k := range 2 {
			b.Append(time.Now().UnixMilli(), fmt.Appendf(nil, "key-%d", (i+k)%3), bytes.Repeat([]byte{byte('a' + i%26)}, 150), nil)
		}
		putBatch(t, l, b)
	}
	eventually(t, l.String()+" counts", func() bool { return l.AckEnd() >= l.Ends().LogEnd })
}

// putBatch appends a batch and waits until it has its offsets.
func putBatch(t testing.TB, l *storage.Log, b *record.Builder) {
	t.Helper()
	data, err := b.Build()
	must.OK(t, err)
	epoch := max(3, l.EpochAt(l.Ends().LogEnd))
	l.SetLeaderEpoch(epoch, true)
	a := &storage.Append{Batches: data, LeaderEpoch: epoch, Sink: make(sink, 1)}
	l.Append(a, nil)
	if <-a.Sink.(sink); a.Err != nil {
		t.Fatal(a.Err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

// used returns a directory as a killed broker leaves it. It has eight logs: some with several
// segments, one compacted, one truncated, one acknowledged as written. The last records are only in
// the journal, in several files. It is built once for all tests.
func used(t testing.TB) *crashfs.FS {
	t.Helper()
	fixture.Do(func() {
		for range 10 { // a checkpoint may come between
			if fixture.image = makeUsed(t); tailed(t, fixture.image) {
				return
			}
		}
		fixture.image = nil
	})
	if fixture.image == nil {
		t.Fatal("the directory could not be made")
	}
	return fixture.image.KillImage(2)
}

var fixture struct {
	sync.Once
	image *crashfs.FS
}

func makeUsed(t testing.TB) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	d := open(t, disk)
	logs := create(t, d)
	for _, name := range topics {
		if name != "empty" && name != "journalonly" && name != "flushed" {
			put(t, logs[name], 60)
		}
	}
	must.OK(t, truncate(logs["cut"], 30))
	must.OK(t, d.Close())
	d = open(t, disk)
	logs = logsOf(d)
	logs["compacted"].Observe(bounds{logs["compacted"]})
	eventually(t, "the log is compacted", func() bool { return compacted(t, disk) })
	for range 80 {
		for _, name := range topics {
			if name != "empty" && name != "flushed" {
				put(t, logs[name], 1)
			}
		}
		// Most of this log is also in segments, which the checkpoint does not list.
		put(t, logs["flushed"], 3)
	}
	put(t, logs["flushed"], 100)
	eventually(t, "records are in segments", func() bool {
		infos, err := disk.List(root + "/flushed-0")
		return err == nil && slices.ContainsFunc(infos,
			func(in vfs.Info) bool { return strings.HasSuffix(in.Name, segment.LogSuffix) && in.Size > 0 })
	})
	for !proven(t, disk) {
		put(t, logs["flushed"], 1)
	}
	// Each is a change in the log of the checkpoint.
	for _, to := range []int64{180, 170, 160} {
		must.OK(t, truncate(logs["cut"], to))
	}
	image := disk.KillImage(2)
	must.OK(t, d.Close())
	return image
}

// proven reports whether a frame in the last file of the journal proves that the file's first frame
// was synced. Without such a frame, a file with a single group and no header looks like a torn
// write.
func proven(t testing.TB, disk *crashfs.FS) bool {
	t.Helper()
	all := (&site{TB: t, fs: disk}).frames()
	last := all[len(all)-1]
	begin := slices.IndexFunc(all, func(f frame) bool { return f.file == last.file })
	return last.at.DurableThrough >= all[begin].at.LSN
}

// tailed reports whether segments of the log have records that the checkpoint does not list.
func tailed(t testing.TB, fsys vfs.FS) bool {
	t.Helper()
	s, err := storage.ReadState(fsys, root)
	must.OK(t, err)
	infos, err := fsys.List(root + "/flushed-0")
	must.OK(t, err)
	i := slices.IndexFunc(s.Logs, func(l checkpoint.Log) bool { return l.Topic == "flushed" })
	return slices.ContainsFunc(infos, func(in vfs.Info) bool {
		base, ok := segment.ParseName(in.Name)
		return ok && base >= s.Logs[i].Offset && in.Size > 0
	})
}

// compacted reports whether a compaction of the log has ended.
func compacted(t testing.TB, fsys vfs.FS) bool {
	t.Helper()
	s, err := storage.ReadState(fsys, root)
	must.OK(t, err)
	i := slices.IndexFunc(s.Logs, func(l checkpoint.Log) bool { return l.Topic == "compacted" })
	var n int64
	for _, e := range s.Logs[i].Segments {
		n += e.Size
	}
	return n < 15<<10 && !s.Logs[i].Swapping
}

func verify(t testing.TB, fsys vfs.FS) *inspect.Inspection {
	t.Helper()
	r, err := inspect.Verify(context.Background(), inspect.Options{FS: fsys, Locations: []storage.Location{location}})
	must.OK(t, err)
	return r
}

// tree returns the content of every file.
func tree(t testing.TB, fsys vfs.FS, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	infos, err := fsys.List(dir)
	must.OK(t, err)
	for _, in := range infos {
		name := path.Join(dir, in.Name)
		if in.Dir {
			all[name] = [32]byte{}
			for k, v := range tree(t, fsys, name) {
				all[k] = v
			}
			continue
		}
		all[name] = sha256.Sum256(read(t, fsys, name))
	}
	return all
}

func read(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// content returns every readable batch of every log, by topic and base offset.
func content(t testing.TB, d *storage.Dir) map[string]map[int64][]byte {
	t.Helper()
	all := map[string]map[int64][]byte{}
	for _, l := range d.Logs() {
		all[l.Topic()] = batches(t, l)
	}
	return all
}

func batches(t testing.TB, l *storage.Log) map[int64][]byte {
	t.Helper()
	m := map[int64][]byte{}
	if l.Offline() != nil {
		return m
	}
	e := l.Ends()
	for at := e.LogStart; at < e.LogEnd; {
		s, err := l.Read(at, e.LogEnd, 1<<20, true)
		if err != nil {
			t.Fatalf("read %s at %d: %v", l, at, err)
		}
		if s.Size == 0 {
			break
		}
		for _, p := range s.Parts {
			for len(p) > 0 {
				b, rest, err := record.Next(p)
				if err != nil {
					t.Fatalf("read %s at %d: %v", l, at, err)
				}
				m[b.BaseOffset()] = slices.Clone([]byte(b))
				at, p = b.LastOffset()+1, rest
			}
		}
		s.Release()
	}
	return m
}

func truncate(l *storage.Log, end int64) error {
	cuts := []storage.Truncation{{Log: l, End: end}}
	l.Dir().Truncate(cuts)
	return cuts[0].Err
}
