package restore

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

const (
	prefix = "place/"
	node   = 7
)

var (
	original = [16]byte{0xaa, 15: 1}
	topic    = [16]byte{1} // of clients
	offsets  = [16]byte{2} // compacted
)

// The partitions of topic.
const (
	plain   = iota // log objects and pieces, transactions, and a log start within a batch
	open           // a transaction that is open at the cut
	empty          // nothing, at offset 0
	deleted        // nothing, at an offset
	offline        // no broker could read it
	partitions
)

func logConfig() storage.Config {
	return storage.Config{Profile: durability.Profile{Name: "os", Ack: durability.Written, Sync: durability.SyncOS},
		Segment: segment.Limits{Bytes: 4 << 10, Ms: 1 << 40, IndexInterval: 512, IndexBytes: 1 << 20},
		Cleanup: storage.Cleanup{Delete: true, RetentionTime: time.Hour}} // all records are older
}

// content is what a partition of the original has at the cut.
type content struct {
	format.Partition
	batches [][]byte        // those that the restored log must have
	aborted map[int64]int64 // the first offset of each aborted transaction, by that of its marker
}

// world is a store with snapshots, and what the newest has.
type world struct {
	t     testing.TB
	fs    vfs.FS // of the store
	store *faultstore.Store
	want  map[format.ID]*content
	keys  []format.Key
	last  format.Previous
	large int // batches of 100 KiB in the partition open
	// tiered: old records of the topic stay in the store.
	tiered bool
}

// build returns a batch of n records.
func build(t testing.TB, o record.BatchOptions, n int, epoch int32) record.Batch {
	t.Helper()
	w := record.NewBuilder(o)
	for i := range n {
		w.Append(1000, []byte("key"), bytes.Repeat([]byte{byte(i)}, 200), nil)
	}
	b, err := w.Build()
	must.OK(t, err)
	b.SetLeaderEpoch(epoch)
	return b
}

// newWorld makes a store with the snapshots 50 and 60 of one cluster.
func newWorld(t testing.TB) *world { return newLargeWorld(t, 0) }

// newLargeWorld is newWorld with so many large batches in the partition open.
func newLargeWorld(t testing.TB, large int) *world {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	w := &world{t: t, fs: fsys, store: faultstore.New(s), want: map[format.ID]*content{}, large: large}
	return w.fill()
}

// newTieredWorld is newWorld with a store, in which old records stay.
func newTieredWorld(t testing.TB, store *faultstore.Store) *world {
	t.Helper()
	w := &world{t: t, store: store, want: map[format.ID]*content{}, tiered: true}
	return w.fill()
}

// fill makes the snapshots.
func (w *world) fill() *world {
	w.t.Helper()
	w.archive()
	w.compacted()
	for i, p := range map[int32]format.Partition{
		empty:   {State: format.Kept, Epoch: 3},
		deleted: {State: format.Kept, Epoch: 3, Start: 77, End: 77},
		offline: {State: format.Offline, Epoch: 3, Start: 10, End: 99},
	} {
		p.ID = format.ID{Topic: topic, Partition: i}
		w.want[p.ID] = &content{Partition: p}
	}
	w.metadata()
	index := &format.Index{Cluster: original, Number: 50, Time: 1_700_000_000_000, Release: "test", Keys: w.keys}
	for _, c := range w.want {
		index.Partitions = append(index.Partitions, c.Partition)
	}
	slices.SortFunc(index.Partitions, func(a, b format.Partition) int {
		return bytes.Compare(append(a.ID.Topic[:], byte(a.ID.Partition)), append(b.ID.Topic[:], byte(b.ID.Partition)))
	})
	first := w.put(index)
	next := *index
	next.Number, next.Time = 60, index.Time+60_000
	w.last = w.put(index.Changes(&next, first.Nonce))
	return w
}

func (w *world) put(x *format.Index) format.Previous {
	w.t.Helper()
	sealed, err := x.Encode()
	must.OK(w.t, err)
	n := format.Name{Kind: objects.Index, Number: x.Number, Nonce: objects.NewNonce()}
	must.OK(w.t, objects.Write(context.Background(), w.store, prefix+format.Prefix(original)+n.String(), objects.Index, sealed))
	return format.Previous{Number: x.Number, Nonce: n.Nonce}
}

// archived is a log that is archived.
type archived struct{ *storage.Log }

// AbortedIn implements upload.Log.
func (l archived) AbortedIn(offset int64, s *storage.Slice) ([]txnindex.Entry, error) {
	return l.Log.AbortedIn(offset, s, math.MaxInt)
}

