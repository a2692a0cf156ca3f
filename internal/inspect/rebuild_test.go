package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

const metadataAt, logsAt = data + "/metadata", data + "/logs"

// keysOf returns the keys of the fixture's topics, with a config each, placed in the directory with
// id dir.
func keysOf(dir [16]byte, names ...string) []metadata.KV {
	kvs := []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "this"}.Encode()}}
	for _, name := range names {
		id := idOf(slices.Index(topics, name)).Topic
		p := metadata.Partition{Leader: 4, LeaderEpoch: 5, Replicas: []int32{4}, ISR: []int32{4}}
		kvs = append(kvs, metadata.KV{Key: metadata.NameKey(name), Value: metadata.Name{Topic: name, ID: id}.Encode()},
			metadata.KV{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: name, Partitions: 1}.Encode()},
			metadata.KV{Key: metadata.PartitionKey(id, 0), Value: p.Encode()},
			metadata.KV{Key: metadata.PlacementKey(4, id), Value: placed(dir)},
			metadata.KV{Key: metadata.TopicConfigKey(id), Value: metadata.EncodeConfigs(map[string]string{"cleanup.policy": "of-" + name})})
	}
	return kvs
}

// placed returns the placement of a topic with one partition.
func placed(dir [16]byte) []byte {
	var none metadata.Placement
	return none.With(map[int32][16]byte{0: dir}).Encode()
}

// withTopics returns a data directory with the fixture's logs, the metadata of the topics and a
// copy of it. It also returns a summary of all keys.
func withTopics(t *testing.T, names ...string) (*crashfs.FS, map[string]string) {
	t.Helper()
	disk := crashfs.New(1)
	must.OK(t, disk.MkdirAll(data))
	d, err := storage.OpenDir(storage.Location{Path: logsAt}, options(disk))
	must.OK(t, err)
	for _, l := range create(t, d) {
		put(t, l, 3)
	}
	must.OK(t, d.Close())
	st, err := storage.ReadState(disk, logsAt)
	must.OK(t, err)
	s := solestore.Open(t, raftstore.Options{FS: disk, Dir: metadataAt})
	c := copies.Start(t.Context(), copies.Options{FS: disk, Dir: copies.In(logsAt), View: s.View(), Ended: s.Ended(), Patience: time.Hour,
		Log: zap.NewNop()})
	s.SetCopy(c)
	if _, err := s.Txn(t.Context(), metadata.Txn{Put: keysOf(st.Dir, names...)}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, errors.Join(c.Behind(), s.Close()))
	c.Stop()
	durable(t, disk, data)
	return disk, held(t, disk)
}

// held returns the values of all keys except that of producer ids, which a rebuild changes.
func held(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	c, err := raftstore.Read(fsys, metadataAt)
	if err != nil || !c.Used {
		t.Fatalf("the metadata: used %t, %v", c.Used, err)
	}
	m := map[string]string{}
	for _, kv := range c.Keys {
		if kv.Key != metadata.ProducerIDsKey {
			m[kv.Key] = string(kv.Value)
		}
	}
	return m
}

// begun begins the repair of a data directory.
func begun(t *testing.T, fsys vfs.FS) *inspect.Repair {
	t.Helper()
	o, err := inspect.Find(fsys, []string{data}, nil)
	must.OK(t, err)
	o.Node = 4
	r, err := inspect.Begin(context.Background(), o, "me")
	must.OK(t, err)
	return r
}

// rebuilt repairs a data directory with lost metadata and returns the only act.
func rebuilt(t *testing.T, fsys vfs.FS) inspect.Act {
	t.Helper()
	r := begun(t, fsys)
	acts := r.Plan().Acts
	if len(acts) != 1 || len(r.Plan().Left) > 0 {
		t.Fatalf("acts %+v, left %+v", acts, r.Plan().Left)
	}
	must.OK(t, errors.Join(r.Do(context.Background(), "/backup"), r.Close()))
	if !r.Inspection().Clean() {
		t.Fatalf("after the repair: %+v", r.Inspection().Findings)
	}
	return acts[0]
}

