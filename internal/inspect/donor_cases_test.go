package inspect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// mended repairs with these lines and returns the losses of the plan, and whether the log of a
// topic is marked as one that has lost records.
func mended(t testing.TB, fsys vfs.FS, topic string, lines []string) (loses []inspect.Loss, lossy bool) {
	t.Helper()
	r := beginWith(t, fsys, donorOf(t, lines))
	loses = r.Plan().Loses()
	must.OK(t, errors.Join(r.Do(context.Background(), "/backup"), r.Close()))
	return loses, entry(t, fsys, topic).Lossy
}

// entry returns the checkpoint's entry of the log of a topic.
func entry(t testing.TB, fsys vfs.FS, topic string) *checkpoint.Log {
	t.Helper()
	state, err := storage.ReadState(fsys, root)
	must.OK(t, err)
	i := slices.IndexFunc(state.Logs, func(l checkpoint.Log) bool { return l.Topic == topic && !l.Deleted })
	if i < 0 {
		t.Fatalf("no log of topic %s", topic)
	}
	return &state.Logs[i]
}

// The hole that a repair has left in another replica proves nothing: it is no compaction's.
func TestRepairTrustsNoHoleOfAnotherReplica(t *testing.T) {
	t.Parallel()
	image := used(t)
	other, mine := image.KillImage(3), image.KillImage(4)
	for _, fs := range []*crashfs.FS{other, mine} {
		(&site{TB: t, fs: fs}).flip(second, 2000)
	}
	first, _ := mended(t, other, "a", nil)
	if again, lossy := mended(t, mine, "a", donatedBy(t, other)); !slices.Equal(first, again) || !lossy {
		t.Errorf("one repair loses %v, the other one %v, lossy %t", first, again, lossy)
	}
}

// Restored batches are taken in the order of their offsets, also if a segment is short and has
// other damage: the state of producers that is built again is that of the last batches.
func TestRepairRestoresInOrder(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	d := open(t, disk)
	l := create(t, d)["a"]
	put(t, l, 5)
	inTransaction(t, l, 9, 0)
	for range 5 {
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(1, nil, bytes.Repeat([]byte("v"), 300), nil)
		putBatch(t, l, b)
	}
	ended(t, l, 9, record.Commit)
	must.OK(t, d.Close())
	lines := donatedBy(t, disk.KillImage(3))
	was := entry(t, disk, "a").Producers
	s := &site{TB: t, fs: disk.KillImage(4)}
	s.truncate(first, -10)
	s.flip(first, 1000)
	s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Producers = []byte{1, 2} })
	if loses, lossy := mended(t, s.fs, "a", lines); len(loses) > 0 || lossy {
		t.Errorf("it loses %v, lossy %t", loses, lossy)
	}
	var before, after producers.State
	_, err := before.Decode(was)
	must.OK(t, err)
	_, err = after.Decode(entry(t, s.fs, "a").Producers)
	must.OK(t, err)
	if a, b := fmt.Sprint(before.LastOffsets()), fmt.Sprint(after.LastOffsets()); a != b {
		t.Errorf("the producers were at %s, and are at %s", a, b)
	}
	if l = logsOf(opened(t, s.fs))["a"]; len(openIn(l)) > 0 {
		t.Errorf("open transactions: %v", openIn(l))
	}
}

// A state of producers that is built again leaves out the segments below the log start, which a
// start does not read.
func TestRepairReadsNoSegmentBelowTheStart(t *testing.T) {
	t.Parallel()
	disk := crashfs.New(1)
	d := open(t, disk)
	l := create(t, d)["a"]
	inTransaction(t, l, 9, 0)
	ended(t, l, 9, record.Commit)
	put(t, l, 60)
	must.OK(t, d.Close())
	s := &site{TB: t, fs: disk}
	_, at := s.batch(first, 1)
	s.flip(first, at+65) // the marker
	s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Start, l.Producers = l.Segments[1].Base, []byte{1, 2} })
	if loses, _ := mended(t, disk, "a", nil); len(loses) > 0 {
		t.Errorf("it loses %v", loses)
	}
	if l = logsOf(opened(t, disk))["a"]; len(openIn(l)) > 0 {
		t.Errorf("open transactions: %v", openIn(l))
	}
}

