package inspect_test

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

const data = "/data"

// dataDir creates a data directory: metadata with some transactions, and logs.
func dataDir(t *testing.T) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	must.OK(t, disk.MkdirAll(data))
	d, err := storage.OpenDir(storage.Location{Path: data + "/logs"}, options(disk))
	must.OK(t, err)
	logs := create(t, d)
	put(t, logs["a"], 3)
	put(t, logs["b"], 3)
	must.OK(t, d.Close())
	s := solestore.Open(t, raftstore.Options{FS: disk, Dir: data + "/metadata"})
	for _, name := range []string{"one", "two", "three"} {
		kv := metadata.KV{Key: metadata.BrokerConfigKey(int32(len(name))),
			Value: metadata.EncodeConfigs(map[string]string{name: strings.Repeat(name, 20)})}
		if _, err := s.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{kv}}); err != nil {
			t.Fatal(err)
		}
	}
	image := disk.KillImage(2)
	must.OK(t, s.Close())
	return image
}

func found(t *testing.T, fsys vfs.FS) (*inspect.Inspection, error) {
	t.Helper()
	o, err := inspect.Find(fsys, []string{data}, nil)
	must.OK(t, err)
	return inspect.Verify(context.Background(), o)
}

// Damage of the metadata is reported, and a start finds the same.
func TestDamagedMetadataIsNamed(t *testing.T) {
	t.Parallel()
	image := dataDir(t)
	snapshot, log := metadataFiles(t, image)
	for name, c := range map[string]struct {
		kind inspect.Kind
		file string
		do   func(*site)
	}{
		"none":             {do: func(*site) {}},
		"snapshot flipped": {inspect.MetadataDamaged, snapshot, func(s *site) { s.turn(snapshot, 60) }},
		"snapshot gone":    {inspect.MetadataMissing, snapshot, func(s *site) { s.must(s.fs.Remove(snapshot)) }},
		"log gone":         {inspect.MetadataMissing, log, func(s *site) { s.must(s.fs.Remove(log)) }},
		"log flipped":      {inspect.MetadataDamaged, log, func(s *site) { s.turn(log, 90) }},
		"log torn":         {inspect.MetadataTorn, log, func(s *site) { s.turn(log, -3) }},
		"all gone": {inspect.MetadataMissing, data + "/metadata", func(s *site) {
			s.must(s.fs.Remove(snapshot))
			s.must(s.fs.Remove(log))
		}},
		"its directory gone": {inspect.MetadataMissing, data + "/metadata", func(s *site) { s.must(s.fs.RemoveAll(data + "/metadata")) }},
	} {
		s := &site{TB: t, fs: image.KillImage(3)}
		c.do(s)
		r, err := found(t, s.fs)
		must.OK(t, err)
		_, openErr := raftstore.Read(s.fs, data+"/metadata")
		switch {
		case c.kind == "" && len(r.Findings) == 0:
		case len(r.Findings) != 1 || r.Findings[0].Kind != c.kind || r.Findings[0].File != c.file:
			t.Errorf("%s: %+v", name, r.Findings)
		case (openErr != nil) != r.Refused() && c.file != data+"/metadata":
			t.Errorf("%s: the store says %v, refused is %v", name, openErr, r.Refused())
		}
		if acts := r.Plan().Acts; len(acts) != 0 && (c.kind == "" || c.kind == inspect.MetadataTorn) {
			t.Errorf("%s: %+v", name, acts)
		}
	}
}

func metadataFiles(t *testing.T, fsys vfs.FS) (snapshot, log string) {
	t.Helper()
	infos, err := fsys.List(data + "/metadata")
	must.OK(t, err)
	for _, in := range infos {
		switch path.Ext(in.Name) {
		case ".snapshot":
			snapshot = data + "/metadata/" + in.Name
		case ".log":
			log = data + "/metadata/" + in.Name
		}
	}
	return snapshot, log
}

// turn flips a bit of a file; a negative position counts from the end.
func (s *site) turn(name string, at int64) {
	b := read(s, s.fs, name)
	if at < 0 {
		at += int64(len(b))
	}
	s.write(name, at, []byte{b[at] ^ 4})
}

