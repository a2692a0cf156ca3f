package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/replicatest"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

var topicID = [16]byte{0xa}

// cluster is the metadata of one topic with one partition, led by broker 1.
type cluster struct {
	dir   [16]byte // of the partition's log; zero if not recorded
	image *metadata.Image
	rev   int64
}

func (c *cluster) AssignDirs(_ context.Context, _ int32, dirs map[metadata.TopicPartition][16]byte) (int64, error) {
	for dir := range maps.Values(dirs) {
		c.dir = dir
	}
	return c.rev + 1, nil
}

func (c *cluster) RaiseEpochs(context.Context, map[metadata.TopicPartition]metadata.Raise) (int64, error) {
	return c.rev + 1, nil
}

func (c *cluster) ForgetDeleted(context.Context, int32, ...[16]byte) (int64, error) {
	return c.rev + 1, nil
}

func (c *cluster) AlterISR(context.Context, []metadata.ISRChange) []error { return nil }

func (c *cluster) apply(t testing.TB, m *replica.Manager) {
	t.Helper()
	c.rev++
	var none metadata.Placement
	kvs := []metadata.KV{
		{Key: metadata.BrokerKey(1), Value: metadata.Broker{}.Encode(), ModRevision: 1},
		{Key: metadata.LivenessKey(1), Value: metadata.BrokerState{Liveness: metadata.Active}.Encode(), ModRevision: 1},
	}
	for key, value := range map[string][]byte{
		metadata.NameKey("o"):             metadata.Name{Topic: "o", ID: topicID}.Encode(),
		metadata.TopicKey(topicID):        metadata.TopicRecord{Name: "o", Partitions: 1, Internal: true}.Encode(),
		metadata.PartitionKey(topicID, 0): metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}.Encode(),
		metadata.PlacementKey(1, topicID): none.With(map[int32][16]byte{0: c.dir}).Encode(),
	} {
		kvs = append(kvs, metadata.KV{Key: key, Value: value, ModRevision: c.rev})
	}
	next, err := metadata.Load(kvs, c.rev)
	must(t, err)
	prev := c.image
	c.image = next
	must(t, m.Apply(t.Context(), prev, next, metadata.Diff(prev, next)))
	must(t, m.AwaitApplied(t.Context(), next.Version()))
}

// open opens the partition on a file system.
func open(t testing.TB, fs vfs.FS, c *cluster) (*replica.Partition, *purgatory.Purgatory) {
	t.Helper()
	set, err := durability.NewSet()
	must(t, err)
	profile, err := set.Lookup("sync")
	must(t, err)
	cfg := storage.Config{Profile: profile, Segment: segment.Limits{Bytes: 4096, Ms: 1 << 40, IndexInterval: 512, IndexBytes: 1 << 20}}
	s, err := storage.Open([]storage.Location{{Path: "/d"}},
		storage.Options{FS: fs, JournalFileSize: 1 << 20, Config: func(string, storage.ID) storage.Config { return cfg }})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	m := replica.NewManager(replica.Options{Self: 1, Storage: s, Cluster: c, Logger: zap.NewNop(),
		Config: func(*metadata.Image, *metadata.Topic) storage.Config { return cfg }})
	t.Cleanup(m.Purgatory().Close)
	t.Cleanup(func() { must(t, m.Close(context.Background())) })
	c.image = metadata.Empty()
	c.apply(t, m)
	c.apply(t, m)
	p, err := m.Partition(topicID, 0)
	must(t, err)
	return p, m.Purgatory()
}

// put appends records and waits for them.
func put(t testing.TB, l *partitionLog, epoch int32, words ...string) error {
	t.Helper()
	var records []coordinator.Record
	for _, w := range words {
		r := coordinator.Record{Key: []byte(w), Value: []byte(strings.ToUpper(w))}
		if strings.HasPrefix(w, "-") {
			r.Value = nil
		}
		records = append(records, r)
	}
	ended := make(chan error, 1)
	l.Append(epoch, records, time.UnixMilli(1000), nil, func(err error) { ended <- err })
	return <-ended
}

// get loads all records.
func get(ctx context.Context, l *partitionLog, epoch int32) (string, error) {
	var all []string
	err := l.Load(ctx, epoch, func(r coordinator.Record) error {
		if r.Value == nil {
			all = append(all, string(r.Key))
		} else {
			all = append(all, string(r.Key)+string(r.Value))
		}
		return nil
	})
	return strings.Join(all, " "), err
}

