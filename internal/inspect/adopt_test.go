package inspect_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// lost is a log directory of broker 2 that was removed and made again, with quarantined frames of
// the log that it had.
type lost struct {
	*site
	dirs      []string // of the broker, /data/logs first
	partition metadata.Partition
	placed    [16]byte                   // where the metadata place the log
	files     map[string][]journal.Frame // by their paths
	full      string                     // the one of dirs that has the log after all, "" if none has
	register  [][16]byte                 // other directories of the broker
	also      string                     // another file
	ids       [][16]byte                 // of dirs
}

var former = [16]byte{9}

// make writes the directories, and the metadata to the first one.
func (x *lost) make() {
	s := x.site
	for _, at := range x.dirs {
		s.must(s.fs.MkdirAll(path.Dir(at)))
		d, err := storage.OpenDir(storage.Location{Path: at}, options(s.fs))
		s.must(err)
		x.ids = append(x.ids, d.ID())
		if at == x.full {
			put(s, create(s, d)["a"], 30)
			x.placed = d.ID()
		}
		s.must(d.Registered(checkpoint.Owner{Cluster: [16]byte{7}}))
		s.must(d.Close())
	}
	s.fs = s.fs.KillImage(1)
	topic, b := idOf(0).Topic, metadata.Broker{Incarnation: [16]byte{1}, Member: 5}
	for _, id := range append(x.register, x.ids...) {
		b.Dirs = append(b.Dirs, metadata.BrokerDir{ID: id, Offline: id == former})
	}
	keys := []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "x"}.Encode()},
		{Key: metadata.BrokerKey(2), Value: b.Encode()},
		{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: topic}.Encode()},
		{Key: metadata.TopicKey(topic), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
		{Key: metadata.PartitionKey(topic, 0), Value: x.partition.Encode()},
		{Key: metadata.PlacementKey(2, topic), Value: new(metadata.Placement).With(map[int32][16]byte{0: x.placed}).Encode()}}
	for i := range keys {
		keys[i].ModRevision = 1
	}
	store, err := raftstore.Open(raftstore.Options{FS: s.fs, Dir: data + "/metadata", Log: zap.NewNop()})
	s.must(err)
	s.must(store.Bootstrap(raftstore.Initial{Generation: [16]byte{1}, Voters: []uint64{store.Member()}, Revision: 1, Keys: keys}))
	s.must(store.Close())
	for name, frames := range x.files {
		var b []byte
		for i := range frames {
			b = frames[i].Encode(b)
		}
		x.write(name, b)
	}
	if x.also != "" {
		x.must(x.fs.MkdirAll(path.Dir(x.also)))
		x.write(x.also, []byte("x"))
	}
}

func (x *lost) write(name string, b []byte) {
	f, err := x.fs.Create(name)
	x.must(err)
	_, err = f.WriteAt(b, 0)
	x.must(err)
	x.must(f.Close())
}

// repair repairs the directories as last copies, and returns the findings before and after it.
func (x *lost) repair() (before, after *inspect.Inspection, plan *inspect.Plan) {
	o, err := inspect.Find(x.fs, append([]string{data}, x.dirs[1:]...), nil)
	x.must(err)
	o.LastCopy = true
	r, err := inspect.Begin(context.Background(), o, "a test")
	x.must(err)
	before, plan = r.Inspection(), r.Plan()
	if len(plan.Acts) > 0 {
		x.must(r.Do(context.Background(), "/backup"))
	}
	after = r.Inspection()
	x.must(r.Close())
	return before, after, plan
}