// Unreadable metadata refuses a start, and does not just take a partition offline.
func TestUnreadableMetadataRefusesAStart(t *testing.T) {
	t.Parallel()
	image := dataDir(t)
	snapshot, log := metadataFiles(t, image)
	for _, name := range []string{snapshot, log} {
		faulty := errfs.New(image.KillImage(3))
		faulty.Add(errfs.Rule{Ops: errfs.Open, Path: name, Err: syscall.EIO})
		r, err := found(t, faulty)
		must.OK(t, err)
		if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.Unreadable || !r.Refused() {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// A partition that the metadata places in a directory whose checkpoint does not list it is
// reported, if records are missing with it. Where another broker has a replica, a start copies it.
func TestMissingLogIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas, isr []int32
		effect        inspect.Effect // empty: no finding
	}{
		"the only replica": {[]int32{1}, []int32{1}, inspect.Offline},
		"one of three":     {[]int32{1, 2, 3}, []int32{1, 2}, inspect.Heals},
		"out of the ISR":   {[]int32{1, 2, 3}, []int32{2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := dataDir(t)
			st, err := storage.ReadState(image, data+"/logs")
			must.OK(t, err)
			s := solestore.Open(t, raftstore.Options{FS: image, Dir: data + "/metadata"})
			id := [16]byte{99}
			kvs := []metadata.KV{
				{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: "lost", Partitions: 1}.Encode()},
				{Key: metadata.PartitionKey(id, 0), Value: metadata.Partition{Leader: c.isr[0], Replicas: c.replicas, ISR: c.isr}.Encode()},
				{Key: metadata.PlacementKey(1, id), Value: placed(st.Dir)},
			}
			if _, err := s.Txn(context.Background(), metadata.Txn{Put: kvs}); err != nil {
				t.Fatal(err)
			}
			must.OK(t, s.Close())
			r, err := found(t, image)
			must.OK(t, err)
			if c.effect == "" {
				if len(r.Findings) > 0 {
					t.Errorf("%+v", r.Findings)
				}
				return
			}
			if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.LogMissing || r.Findings[0].Topic != "lost" ||
				r.Findings[0].Effect != c.effect || (len(r.Findings[0].Lost) == 1) != (c.effect == inspect.Offline) {
				t.Errorf("%+v", r.Findings)
			}
		})
	}
}

// Files that the disk fails to read are reported and the rest is checked; missing permission is an
// error.
func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	image := used(t)
	for name, c := range map[string]struct {
		path string
		err  error
	}{
		"segment":                  {root + "/" + second, syscall.EIO},
		"checkpoint":               {root + "/checkpoint", syscall.EIO},
		"identity":                 {root + "/chronik.dir", syscall.EIO},
		"directory":                {root + "/a-0", syscall.EIO},
		"rights":                   {root + "/" + second, fs.ErrPermission},
		"rights at the topic id":   {root + "/a-0/partition.metadata", fs.ErrPermission},
		"rights at the checkpoint": {root + "/checkpoint", fs.ErrPermission},
	} {
		faulty := errfs.New(image.KillImage(3))
		faulty.Add(errfs.Rule{Ops: errfs.Open | errfs.List, Path: c.path, Err: c.err})
		r, err := inspect.Verify(context.Background(), inspect.Options{FS: faulty, Locations: []storage.Location{location}})
		if errors.Is(c.err, fs.ErrPermission) {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		must.OK(t, err)
		if !slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool { return f.Kind == inspect.Unreadable && f.File == c.path }) ||
			r.Clean() {
			t.Errorf("%s: %+v", name, r.Findings)
		}
	}
}

// The file with the topic id of a partition can't be read. It is written again, because the broker
// deletes no partition whose directory it does not know to be the partition's.
func TestATopicIDThatCannotBeRead(t *testing.T) {
	t.Parallel()
	name := root + "/a-0/partition.metadata"
	faulty := errfs.New(used(t).KillImage(3))
	faulty.Add(errfs.Rule{Ops: errfs.Read, Path: name, Err: syscall.EIO})
	o := inspect.Options{FS: faulty, Locations: []storage.Location{location}}
	r, err := inspect.Verify(context.Background(), o)
	must.OK(t, err)
	if !slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool {
		return f.Kind == inspect.PartitionIDWrong && f.File == name && strings.Contains(f.Detail, syscall.EIO.Error())
	}) {
		t.Errorf("%+v", r.Findings)
	}
}