func TestAppendedRecordsAreLoaded(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	if got, err := get(t.Context(), l, 0); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	must(t, put(t, l, 0, "a", "b"))
	must(t, put(t, l, 0, "-a"))
	if got, err := get(t.Context(), l, 0); got != "aA bB -a" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	var want []string
	for i := range 300 { // more than a segment
		w := fmt.Sprint("w", i, strings.Repeat("x", 50))
		must(t, put(t, l, 0, w))
		want = append(want, w+strings.ToUpper(w))
	}
	if got, err := get(t.Context(), l, 0); got != "aA bB -a "+strings.Join(want, " ") || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A commit of 400 partitions has its group's name 400 times: the log has little more than what
// differs. A large record is stored as it is, since each broker must be able to read it.
func TestRunsThatRepeatNamesAreStoredSmall(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	group := strings.Repeat("g", 1024)
	var names []string
	for i := range 400 {
		names = append(names, fmt.Sprintf("%s-%03d", group, i))
	}
	stored := func(words ...string) int64 {
		from := p.Log().Size()
		must(t, put(t, l, 0, words...))
		return p.Log().Size() - from
	}
	if n := stored(names...); n > 400*64 {
		t.Errorf("400 records of one group have %d bytes in the log", n)
	}
	few, large := names[:3], strings.Repeat("x", packedRecord)
	if n := stored(few...); n < 3*1024 {
		t.Errorf("three records have %d bytes in the log, so they were compressed, which takes time", n)
	}
	if n := stored(large, large); n < 2*packedRecord {
		t.Errorf("two records of %d bytes have %d bytes in the log: a small broker may not be able to read them", packedRecord, n)
	}
	var want []string
	for _, w := range slices.Concat(names, few, []string{large, large}) {
		want = append(want, w+strings.ToUpper(w))
	}
	if got, err := get(t.Context(), l, 0); got != strings.Join(want, " ") || err != nil {
		t.Errorf("loaded %d bytes, %v", len(got), err)
	}
}

func TestOtherEpochsCanNeitherWriteNorRead(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	must(t, put(t, l, 0, "a"))
	p.SetRole(replicatest.Role(p, 1, 3, []int32{1}, []int32{1}))
	if err := put(t, l, 0, "b"); !errors.Is(err, replica.ErrFencedEpoch) {
		t.Error(err)
	}
	if _, err := get(t.Context(), l, 0); !errors.Is(err, replica.ErrFencedEpoch) || !errors.Is(err, coordinator.ErrNotCoordinator) {
		t.Error(err)
	}
	if got, err := get(t.Context(), l, 3); got != "aA" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := put(t, l, 3); err == nil {
		t.Error("an empty batch was accepted")
	}
}

// A load waits for records that are not committed yet, because a replica has yet to confirm them.
func TestLoadWaitsForUncommittedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, park := open(t, vfs.Memory(), &cluster{})
		l := newPartitionLog(p, park, nil)
		must(t, put(t, l, 0, "a"))
		p.SetRole(replicatest.Role(p, 1, 1, []int32{1, 2}, []int32{1, 2}))
		replicatest.Acknowledge(t, p, 2, 1)
		var appends sync.WaitGroup
		appends.Go(func() { must(t, put(t, l, 1, "b")) })
		for p.Ends().LogEnd < 2 {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if got, err := get(ctx, l, 1); got != "aA" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, %v", got, err)
		}
		loaded := make(chan string, 1)
		go func() {
			got, err := get(t.Context(), l, 1)
			loaded <- fmt.Sprint(got, err)
		}()
		replicatest.Acknowledge(t, p, 2, 2)
		if got := <-loaded; got != "aA bB<nil>" {
			t.Error(got)
		}
		appends.Wait()
	})
}