// archive uploads the real logs of two partitions.
func (w *world) archive() {
	w.t.Helper()
	m, err := storage.Open([]storage.Location{{Path: "/d"}}, storage.Options{FS: vfs.Memory(), JournalFileSize: 1 << 20,
		Config: func(string, storage.ID) storage.Config { return logConfig() }})
	must.OK(w.t, err)
	defer func() { must.OK(w.t, m.Close()) }()
	batch := upload.NewBatch(upload.Options{Store: w.store, Prefix: prefix + format.Prefix(original), PackBytes: 1 << 20,
		PieceBytes: 1 << 20, ManifestParts: 4, ObjectBytes: int64(8<<10 + w.large*(50<<10))})
	results := map[int32]*upload.Archived{}
	keep := logConfig()
	keep.Cleanup = storage.Cleanup{}
	for _, i := range []int32{plain, open} {
		logs, err := m.CreateIn(m.Dirs()[0], []storage.Spec{{ID: storage.ID{Topic: topic, Partition: i}, Topic: "t", Config: keep}})
		must.OK(w.t, err)
		l := logs[0]
		l.SetLeaderEpoch(9, false)
		c := &content{Partition: format.Partition{ID: format.ID{Topic: topic, Partition: i}, State: format.Kept, Epoch: 9},
			aborted: map[int64]int64{}}
		add := func(b record.Batch) {
			b.SetBaseOffset(c.End)
			appendTo(w.t, l, 9, c.End, b)
			c.End = b.LastOffset() + 1
			c.batches = append(c.batches, b)
		}
		producer := record.BatchOptions{Producer: &record.Producer{ID: 5, Epoch: 1}, Transactional: true}
		for round := range int32(40) {
			add(build(w.t, record.BatchOptions{}, 3, round/10))
			if round%8 == 4 {
				first := c.End
				add(build(w.t, producer, 2, round/10))
				producer.Producer = &record.Producer{ID: 5, Epoch: 1, Sequence: producer.Producer.Sequence + 2}
				add(build(w.t, record.BatchOptions{}, 1, round/10))
				kind := record.Commit
				if round%16 == 4 {
					kind, c.aborted[c.End] = record.Abort, first
				}
				marker := record.EndTxnMarker(5, 1, kind, 1, 1000)
				marker.SetLeaderEpoch(round / 10)
				add(marker)
			}
		}
		if i == plain {
			c.Start = 31 // within a batch
			for len(c.batches) > 0 && record.Batch(c.batches[0]).LastOffset() < c.Start {
				delete(c.aborted, record.Batch(c.batches[0]).BaseOffset())
				c.batches = c.batches[1:]
			}
		} else {
			for range w.large {
				add(build(w.t, record.BatchOptions{}, 500, 9))
			}
			producer.Producer = &record.Producer{ID: 8}
			add(build(w.t, producer, 2, 9))
		}
		for l.AckEnd() < c.End {
			time.Sleep(10 * time.Microsecond)
		}
		results[i], err = batch.Add(context.Background(), &upload.Target{ID: c.ID, Log: archived{l}, End: c.End}, &upload.Archived{}, false)
		must.OK(w.t, err)
		w.want[c.ID] = c
	}
	must.OK(w.t, batch.Close(context.Background()))
	for i, a := range results {
		c := w.want[format.ID{Topic: topic, Partition: i}]
		a.Fill(&c.Partition)
	}
	if c := w.want[format.ID{Topic: topic}]; w.large == 0 && c.Archived == 0 || len(c.Parts) == 0 || len(c.aborted) == 0 {
		w.t.Fatalf("the archive has no log object, no piece or no aborted transaction: %+v", c.Partition)
	}
}

// compacted uploads a log with holes before, between and after its batches.
func (w *world) compacted() {
	w.t.Helper()
	c := &content{Partition: format.Partition{ID: format.ID{Topic: offsets}, State: format.Compacted, Epoch: 6, Start: 2, End: 500}}
	var pack format.Pack
	for i, base := range []int64{5, 40, 200} {
		var piece []byte
		for k := range int64(3) {
			b := build(w.t, record.BatchOptions{BaseOffset: base + 7*k}, 2, int32(i))
			piece, c.batches = append(piece, b...), append(c.batches, b)
		}
		must.OK(w.t, pack.Add(c.ID, base-1, base+20, piece))
	}
	nonce := objects.NewNonce()
	sealed, pieces := pack.Seal(nonce)
	name := format.Name{Kind: objects.Pack, Nonce: nonce}
	must.OK(w.t, objects.Write(context.Background(), w.store, prefix+format.Prefix(original)+name.String(), objects.Pack, sealed))
	for _, p := range pieces {
		c.Parts = append(c.Parts, p.Part)
	}
	w.want[c.ID] = c
}