// A first start may have stopped before its checkpoint. That it did is not known of a directory
// whose identity cannot be read.
func TestIdentitiesThatCannotBeReadRefuseAStart(t *testing.T) {
	t.Parallel()
	for _, file := range []string{root + "/chronik.dir", root + "/journal/chronik.journal"} {
		s := &site{TB: t, fs: crashfs.New(1)}
		s.must(open(t, s.fs).Close())
		for _, name := range []string{"checkpoint", "checkpoint.copy"} {
			s.remove(name)
		}
		infos, err := s.fs.List(root + "/journal")
		s.must(err)
		for _, in := range infos {
			if path.Ext(in.Name) == ".journal" && in.Name != "chronik.journal" {
				s.remove("journal/" + in.Name)
			}
		}
		if r := verify(t, s.fs); len(r.Findings) > 0 {
			t.Errorf("without a fault: %+v", r.Findings)
		}
		faulty := errfs.New(s.fs)
		faulty.Add(errfs.Rule{Ops: errfs.Open, Path: file, Err: syscall.EIO})
		r := verify(t, faulty)
		if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.Unreadable || r.Findings[0].File != file || !r.Refused() {
			t.Errorf("%s: %+v", file, r.Findings)
		}
	}
}

// A directory in use is neither verified nor repaired, and no broker starts in a directory that is
// being verified.
func TestInUse(t *testing.T) {
	t.Parallel()
	disk := used(t)
	d := open(t, disk)
	o := inspect.Options{FS: disk, Locations: []storage.Location{location}}
	if _, err := inspect.Verify(context.Background(), o); !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), "pid 4711") {
		t.Errorf("verify: %v", err)
	}
	if _, err := inspect.Begin(context.Background(), o, "me"); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("repair: %v", err)
	}
	must.OK(t, d.Close())
	r := begin(t, disk)
	if _, err := storage.OpenDir(location, options(disk)); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("a start beside a repair: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	opened(t, disk)
}

