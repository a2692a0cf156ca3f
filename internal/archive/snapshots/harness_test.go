package snapshots

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

var (
	cluster = [16]byte{0xc1, 15: 1}
	prefix  = format.Prefix(cluster)
	topicA  = [16]byte{1} // of clients, "t"
	topicB  = [16]byte{2} // internal, "__state"
)

const (
	partitionsA = 3
	epoch       = 4
)

var errAbandoned = errors.New("this node does not lead the metadata in the term")

// memory is a metadata store.
type memory struct {
	mu       sync.Mutex // guards the following fields
	kvs      map[string]metadata.KV
	revision int64
	term     uint64 // in which this node leads; 0: it does not
	moved    chan struct{}
	img      *metadata.Image
	later    []metadata.Batch         // the changes after img
	calls    int                      // of all methods
	refuse   func(metadata.Txn) error // nil: none
	unwaited error                    // of WaitFor
}

// Range implements Store.
func (m *memory) Range(_ context.Context, prefix string) (kvs []metadata.KV, revision int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	for _, key := range slices.Sorted(maps.Keys(m.kvs)) {
		if strings.HasPrefix(key, prefix) {
			kvs = append(kvs, m.kvs[key])
		}
	}
	return kvs, m.revision, nil
}

// WaitFor implements Store.
func (m *memory) WaitFor(_ context.Context, revision int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if revision > m.revision {
		return errors.New("a wait for a revision that there is not")
	}
	return m.unwaited
}

// LeaderTxn implements Store.
func (m *memory) LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if term != m.term {
		return 0, errAbandoned
	}
	if m.refuse != nil {
		if err := m.refuse(t); err != nil {
			return 0, err
		}
	}
	for _, c := range t.If {
		if found := m.kvs[c.Key].ModRevision; found != c.ModRevision {
			return 0, &metadata.ConflictError{Revision: m.revision, Key: c.Key, Found: found, Expected: c.ModRevision}
		}
	}
	m.apply(t)
	return m.revision, ctx.Err()
}

// apply applies a transaction. The caller holds m.mu.
func (m *memory) apply(t metadata.Txn) {
	m.revision++
	b := metadata.Batch{Revision: m.revision}
	for _, kv := range t.Put {
		kv.ModRevision = m.revision
		m.kvs[kv.Key] = kv
		b.Events = append(b.Events, metadata.Event{Key: kv.Key, Value: kv.Value})
	}
	for _, key := range t.Delete {
		delete(m.kvs, key)
		b.Events = append(b.Events, metadata.Event{Key: key, Deleted: true})
	}
	m.later = append(m.later, b)
}

// put changes keys as another component does.
func (m *memory) put(kvs ...metadata.KV) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply(metadata.Txn{Put: kvs})
}

func (m *memory) image() *metadata.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.img == nil {
		m.img = metadata.Empty()
	}
	if len(m.later) > 0 { // as a broker does, which does not load all keys after each change
		img, _, err := m.img.Apply(m.later...)
		if err != nil {
			panic(err)
		}
		m.img, m.later = img, nil
	}
	return m.img
}

// leads is Options.Leads.
func (m *memory) leads() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term, m.moved
}

// lead begins a term; 0: another node leads.
func (m *memory) lead(term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = term
	close(m.moved)
	m.moved = make(chan struct{})
}