func TestLoadEndsWithLeadership(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	p.SetRole(replicatest.Role(p, 1, 1, []int32{1, 2}, []int32{1, 2}))
	ended := make(chan error, 1)
	l.Append(1, []coordinator.Record{{Key: []byte("a")}}, time.UnixMilli(1), nil, func(err error) { ended <- err })
	for p.Ends().LogEnd < 1 {
		time.Sleep(time.Millisecond)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := get(t.Context(), l, 1)
		loaded <- err
	}()
	p.SetRole(replicatest.Role(p, 2, 2, []int32{1, 2}, []int32{2}))
	if err := <-loaded; !errors.Is(err, replica.ErrFencedEpoch) || !errors.Is(err, coordinator.ErrNotCoordinator) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, replica.ErrNotLeader) {
		t.Error(err)
	}
}

func TestMachineErrorEndsTheLoad(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	must(t, put(t, l, 0, "a", "b"))
	wrong := errors.New("wrong")
	if err := l.Load(t.Context(), 0, func(coordinator.Record) error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

// A log that can't be read is not taken for an empty one: the coordinator would answer that it
// knows no transactional id and no offset.
func TestAnOfflineLogIsNotLoadedAsEmpty(t *testing.T) {
	fs, c := vfs.Memory(), &cluster{}
	t.Run("before", func(t *testing.T) { open(t, fs, c) })
	dirs, err := fs.List("/d")
	must(t, err)
	for _, d := range dirs {
		if strings.HasSuffix(d.Name, "-0") { // the partition's
			must(t, fs.RemoveAll("/d/"+d.Name))
		}
	}
	p, park := open(t, fs, c)
	_, epoch := p.Leader()
	if got, err := get(t.Context(), newPartitionLog(p, park, nil), epoch); !errors.Is(err, storage.ErrFailed) {
		t.Errorf("loaded %q, %v", got, err)
	}
}

// Ready refuses, before anything is applied, exactly those appends that would fail.
func TestReadyPredictsRefusedAppends(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	must(t, l.Ready(0, false))
	for _, epoch := range []int32{0, 7} {
		if err := l.Ready(epoch, false); (err == nil) != (put(t, l, epoch, "x") == nil) {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
	few := replicatest.Role(p, 1, 1, []int32{1, 2}, []int32{1})
	few.View.MinISR = 2
	p.SetRole(few)
	if err := l.Ready(1, false); !errors.Is(err, replica.ErrNotEnoughReplicas) ||
		!errors.Is(put(t, l, 1, "x"), replica.ErrNotEnoughReplicas) {
		t.Error(err)
	}
	p.SetRole(replicatest.Role(p, 1, 1, []int32{1, 2}, []int32{1, 2}))
	must(t, l.Ready(1, false))
	p.SetRole(replicatest.Role(p, 2, 2, []int32{1, 2}, []int32{1, 2}))
	for _, err := range []error{l.Ready(1, false), put(t, l, 1, "x")} {
		if !errors.Is(err, coordinator.ErrNotCoordinator) {
			t.Error(err)
		}
	}
	p.SetRole(replicatest.Role(p, 1, 3, []int32{1, 2}, []int32{1, 2})) // leads again, in a later epoch
	for _, err := range []error{l.Ready(1, false), put(t, l, 1, "x")} {
		if !errors.Is(err, coordinator.ErrNotCoordinator) {
			t.Error(err)
		}
	}
}

// A shard over a real log: the next shard loads all acknowledged records.
func TestShardOverALog(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	words := func(event string) string {
		rt := coordinator.NewRuntime(coordinator.Options{New: func(int32) coordinator.Machine { return &words{} }})
		defer rt.Close()
		rt.Lead(0, p.LeaderEpoch(), newPartitionLog(p, park, nil))
		for {
			answered := make(chan any, 1)
			rt.Submit(0, event, func(response any, err error) {
				if err != nil {
					response = err
				}
				answered <- response
			})
			switch got := (<-answered).(type) {
			case string:
				return got
			case error:
				if !errors.Is(got, coordinator.ErrLoading) {
					t.Fatal(got)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	words("a")
	if got := words("b"); got != "a b" {
		t.Error(got)
	}
}

// Records of a transaction are in a batch of their producer, and never in one with other records. A
// marker has its own. All batches of an append are committed together. The log asks for no permit.
func TestRecordsOfTransactionsHaveTheirOwnBatches(t *testing.T) {
	p, park := open(t, vfs.Memory(), &cluster{})
	l := newPartitionLog(p, park, nil)
	one, two := coordinator.Producer{ID: 7, Epoch: 3, Transactional: true}, coordinator.Producer{ID: 8, Transactional: true}
	var records []coordinator.Record
	for i, producer := range []coordinator.Producer{{}, one, one, {}, two, one} {
		records = append(records, coordinator.Record{Key: []byte{byte(i)}, Value: []byte("v"), Producer: producer})
	}
	end := func(p coordinator.Producer, commit bool) coordinator.Record {
		return coordinator.Record{Producer: p, Marker: &coordinator.Marker{Commit: commit, CoordinatorEpoch: 5}}
	}
	three := coordinator.Producer{ID: 9, Epoch: 1, Transactional: true} // has no records here
	records = append(records, end(one, true), end(two, false), end(three, true),
		coordinator.Record{Key: []byte("next"), Value: []byte("v"), Producer: three})
	bytes, n, err := build(records, time.UnixMilli(1000))
	must(t, err)
	var got []string
	for rest := bytes; len(rest) > 0; {
		var b record.Batch
		b, rest, err = record.Next(rest)
		must(t, err)
		kind, epoch, err := b.EndTxn()
		must(t, err)
		got = append(got, fmt.Sprint(b.Transactional(), b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Records(), kind, epoch))
	}
	want := []string{
		"false -1 -1 -1 1 -1 -1", "true 7 3 -1 2 -1 -1", "false -1 -1 -1 1 -1 -1", "true 8 0 -1 1 -1 -1", "true 7 3 -1 1 -1 -1",
		"true 7 3 -1 1 1 5", "true 8 0 -1 1 0 5", "true 9 1 -1 1 1 5", "true 9 1 -1 1 -1 -1",
	}
	if n != len(want) || !slices.Equal(got, want) {
		t.Errorf("%d batches %q, want %q", n, got, want)
	}
	if _, _, err := build(nil, time.UnixMilli(1000)); err == nil {
		t.Error("an empty batch was built")
	}
	ended := make(chan error, 1)
	l.Append(0, records, time.UnixMilli(1000), nil, func(err error) { ended <- err })
	must(t, <-ended)
	var loaded []coordinator.Record
	must(t, l.Load(t.Context(), 0, func(r coordinator.Record) error {
		loaded = append(loaded, coordinator.Record{Key: slices.Clone(r.Key), Value: slices.Clone(r.Value), Producer: r.Producer,
			Marker: r.Marker})
		return nil
	}))
	if d := cmp.Diff(records, loaded); d != "" {
		t.Error(d)
	}
	if e := p.Ends(); e.LastStable != 9 || e.HighWatermark != 10 {
		t.Errorf("the last stable offset is %d of %d", e.LastStable, e.HighWatermark)
	}
}

// A marker that a compaction emptied still says whose transaction ended.
func TestEmptiedMarkersAreLoaded(t *testing.T) {
	whole := record.EndTxnMarker(7, 3, record.Commit, 5, 1000)
	b := whole.Empty()
	var loaded []coordinator.Record
	next, err := applyBatch(b, 0, 1, coordinator.Record{}, record.Limits{}, func(r coordinator.Record) error {
		loaded = append(loaded, r)
		return nil
	})
	want := []coordinator.Record{{
		Producer: coordinator.Producer{ID: 7, Epoch: 3, Transactional: true},
		Marker:   &coordinator.Marker{CoordinatorEpoch: -1, Emptied: true},
	}}
	if d := cmp.Diff(want, loaded); d != "" || next != 1 || err != nil {
		t.Errorf("%s, next %d, %v", d, next, err)
	}
}

// A batch of many events is split between them, and the records of one event stay together.
func TestLargeRunsAreSplitBetweenEvents(t *testing.T) {
	var records []coordinator.Record
	for range 5 {
		records = append(records, coordinator.Record{Key: []byte("k"), Value: make([]byte, maxRun/2), Begins: true},
			coordinator.Record{Key: []byte("l"), Value: make([]byte, maxRun/4)})
	}
	bytes, n, err := build(records, time.UnixMilli(1000))
	if err != nil || n != 3 {
		t.Fatalf("%d batches, %v", n, err)
	}
	for rest := bytes; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Next(rest); err != nil {
			t.Fatal(err)
		}
		if b.Records()%2 != 0 || len(b) > 2*maxRun {
			t.Errorf("a batch of %d records and %d bytes", b.Records(), len(b))
		}
	}
}