// Verify stops when its context is canceled.
func TestVerifyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := inspect.Verify(ctx, inspect.Options{FS: used(t), Locations: []storage.Location{location}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Dump shows each frame, batch and record once, and continues after damage.
func TestDump(t *testing.T) {
	t.Parallel()
	disk := used(t)
	s := &site{TB: t, fs: disk}
	s.flip(second, 2000)
	count := func(o inspect.DumpOptions) map[string]int {
		n := map[string]int{}
		err := inspect.Dump(context.Background(), inspect.Options{FS: disk, Locations: []storage.Location{location}}, o,
			func(it *inspect.Item) error {
				n[it.What]++
				return nil
			})
		must.OK(t, err)
		return n
	}
	all := count(inspect.DumpOptions{Checkpoint: true, Journal: true, Segments: true, Partition: -1})
	if all["checkpoint"] != 1 || all["log"] != len(topics) || all["frame"] < 480 || all["damage"] != 1 || all["record"] > 0 {
		t.Errorf("%v", all)
	}
	some := count(inspect.DumpOptions{Segments: true, Topic: "a", Partition: 0, From: 40, To: 44, Records: true})
	if some["batch"] != 2 || some["record"] != 4 || some["segment"] != 1 {
		t.Errorf("%v", some)
	}
	s.flip(s.checkpointFile(storage.CheckpointDir, ".snapshot"), 100)
	if lost := count(inspect.DumpOptions{Checkpoint: true, Partition: -1}); lost["damage"] != 1 || lost["checkpoint"] != 1 ||
		lost["log"] != len(topics) {
		t.Errorf("with a damaged checkpoint: %v", lost)
	}
	some = count(inspect.DumpOptions{Journal: true, Topic: "a", Partition: 0, From: 130, To: 134, Records: true})
	if some["frame"] != 2 || some["record"] != 4 {
		t.Errorf("%v", some)
	}
}

// Other brokers have the metadata of one whose log directories belong to a cluster. Damage of it is
// named, and no repair makes metadata from the logs.
func TestTheMetadataOfAMemberIsChecked(t *testing.T) {
	t.Parallel()
	s := &site{TB: t, fs: dataDir(t).KillImage(3)}
	s.must(s.fs.RemoveAll(data + "/metadata"))
	d, err := storage.OpenDir(storage.Location{Path: data + "/logs"}, options(s.fs))
	s.must(err)
	d.Confirm(checkpoint.Owner{Cluster: [16]byte{7}})
	s.must(d.Close())
	from := copies.In(data + "/logs")
	s.must(copies.Write(s.fs, from, []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "x"}.Encode()}}, 2))
	for _, started := range []bool{false, true} { // a start without metadata makes an empty member
		if started {
			store, err := raftstore.Open(raftstore.Options{FS: s.fs, Dir: data + "/metadata", Log: zap.NewNop()})
			s.must(err)
			s.must(store.Close())
		}
		r, err := found(t, s.fs)
		s.must(err)
		if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.MemberMissing || !r.Refused() || len(r.Plan().Acts) != 0 ||
			!strings.Contains(r.Findings[0].Restore, "chronikd recover --from "+from) {
			t.Errorf("no metadata, started %t: %+v, plan %+v", started, r.Findings, r.Plan())
		}
	}
	s.must(s.fs.RemoveAll(from))
	store, err := raftstore.Open(raftstore.Options{FS: s.fs, Dir: data + "/metadata", Log: zap.NewNop()})
	s.must(err)
	s.must(store.Bootstrap(raftstore.Initial{Generation: [16]byte{1}, Voters: []uint64{store.Member()}, Revision: 1,
		Keys: []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "x"}.Encode()}}}))
	s.must(store.Close())
	r, err := found(t, s.fs)
	s.must(err)
	if len(r.Findings) != 0 || len(r.Plan().Acts) != 0 {
		t.Errorf("an intact member: %+v, plan %+v", r.Findings, r.Plan())
	}
	s.must(copies.Write(s.fs, from, []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "x"}.Encode()}}, 2))
	r, err = found(t, s.fs)
	s.must(err)
	if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.MetadataOlder || !r.Refused() || len(r.Plan().Acts) != 0 ||
		!strings.Contains(r.Findings[0].Restore, "chronikd recover --from "+from) {
		t.Errorf("a member that is older than its copy: %+v, plan %+v", r.Findings, r.Plan())
	}
	s.must(s.fs.RemoveAll(from))
	for _, ops := range []errfs.Op{errfs.List, errfs.Open, errfs.Read} { // what may be whole is not given up
		faulty := errfs.New(s.fs)
		faulty.Add(errfs.Rule{Ops: ops, Path: data + "/metadata", Err: syscall.EIO})
		faulty.Add(errfs.Rule{Ops: ops, Path: data + "/metadata/*", Err: syscall.EIO})
		r, err = found(t, faulty)
		s.must(err)
		if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.Unreadable || !r.Refused() || len(r.Plan().Acts) != 0 ||
			strings.Contains(r.Findings[0].Restore, "metadata.away") {
			t.Errorf("a disk that fails to %v: %+v, plan %+v", ops, r.Findings, r.Plan())
		}
	}
	infos, err := s.fs.List(data + "/metadata")
	s.must(err)
	for _, in := range infos {
		if path.Ext(in.Name) == ".snapshot" {
			s.turn(data+"/metadata/"+in.Name, 60)
		}
	}
	r, err = found(t, s.fs)
	s.must(err)
	if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.MemberDamaged || !r.Refused() || len(r.Plan().Acts) != 0 ||
		r.Findings[0].Restore != health.Rejoin(data+"/metadata", data+"/metadata.away") {
		t.Errorf("a damaged member: %+v, plan %+v", r.Findings, r.Plan())
	}
}