// A directory or its segments are gone, the log start is above its first segment, and the other
// replica has nothing that fits: the partition begins at its known end, as without the other
// replica.
func TestRepairOfADirectoryForWhichNothingIsSaved(t *testing.T) {
	t.Parallel()
	image := used(t)
	lines := slices.DeleteFunc(donatedBy(t, image.KillImage(11)), func(line string) bool {
		return strings.Contains(line, `"topic":"a"`) && !strings.Contains(line, `"offset":0,`)
	})
	for i, lines := range [][]string{lines, nil, nil} {
		fs := image.KillImage(5)
		s := &site{TB: t, fs: fs}
		for _, e := range entry(t, fs, "a").Segments {
			s.remove("a-0/" + segment.Name(e.Base) + segment.LogSuffix)
		}
		if i < 2 {
			s.remove("a-0")
		}
		s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Start = l.Segments[1].Base + 1 })
		if loses, lossy := mended(t, fs, "a", lines); len(loses) == 0 || !lossy {
			t.Errorf("it loses %v, lossy %t", loses, lossy)
		}
		if l := logsOf(opened(t, fs))["a"]; l.Offline() != nil {
			t.Errorf("the log is offline: %v", l.Offline())
		}
	}
}

// twoReplicas are images of the same log, before and after a compaction that has removed the key x
// and the tombstone of x, and the records of an aborted transaction and its marker.
type twoReplicas struct {
	before, after                   *crashfs.FS
	key, tombstone, aborted, marker int64
	nearKey, nearTx                 int64
}

func compactedOnce(t *testing.T) (p twoReplicas) {
	t.Helper()
	o := func(fs *crashfs.FS) storage.Options {
		o := options(fs)
		o.Config = func(topic string, _ storage.ID) storage.Config {
			c := configOf(topic)
			c.Segment.Bytes, c.Cleanup.Tombstones = 4<<10, time.Millisecond
			return c
		}
		return o
	}
	disk := crashfs.New(1)
	d, err := storage.OpenDir(location, o(disk))
	must.OK(t, err)
	l := create(t, d)["compacted"]
	set := func(key string, value []byte) int64 {
		o := record.BatchOptions{}
		if value == nil { // the last batch of a producer stays, without records
			o.Producer = &record.Producer{ID: 50}
		}
		b := record.NewBuilder(o)
		b.Append(time.Now().UnixMilli(), []byte(key), value, nil)
		at := l.Ends().LogEnd
		putBatch(t, l, b)
		eventually(t, "it counts", func() bool { return l.AckEnd() >= l.Ends().LogEnd })
		return at
	}
	fill := func(round string) {
		for i := range 30 {
			set(fmt.Sprint(round, i), bytes.Repeat([]byte("v"), 200))
		}
	}
	set("first", []byte("1"))
	p.key = set("x", []byte("secret"))
	p.nearKey = set("second", []byte("2"))
	p.aborted = written(t, l, 9, 4, 0)
	p.nearTx = set("third", []byte("3"))
	p.marker = bumped(t, l, 9, 4, record.Abort)
	written(t, l, 9, 5, 0) // the last batches of a producer stay
	bumped(t, l, 9, 5, record.Commit)
	fill("fill")
	p.tombstone = set("x", nil)
	fill("more")
	must.OK(t, d.Close())
	p.before = disk.KillImage(2)
	d, err = storage.OpenDir(location, o(disk))
	must.OK(t, err)
	l = logsOf(d)["compacted"]
	l.Observe(bounds{l})
	gone := func() bool {
		m := batches(t, l)
		for _, at := range []int64{p.key, p.tombstone, p.aborted, p.marker} {
			if b := m[at]; b != nil && record.Batch(b).Records() > 0 {
				return false
			}
		}
		return true
	}
	for round := 0; !gone(); round++ { // a tombstone goes in a later pass than what it deletes
		if round == 1000 {
			t.Fatal("the tombstone stays")
		}
		fill(fmt.Sprint("round", round, "-"))
	}
	must.OK(t, d.Close())
	p.after = disk.KillImage(3)
	return p
}

// flipBatch flips a byte of the batch with a base offset.
func flipBatch(t *testing.T, fs *crashfs.FS, topic string, offset int64) {
	t.Helper()
	infos, err := fs.List(root + "/" + topic + "-0")
	must.OK(t, err)
	s := &site{TB: t, fs: fs}
	for _, in := range infos {
		if _, ok := segment.ParseName(in.Name); !ok {
			continue
		}
		name := topic + "-0/" + in.Name
		at := int64(0)
		for p := read(t, fs, root+"/"+name); len(p) > 0; {
			b, rest, err := record.Next(p)
			if err != nil {
				break
			}
			if b.BaseOffset() == offset {
				s.flip(name, at+65)
				return
			}
			at, p = at+int64(len(b)), rest
		}
	}
	t.Fatalf("no batch at %d", offset)
}

