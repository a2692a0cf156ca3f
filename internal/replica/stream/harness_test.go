package stream

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var topic = [16]byte{1}

// world is a cluster of brokers in one process: metadata that all see at once, wires, and disks.
type world struct {
	t         testing.TB
	broken    rule
	profile   string
	options   func(*Options)
	resigns   resigner // nil: leaders do not resign
	mu        sync.Mutex
	keys      map[string]metadata.KV
	revision  int64
	nodes     map[int32]*node
	disks     map[int32]*crashfs.FS
	wires     map[*wire][2]int32
	fault     func(from, to int32, kind frame.Kind, raw []byte) [][]byte // nil: none
	parts     int32
	memory    int64                            // storage.Options.DeferredBytes
	wrap      func(id int32, fs vfs.FS) vfs.FS // nil: none
	paths     []string                         // of the log directories
	isolated  bool
	processes byte
	keeps     crashfs.Mode // what a disk keeps without power
}

// node is one run of a broker.
type node struct {
	w           *world
	id          int32
	incarnation [16]byte
	storage     *storage.Manager
	manager     *replica.Manager
	streams     *Streams
	image       *metadata.Image
	dead        atomic.Bool // what it acknowledges does not count
}

func newWorld(t testing.TB, parts int32) *world {
	return &world{t: t, profile: "sync", keys: map[string]metadata.KV{}, nodes: map[int32]*node{}, disks: map[int32]*crashfs.FS{},
		wires: map[*wire][2]int32{}, parts: parts, paths: []string{"/d"},
		keeps: crashfs.KeepSectors}
}

func (w *world) config() storage.Config {
	set, err := durability.NewSet()
	must(w.t, err)
	p, err := set.Lookup(w.profile)
	must(w.t, err)
	return storage.Config{Profile: p, Segment: segment.Limits{Bytes: 64 << 10, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20}}
}

func (w *world) set(key string, value []byte) {
	w.keys[key] = metadata.KV{Key: key, Value: value, ModRevision: w.revision + 1}
}

// assign sets the record of all partitions.
func (w *world) assign(leader, epoch int32, isr ...int32) {
	w.record(func(p *metadata.Partition) {
		p.Leader, p.LeaderEpoch, p.Replicas, p.ISR = leader, epoch, []int32{1, 2, 3}, isr
	})
}

func (w *world) record(edit func(*metadata.Partition)) {
	w.mu.Lock()
	for i := range w.parts {
		p := metadata.Partition{Leader: -1, Replicas: []int32{1, 2, 3}}
		if kv, ok := w.keys[metadata.PartitionKey(topic, i)]; ok {
			var err error
			p, err = metadata.DecodePartition(kv)
			must(w.t, err)
		}
		edit(&p)
		w.set(metadata.PartitionKey(topic, i), p.Encode())
	}
	w.set(metadata.NameKey("t"), metadata.Name{Topic: "t", ID: topic}.Encode())
	w.set(metadata.TopicKey(topic), metadata.TopicRecord{Name: "t", Partitions: w.parts}.Encode())
	w.mu.Unlock()
	w.show()
}

// show passes the metadata to all brokers that run.
func (w *world) show() {
	w.mu.Lock()
	w.revision++
	var kvs []metadata.KV
	for _, kv := range w.keys {
		kvs = append(kvs, kv)
	}
	next, err := metadata.Load(kvs, w.revision)
	w.mu.Unlock()
	must(w.t, err)
	for id := range int32(4) {
		if n := w.nodes[id]; n != nil {
			prev := n.image
			n.image = next
			must(w.t, n.manager.Apply(context.Background(), prev, next, metadata.Diff(prev, next)))
			must(w.t, n.manager.AwaitApplied(context.Background(), next.Version()))
		}
	}
}

