package tier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/tierread"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "cluster/"

var tp = metadata.TopicPartition{Topic: [16]byte{1}}

// world is one partition of one topic on two brokers, the metadata and the store.
type world struct {
	t       testing.TB
	store   *faultstore.Store
	meta    metadata.Store
	ctl     *controller.Controller
	conf    configdef.Topic
	brokers []*broker
	// alter, if set, is called instead of controller.AlterTier.
	alter func(x *metadata.TierChange) (int64, error)

	number int
	values []string // of the committed records, by offset
	gone   int64    // where the log begins

	generations byte // of the metadata, after the first
}

// broker is one of the two. It follows the metadata only when the test says so.
type broker struct {
	w     *world
	id    int32
	m     *replica.Manager
	s     *storage.Manager
	epoch int64 // of the broker
	img   atomic.Pointer[metadata.Image]
	c     *Copier
	// beforeStart, if set, is called before a log start moves on the disk.
	beforeStart atomic.Pointer[func()]
	size        int // of records
	// roleChanged, if set, is called with each new role.
	roleChanged func(*replica.Partition)
	// stamp, if set, returns the timestamp of a record.
	stamp func() int64
}

var serials atomic.Uint64

// wall is a clock that stands still: no follower is late.
func wall() time.Duration { return time.Hour }

func newWorld(t testing.TB, profile string, options func(*Options)) *world {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	dir, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	return newWorldIn(t, faultstore.New(dir), profile, options)
}

// newWorldIn is newWorld with a store.
func newWorldIn(t testing.TB, store *faultstore.Store, profile string, options func(*Options)) *world {
	t.Helper()
	w := &world{t: t, store: store,
		conf: configdef.Topic{Remote: true, Delete: true, Retention: -1, RetentionBytes: -1}}
	w.meta = solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { must.OK(t, w.meta.Close()) })
	w.ctl = controller.New(controller.Options{Store: w.meta})
	for id := range int32(2) {
		w.brokers = append(w.brokers, w.open(id+1, profile, options))
	}
	w.put(metadata.NameKey("t"), metadata.Name{Topic: "t", ID: tp.Topic}.Encode())
	w.put(metadata.TopicKey(tp.Topic), metadata.TopicRecord{Name: "t", Partitions: 1}.Encode())
	w.elect(0, true, 1, 2)
	for range 3 { // the logs, and their directories
		w.follow()
	}
	return w
}

func (w *world) open(id int32, profile string, options func(*Options)) *broker {
	t := w.t
	incarnation, epoch, err := solestore.Register(t.Context(), w.meta, id, "")
	must.OK(t, err)
	kv, _, err := w.meta.Get(t.Context(), metadata.ClusterKey)
	must.OK(t, err)
	cluster, err := metadata.DecodeCluster(kv)
	must.OK(t, err)
	cluster.FeatureLevel = metadata.MaxFeatureLevel
	w.put(metadata.ClusterKey, cluster.Encode())
	set, err := durability.NewSet()
	must.OK(t, err)
	p, err := set.Lookup(profile)
	must.OK(t, err)
	cfg := storage.Config{Profile: p,
		Segment: segment.Limits{Bytes: 8 << 10, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20},
		Cleanup: storage.Cleanup{CopyFirst: true, RetentionTime: -1, RetentionBytes: -1}}
	b := &broker{w: w, id: id, epoch: epoch, size: 1000}
	disk := errfs.New(vfs.Memory())
	disk.Add(errfs.Rule{Ops: errfs.Write, Path: "/d/checkpoint/*", Before: func(errfs.Call) {
		if do := b.beforeStart.Swap(nil); do != nil {
			(*do)()
		}
	}})
	s, err := storage.Open([]storage.Location{{Path: "/d"}}, storage.Options{FS: disk, JournalFileSize: 1 << 20,
		RetentionInterval: time.Hour, Config: func(string, storage.ID) storage.Config { return cfg }})
	must.OK(t, err)
	b.s = s
	b.img.Store(metadata.Empty())
	r := tierread.New(tierread.Options{Open: func() (objects.Store, error) { return w.store, nil }, Prefix: func() string { return prefix },
		CacheBytes: 8 << 20, Pause: time.Nanosecond, Pool: new(bufpool.Pool), Limits: record.Limits{Bytes: 1 << 30}})
	b.m = replica.NewManager(replica.Options{Self: id, Incarnation: incarnation, Storage: s, Cluster: b, Logger: zap.NewNop(), Now: wall,
		Config: func(*metadata.Image, *metadata.Topic) storage.Config { return cfg },
		RoleChanged: func(p *replica.Partition) {
			if do := b.roleChanged; do != nil {
				do(p)
			}
		},
		Tier: replica.TierOptions{Reads: Reads{r}, ReadWait: time.Minute, LookupWait: time.Minute, Applied: b.applied,
			Alter: w.ctl.AlterTier}})
	o := Options{Self: id, Open: func() (objects.Store, string, error) { return w.store, prefix, nil }, Partitions: b.m.Partitions,
		Image: b.img.Load, Applied: b.applied, Raise: func(context.Context, int32) error { return nil },
		Topic: func(*metadata.Image, *metadata.Topic) *configdef.Topic { return &w.conf }, Logger: zap.NewNop(),
		Alter: func(ctx context.Context, x *metadata.TierChange) (int64, error) {
			if w.alter != nil {
				return w.alter(x)
			}
			return w.ctl.AlterTier(ctx, x)
		},
		Sizes: upload.Options{ObjectBytes: 10 << 10, ManifestParts: 3}}
	if options != nil {
		options(&o)
	}
	b.c = New(o)
	t.Cleanup(func() {
		r.Close()
		must.OK(t, b.m.Close(context.Background()))
		must.OK(t, s.Close())
	})
	return b
}