// metadata makes the keys of two brokers with a user and configs.
func (w *world) metadata() {
	cluster := metadata.Cluster{ID: metadata.FormatID(original), Generation: [16]byte{3}, FeatureLevel: 1, TransactionVersion: 2}
	values := map[string][]byte{
		metadata.ClusterKey:               cluster.Encode(),
		metadata.ProducerIDsKey:           metadata.ProducerIDs{Next: 2000}.Encode(),
		metadata.BrokerKey(1):             metadata.Broker{Member: 11, Incarnation: [16]byte{9}}.Encode(),
		metadata.LivenessKey(1):           metadata.BrokerState{Liveness: metadata.Active}.Encode(),
		metadata.NameKey("t"):             metadata.Name{Topic: "t", ID: topic}.Encode(),
		metadata.TopicKey(topic):          metadata.TopicRecord{Name: "t", Partitions: partitions}.Encode(),
		metadata.TopicConfigKey(topic):    metadata.EncodeConfigs(map[string]string{"retention.ms": "3600000"}),
		metadata.NameKey("internal"):      metadata.Name{Topic: "internal", ID: offsets}.Encode(),
		metadata.TopicKey(offsets):        metadata.TopicRecord{Name: "internal", Partitions: 1, Internal: true}.Encode(),
		metadata.BrokerConfigKey(-1):      metadata.EncodeConfigs(map[string]string{"log.retention.ms": "1"}),
		metadata.PartitionKey(offsets, 0): metadata.Partition{Leader: 1, LeaderEpoch: 6, Replicas: []int32{1, 2}, ISR: []int32{1}}.Encode(),
	}
	for i := range int32(partitions) {
		p := metadata.Partition{Leader: 1, LeaderEpoch: 9, Replicas: []int32{2, 1}, ISR: []int32{1}}
		values[metadata.PartitionKey(topic, i)] = p.Encode()
	}
	if w.tiered {
		cluster.FeatureLevel = metadata.MaxFeatureLevel
		values[metadata.ClusterKey] = cluster.Encode()
		values[metadata.TopicConfigKey(topic)] = metadata.EncodeConfigs(map[string]string{"remote.storage.enable": "true"})
	}
	for key, value := range values {
		w.keys = append(w.keys, format.Key{Key: key, Value: value, Revision: 9})
	}
	slices.SortFunc(w.keys, func(a, b format.Key) int { return strings.Compare(a.Key, b.Key) })
}

func appendTo(t testing.TB, l *storage.Log, epoch int32, end int64, b record.Batch) {
	t.Helper()
	done := make(sink, 1)
	a := &storage.Append{Kind: storage.Assigned, Batches: b, LeaderEpoch: epoch, PrevEnd: end, Sink: done}
	l.Append(a, nil)
	<-done
	must.OK(t, a.Err)
}

func options(fsys vfs.FS) Options {
	cfg, conf := &config.Config{DataDir: "/data"}, &configdef.Broker{NodeID: node, LogDirs: []string{"/one", "/two"}}
	logs := logConfig()
	return Options{FS: fsys, Node: node, Log: zap.NewNop(), Dirs: datadir.New(fsys, cfg, conf, zap.NewNop()), journalFileSize: 64 << 10,
		config: &logs}
}

// restore finds the newest snapshot and restores it.
func (w *world) restore(fsys vfs.FS) (*Result, error) {
	s, err := Find(context.Background(), w.store, prefix, Choice{})
	if err != nil {
		return nil, err
	}
	return s.Write(context.Background(), options(fsys), new(Progress))
}