// A broker whose log directory was removed writes what its journal held to a quarantine file when
// it stops. The next start makes a new directory, whose checkpoint does not list the log. While no
// other broker leads the partition, these records may be the last copy: they are missing, and a
// repair makes a log of them, which the broker accepts in the place of the lost one.
func TestALogIsMadeAgainFromQuarantinedFrames(t *testing.T) {
	all, end := framesOf(t, idOf(0))
	one, two := file(3), map[string][]journal.Frame{file(9): all[:1], file(10): all[1:]}
	for name, x := range map[string]lost{
		"no leader": {partition: metadata.Partition{Leader: -1, Replicas: []int32{1, 2}}, files: map[string][]journal.Frame{one: all}},
		"it leads": {partition: metadata.Partition{Leader: 2, Replicas: []int32{1, 2}, ISR: []int32{2}},
			files: map[string][]journal.Frame{one: all}},
		"the only replica, two files": {partition: metadata.Partition{Leader: 2, Replicas: []int32{2}, ISR: []int32{2}}, files: two},
		"an interrupted repair": {partition: metadata.Partition{Leader: -1, Replicas: []int32{2}}, files: two,
			also: data + "/logs/a-0/" + storage.MoveFile},
		"copies of frames": {partition: metadata.Partition{Leader: -1, Replicas: []int32{2}},
			files: map[string][]journal.Frame{one: append(slices.Clone(all), all[0])}},
	} {
		t.Run(name, func(t *testing.T) {
			x.site, x.dirs, x.placed, x.register = &site{TB: t, fs: crashfs.New(1)}, []string{data + "/logs"}, former, [][16]byte{former}
			x.make()
			before, after, plan := x.repair()
			if m := before.Missing(); len(m) != 1 || m[0] != (inspect.Loss{Topic: "a", From: 0, To: end}) {
				t.Errorf("missing: %+v", m)
			}
			if loses := plan.Loses(); len(loses) != 0 || !after.Clean() {
				t.Errorf("the repair loses %+v; after it: %+v", loses, after.Findings)
			}
			for name := range x.files {
				if _, err := x.fs.Stat(name); err == nil {
					t.Errorf("%s is left, although the log has its records", name)
				}
			}
			d, err := storage.OpenDir(storage.Location{Path: data + "/logs"}, options(x.fs))
			x.must(err)
			l := logsOf(d)["a"]
			if l == nil || l.Err() != nil || l.Ends().LogStart != 0 || l.Ends().LogEnd != end || l.MovedFrom() != former {
				t.Errorf("the log %v", l)
			}
			x.must(d.Close())
		})
	}
}

// What a broker that loses a log directory writes when it stops is a log again after a repair: all
// records, if no segment had them.
func TestARemovedDirectoryComesBack(t *testing.T) {
	x := lost{site: &site{TB: t, fs: crashfs.New(1)}, dirs: []string{data + "/logs"}, placed: former, register: [][16]byte{former},
		partition: metadata.Partition{Leader: -1, Replicas: []int32{1, 2}, ISR: []int32{2}}}
	x.must(x.fs.MkdirAll(data))
	o := options(x.fs)
	o.JournalFileSize, o.JournalBytes = 1<<20, 64<<20
	d, err := storage.OpenDir(storage.Location{Path: data + "/logs"}, o)
	x.must(err)
	c := configOf("a")
	c.Segment.Bytes = 1 << 30
	logs, err := d.Create([]storage.Spec{{ID: idOf(0), Topic: "a", Config: c}})
	x.must(err)
	for range 250 { // small, so that they stay in memory
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(1, nil, []byte("a"), nil)
		b.Append(1, nil, []byte("b"), nil)
		putBatch(t, logs[0], b)
	}
	x.must(x.fs.RemoveAll(data + "/logs"))
	if err := d.Close(); err == nil {
		t.Error("the stop does not miss the directory")
	}
	x.make()
	before, after, _ := x.repair()
	if m := before.Missing(); len(m) != 1 || m[0] != (inspect.Loss{Topic: "a", From: 0, To: 500}) || !after.Clean() {
		t.Errorf("missing: %+v; after the repair: %+v", m, after.Findings)
	}
	d, err = storage.OpenDir(storage.Location{Path: data + "/logs"}, options(x.fs))
	x.must(err)
	if l := logsOf(d)["a"]; l == nil || l.Err() != nil || l.Ends().LogStart != 0 || l.Ends().LogEnd != 500 {
		t.Errorf("the log %v", l)
	}
	x.must(d.Close())
}