func (w *world) put(key string, value []byte) {
	w.t.Helper()
	_, err := w.meta.Txn(w.t.Context(), metadata.Txn{Put: []metadata.KV{{Key: key, Value: value}}})
	must.OK(w.t, err)
}

// record returns the partition's record.
func (w *world) record() metadata.Partition {
	kv, _, err := w.meta.Get(w.t.Context(), metadata.PartitionKey(tp.Topic, tp.Partition))
	must.OK(w.t, err)
	p, err := metadata.DecodePartition(kv)
	must.OK(w.t, err)
	return p
}

// tier returns what the metadata name.
func (w *world) tier() *metadata.Tier {
	kv, _, err := w.meta.Get(w.t.Context(), metadata.TierKey(tp))
	must.OK(w.t, err)
	if kv.ModRevision == 0 {
		return nil
	}
	x, err := metadata.DecodeTier(kv)
	must.OK(w.t, err)
	return &x
}

// elect writes another leader to the metadata. No broker knows it before it follows.
func (w *world) elect(epoch int32, clean bool, isr ...int32) {
	w.t.Helper()
	p := metadata.Partition{Leader: isr[0], LeaderEpoch: epoch, Replicas: []int32{1, 2}, ISR: isr}
	if epoch > 0 {
		p.Unclean = w.record().Unclean
	}
	if !clean {
		p.Unclean = epoch
	}
	w.put(metadata.PartitionKey(tp.Topic, tp.Partition), p.Encode())
}

// follow lets all brokers apply the newest metadata.
func (w *world) follow() {
	w.t.Helper()
	for _, b := range w.brokers {
		must.OK(w.t, b.follow())
	}
}

func (b *broker) follow() error {
	kvs, revision, err := b.w.meta.Range(context.Background(), "")
	if err != nil {
		return err
	}
	next, err := metadata.Load(kvs, revision)
	if err != nil {
		return err
	}
	prev := b.img.Load()
	if next.Version() <= prev.Version() {
		return nil
	}
	b.img.Store(next)
	if err := b.m.Apply(context.Background(), prev, next, metadata.Diff(prev, next)); err != nil {
		return err
	}
	return b.m.AwaitApplied(context.Background(), next.Version())
}

func (b *broker) applied(_ context.Context, revision int64) error {
	if b.img.Load().Version() >= revision {
		return nil
	}
	return b.follow()
}

// The methods of replica.Cluster.

func (b *broker) AssignDirs(ctx context.Context, id int32, dirs map[metadata.TopicPartition][16]byte) (int64, error) {
	kv, _, err := b.w.meta.Get(ctx, metadata.PlacementKey(id, tp.Topic))
	if err != nil {
		return 0, err
	}
	p, err := metadata.DecodePlacement(kv)
	if err != nil {
		return 0, err
	}
	return b.w.meta.Txn(ctx, metadata.Txn{Put: []metadata.KV{{Key: metadata.PlacementKey(id, tp.Topic),
		Value: p.With(map[int32][16]byte{0: dirs[tp]}).Encode()}}})
}