// judge opens the directories as a broker does and compares them with the snapshot. It returns the
// cluster.
func (w *world) judge(fsys vfs.FS) *metadata.Image {
	w.t.Helper()
	must.OK(w.t, options(fsys).Dirs.CheckFormats())
	c, err := raftstore.Read(fsys, "/data/metadata")
	must.OK(w.t, err)
	img, err := metadata.Load(c.Keys, c.Revision)
	must.OK(w.t, err)
	m, err := storage.Open([]storage.Location{{Path: "/one"}, {Path: "/two"}}, storage.Options{FS: fsys, JournalFileSize: 64 << 10,
		Config: func(string, storage.ID) storage.Config { c := logConfig(); c.Cleanup = storage.Cleanup{}; return c }})
	must.OK(w.t, err)
	defer func() { must.OK(w.t, m.Close()) }()
	if !c.Sole() || len(m.Logs()) != len(w.want) || len(m.Failed()) > 0 {
		w.t.Errorf("voters %v, %d logs, failed %v", c.Voters, len(m.Logs()), m.Failed())
	}
	for _, d := range m.Dirs() {
		if !d.Clean() || len(d.Logs()) != len(w.want)/2 {
			w.t.Errorf("%s has %d logs; clean: %t", d.Path(), len(d.Logs()), d.Clean())
		}
	}
	for id, want := range w.want {
		l := m.Get(storage.ID{Topic: id.Topic, Partition: id.Partition})
		if l == nil || l.Err() != nil {
			w.t.Fatalf("%x-%d is missing", id.Topic, id.Partition)
		}
		start := want.Start
		if want.State == format.Offline {
			start = want.End
		}
		batches, marked := want.batches, want.aborted
		if x := img.Tier(metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition}); !x.Empty() { // the disk has the last ones
			start = l.Ends().LogStart
			i := slices.IndexFunc(batches, func(b []byte) bool { return record.Batch(b).LastOffset() >= start })
			batches, marked = batches[i:], maps.Clone(marked)
			maps.DeleteFunc(marked, func(last, _ int64) bool { return last < start })
		}
		if e := l.Ends(); e.LogStart != start || e.Durable != want.End {
			w.t.Errorf("%x-%d has %+v, want [%d, %d)", id.Topic, id.Partition, e, start, want.End)
		}
		var got [][]byte
		aborted := map[int64]int64{}
		for at := start; at < want.End; {
			s, err := l.Read(at, want.End, math.MaxInt32, true)
			must.OK(w.t, err)
			if s.Size == 0 {
				break
			}
			for rest := bytes.Join(s.Parts, nil); len(rest) > 0; {
				b, next, err := record.Next(rest)
				must.OK(w.t, err)
				at, got, rest = b.LastOffset()+1, append(got, b), next
			}
			list, err := l.AbortedIn(start, &s, 100)
			must.OK(w.t, err)
			for _, e := range list {
				aborted[e.Last] = e.First
			}
			s.Release()
		}
		if !slices.EqualFunc(got, batches, bytes.Equal) {
			w.t.Errorf("%x-%d has %d batches, want %d", id.Topic, id.Partition, len(got), len(batches))
		}
		if !maps.Equal(aborted, marked) {
			w.t.Errorf("%x-%d has the aborted transactions %v, want %v", id.Topic, id.Partition, aborted, marked)
		}
		p := img.Partition(metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition})
		if epoch, _ := l.LastEpoch(); p == nil || !metadata.Raised(epoch, p.LeaderEpoch) {
			w.t.Errorf("%x-%d: %+v", id.Topic, id.Partition, p)
		}
	}
	return img
}

// The restored broker has every log from its start to its cut, in all directories, and the metadata
// of another cluster.
func TestARestoredBrokerHasTheSnapshot(t *testing.T) {
	w, fsys := newWorld(t), vfs.Memory()
	r, err := w.restore(fsys)
	must.OK(t, err)
	img := w.judge(fsys)
	if img.ClusterID() != r.Cluster || r.Cluster == metadata.FormatID(original) || r.Topics != 1 || r.Partitions != len(w.want) ||
		!slices.Equal(r.Offline, []Unread{{"t", offline, 99}}) || r.Records == 0 {
		t.Errorf("%+v, cluster %s", r, img.ClusterID())
	}
	twin := vfs.Memory()
	_, err = w.restore(twin)
	must.OK(t, err)
	if again := w.judge(twin); again.ClusterID() == img.ClusterID() || again.Generation() == img.Generation() {
		t.Errorf("two restores are one cluster, %s", img.ClusterID())
	}
	if _, err := w.restore(fsys); exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second restore into it: %v", err)
	}
}