// Frames are left alone, and the finding says to keep them, if a log of them might replace
// another one, or if they are not certainly one stretch of the log.
func TestFramesThatMakeNoLogAreKept(t *testing.T) {
	all, _ := framesOf(t, idOf(0))
	undone := journal.Frame{LSN: 99, Stream: idOf(0), Type: journal.Gap, PrevEnd: 2, NextEnd: 8, Epoch: 5}
	earlier := journal.Frame{LSN: 99, Stream: idOf(0), Type: journal.Gap, PrevEnd: 6, NextEnd: 8, Epoch: 1}
	only, one, b := metadata.Partition{Leader: 2, Replicas: []int32{2}, ISR: []int32{2}}, file(3), "/b"
	for name, c := range map[string]struct {
		lost
		says string
		tear bool
	}{
		"another broker leads": {lost: lost{partition: metadata.Partition{Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}}},
			says: "another broker leads"},
		"it has no replica":             {lost: lost{partition: metadata.Partition{Leader: -1, Replicas: []int32{1}}}, says: "do not assign"},
		"another directory has the log": {lost: lost{partition: only, dirs: []string{"", b}, full: b}, says: "/b"},
		"a directory of the partition is left": {lost: lost{partition: only, also: data + "/logs/a-0/00000000000000000000.log"},
			says: "/logs/a-0"},
		"a stray of the partition is left": {lost: lost{partition: only, dirs: []string{"", b},
			also: fmt.Sprintf("%s/%x-0-1f-stray/00000000000000000000.log", b, idOf(0).Topic)}, says: "-stray"},
		"another directory is not given": {lost: lost{partition: only, register: [][16]byte{{8}}}, says: "give all"},
		"files in two directories": {lost: lost{partition: only, dirs: []string{"", b},
			files: map[string][]journal.Frame{one: all[:1], b + one[len(data+"/logs"):]: all[1:]}}, says: "has others"},
		"of an unknown log": {lost: lost{partition: only,
			files: map[string][]journal.Frame{strings.Replace(one, "logs/", "logs/unknown-", 1): all}}, says: "undone"},
		"undone frames": {lost: lost{partition: only,
			files: map[string][]journal.Frame{one: append(slices.Clone(all), undone)}}, says: "different records at offset 2"},
		"undone frames of another file": {lost: lost{partition: only,
			files: map[string][]journal.Frame{one: all, file(4): {undone}}}, says: "different records at offset 2"},
		"an earlier epoch": {lost: lost{partition: only,
			files: map[string][]journal.Frame{one: append(slices.Clone(all), earlier)}}, says: "earlier leader"},
		"a hole": {lost: lost{partition: only, files: map[string][]journal.Frame{one: all[:1], file(4): all[2:]}}, says: "2 to 3 are missing"},
		"damage": {lost: lost{partition: only}, says: "no valid frame", tear: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := c.lost
			x.site, x.placed = &site{TB: t, fs: crashfs.New(1)}, former
			x.dirs = append([]string{data + "/logs"}, x.dirs[min(len(x.dirs), 1):]...)
			if x.files == nil {
				x.files = map[string][]journal.Frame{one: all}
			}
			x.make()
			if c.tear {
				b, err := vfs.ReadFile(x.fs, one)
				x.must(err)
				x.must(x.fs.Remove(one))
				x.write(one, append(b, 1))
			}
			before, after, plan := x.repair()
			for _, acts := range plan.Acts {
				t.Errorf("the repair does %+v", acts)
			}
			kept := 0
			for _, f := range before.Findings {
				if _, has := x.files[f.File]; has {
					if kept++; !strings.Contains(f.Restore, c.says) || !strings.Contains(f.Restore, "keep the file") {
						t.Errorf("%s: %s", f.File, f.Restore)
					}
				}
			}
			if kept != len(x.files) || len(after.Findings) != len(before.Findings) {
				t.Errorf("before: %+v; after: %+v", before.Findings, after.Findings)
			}
			for name := range x.files {
				_, err := x.fs.Stat(name)
				x.must(err)
			}
		})
	}
}