func (b *broker) RaiseEpochs(context.Context, map[metadata.TopicPartition]metadata.Raise) (int64, error) {
	return 0, errors.New("the test raises no epoch")
}

func (b *broker) ForgetDeleted(context.Context, int32, ...[16]byte) (int64, error) {
	return 0, errors.New("the test deletes no topic")
}

func (b *broker) AlterISR(_ context.Context, changes []metadata.ISRChange) []error {
	errs := make([]error, len(changes))
	for i := range errs {
		errs[i] = errors.New("the test alters no ISR")
	}
	return errs
}

func (b *broker) partition() *replica.Partition {
	b.w.t.Helper()
	p, err := b.m.Partition(tp.Topic, tp.Partition)
	must.OK(b.w.t, err)
	return p
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Since(begun) > time.Minute { // it only ends a test that hangs
			t.Fatalf("never: %s", what)
		}
	}
}

// append appends records to the log of a broker that leads, or believes so.
func (b *broker) append(values ...string) {
	t := b.w.t
	t.Helper()
	p := b.partition()
	build := record.NewBuilder(record.BatchOptions{})
	for _, v := range values {
		b.w.number++
		ts := int64(b.w.number)
		if b.stamp != nil {
			ts = b.stamp()
		}
		build.Append(ts, []byte(v), make([]byte, b.size), nil)
	}
	bytes, err := build.Build()
	must.OK(t, err)
	done := make(chan struct{})
	a := &replica.Append{LeaderEpoch: -1, Acks: replica.AcksLeader,
		Batches: record.Accepted{Bytes: bytes, Batches: 1, Records: len(values)},
		Done:    func(*replica.Append) { close(done) }}
	p.Append(a, nil)
	<-done
	must.OK(t, a.Err)
	eventually(t, "the records are durable", func() bool { return p.Log().AckEnd() == p.Log().Ends().LogEnd })
}

// replicate copies the log of a leader to the other broker, whose ends the leader then knows.
func (w *world) replicate() {
	t := w.t
	t.Helper()
	w.fetch(math.MaxInt64)
	l, f := w.leader().partition(), w.other().partition()
	end := l.Log().Ends().LogEnd
	w.confirm()
	eventually(t, "the records are committed", func() bool { return l.Ends().HighWatermark == end })
	must.OK(t, f.LeaderHigh(l.LeaderEpoch(), end))
}

// fetch copies batches of a leader's log to the other broker, until that has records up to an
// offset.
func (w *world) fetch(to int64) {
	t := w.t
	t.Helper()
	l, f := w.leader().partition(), w.other().partition()
	epoch := l.LeaderEpoch()
	must.OK(t, f.Follow(epoch))
	ours, theirs := l.Log().Epochs(), f.Log().Epochs()
	e, end := l.Log().Ends(), f.Log().Ends().LogEnd
	common, ok := ours.Common(&theirs)
	common = min(common, e.LogEnd, end)
	cut := storage.Truncation{Log: f.Log(), End: common}
	above := f.Log().Ends().LogStart > e.LogStart && len(w.record().ISR) == 1
	if !ok || common < e.LogStart || above {
		cut = storage.Truncation{Log: f.Log(), End: w.base(l.Log()), Reset: true}
	}
	if cut.Reset || cut.End < end {
		if !cut.Reset {
			_, err := f.MayTruncate(epoch, cut.End)
			must.OK(t, err)
		}
		cuts := []storage.Truncation{cut}
		f.Log().Dir().Truncate(cuts)
		must.OK(t, cuts[0].Err)
	}
	at, size := f.Log().Ends().LogEnd, 1<<20
	if to < e.LogEnd {
		size = 1
	}
	for ; at < min(to, e.LogEnd); at = f.Log().Ends().LogEnd {
		s, err := l.Log().Read(max(at, e.LogStart), e.LogEnd, size, true)
		must.OK(t, err)
		done := make(chan error, 1)
		batches := slices.Concat(s.Parts...)
		s.Release()
		f.AppendReplicated(&replica.Replicated{Epoch: epoch, PrevEnd: at, High: l.Ends().HighWatermark, Batches: batches,
			Done: func(a *replica.Replicated) { done <- a.Err }}, nil)
		must.OK(t, <-done)
	}
	eventually(t, "the follower has the records", func() bool { return f.Log().AckEnd() == at })
}