// The process is killed in each call of the disk, or the power is lost in one of two ways: two of
// the three at each call here, all of them in make crash. The restore is repeated; before, no
// broker starts.
func TestARestoreCanBeKilledAndRepeated(t *testing.T) {
	w := newWorld(t)
	disk := crashfs.New(1)
	_, err := w.restore(disk)
	must.OK(t, err)
	calls, step := disk.Ops(), race.Some(1, 7)
	if testing.Short() {
		step = 13
	}
	for crash := 1; crash <= calls; crash += step {
		disk := crashfs.New(uint64(crash))
		disk.CrashDuring(crash)
		if _, err := w.restore(disk); err == nil && !disk.Crashed() {
			return // another order of the calls needs fewer
		}
		for i, image := range []*crashfs.FS{disk.KillImage(uint64(crash)), disk.PowerLossImage(crashfs.DropUnsynced, uint64(crash)),
			disk.PowerLossImage(crashfs.KeepSectors, uint64(crash))} {
			if i == crash%3 && !everyCall() {
				continue
			}
			dirs := options(image).Dirs
			there, err := raftstore.Exists(image, "/data/metadata")
			must.OK(t, err)
			err = dirs.CheckFormats()
			begun, _ := dirs.Unfinished()
			if err == nil && (begun != nil || !there && began(t, image)) {
				t.Fatalf("crash in call %d, image %d: a broker would start", crash, i)
			}
			if there && err == nil { // it had ended
				w.judge(image)
				continue
			}
			if _, err := w.restore(image); err != nil {
				t.Fatalf("crash in call %d, image %d: %v", crash, i, err)
			}
			w.judge(image)
		}
	}
}

// A restore that was interrupted within a log object continues after the last batch that it has
// copied.
func TestARestoreContinuesWithinAnObject(t *testing.T) {
	w, fsys := newLargeWorld(t, 40), vfs.Memory()
	folder := prefix + format.Prefix(original) + format.Folder(objects.Log, format.ID{Topic: topic, Partition: open})
	fault := w.store.Add(faultstore.Rule{Ops: faultstore.Get, Name: folder, From: 4, Err: faultstore.ErrInjected})
	if _, err := w.restore(fsys); !errors.Is(err, faultstore.ErrInjected) {
		t.Fatalf("the third chunk was not read: %v", err)
	}
	fault.Off()
	s, err := Find(context.Background(), w.store, prefix, Choice{})
	must.OK(t, err)
	var done Progress
	_, err = s.Write(context.Background(), options(fsys), &done)
	must.OK(t, err)
	w.judge(fsys)
	if n := done.Records.Load(); n == 0 || n > 15_000 {
		t.Errorf("%d of 20,000 records were copied by the second attempt", n)
	}
}