// change changes the faults.
func (m *memory) change(f func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

// log is the log of a partition on its leader.
type log struct {
	start, end int64
	batches    []record.Batch
}

// peer is a broker. It uploads what a log has since the last snapshot as a piece of a pack, some
// pieces as a log object, and has a manifest with older ones soon.
type peer struct {
	w  *world
	id int32

	mu       sync.Mutex // guards the following fields
	logs     map[metadata.TopicPartition]*log
	offline  map[metadata.TopicPartition]bool
	frozen   replica.FreezeID
	job      *writer.Job
	result   []format.Partition
	left     []format.Partition // result of leftOf, which the next job continues
	leftOf   *writer.Job
	begun    []writer.Job
	calls    int     // of all methods
	canceled []int64 // numbers of snapshots
	page     int     // partitions of an answer
	pieces   int     // from this number on, they become a log object
	// The faults.
	refuses  func() error                                   // of Freeze
	melts    int                                            // how often Frozen says no
	fails    error                                          // of Begin
	lost     error                                          // of Begin, which takes effect
	answer   func(writer.Progress) (writer.Progress, error) // of Progress
	anyState format.State                                   // of partitions, if it is not 0
}

// Freeze implements cut.Participant.
func (p *peer) Freeze(_ context.Context, id replica.FreezeID, revision int64) (cuts []replica.Cut, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if revision > p.w.meta.image().Version() {
		return nil, errors.New("a revision that there is not")
	}
	if p.refuses != nil {
		if err := p.refuses(); err != nil {
			return nil, err
		}
	}
	p.frozen = id
	for tp, l := range p.logs {
		cuts = append(cuts, replica.Cut{TopicPartition: tp, Epoch: epoch, Start: l.start, End: l.end, Offline: p.offline[tp]})
	}
	return cuts, nil
}

// Frozen implements cut.Participant.
func (p *peer) Frozen(_ context.Context, id replica.FreezeID) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.melts > 0 {
		p.melts--
		return false, nil
	}
	return p.frozen == id, nil
}

// Thaw implements cut.Participant.
func (p *peer) Thaw(id replica.FreezeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls++; p.frozen == id {
		p.frozen = replica.FreezeID{}
	}
}

// Begin implements Peer.
func (p *peer) Begin(ctx context.Context, job writer.Job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.fails != nil {
		return p.fails
	}
	p.begun = append(p.begun, job)
	p.job = &job
	result, err := p.upload(ctx, &job)
	if p.leftOf != nil && format.Unusable(err) {
		p.leftOf = nil
		result, err = p.upload(ctx, &job)
	}
	if err != nil {
		return err
	}
	p.result = result
	return p.lost
}

// Progress implements Peer.
func (p *peer) Progress(_ context.Context, number int64, from int) (writer.Progress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.job == nil || p.job.Number != number {
		return writer.Progress{}, writer.ErrUnknown
	}
	x := writer.Progress{Done: true, Bytes: 1000, Next: min(from+p.page, len(p.result))}
	x.Partitions = p.result[from:x.Next]
	if p.answer != nil {
		return p.answer(x)
	}
	return x, nil
}

// Cancel implements Peer.
func (p *peer) Cancel(number int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.canceled = append(p.canceled, number)
	if p.job != nil && p.job.Number == number {
		p.job = nil
	}
}