// start starts a broker on its disk.
func (w *world) start(id int32) *node {
	w.t.Helper()
	if w.disks[id] == nil {
		w.disks[id] = crashfs.New(uint64(id))
	}
	w.processes++
	n := &node{w: w, id: id, incarnation: [16]byte{w.processes, byte(id)}, image: metadata.Empty()}
	cfg := w.config()
	var err error
	disk := vfs.FS(w.disks[id])
	if w.wrap != nil {
		disk = w.wrap(id, disk)
	}
	places := make([]storage.Location, len(w.paths))
	for i, p := range w.paths {
		places[i].Path = p
	}
	n.storage, err = storage.Open(places, storage.Options{FS: disk, JournalFileSize: 1 << 20, DeferredBytes: w.memory,
		Config: func(string, storage.ID) storage.Config { return cfg }})
	must(w.t, err)
	find := func(t [16]byte, p int32) (*replica.Partition, error) { return n.manager.Partition(t, p) }
	opt := Options{Self: id, Links: n, Partition: find}
	opt.broken = breakrules.Without(w.broken)
	if w.options != nil {
		w.options(&opt)
	}
	n.streams = New(opt)
	var resigns replica.Resigner
	if w.resigns != nil {
		resigns = w.resigns
	}
	n.manager = replica.NewManager(replica.Options{Self: id, Resigner: resigns, Incarnation: n.incarnation, Storage: n.storage, Cluster: n,
		Logger: zap.NewNop(), Config: func(*metadata.Image, *metadata.Topic) storage.Config { return cfg },
		RoleChanged: n.streams.RoleChanged})
	w.mu.Lock()
	w.set(metadata.BrokerKey(id), metadata.Broker{Incarnation: n.incarnation}.Encode())
	w.set(metadata.LivenessKey(id), metadata.BrokerState{Liveness: metadata.Active}.Encode())
	w.nodes[id] = n
	w.mu.Unlock()
	w.show()
	w.show() // with the placements
	return n
}

// faulty is the disk of a broker that has faults.
type faulty struct {
	errs *errfs.FS // of the process that was started last
}

// faulty gives a broker that starts later a disk that can have faults.
func (w *world) faulty(broker int32) *faulty {
	d := &faulty{}
	w.wrap = func(id int32, fs vfs.FS) vfs.FS {
		if id != broker {
			return fs
		}
		d.errs = errfs.New(fs)
		return d.errs
	}
	return d
}

// stop stops a broker; power: its disk keeps only what was synced.
func (w *world) stop(id int32, power bool) {
	w.t.Helper()
	n := w.nodes[id]
	n.dead.Store(true)
	w.mu.Lock()
	delete(w.nodes, id)
	w.mu.Unlock()
	w.cutWires(id)
	var image *crashfs.FS
	if power {
		image = w.disks[id].PowerLossImage(w.keeps, uint64(w.processes))
	}
	must(w.t, n.streams.Close(context.Background()))
	must(w.t, n.manager.Close(context.Background()))
	must(w.t, n.storage.Close())
	if image != nil {
		w.disks[id] = image
	}
}

func (w *world) close() {
	for id := range int32(4) {
		if w.nodes[id] != nil {
			w.stop(id, false)
		}
	}
	if n := pool.Outstanding(); n != 0 {
		w.t.Errorf("%d buffers were not released", n)
	}
}

// isolate cuts all connections and prevents new ones, or allows them.
func (w *world) isolate(on bool) {
	w.mu.Lock()
	w.isolated = on
	w.mu.Unlock()
	if on {
		w.cutWires(0)
	}
}

// cutWires cuts the connections of a broker, or of all for 0.
func (w *world) cutWires(id int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x, ids := range w.wires {
		if id == 0 || ids[0] == id || ids[1] == id {
			x.ends[0].Close()
		}
	}
}