// With the copy nothing is lost: topics, ids, configs and all other keys are restored.
func TestMetadataComesBackFromItsCopy(t *testing.T) {
	t.Parallel()
	image, want := withTopics(t, topics...)
	for name, lose := range map[string]func(fsys *crashfs.FS) error{
		"its directory": func(fsys *crashfs.FS) error { return fsys.RemoveAll(metadataAt) },
		"its files": func(fsys *crashfs.FS) error {
			return errors.Join(fsys.RemoveAll(metadataAt), fsys.MkdirAll(metadataAt))
		},
		"the whole but logs": func(fsys *crashfs.FS) error {
			return errors.Join(fsys.RemoveAll(metadataAt), fsys.RemoveAll(data+"/.lock"))
		},
		"a byte of its log": func(fsys *crashfs.FS) error {
			_, log := metadataFiles(t, fsys)
			(&site{TB: t, fs: fsys}).turn(log, 90)
			return nil
		},
		"a value of it": func(fsys *crashfs.FS) error { // every checksum matches
			c, err := raftstore.Read(fsys, metadataAt)
			for i := range c.Keys {
				if strings.HasPrefix(c.Keys[i].Key, metadata.PartitionPrefix) {
					c.Keys[i].Value = []byte{0}
				}
			}
			return errors.Join(err, fsys.RemoveAll(metadataAt), fsys.MkdirAll(metadataAt),
				raftstore.Begin(fsys, metadataAt, [16]byte{1}, c.Keys, c.Revision))
		},
	} {
		fsys := image.KillImage(2)
		must.OK(t, lose(fsys))
		act := rebuilt(t, fsys)
		if got := held(t, fsys); !maps.Equal(got, want) || act.Gone != "" || !strings.Contains(act.What, copies.In(logsAt)) {
			t.Errorf("%s: %+v\nmetadata is %v\nwant %v", name, act, got, want)
		}
	}
}

// Metadata that a newer version wrote is not damaged: a repair must not replace it with an older
// copy or with topics that it creates from the logs.
func TestNewerMetadataIsNotRebuilt(t *testing.T) {
	t.Parallel()
	image, _ := withTopics(t, topics...)
	for name, change := range map[string]func(kvs []metadata.KV) []metadata.KV{
		"feature level": func(kvs []metadata.KV) []metadata.KV {
			i := slices.IndexFunc(kvs, func(kv metadata.KV) bool { return kv.Key == metadata.ClusterKey })
			kvs[i].Value = metadata.Cluster{ID: "this", FeatureLevel: metadata.MaxFeatureLevel + 1}.Encode()
			return kvs
		},
		"family of keys": func(kvs []metadata.KV) []metadata.KV {
			return append(kvs, metadata.KV{Key: "zones/1", Value: []byte(`{"v":1}`), ModRevision: 1})
		},
	} {
		for _, at := range [][]string{{metadataAt}, {metadataAt, copies.In(logsAt)}, {copies.In(logsAt)}} {
			fsys := image.KillImage(2)
			c, err := raftstore.Read(fsys, metadataAt)
			kvs := change(slices.Clone(c.Keys))
			for _, dir := range at {
				err = errors.Join(err, fsys.RemoveAll(dir), fsys.MkdirAll(dir), writeTo(fsys, dir, kvs, c.Revision))
			}
			if !slices.Contains(at, metadataAt) {
				err = errors.Join(err, fsys.RemoveAll(metadataAt))
			}
			must.OK(t, err)
			o, err := inspect.Find(fsys, []string{data}, nil)
			must.OK(t, err)
			r, err := inspect.Begin(context.Background(), o, "me")
			must.OK(t, err)
			if p := r.Plan(); len(p.Acts) > 0 || len(p.Left) == 0 || !r.Inspection().Refused() {
				t.Errorf("%s of %s: acts %+v, left %+v", name, at, p.Acts, p.Left)
			}
			must.OK(t, r.Close())
		}
	}
}