// What a compaction has removed does not come back, and what only a compaction of the other replica
// has removed counts as lost.
func TestRepairRestoresNoRecordThatWasCompacted(t *testing.T) {
	t.Parallel()
	p := compactedOnce(t)
	whole, compacted := donatedBy(t, p.before.KillImage(4)), donatedBy(t, p.after.KillImage(4))
	for _, near := range []int64{p.nearKey, p.nearTx} { // the stretch has the offsets of what was removed, too
		fs := p.after.KillImage(5)
		flipBatch(t, fs, "compacted", near)
		if loses, lossy := mended(t, fs, "compacted", whole); len(loses) == 0 || !lossy {
			t.Errorf("damage at %d: it loses %v, lossy %t", near, loses, lossy)
		}
		m := batches(t, logsOf(opened(t, fs))["compacted"])
		for _, at := range []int64{p.key, p.aborted} {
			if b := m[at]; b != nil && record.Batch(b).Records() > 0 {
				t.Errorf("damage at %d: the record at %d is back", near, at)
			}
		}
	}
	for _, at := range []int64{p.tombstone, p.marker} {
		fs := p.before.KillImage(5)
		flipBatch(t, fs, "compacted", at)
		if loses, lossy := mended(t, fs, "compacted", compacted); len(loses) == 0 || !lossy {
			t.Errorf("damage at %d: it loses %v, lossy %t", at, loses, lossy)
		}
		m := batches(t, logsOf(opened(t, fs))["compacted"])
		if at == p.marker && m[at] == nil {
			t.Error("the abort marker is lost")
		}
	}
	// Where both were compacted, or none was, the batch is restored.
	for name, c := range map[string]struct {
		fs    *crashfs.FS
		at    int64
		lines []string
	}{"both": {p.after, p.nearKey, compacted}, "none": {p.before, p.tombstone, whole},
		"two donors": {p.before, p.tombstone, slices.Concat(compacted, whole)}} {
		fs := c.fs.KillImage(5)
		was := batches(t, logsOf(opened(t, fs.KillImage(6)))["compacted"])[c.at]
		flipBatch(t, fs, "compacted", c.at)
		loses, lossy := mended(t, fs, "compacted", c.lines)
		if now := batches(t, logsOf(opened(t, fs))["compacted"])[c.at]; !bytes.Equal(was, now) {
			t.Errorf("%s: the batch at %d is not restored", name, c.at)
		}
		if name != "both" && (len(loses) > 0 || lossy) { // of both, the records between two batches count as lost
			t.Errorf("%s: it loses %v, lossy %t", name, loses, lossy)
		}
	}
}

// A dump has what a quarantine file holds, and the topic id of the directory, also after a topic of
// the same name.
func TestADumpForARepairIsComplete(t *testing.T) {
	t.Parallel()
	image := used(t)
	count := func(lines []string) (n int) {
		for _, line := range lines {
			if strings.Contains(line, `"topic":"a"`) {
				n++
			}
		}
		return n
	}
	want := count(donatedBy(t, image.KillImage(3)))
	s := &site{TB: t, fs: image.KillImage(4)}
	s.quarantine("a", "a-0/recovery-3.frames")
	s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Offline, l.LSN = "a segment was missing", 1<<63-1 })
	if n := count(donatedBy(t, s.fs)); n < want {
		t.Errorf("%d batches with a quarantine file, %d without", n, want)
	}
	disk := crashfs.New(1)
	d := open(t, disk)
	l := create(t, d)["a"]
	put(t, l, 1)
	must.OK(t, d.Delete(l))
	id := storage.ID{Topic: [16]byte{99}}
	_, err := d.Create([]storage.Spec{{ID: id, Topic: "a", Config: configOf("a")}})
	must.OK(t, err)
	put(t, logsOf(d)["a"], 3)
	must.OK(t, d.Close())
	for _, line := range donatedBy(t, disk) {
		if strings.Contains(line, `"topic":"a"`) && !strings.Contains(line, `"topicId":"YwAAAAAAAAAAAAAAAAAAAA"`) {
			t.Errorf("a batch of another topic: %s", line)
		}
	}
}