// Follow implements Links.
func (n *node) Follow(broker int32, run func(Conn)) Dialer {
	ctx, cancel := context.WithCancel(context.Background())
	d := &dialer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		for ctx.Err() == nil {
			if c := n.w.dial(n, broker); c != nil {
				stop := context.AfterFunc(ctx, c.Close)
				run(c)
				stop()
				c.Close()
				c.sender.Wait()
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return d
}

type dialer struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (d *dialer) Close() {
	d.cancel()
	<-d.done
}

// dial connects a broker with another one, if that runs and the network lets it.
func (w *world) dial(from *node, to int32) *end {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.nodes[to]
	if target == nil || w.nodes[from.id] != from || w.isolated {
		return nil
	}
	epoch := w.keys[metadata.BrokerKey(from.id)].ModRevision
	x := newWire(from.id, to, epoch, w.keys[metadata.BrokerKey(to)].ModRevision)
	w.wires[x] = [2]int32{from.id, to}
	if w.fault != nil {
		fault := w.fault
		x.fault = func(kind frame.Kind, raw []byte) [][]byte { return fault(from.id, to, kind, raw) }
	}
	go func() {
		target.streams.Serve(x.ends[1])
		x.ends[1].Close()
		x.ends[1].sender.Wait()
		w.mu.Lock()
		delete(w.wires, x)
		w.mu.Unlock()
	}()
	return x.ends[0]
}

// AssignDirs implements replica.Cluster.
func (n *node) AssignDirs(_ context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (int64, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	for tp, dir := range dirs {
		key := metadata.PlacementKey(broker, tp.Topic)
		p, err := metadata.DecodePlacement(n.w.keys[key])
		if err != nil {
			return 0, err
		}
		n.w.set(key, p.With(map[int32][16]byte{tp.Partition: dir}).Encode())
	}
	return n.w.revision + 1, nil
}

func (n *node) RaiseEpochs(context.Context, map[metadata.TopicPartition]metadata.Raise) (int64, error) {
	return n.w.revision, nil
}

// AlterISR refuses all changes: the tests set the ISR.
func (n *node) AlterISR(_ context.Context, changes []metadata.ISRChange) []error {
	errs := make([]error, len(changes))
	for i := range errs {
		errs[i] = &metadata.ConflictError{Revision: 1}
	}
	return errs
}

func (n *node) ForgetDeleted(context.Context, int32, ...[16]byte) (int64, error) {
	return n.w.revision, nil
}

func (n *node) partition(i int32) *replica.Partition {
	n.w.t.Helper()
	p, err := n.manager.Partition(topic, i)
	must(n.w.t, err)
	return p
}

// outcome is an append.
type outcome struct {
	replica.Append
	ended chan struct{}
}

// produce appends a batch with records of a size.
func (n *node) produce(i int32, acks replica.Acks, records, size int) *outcome {
	b := record.NewBuilder(record.BatchOptions{})
	for range records {
		b.Append(time.Now().UnixMilli(), nil, bytes.Repeat([]byte{byte(n.id)}, size), nil)
	}
	data, err := b.Build()
	must(n.w.t, err)
	d := &outcome{ended: make(chan struct{})}
	d.LeaderEpoch, d.Acks = -1, acks
	d.Batches = record.Accepted{Bytes: data, Batches: 1, Records: records}
	d.Done = func(*replica.Append) { close(d.ended) }
	n.partition(i).Append(&d.Append, nil)
	return d
}

func (d *outcome) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		t.Fatal("the append never ends")
	}
	return d.Err
}

// batches returns all batches of a log.
func batches(l *storage.Log) (all []record.Batch, err error) {
	for at, end := l.Ends().LogStart, l.Ends().LogEnd; at < end; {
		s, err := l.Read(at, math.MaxInt64, 1<<20, true)
		if err != nil || s.Size == 0 {
			s.Release()
			return all, err
		}
		for _, p := range s.Parts {
			for len(p) > 0 {
				b, rest, err := record.Next(p)
				if err != nil {
					s.Release()
					return all, err
				}
				all = append(all, bytes.Clone(b))
				at, p = b.LastOffset()+1, rest
			}
		}
		s.Release()
	}
	return all, nil
}

// same returns why two logs differ below the last batch that they have in common (C4), nil if they
// do not.
func same(a, b *storage.Log) error {
	x, err := batches(a)
	if err != nil {
		return err
	}
	y, err := batches(b)
	if err != nil {
		return err
	}
	start := max(a.Ends().LogStart, b.Ends().LogStart)
	at := map[int64]record.Batch{}
	for _, p := range y {
		at[p.BaseOffset()] = p
	}
	common := int64(-1)
	for _, p := range x {
		if q := at[p.BaseOffset()]; q != nil && q.LeaderEpoch() == p.LeaderEpoch() {
			common = p.BaseOffset()
		}
	}
	for _, p := range x {
		if p.BaseOffset() >= start && p.BaseOffset() <= common && !bytes.Equal(p, at[p.BaseOffset()]) {
			return fmt.Errorf("%s: the logs differ at %d, below %d", a, p.BaseOffset(), common)
		}
		delete(at, p.BaseOffset())
	}
	for base := range at {
		if base >= start && base < common {
			return fmt.Errorf("%s: only one log has a batch at %d, below %d", a, base, common)
		}
	}
	return nil
}

// difference returns why a follower's logs are not those of the leader, nil if they are.
func (w *world) difference(leader int32, followers ...int32) error {
	for i := range w.parts {
		l := w.nodes[leader].partition(i)
		for _, id := range followers {
			p := w.nodes[id].partition(i)
			a, b := l.Log().Ends(), p.Log().Ends()
			if a.LogEnd != b.LogEnd || a.LogStart != b.LogStart || l.Ends().HighWatermark != p.Ends().HighWatermark ||
				b.Durable != b.LogEnd {
				return fmt.Errorf("partition %d: leader %+v %+v, broker %d %+v %+v", i, a, l.Ends(), id, b, p.Ends())
			}
		}
	}
	return nil
}

// converge waits until the followers have the leader's logs, and compares them.
func (w *world) converge(leader int32, followers ...int32) {
	w.t.Helper()
	var err error
	for range 2000 {
		synctest.Wait()
		if err = w.difference(leader, followers...); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	must(w.t, err)
	for i := range w.parts {
		for _, id := range followers {
			must(w.t, same(w.nodes[leader].partition(i).Log(), w.nodes[id].partition(i).Log()))
		}
	}
}