// What the system fails to read may be newer than what is left, or have topics that the rest lacks:
// no metadata are made without it.
func TestMetadataAreNotMadeWithoutWhatMayBeWhole(t *testing.T) {
	t.Parallel()
	image, _ := withTopics(t, topics...)
	must.OK(t, image.RemoveAll(metadataAt))
	must.OK(t, image.MkdirAll(metadataAt))
	checkpoints := logsAt + "/" + storage.CheckpointDir
	for name, c := range map[string]struct {
		lost, faulty string
	}{
		"the copy, and there is no other":          {faulty: copies.In(logsAt)},
		"what a repair made":                       {faulty: metadataAt + ".new"},
		"the checkpoint of the logs":               {faulty: checkpoints},
		"the checkpoint's copy, which must do":     {lost: checkpoints, faulty: logsAt + "/" + storage.CheckpointMirror},
		"the same, and there is no other metadata": {lost: copies.In(logsAt), faulty: checkpoints},
	} {
		fsys := image.KillImage(2)
		if c.lost != "" {
			must.OK(t, fsys.RemoveAll(c.lost))
		}
		faulty := errfs.New(fsys)
		faulty.Add(errfs.Rule{Ops: errfs.List, Path: c.faulty, Err: syscall.EIO})
		o, err := inspect.Find(faulty, []string{data}, nil)
		must.OK(t, err)
		r, err := inspect.Verify(context.Background(), o)
		must.OK(t, err)
		said := slices.ContainsFunc(r.Plan().Left, func(f inspect.Finding) bool {
			return f.Kind == inspect.MetadataMissing && strings.HasPrefix(f.Restore, "make readable") &&
				strings.Contains(f.Restore, c.faulty)
		})
		if len(r.Plan().Acts) > 0 || !said {
			t.Errorf("%s: acts %+v, left %+v", name, r.Plan().Acts, r.Plan().Left)
		}
	}
}

// Without a copy every topic comes back with its id and partitions. Its epochs and producer ids
// were never used before, and retention removes nothing until configs are set. Internal topics stay
// compacted.
func TestMetadataIsMadeOfTheLogs(t *testing.T) {
	t.Parallel()
	fsys, _ := withTopics(t, topics...)
	must.OK(t, errors.Join(fsys.RemoveAll(metadataAt), fsys.RemoveAll(copies.In(logsAt))))
	act := rebuilt(t, fsys)
	for _, gone := range []string{"configs of topics, brokers and groups", "cluster id"} {
		if !strings.Contains(act.Gone, gone) {
			t.Errorf("%q does not name the %s", act.Gone, gone)
		}
	}
	c, err := raftstore.Read(fsys, metadataAt)
	must.OK(t, err)
	img, err := metadata.Load(c.Keys, c.Revision)
	must.OK(t, err)
	st, err := storage.ReadState(fsys, logsAt)
	must.OK(t, err)
	for i, name := range topics {
		topic := img.Topic(name)
		if topic == nil || topic.ID != idOf(i).Topic || topic.Partitions.Len() != 1 {
			t.Fatalf("topic %s: %+v", name, topic)
		}
		p := topic.Partitions.At(0)
		dir, ok := img.Placement(4, metadata.TopicPartition{Topic: topic.ID})
		if !ok || dir != st.Dir || p.Leader != 4 || p.LeaderEpoch < 5 {
			t.Errorf("partition of %s: %+v", name, p)
		}
		if topic.Configs["retention.ms"] != "-1" || topic.Configs["retention.bytes"] != "-1" {
			t.Errorf("configs of %s: %v", name, topic.Configs)
		}
	}
	for _, kv := range c.Keys {
		if kv.Key == metadata.ProducerIDsKey {
			if ids, err := metadata.DecodeProducerIDs(kv); err != nil || ids.Next < 8+1<<32 {
				t.Errorf("the next producer id is %d, %v; 7 is in use", ids.Next, err)
			}
		}
	}
}