// Each call of the store fails or returns damaged bytes once. Nothing of that reaches a broker.
func TestDamagedObjectsAreNotRestored(t *testing.T) {
	w := newWorld(t)
	_, err := w.restore(vfs.Memory())
	must.OK(t, err)
	calls := w.store.Calls(faultstore.Get)
	failed := 0
	for what, rule := range map[string]faultstore.Rule{
		"error": {Err: faultstore.ErrInjected},
		"a bit": {Alter: func(_ faultstore.Call, b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"end":   {Alter: func(_ faultstore.Call, b []byte) []byte { return b[:len(b)/2] }},
	} {
		for from := 1; from <= calls; from++ {
			rule.Ops, rule.From, rule.Count = faultstore.Get, from, 1
			fault := w.store.Add(rule)
			fsys := vfs.Memory()
			r, err := w.restore(fsys)
			fault.Off()
			if err == nil && r.Cluster != "" { // an older snapshot, which has the same here, or a call that is not made again
				w.judge(fsys)
				continue
			}
			failed++
			if dirs := options(fsys).Dirs; dirs.CheckFormats() == nil && began(t, fsys) {
				t.Errorf("%s in call %d: a broker would start after %v", what, from, err)
			}
			if _, err := w.restore(fsys); err != nil {
				t.Errorf("%s in call %d, repeated: %v", what, from, err)
				continue
			}
			w.judge(fsys)
		}
	}
	if failed == 0 {
		t.Error("no fault had an effect")
	}
}

// A snapshot with a missing, truncated or altered object is not chosen, unless it was asked for:
// then it is an error that names the object.
func TestOnlyAWholeSnapshotIsChosen(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	name := prefix + format.Prefix(original) + (&format.Name{Kind: objects.Index, Number: 60, Nonce: w.last.Nonce}).String()
	must.OK(t, w.store.Delete(ctx, name))
	must.OK(t, w.store.Put(ctx, name, bytes.NewReader([]byte("nothing"))))
	s, err := Find(ctx, w.store, prefix, Choice{})
	must.OK(t, err)
	if s.At.Number != 50 || len(s.Passed) != 1 || !errors.Is(s.Passed[0], objects.ErrDamaged) ||
		!strings.Contains(s.Passed[0].Error(), name) {
		t.Errorf("snapshot %d was chosen, passed %v", s.At.Number, s.Passed)
	}
	if _, err := Find(ctx, w.store, prefix, Choice{Number: 60}); exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), name) {
		t.Errorf("the damaged snapshot: %v", err)
	}
	if _, err := Find(ctx, w.store, prefix, Choice{Number: 55}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("an unknown snapshot: %v", err)
	}
	for _, c := range []struct {
		at   int64
		want int64
	}{{1_700_000_000_000, 50}, {1_700_000_059_999, 50}, {1_699_999_999_999, 0}} {
		s, err := Find(ctx, w.store, prefix, Choice{At: time.UnixMilli(c.at)})
		if c.want == 0 && exit.CodeOf(err) != exit.Usage || c.want != 0 && (err != nil || s.At.Number != c.want) {
			t.Errorf("at %d: %v", c.at, err)
		}
	}

	w = newWorld(t)
	if s, err := Find(ctx, w.store, prefix, Choice{At: time.UnixMilli(1_700_000_060_000)}); err != nil || s.At.Number != 60 {
		t.Errorf("at the time of the newest: %v", err)
	}
	var all []string
	must.OK(t, w.store.List(ctx, "", func(in objects.Info) error { all = append(all, in.Name); return nil }))
	for _, name := range all {
		if strings.Contains(name, "/index/") {
			continue
		}
		w := newWorldFrom(t, w)
		must.OK(t, w.store.Delete(ctx, name))
		if _, err := Find(ctx, w.store, prefix, Choice{}); exit.CodeOf(err) != exit.Data || !errors.Is(err, objects.ErrNotFound) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
		must.OK(t, w.store.Put(ctx, name, bytes.NewReader([]byte("short"))))
		if _, err := Find(ctx, w.store, prefix, Choice{}); exit.CodeOf(err) != exit.Data || !errors.Is(err, objects.ErrDamaged) {
			t.Errorf("with a short %s: %v", name, err)
		}
	}
}

// newWorldFrom copies the store of a world.
func newWorldFrom(t *testing.T, w *world) *world {
	t.Helper()
	ctx, fsys := context.Background(), vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	must.OK(t, w.store.List(ctx, "", func(in objects.Info) error {
		b := make([]byte, in.Size)
		if _, err := w.store.Get(ctx, in.Name, 0, b); err != nil {
			return err
		}
		return s.Put(ctx, in.Name, bytes.NewReader(b))
	}))
	return &world{t: t, fs: fsys, store: faultstore.New(s), want: w.want, keys: w.keys, last: w.last}
}

// Damage within the batches is found by Verify, and by Write, which leaves no broker's directory.
func TestAlteredBatchesAreFound(t *testing.T) {
	ctx := context.Background()
	source := newWorld(t)
	must.OK(t, source.store.List(ctx, prefix, func(in objects.Info) error {
		if strings.Contains(in.Name, "/index/") || strings.Contains(in.Name, "/manifest/") {
			return nil
		}
		w := newWorldFrom(t, source)
		b := make([]byte, in.Size)
		_, err := w.store.Get(ctx, in.Name, 0, b)
		must.OK(t, err)
		b[100] ^= 1
		must.OK(t, w.store.Delete(ctx, in.Name))
		must.OK(t, w.store.Put(ctx, in.Name, bytes.NewReader(b)))
		s, err := Find(ctx, w.store, prefix, Choice{})
		must.OK(t, err)
		fsys := vfs.Memory()
		_, verified := s.Verify(ctx, new(Progress))
		_, written := s.Write(ctx, options(fsys), new(Progress))
		for what, err := range map[string]error{"verify": verified, "write": written} {
			if exit.CodeOf(err) != exit.Data || !errors.Is(err, objects.ErrDamaged) || !strings.Contains(err.Error(), in.Name) {
				t.Errorf("%s with an altered %s: %v", what, in.Name, err)
			}
		}
		if err := options(fsys).Dirs.CheckFormats(); exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("a broker would start: %v", err)
		}
		return nil
	}))
}