// change changes the faults.
func (p *peer) change(f func(*peer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// upload uploads what a job has. The caller holds p.mu.
func (p *peer) upload(ctx context.Context, job *writer.Job) (list []format.Partition, err error) {
	if err := format.ReadProbe(ctx, p.w.objects, prefix, job.Probe); err != nil {
		return nil, err
	}
	former := map[format.ID]format.Partition{}
	if job.Base != nil {
		x, err := format.ReadSnapshot(ctx, p.w.objects, prefix, cluster, *job.Base)
		if err != nil {
			return nil, err
		}
		for _, q := range x.Partitions {
			former[q.ID] = q
		}
	}
	if x := p.leftOf; x != nil && x.Collection == job.Collection && reflect.DeepEqual(x.Base, job.Base) {
		for _, q := range p.left {
			former[q.ID] = q
		}
	}
	pack, slots := &format.Pack{}, []int(nil)
	for _, c := range job.Cuts {
		l, id := p.logs[c.TopicPartition], format.ID{Topic: c.Topic, Partition: c.Partition}
		q := former[id]
		if q.State == format.Offline {
			q = format.Partition{}
		}
		parts := slices.DeleteFunc(slices.Clone(q.Parts), func(x format.Part) bool { return x.End <= c.Start })
		q = format.Partition{ID: id, State: format.Kept, Epoch: c.Epoch, Start: c.Start, End: c.End, Manifest: q.Manifest,
			Archived: q.Archived, Parts: parts}
		if q.Archived <= c.Start {
			q.Manifest, q.Archived = objects.Nonce{}, 0
		}
		if len(q.Parts) >= p.pieces {
			if err := p.large(ctx, l, &q); err != nil {
				return nil, err
			}
		}
		from := max(q.Start, q.Archived)
		if n := len(q.Parts); n > 0 {
			from = q.Parts[n-1].End
		}
		if b, base := l.between(from, c.End); len(b) > 0 {
			if err := pack.Add(id, base, c.End, b); err != nil {
				return nil, err
			}
			q.Parts = append(q.Parts, format.Part{})
			slots = append(slots, len(list))
		}
		if p.anyState != 0 {
			q.State = p.anyState
		}
		list = append(list, q)
	}
	if pack.Len() > 0 {
		nonce := objects.NewNonce()
		sealed, pieces := pack.Seal(nonce)
		for i, at := range slots {
			list[at].Parts[len(list[at].Parts)-1] = pieces[i].Part
		}
		name := format.Name{Kind: objects.Pack, Nonce: nonce}
		if err := objects.Write(ctx, p.w.objects, prefix+name.String(), objects.Pack, sealed); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, format.Partition.Compare)
	p.left, p.leftOf = list, job
	return list, nil
}

// between returns the batches of [from, to), and the offset of the first.
func (l *log) between(from, to int64) (b []byte, base int64) {
	base = -1
	for _, x := range l.batches {
		if x.LastOffset() >= from && x.LastOffset() < to {
			if b = append(b, x...); base < 0 {
				base = x.BaseOffset()
			}
		}
	}
	return b, base
}

// large makes a log object of all pieces of a partition, and lists it in a manifest.
func (p *peer) large(ctx context.Context, l *log, q *format.Partition) error {
	n := len(q.Parts)
	base, end := q.Parts[0].Base, q.Parts[n-1].End
	b, _ := l.between(base, end)
	facts := format.Facts{ID: q.ID, Base: base, End: end, Epochs: []epochs.Entry{{Epoch: epoch}}}
	o, err := format.Build(facts, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	run := o.Run(objects.NewNonce())
	if err := p.w.objects.Put(ctx, prefix+run.Name(q.ID), o); err != nil {
		return err
	}
	m := &format.Manifest{ID: q.ID, Base: base}
	if q.Manifest != (objects.Nonce{}) {
		former, err := format.ReadManifest(ctx, p.w.objects, prefix, q.ID, q.Manifest)
		if err != nil {
			return err
		}
		parts := former.Parts
		m.Base, m.Older = former.Base, former.Older
		older := &format.Manifest{ID: q.ID, Base: parts[0].Base, End: former.End, Parts: parts}
		nonce, err := p.manifest(ctx, older)
		if err != nil {
			return err
		}
		m.Older = append(slices.Clone(m.Older), format.OlderOf(older, nonce))
	}
	m.Parts, m.End = []format.Part{format.Whole(run, epoch)}, end
	if q.Manifest, err = p.manifest(ctx, m); err != nil {
		return err
	}
	q.Archived, q.Parts = end, nil
	return nil
}

func (p *peer) manifest(ctx context.Context, m *format.Manifest) (nonce objects.Nonce, err error) {
	sealed, err := m.Encode()
	if err != nil {
		return nonce, err
	}
	nonce = objects.NewNonce()
	name := format.Name{Kind: objects.Manifest, Partition: m.ID, Nonce: nonce}
	return nonce, objects.Write(ctx, p.w.objects, prefix+name.String(), objects.Manifest, sealed)
}

// world is a cluster of two brokers with a service of snapshots.
type world struct {
	t       *testing.T
	meta    *memory
	fs      vfs.FS // of objects
	objects *faultstore.Store
	peers   map[int32]*peer
	opt     Options
	s       *Service
	shift   time.Duration // of the clock
	mu      sync.Mutex    // guards shift
	// ends are those of all logs at each snapshot.
	ends map[int64]map[format.ID][2]int64
}

// newWorld returns a cluster. Its test runs in a bubble, because a cut has a bound of time.
func newWorld(t *testing.T, change func(*configdef.Archive)) *world {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	under, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	w := newWorldIn(t, faultstore.New(under), change)
	w.fs = fsys
	return w
}

// newWorldIn is newWorld with a store.
func newWorldIn(t *testing.T, store *faultstore.Store, change func(*configdef.Archive)) *world {
	t.Helper()
	w := &world{t: t, objects: store, peers: map[int32]*peer{}, ends: map[int64]map[format.ID][2]int64{},
		meta: &memory{kvs: map[string]metadata.KV{}, term: 1, moved: make(chan struct{})}}
	put := func(key string, value []byte) { w.meta.put(metadata.KV{Key: key, Value: value}) }
	put(metadata.ClusterKey, metadata.NewCluster(metadata.FormatID(cluster), [16]byte{3}).Encode())
	for id := int32(1); id <= 2; id++ {
		w.peers[id] = &peer{w: w, id: id, page: 2, pieces: 4, logs: map[metadata.TopicPartition]*log{},
			offline: map[metadata.TopicPartition]bool{}}
		put(metadata.BrokerKey(id), metadata.Broker{Incarnation: metadata.ID{byte(id)}, Member: uint64(id)}.Encode())
		put(metadata.LivenessKey(id), metadata.BrokerState{Liveness: metadata.Active}.Encode())
	}
	put(metadata.NameKey("t"), metadata.Name{Topic: "t", ID: topicA}.Encode())
	put(metadata.TopicKey(topicA), metadata.TopicRecord{Name: "t", Partitions: partitionsA}.Encode())
	put(metadata.NameKey("__state"), metadata.Name{Topic: "__state", ID: topicB}.Encode())
	put(metadata.TopicKey(topicB), metadata.TopicRecord{Name: "__state", Partitions: 1, Internal: true}.Encode())
	for i := range int32(partitionsA) {
		w.partition(metadata.TopicPartition{Topic: topicA, Partition: i}, i%2+1)
	}
	w.partition(metadata.TopicPartition{Topic: topicB}, 2)
	conf := configdef.Archive{URL: "file:///store", Keep: 100}
	if change != nil {
		change(&conf)
	}
	w.opt = Options{
		Conf: conf, Open: func() (objects.Store, error) { return w.objects, nil }, Store: w.meta, Image: w.meta.image,
		Applied: w.meta.WaitFor, Leads: w.meta.leads, Raise: func(context.Context, int32) error { return errors.New("no level to raise") },
		Topic: func(_ *metadata.Image, t *metadata.Topic) *configdef.Topic {
			return &configdef.Topic{Remote: t.Configs[configdef.RemoteEnable] == "true"}
		},
		Peer: func(id int32) Peer { return w.peers[id] }, Release: "test", Now: w.now, Log: zap.NewNop(),
		Found: math.MaxInt64, // as if no snapshot could be missing
	}
	w.s = New(w.opt)
	return w
}

// partition creates a partition, or lets another broker lead it; -1: none.
func (w *world) partition(tp metadata.TopicPartition, leader int32) {
	p := metadata.Partition{Leader: leader, LeaderEpoch: epoch, Replicas: []int32{1, 2}, ISR: []int32{1, 2}}
	if leader < 0 {
		p.ISR, p.ELR = nil, []int32{1, 2}
	}
	w.meta.put(metadata.KV{Key: metadata.PartitionKey(tp.Topic, tp.Partition), Value: p.Encode()})
	var l *log
	for _, b := range w.peers {
		b.mu.Lock()
		if b.logs[tp] != nil {
			l = b.logs[tp]
		}
		delete(b.logs, tp)
		b.mu.Unlock()
	}
	if l == nil {
		l = &log{}
	}
	if leader < 0 { // its former leader keeps it, and is not asked
		w.peers[1].w.t.Helper()
		return
	}
	w.peers[leader].change(func(p *peer) { p.logs[tp] = l })
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Round(0).Add(w.shift)
}

// setClock changes the clock by d.
func (w *world) setClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shift += d
}

// append appends a batch of so many records to a partition of topicA.
func (w *world) append(partition int32, records int) {
	w.t.Helper()
	tp := metadata.TopicPartition{Topic: topicA, Partition: partition}
	r := record.NewBuilder(record.BatchOptions{})
	for range records {
		r.Append(1, []byte("key"), make([]byte, 50+rand.N(50)), nil)
	}
	b, err := r.Build()
	must.OK(w.t, err)
	b.SetLeaderEpoch(epoch)
	for _, p := range w.peers {
		p.change(func(p *peer) {
			if l := p.logs[tp]; l != nil {
				b.SetBaseOffset(l.end)
				l.batches, l.end = append(l.batches, b), l.end+int64(records)
			}
		})
	}
}

// take takes a snapshot, and remembers what it must have.
func (w *world) take() (*metadata.Snapshot, error) {
	ends := map[format.ID][2]int64{}
	for _, p := range w.peers {
		p.change(func(p *peer) {
			for tp, l := range p.logs {
				ends[format.ID{Topic: tp.Topic, Partition: tp.Partition}] = [2]int64{l.start, l.end}
			}
		})
	}
	term, _ := w.meta.leads()
	x, err := w.s.take(w.t.Context(), term, w.objects, false)
	if err == nil {
		w.ends[x.Number] = ends
	}
	return x, err
}

func (w *world) mustTake() *metadata.Snapshot {
	w.t.Helper()
	x, err := w.take()
	must.OK(w.t, err)
	return x
}

// numbers returns those of the snapshots that the metadata names.
func (w *world) numbers() (list []int64) {
	for _, x := range w.meta.image().Snapshots() {
		list = append(list, x.Number)
	}
	return list
}

// restorable checks that all snapshots of the metadata can be restored, and have what the logs had.
func (w *world) restorable() {
	w.t.Helper()
	for _, number := range w.numbers() {
		x, err := restore.Find(w.t.Context(), w.objects, "", restore.Choice{Cluster: metadata.FormatID(cluster), Number: number})
		if err == nil {
			_, err = x.Verify(w.t.Context(), &restore.Progress{})
		}
		if err != nil {
			w.t.Fatalf("snapshot %d: %v", number, err)
		}
		got := map[format.ID][2]int64{}
		for _, p := range x.Index.Partitions {
			got[p.ID] = [2]int64{p.Start, p.End}
		}
		if want := w.ends[number]; want != nil && !maps.Equal(got, want) {
			w.t.Fatalf("snapshot %d has %v, the logs had %v", number, got, want)
		}
	}
}

// names returns the names of all objects below the prefix of the cluster.
func (w *world) names() (list []string) {
	w.t.Helper()
	must.OK(w.t, w.objects.List(w.t.Context(), prefix, func(in objects.Info) error {
		list = append(list, strings.TrimPrefix(in.Name, prefix))
		return nil
	}))
	slices.Sort(list)
	return list
}

// calls returns how many calls the metadata and the brokers have had.
func (w *world) calls() (n int) {
	w.meta.change(func(m *memory) { n = m.calls })
	for _, p := range w.peers {
		p.change(func(p *peer) { n += p.calls })
	}
	return n + w.objects.Calls(faultstore.Any)
}

// run runs the service until the test or stop ends it.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.s.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// state returns the state of the service.
func (w *world) state() view.Snapshots {
	w.t.Helper()
	x, err := w.s.State()
	must.OK(w.t, err)
	return x
}