// A topic that the copy lacks, because the copy was behind, is created from its logs, which is
// reported. The copy of another broker is not used.
func TestWhatACopyLacks(t *testing.T) {
	t.Parallel()
	fsys, want := withTopics(t, topics[:3]...)
	must.OK(t, fsys.RemoveAll(metadataAt))
	foreign := fsys.KillImage(3)
	act := rebuilt(t, fsys)
	got := held(t, fsys)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	if !strings.Contains(act.What, fmt.Sprintf("%d topics from the logs", len(topics)-3)) ||
		!strings.Contains(act.Gone, "after revision 1") {
		t.Errorf("act: %+v", act)
	}
	other := [16]byte{77}
	must.OK(t, foreign.RemoveAll(copies.In(logsAt)))
	kvs := []metadata.KV{
		{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "theirs"}.Encode(), ModRevision: 90},
		{Key: metadata.NameKey("x"), Value: metadata.Name{Topic: "x", ID: other}.Encode(), ModRevision: 90},
		{Key: metadata.PartitionKey(other, 0),
			Value:       metadata.Partition{Leader: 4, Replicas: []int32{4}, ISR: []int32{4}}.Encode(),
			ModRevision: 90},
		{Key: metadata.TopicKey(other), Value: metadata.TopicRecord{Name: "x", Partitions: 1}.Encode(), ModRevision: 90},
	}
	must.OK(t, copies.Write(foreign, copies.In(logsAt), kvs, 90))
	if act := rebuilt(t, foreign); !strings.HasPrefix(act.What, "create new metadata") {
		t.Errorf("with the copy of another broker: %+v", act)
	}
	if got := held(t, foreign); got[metadata.TopicKey(other)] != "" {
		t.Error("a topic of another broker was taken over")
	}
}

// A topic of the copy that was deleted since, and whose name another topic has, leaves no key: an
// object store keeps what a Tier names.
func TestAReplacedTopicLeavesNoKey(t *testing.T) {
	t.Parallel()
	fsys, _ := withTopics(t, topics[1:]...)
	st, err := storage.ReadState(fsys, logsAt)
	must.OK(t, err)
	was := [16]byte{77}
	tier := &metadata.Tier{Manifest: was, End: 9, Bytes: 5, Epochs: []metadata.EpochStart{{}}}
	kvs := append(keysOf(st.Dir, topics[1:]...),
		metadata.KV{Key: metadata.NameKey(topics[0]), Value: metadata.Name{Topic: topics[0], ID: was}.Encode()},
		metadata.KV{Key: metadata.TopicKey(was), Value: metadata.TopicRecord{Name: topics[0], Partitions: 1}.Encode()},
		metadata.KV{Key: metadata.PartitionKey(was, 0),
			Value: metadata.Partition{Leader: 4, Replicas: []int32{4}, ISR: []int32{4}}.Encode()},
		metadata.KV{Key: metadata.PlacementKey(4, was), Value: placed(st.Dir)},
		metadata.KV{Key: metadata.TopicConfigKey(was), Value: metadata.EncodeConfigs(map[string]string{"a": "b"})},
		metadata.KV{Key: metadata.TierKey(metadata.TopicPartition{Topic: was}), Value: tier.Encode()})
	sorts.Sort(kvs, func(a, b metadata.KV) int { return strings.Compare(a.Key, b.Key) })
	must.OK(t, errors.Join(fsys.RemoveAll(metadataAt), fsys.RemoveAll(copies.In(logsAt)),
		copies.Write(fsys, copies.In(logsAt), kvs, 90)))
	if act := rebuilt(t, fsys); !strings.Contains(act.Gone, "topics whose names belong to newer topics: "+topics[0]) {
		t.Errorf("act: %+v", act)
	}
	for key := range held(t, fsys) {
		if strings.Contains(key, metadata.FormatID(was)) {
			t.Errorf("%s is left", key)
		}
	}
}