// base returns where the first batch of a log begins, which may be below the log start.
func (w *world) base(l *storage.Log) int64 {
	e := l.Ends()
	if e.LogStart == e.LogEnd {
		return e.LogEnd
	}
	s, err := l.Read(e.LogStart, e.LogEnd, 1, true)
	must.OK(w.t, err)
	defer s.Release()
	return record.Batch(s.Parts[0]).BaseOffset()
}

// confirm lets the other broker have the log start of the leader, which then knows its ends.
func (w *world) confirm() {
	t := w.t
	t.Helper()
	lead, other := w.leader(), w.other()
	l, f := lead.partition(), other.partition()
	if start := l.Log().DurableStart(); start > f.Log().Ends().LogStart {
		moves := []storage.StartMove{{Log: f.Log(), To: start}}
		f.Log().Dir().MoveStarts(moves)
		must.OK(t, moves[0].Err)
	}
	end := f.Log().AckEnd()
	dir, _ := lead.img.Load().Placement(other.id, tp)
	_, _, err := l.Subscribe(l.LeaderEpoch(), progress.Subscription{Broker: other.id, BrokerEpoch: other.brokerEpoch(), Dir: dir,
		Written: end, Durable: end, LogStart: f.Log().DurableStart(), Serial: serials.Add(1)})
	must.OK(t, err)
}

func (b *broker) brokerEpoch() int64 {
	x, _ := b.img.Load().Broker(b.id)
	return x.Epoch
}

// leader returns the broker that leads by the metadata, and other the other one.
func (w *world) leader() *broker { return w.brokers[w.record().Leader-1] }
func (w *world) other() *broker  { return w.brokers[2-w.record().Leader] }

// produce appends batches of records that are then on both brokers.
func (w *world) produce(batches, records int) {
	w.t.Helper()
	for range batches {
		var values []string
		for range records {
			values = append(values, fmt.Sprintf("%d-%d", w.record().LeaderEpoch, w.number+len(values)))
		}
		w.leader().append(values...)
		w.values = append(w.values, values...)
	}
	w.replicate()
}

// fail elects the other broker, which has the log.
func (w *world) fail(isr ...int32) {
	w.elect(w.record().LeaderEpoch+1, true, isr...)
}

// lone lets a broker lead that is in sync alone. If the election is unclean, what only others had
// is lost.
func (w *world) lone(id int32, clean bool) {
	w.elect(w.record().LeaderEpoch+1, clean, id)
	w.follow()
	p := w.leader().partition()
	eventually(w.t, "it leads", func() bool { return p.Ends().HighWatermark == p.Log().Ends().LogEnd })
	if end := p.Ends().HighWatermark; end < int64(len(w.values)) {
		w.values = w.values[:end]
	}
}

// add appends batches of three records to the log of a leader that is in sync alone.
func (w *world) add(batches int) {
	w.t.Helper()
	for range batches {
		w.number++
		var values []string
		for i := range 3 {
			values = append(values, fmt.Sprintf("%d-%d-%d", w.record().LeaderEpoch, w.number, i))
		}
		w.leader().append(values...)
		w.values = append(w.values, values...)
	}
	p := w.leader().partition()
	eventually(w.t, "the records are committed", func() bool { return p.Ends().HighWatermark == p.Log().Ends().LogEnd })
}

// delete deletes records below an offset.
func (w *world) delete(to int64) {
	w.t.Helper()
	list := []replica.Deletion{{Topic: tp.Topic, Offset: to}}
	w.leader().m.DeleteRecords(w.t.Context(), list)
	must.OK(w.t, list[0].Err)
	w.gone = to
	if list[0].Low != to {
		w.t.Errorf("records are deleted below %d, and the log begins at %d", to, list[0].Low)
	}
}

// copyAll lets a broker do rounds until nothing is left to copy, or it has failed.
func (b *broker) copyAll() {
	for b.c.round(context.Background()) {
	}
}

// retain does what local retention does, as if each copy ended with a segment.
func (b *broker) retain() { b.retainBelow(math.MaxInt64) }