// Verify reads what Write does, and writes nothing.
func TestVerifyReadsEverything(t *testing.T) {
	w := newWorld(t)
	s, err := Find(context.Background(), w.store, prefix, Choice{})
	must.OK(t, err)
	var done, written Progress
	r, err := s.Verify(context.Background(), &done)
	must.OK(t, err)
	_, err = s.Write(context.Background(), options(vfs.Memory()), &written)
	must.OK(t, err)
	if done.Bytes.Load() != s.Bytes || written.Bytes.Load() != s.Bytes || r.Records != written.Records.Load() {
		t.Errorf("%d bytes of %d verified, %d written; %d records, %d", done.Bytes.Load(), s.Bytes, written.Bytes.Load(), r.Records,
			written.Records.Load())
	}
}

// Snapshots of several clusters are listed, and one is chosen by its id.
func TestOneOfSeveralClustersIsChosen(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	other := &format.Index{Cluster: [16]byte{7}, Number: 3, Time: 5}
	sealed, err := other.Encode()
	must.OK(t, err)
	n := format.Name{Kind: objects.Index, Number: 3, Nonce: objects.NewNonce()}
	must.OK(t, objects.Write(ctx, w.store, prefix+format.Prefix(other.Cluster)+n.String(), objects.Index, sealed))
	_, err = Find(ctx, w.store, prefix, Choice{})
	for _, want := range []string{metadata.FormatID(original), metadata.FormatID(other.Cluster), "from 50 to 60", "--cluster"} {
		if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("without --cluster: %v", err)
		}
	}
	s, err := Find(ctx, w.store, prefix, Choice{Cluster: metadata.FormatID(original)})
	if err != nil || s.At.Number != 60 {
		t.Errorf("%v", err)
	}
	for what, c := range map[string]Choice{"not an id": {Cluster: "x"}, "another id": {Cluster: metadata.FormatID([16]byte{8})}} {
		if _, err := Find(ctx, w.store, prefix, c); exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Find(ctx, w.store, "nowhere/", Choice{}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("an empty store: %v", err)
	}
}

// Directories that have something else, or the unfinished restore of another snapshot or of other
// directories, are refused with the remedy, and left alone.
func TestOtherDirectoriesAreRefused(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s, err := Find(ctx, w.store, prefix, Choice{})
	must.OK(t, err)
	earlier, err := Find(ctx, w.store, prefix, Choice{Number: 50})
	must.OK(t, err)
	for _, file := range []string{"/one/x", "/two/t-0/x", "/data/metadata/x"} {
		fsys := vfs.Memory()
		must.OK(t, fsys.MkdirAll(file[:strings.LastIndex(file, "/")]))
		must.OK(t, vfs.WriteFile(fsys, file, []byte("x"), true))
		_, err := s.Write(ctx, options(fsys), new(Progress))
		if exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "move away") {
			t.Errorf("with %s: %v", file, err)
		}
		if u, err := options(fsys).Dirs.Unfinished(); u != nil || err != nil {
			t.Errorf("with %s: %+v, %v", file, u, err)
		}
	}
	fsys := vfs.Memory()
	w.interrupt(s, fsys)
	_, err = earlier.Write(ctx, options(fsys), new(Progress))
	if exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "--snapshot 60") {
		t.Errorf("another snapshot: %v", err)
	}
	o := options(fsys)
	o.Node = 8
	if _, err := s.Write(ctx, o, new(Progress)); exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "node.id 7") {
		t.Errorf("another node: %v", err)
	}
	if _, err := options(fsys).Dirs.Lock(); exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "repeat chronikd restore") {
		t.Errorf("lock: %v", err)
	}
	_, err = s.Write(ctx, options(fsys), new(Progress))
	must.OK(t, err)
	w.judge(fsys)
}