// An older version of the metadata is refused and replaced by the copy.
func TestOlderMetadataIsReplacedByItsCopy(t *testing.T) {
	t.Parallel()
	fsys, want := withTopics(t, topics...)
	older, err := raftstore.Read(fsys, metadataAt)
	must.OK(t, err)
	must.OK(t, fsys.RemoveAll(metadataAt))
	must.OK(t, raftstore.Begin(fsys, metadataAt, [16]byte{1}, older.Keys[:1], 0))
	r, err := found(t, fsys)
	must.OK(t, err)
	if len(r.Findings) != 1 || r.Findings[0].Kind != inspect.MetadataOlder || !r.Refused() {
		t.Errorf("findings: %+v", r.Findings)
	}
	rebuilt(t, fsys)
	if got := held(t, fsys); !maps.Equal(got, want) {
		t.Errorf("metadata is %v\nwant %v", got, want)
	}
}

// A copy is recognized by the directories in which it places partitions, even if it was behind and
// has none of the current topics. The cluster id and the configs of brokers are then restored. The
// result has a higher revision than every copy, so the next start does not mistake it for an older
// version.
func TestACopyIsKnownByItsDirectories(t *testing.T) {
	t.Parallel()
	fsys, _ := withTopics(t, topics[0])
	st, err := storage.ReadState(fsys, logsAt)
	must.OK(t, err)
	gone, copied := [16]byte{77}, copies.In(logsAt)
	kvs := []metadata.KV{
		{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "this"}.Encode(), ModRevision: 90},
		{Key: metadata.NameKey("x"), Value: metadata.Name{Topic: "x", ID: gone}.Encode(), ModRevision: 90},
		{Key: metadata.TopicKey(gone), Value: metadata.TopicRecord{Name: "x", Partitions: 1}.Encode(), ModRevision: 90},
		{Key: metadata.PartitionKey(gone, 0),
			Value:       metadata.Partition{Leader: 4, Replicas: []int32{4}, ISR: []int32{4}}.Encode(),
			ModRevision: 90},
		{Key: metadata.PlacementKey(4, gone), Value: placed(st.Dir), ModRevision: 90},
	}
	foreign := fsys.KillImage(2)
	must.OK(t, errors.Join(fsys.RemoveAll(metadataAt), fsys.RemoveAll(copied), copies.Write(fsys, copied, kvs, 90)))
	if got := repairedMetadata(t, fsys); got.Revision <= 90 || !got.SameCluster(&copies.Content{Keys: kvs}) {
		t.Errorf("revision %d, which is to be above 90, of another cluster: %t", got.Revision,
			!got.SameCluster(&copies.Content{Keys: kvs}))
	}

	// A copy that places its partitions in other directories belongs to another broker, even if
	// there are no logs.
	kvs[4].Value = placed([16]byte{99})
	ahead := foreign.KillImage(3)
	must.OK(t, errors.Join(ahead.RemoveAll(copied), copies.Write(ahead, copied, kvs, 90)))
	if got := repairedMetadata(t, ahead); got.Revision <= 90 || len(got.Keys) < 5 {
		t.Errorf("with a copy of the same cluster that is none of these directories': revision %d, %d keys", got.Revision, len(got.Keys))
	}
	d, err := storage.OpenDir(storage.Location{Path: logsAt}, options(foreign))
	must.OK(t, err)
	if err := errors.Join(d.Delete(d.Logs()...), d.Close(), foreign.RemoveAll(metadataAt), foreign.RemoveAll(copied),
		copies.Write(foreign, copied, kvs, 90)); err != nil {
		t.Fatal(err)
	}
	if got := repairedMetadata(t, foreign); got.SameCluster(&copies.Content{Keys: kvs}) {
		t.Error("the copy of another broker was put in the place of the metadata")
	}
}