// A checkpoint that lists the log counts, even if the directory of the log is missing.
func TestFramesOfAListedLogMakeNoOther(t *testing.T) {
	all, _ := framesOf(t, idOf(0))
	x := lost{site: &site{TB: t, fs: crashfs.New(1)}, dirs: []string{data + "/logs", "/b"}, full: "/b",
		partition: metadata.Partition{Leader: -1, Replicas: []int32{2}}, files: map[string][]journal.Frame{file(3): all}}
	x.make()
	x.must(x.fs.RemoveAll("/b/a-0"))
	o, err := inspect.Find(x.fs, []string{data, "/b"}, nil)
	x.must(err)
	found, err := inspect.Verify(context.Background(), o)
	x.must(err)
	for _, f := range found.Findings {
		if f.File == file(3) && (f.Repair != "" || !strings.Contains(f.Restore, "/b has a log")) {
			t.Errorf("%+v", f)
		}
	}
}

// file returns the path of a quarantine file.
func file(seq int) string { return fmt.Sprintf("%s/logs/%x-0-%d.frames", data, idOf(0).Topic, seq) }

// framesOf returns the frames of a log in the journal of another directory, and the log's end.
func framesOf(t *testing.T, id storage.ID) (all []journal.Frame, end int64) {
	disk := dataDir(t)
	files, err := journal.Files(disk, data+"/logs/journal", 0)
	for i := 0; err == nil && i < len(files); i++ {
		_, err = journal.Walk(disk, data+"/logs/journal", files[i].Seq, func(f journal.FrameAt) error {
			if f.Stream == id {
				f.Payload = slices.Clone(f.Payload)
				all, end = append(all, f.Frame), f.NextEnd
			}
			return nil
		})
	}
	if err != nil || len(all) != 3 {
		t.Fatalf("%d frames: %v", len(all), err)
	}
	return all, end
}

// An offline log takes the frames of its files in the order of their offsets, whatever their names
// are. A file with other records than the log gets stays: nothing else has them.
func TestARepairRemovesOnlyFramesThatTheLogHas(t *testing.T) {
	s := &site{TB: t, fs: used(t).KillImage(3)}
	st, frames := s.state(), []journal.Frame{}
	i := slices.IndexFunc(st.Logs, func(l checkpoint.Log) bool { return l.Topic == "a" })
	l := &st.Logs[i]
	for _, f := range s.frames() {
		if f.at.Stream == l.ID && f.at.LSN > l.LSN && !f.at.Carried {
			f.at.Payload = slices.Clone(f.at.Payload)
			frames = append(frames, f.at.Frame)
		}
	}
	last := frames[len(frames)-1]
	other := journal.Frame{LSN: last.LSN, Stream: l.ID, Type: journal.Gap, PrevEnd: last.PrevEnd, NextEnd: last.NextEnd, Epoch: 1}
	early, late, differs := "a-0/recovery-9.frames", "a-0/recovery-10.frames", "a-0/recovery-11.frames"
	encode := func(list ...journal.Frame) (b []byte) {
		for i := range list {
			b = list[i].Encode(b)
		}
		return b
	}
	s.make(early, encode(frames[:1]...))
	s.make(late, encode(frames[1:]...))
	s.make(differs, encode(other))
	s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Offline = "a segment was missing"; l.LSN = 1<<63 - 1 })
	plan, log := repaired(t, s.fs, "a")
	if loses := plan.Loses(); len(loses) != 0 || log.Ends().LogEnd != last.NextEnd {
		t.Errorf("the repair loses %+v; the log ends at %d, not %d", loses, log.Ends().LogEnd, last.NextEnd)
	}
	for name, keeps := range map[string]bool{early: false, late: false, differs: true} {
		if _, err := s.fs.Stat(root + "/" + name); (err == nil) != keeps {
			t.Errorf("%s: %v", name, err)
		}
	}
}