// Only the chosen topics are restored, with the internal ones. Nothing of the others needs to be
// whole, and the newest snapshot that has the chosen ones is taken.
func TestOnlyChosenTopicsAreRestored(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	newer := *w.newest()
	other, alike := [16]byte{3}, [16]byte{4}
	for name, id := range map[string][16]byte{"other": other, "t.2": alike} {
		for key, value := range map[string][]byte{
			metadata.NameKey(name):       metadata.Name{Topic: name, ID: id}.Encode(),
			metadata.TopicKey(id):        metadata.TopicRecord{Name: name, Partitions: 1}.Encode(),
			metadata.TopicConfigKey(id):  metadata.EncodeConfigs(map[string]string{"retention.ms": "1"}),
			metadata.PartitionKey(id, 0): metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}.Encode(),
		} {
			newer.Keys = append(newer.Keys, format.Key{Key: key, Value: value, Revision: 9})
		}
		gone := format.Whole(format.Run{Kind: objects.Log, Nonce: objects.NewNonce(), End: 5, Size: 500, Len: 100}, 0)
		newer.Partitions = append(newer.Partitions, format.Partition{ID: format.ID{Topic: id}, State: format.Kept, End: 5,
			Parts: []format.Part{gone}})
	}
	slices.SortFunc(newer.Keys, func(a, b format.Key) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(newer.Partitions, func(a, b format.Partition) int {
		return bytes.Compare(append(a.ID.Topic[:], byte(a.ID.Partition)), append(b.ID.Topic[:], byte(b.ID.Partition)))
	})
	newer.Number, newer.Time = 70, newer.Time+60_000
	w.put(&newer)

	s, err := Find(ctx, w.store, prefix, Choice{})
	if err != nil || s.At.Number != 60 || s.LeftOut != 0 || len(s.Passed) != 1 {
		t.Fatalf("all topics: %+v, %v", s, err)
	}
	s, err = Find(ctx, w.store, prefix, Choice{Topics: []string{"t", "t"}})
	if err != nil || s.At.Number != 70 || s.LeftOut != 2 || len(s.Passed) != 0 || s.Partitions != len(w.want) {
		t.Fatalf("the topic t: %+v, %v", s, err)
	}
	fsys := vfs.Memory()
	w.interrupt(s, fsys)
	all, err := Find(ctx, w.store, prefix, Choice{Number: 70, Topics: []string{"internal"}})
	must.OK(t, err)
	_, err = all.Write(ctx, options(fsys), new(Progress))
	if exit.CodeOf(err) != exit.Data || !strings.Contains(err.Error(), "--topic t)") {
		t.Errorf("other topics than those of an unfinished restore: %v", err)
	}
	r, err := s.Write(ctx, options(fsys), new(Progress))
	must.OK(t, err)
	img := w.judge(fsys)
	if r.Topics != 1 || img.Topic("other") != nil || img.Topic("t.2") != nil || img.Topic("t") == nil {
		t.Errorf("%+v", r)
	}
	if _, err := s.Verify(ctx, new(Progress)); err != nil {
		t.Errorf("verify: %v", err)
	}

	for _, c := range []struct {
		choice Choice
		want   []string
	}{
		{Choice{Topics: []string{"othr"}}, []string{"3 snapshots from 50 to 70 have no topic othr", "did you mean other?"}},
		{Choice{Topics: []string{"t", "absent"}, Number: 70}, []string{"snapshot 70 has no topic absent;",
			"; snapshot 70 has internal, other, t, t.2"}},
		{Choice{Topics: []string{"other"}}, []string{"snapshot 70 is not whole", "2 snapshots from 50 to 60 have no topic other"}},
	} {
		_, err := Find(ctx, w.store, prefix, c.choice)
		for _, want := range c.want {
			if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", c.choice, err, want)
			}
		}
	}
	// A topic that was deleted is in older snapshots.
	newer.Number, newer.Time = 80, newer.Time+60_000
	newer.Keys = slices.DeleteFunc(newer.Keys, func(k format.Key) bool {
		return k.Key == metadata.NameKey("t") || strings.Contains(k.Key, metadata.FormatID(topic))
	})
	newer.Partitions = slices.DeleteFunc(newer.Partitions, func(p format.Partition) bool { return p.ID.Topic == topic })
	w.put(&newer)
	s, err = Find(ctx, w.store, prefix, Choice{Topics: []string{"t"}})
	if err != nil || s.At.Number != 70 || len(s.Passed) != 1 || !strings.Contains(s.Passed[0].Error(), "snapshot 80 has no topic t") {
		t.Errorf("a deleted topic: %+v, %v", s, err)
	}
}

// newest returns the newest snapshot.
func (w *world) newest() *format.Index {
	w.t.Helper()
	x, err := format.ReadSnapshot(context.Background(), w.store, prefix+format.Prefix(original), original, w.last)
	must.OK(w.t, err)
	return x
}

// interrupt begins a restore, which the store fails.
func (w *world) interrupt(s *Snapshot, fsys vfs.FS) {
	w.t.Helper()
	fault := w.store.Add(faultstore.Rule{Ops: faultstore.Get, From: 4, Err: faultstore.ErrInjected})
	defer fault.Off()
	if _, err := s.Write(context.Background(), options(fsys), new(Progress)); err == nil {
		w.t.Fatal("a store that fails is no error")
	}
}