// A broker with a damaged journal is not told to start with an empty directory before it knows
// which partitions would be lost with it: those of which no other broker has all records.
func TestARefusedRepairNamesWhatOnlyThisBrokerHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		metadata bool
		b        metadata.Partition // the partition of the second topic; the first has three replicas in sync
		want     string
		not      string
	}{
		"the only replica": {true, metadata.Partition{Replicas: []int32{2}, ISR: []int32{2}},
			"no other broker has all records of b-0, so use `repair the last copy`", "the only replica of a partition"},
		"the last one in sync": {true, metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{2}},
			"no other broker has all records of b-0, so use `repair the last copy`", "the only replica of a partition"},
		"another eligible one": {true, metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{2}, ELR: []int32{1}},
			"; if the broker refuses a log directory, give it an empty directory", "no other broker has all records of"},
		"the only one, on another broker": {true, metadata.Partition{Replicas: []int32{1}, ISR: []int32{1}},
			"; if the broker refuses a log directory, give it an empty directory", "no other broker has all records of"},
		"the last one in sync, with damage": {true, metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{2}},
			"start the broker: it replaces a damaged log by a copy if another replica is in sync; of b-0 none is", "empty directory"},
		"another in sync, with damage": {true, metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}},
			"start the broker: it replaces a damaged log by a copy; if no other broker", "empty directory"},
		"no metadata": {false, metadata.Partition{},
			"if this broker has the only replica of a partition, `repair the last copy` keeps", "b-0, so"},
	} {
		s := &site{TB: t, fs: dataDir(t).KillImage(3)}
		s.must(s.fs.RemoveAll(data + "/metadata"))
		d, err := storage.OpenDir(storage.Location{Path: data + "/logs"}, options(s.fs))
		s.must(err)
		id := d.ID()
		put(t, logsOf(d)["a"], 3)
		s.must(d.Registered(checkpoint.Owner{Cluster: [16]byte{7}}))
		put(t, logsOf(d)["a"], 3)
		s.fs = s.fs.KillImage(1)
		_ = d.Close()
		if c.metadata {
			c.b.Leader = c.b.ISR[0]
			self := metadata.Broker{Incarnation: [16]byte{1}, Member: 5, Dirs: []metadata.BrokerDir{{ID: id}}}
			keys := []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "x"}.Encode()},
				{Key: metadata.BrokerKey(2), Value: self.Encode()}}
			for i, p := range []metadata.Partition{{Leader: 2, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}}, c.b} {
				topic := idOf(i).Topic
				keys = append(keys, metadata.KV{Key: metadata.NameKey(topics[i]), Value: metadata.Name{ID: topic}.Encode()},
					metadata.KV{Key: metadata.TopicKey(topic), Value: metadata.TopicRecord{Name: topics[i], Partitions: 1}.Encode()},
					metadata.KV{Key: metadata.PartitionKey(topic, 0), Value: p.Encode()})
			}
			for i := range keys {
				keys[i].ModRevision = 1
			}
			store, err := raftstore.Open(raftstore.Options{FS: s.fs, Dir: data + "/metadata", Log: zap.NewNop()})
			s.must(err)
			s.must(store.Bootstrap(raftstore.Initial{Generation: [16]byte{1}, Voters: []uint64{store.Member()}, Revision: 1, Keys: keys}))
			s.must(store.Close())
		}
		damaged := strings.HasSuffix(name, "with damage")
		if damaged {
			s.write(data+"/logs/b-0/00000000000000000000.log", 200, []byte{0xff})
		}
		infos, err := s.fs.List(data + "/logs/journal")
		s.must(err)
		for _, in := range infos {
			if path.Ext(in.Name) == ".journal" && !damaged {
				s.must(s.fs.Remove(data + "/logs/journal/" + in.Name))
			}
		}
		o, err := inspect.Find(s.fs, []string{data}, nil)
		s.must(err)
		o.LastCopyCommand = "`repair the last copy`"
		_, err = inspect.Begin(context.Background(), o, "a test")
		if !errors.Is(err, inspect.ErrReplicated) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, c.want) || strings.Contains(text, c.not) ||
			!damaged && !strings.Contains(text, "empty directory instead") ||
			!damaged && c.want[0] != ';' && strings.Index(text, c.want) > strings.Index(text, "empty directory instead") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