// repairedMetadata repairs a data directory with lost metadata and returns the repaired metadata.
func repairedMetadata(t *testing.T, fsys vfs.FS) copies.Content {
	t.Helper()
	r := begun(t, fsys)
	must.OK(t, errors.Join(r.Do(context.Background(), "/backup"), r.Close()))
	c, err := raftstore.Read(fsys, metadataAt)
	if err != nil || !c.Used {
		t.Fatalf("the metadata: used %t, %v", c.Used, err)
	}
	return copies.Content{Used: true, Keys: c.Keys, Revision: c.Revision}
}

// writeTo writes metadata to their directory, or their copy to its own.
func writeTo(fsys vfs.FS, dir string, keys []metadata.KV, revision int64) error {
	if dir == metadataAt {
		return raftstore.Begin(fsys, dir, [16]byte{1}, keys, revision)
	}
	return copies.Write(fsys, dir, keys, revision)
}

// The files of an interrupted repair may be the only metadata left. If a second repair is killed at
// any call, a third one still finds these files or their result.
func TestASecondRepairKilledAtEachCall(t *testing.T) {
	t.Parallel()
	image, want := withTopics(t, topics...)
	// This is the state after a kill between removing the damaged metadata and renaming the new
	// directory.
	must.OK(t, errors.Join(image.RemoveAll(copies.In(logsAt)), image.Rename(metadataAt, metadataAt+".new")))
	durable(t, image, data)
	image = image.KillImage(1)
	whole := image.KillImage(2)
	rebuilt(t, whole)
	for call := range whole.Ops() {
		fsys := image.KillImage(3)
		fsys.CrashAt(call)
		if o, err := inspect.Find(fsys, []string{data}, nil); err == nil {
			if r, err := inspect.Begin(context.Background(), o, "me"); err == nil {
				_ = r.Do(context.Background(), "/backup")
				_ = r.Close()
			}
		}
		after := fsys.KillImage(4)
		must.OK(t, after.RemoveAll("/backup"))
		if report, err := found(t, after); err != nil {
			t.Fatalf("call %d: %v", call, err)
		} else if !report.Clean() {
			rebuilt(t, after)
		}
		if got := held(t, after); !maps.Equal(got, want) {
			t.Fatalf("call %d: metadata is %v\nwant %v", call, got, want)
		}
	}
}

// A repair that is killed or loses power at any call leaves a directory that another repair
// completes with the same result.
func TestMetadataRepairKilledAtEachCall(t *testing.T) {
	t.Parallel()
	image, want := withTopics(t, topics...)
	must.OK(t, image.RemoveAll(metadataAt))
	durable(t, image, data)
	image = image.KillImage(1)
	whole := image.KillImage(2)
	rebuilt(t, whole)
	for call := range whole.Ops() {
		fsys := image.KillImage(3)
		fsys.CrashAt(call)
		o, err := inspect.Find(fsys, []string{data}, nil)
		if err != nil {
			continue
		}
		r, err := inspect.Begin(context.Background(), o, "me")
		if err != nil {
			continue
		}
		_ = r.Do(context.Background(), "/backup")
		_ = r.Close()
		for _, after := range []*crashfs.FS{fsys.KillImage(4), fsys.PowerLossImage(crashfs.KeepSectors, uint64(call))} {
			must.OK(t, after.RemoveAll("/backup"))
			if report, err := found(t, after); err != nil {
				t.Fatalf("call %d: %v", call, err)
			} else if !report.Clean() {
				rebuilt(t, after)
			}
			if got := held(t, after); !maps.Equal(got, want) {
				t.Fatalf("call %d: metadata is %v\nwant %v", call, got, want)
			}
		}
	}
}