// retainBelow is retain, where the local log has a segment from an offset on.
func (b *broker) retainBelow(to int64) {
	p := b.partition()
	role := storage.Only{Is: true, Epoch: p.LeaderEpoch(), Leads: true}
	high, _ := p.High()
	to = min(to, p.Copied(), p.Stable(), high)
	if to <= p.Log().Ends().LogStart {
		return
	}
	moves := []storage.StartMove{{Log: p.Log(), To: to, Only: role}}
	p.Log().Dir().MoveStarts(moves)
	if err := moves[0].Err; err != nil && !errors.Is(err, storage.ErrFencedEpoch) {
		must.OK(b.w.t, err)
	}
}

// check reads everything, and compares it with what was acknowledged.
func (b *broker) check() error {
	p := b.partition()
	e := p.Ends()
	w := b.w
	if e.LogStart != w.gone {
		return fmt.Errorf("the log begins at %d, expected %d: %+v, %+v", e.LogStart, w.gone, e, p.Tier())
	}
	if e.HighWatermark != int64(len(w.values)) {
		return fmt.Errorf("the log ends at %d, expected %d", e.HighWatermark, len(w.values))
	}
	for i := range 4 {
		for at := e.LogStart; at < e.HighWatermark; {
			res, err := p.Read(replica.ReadRequest{Offset: at, MaxBytes: []int{3000, 1 << 20}[i/2], AtLeastOne: true, Committed: i%2 == 1,
				CurrentEpoch: -1, FetchedEpoch: -1})
			if err != nil {
				return fmt.Errorf("read at %d of %+v, %+v: %w", at, e, p.Tier(), err)
			}
			if res.Size == 0 {
				return fmt.Errorf("nothing at %d of %+v, %+v", at, e, p.Tier())
			}
			for _, part := range slices.Clone(res.Parts) {
				for len(part) > 0 {
					x, rest, err := record.Next(part)
					if err != nil {
						return err
					}
					if x.BaseOffset() > at {
						return fmt.Errorf("at %d there is a batch of %d", at, x.BaseOffset())
					}
					err = x.Each(record.Limits{}, func(r record.Record) error {
						if r.Offset < at {
							return nil
						}
						if want := w.values[r.Offset]; string(r.Key) != want {
							return fmt.Errorf("offset %d has %s, and %s was acknowledged; %+v, %+v", r.Offset, r.Key, want, e, p.Tier())
						}
						return nil
					})
					if err != nil {
						return err
					}
					at, part = x.LastOffset()+1, rest
				}
			}
			res.Release()
		}
	}
	return nil
}

// healthy reports why records are not copied.
func (b *broker) healthy() error {
	for _, f := range b.c.Failures() {
		return f.Err
	}
	return nil
}

// names returns the names of the objects.
func (w *world) names() (list []string) {
	must.OK(w.t, w.store.List(context.Background(), prefix, func(in objects.Info) error { list = append(list, in.Name); return nil }))
	return list
}

// collect begins a collection, as a Service does, and returns what deletes the objects.
func (w *world) collect() (finish func()) {
	ctx := context.Background()
	names := w.names()
	w.put(metadata.CollectionKey, metadata.Collection{}.Encode())
	named := map[objects.Nonce]bool{}
	kv, _, err := w.meta.Get(ctx, metadata.ClusterKey)
	must.OK(w.t, err)
	cluster, err := metadata.DecodeCluster(kv)
	must.OK(w.t, err)
	t := w.tier()
	if t == nil && w.conf.Remote || t != nil && t.Generation != cluster.Generation {
		return func() {} // all are kept
	}
	if !t.Empty() {
		b := upload.NewBatch(upload.Options{Store: w.store, Prefix: prefix, ObjectBytes: 1, ManifestParts: 3})
		p := &format.Partition{ID: format.ID{Topic: tp.Topic}, State: format.Kept, Start: t.Start, End: t.End,
			Manifest: objects.Nonce(t.Manifest), Archived: t.End}
		m, err := format.ReadManifest(ctx, w.store, prefix, p.ID, p.Manifest)
		must.OK(w.t, err)
		named[p.Manifest] = true
		for _, o := range m.Older {
			named[o.Nonce] = true
		}
		parts, err := b.Parts(ctx, p.ID, b.ArchivedIn(p))
		must.OK(w.t, err)
		for i := range parts {
			named[parts[i].Run.Nonce] = true
		}
	}
	return func() {
		for _, name := range names {
			n, err := format.Parse(strings.TrimPrefix(name, prefix))
			must.OK(w.t, err)
			if !named[n.Nonce] {
				must.OK(w.t, w.store.Delete(ctx, name))
			}
		}
	}
}
