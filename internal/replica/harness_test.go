package replica

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self = 1

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func config(t testing.TB, profile string) storage.Config {
	t.Helper()
	set, err := durability.NewSet()
	must(t, err)
	p, err := set.Lookup(profile)
	must(t, err)
	return storage.Config{Profile: p, Segment: segment.Limits{Bytes: 1 << 20, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20}}
}

func openStorage(t testing.TB, fs vfs.FS, dirs ...string) *storage.Manager {
	t.Helper()
	cfg := config(t, "sync")
	places := make([]storage.Location, len(dirs))
	for i, d := range dirs {
		places[i].Path = d
	}
	m, err := storage.Open(places, storage.Options{FS: fs, JournalFileSize: 1 << 20,
		Config: func(string, storage.ID) storage.Config { return cfg }})
	must(t, err)
	t.Cleanup(func() { _ = m.Close() }) // a second Close has no effect
	return m
}

// lone returns a partition without a manager.
func lone(t testing.TB, fs vfs.FS) *Partition { return loneWith(t, fs, "sync") }

// loneWith is lone with a durability profile.
func loneWith(t testing.TB, fs vfs.FS, profile string) *Partition {
	t.Helper()
	m := openStorage(t, fs, "/d")
	logs, err := m.CreateIn(m.Dirs()[0], []storage.Spec{{ID: storage.ID{Topic: [16]byte{1}}, Topic: "t", Config: config(t, profile)}})
	must(t, err)
	return newPartition(logs[0], &environment{self: self, park: purgatory.New(), limits: new(Options).limits(),
		now: func() time.Duration { return 0 }})
}

// roleFor returns a role whose replicas are all registered and active, with broker epoch 1.
func roleFor(p *Partition, leader, epoch int32, replicas, isr []int32) *Role {
	r := &Role{Leader: leader, Epoch: epoch, BrokerEpoch: 1, View: progress.View{MinISR: 1, Notes: true}}
	for _, id := range replicas {
		r.View.Replicas = append(r.View.Replicas, progress.Replica{Broker: id, InSync: slices.Contains(isr, id), BrokerEpoch: 1,
			Active: true, Placement: p.log.Dir().ID()})
	}
	return r
}

// minISR renews the role of a leader with another min.insync.replicas.
func minISR(p *Partition, n int) {
	r := p.role.Load()
	if !r.leader {
		return
	}
	a := &Role{Leader: self, Epoch: r.epoch, BrokerEpoch: 1, View: progress.View{MinISR: n, Notes: true}}
	for id := range int32(r.replicas) {
		a.View.Replicas = append(a.View.Replicas, progress.Replica{Broker: id + 1, InSync: int(id) < r.isr, BrokerEpoch: 1, Active: true,
			Placement: p.log.Dir().ID()})
	}
	p.SetRole(a)
}

func lead(p *Partition, epoch int32, replicas, isr []int32) {
	p.SetRole(roleFor(p, self, epoch, replicas, isr))
}

// awaitNote waits until a leader may commit in its epoch.
func awaitNote(t testing.TB, p *Partition) {
	t.Helper()
	waitFor(t, "the log notes the epoch", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.lead != nil && p.lead.Noted()
	})
}

func follow(p *Partition, leader, epoch int32, replicas, isr []int32) {
	p.SetRole(roleFor(p, leader, epoch, replicas, isr))
}

// serials numbers the subscriptions of all followers.
var serials atomic.Uint64

// acknowledge subscribes a follower whose log ends at end. A member of the ISR follows every move
// of the log start, another one begins where the leader does. It has no effect in another epoch.
func acknowledge(p *Partition, follower, epoch int32, end int64) progress.Handle {
	s := progress.Subscription{Broker: follower, BrokerEpoch: 1, Dir: p.log.Dir().ID(), Written: end, Durable: end}
	s.LogStart, s.Serial = math.MaxInt64, serials.Add(1)
	if !p.Asks(epoch, s) {
		s.LogStart = p.log.DurableStart()
	}
	h, _, _ := p.Subscribe(epoch, s)
	return h
}

// replicate appends batches from a leader.
func replicate(p *Partition, epoch int32, prevEnd, high int64, batches []byte, done func(error)) {
	p.AppendReplicated(&Replicated{Epoch: epoch, PrevEnd: prevEnd, High: high, Batches: batches,
		Done: func(a *Replicated) { done(a.Err) }}, nil)
}

func batch(t testing.TB, records int) record.Accepted {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{})
	for range records {
		b.Append(time.Now().UnixMilli(), nil, []byte("value"), nil)
	}
	out, err := b.Build()
	must(t, err)
	return record.Accepted{Bytes: out, Batches: 1, Records: records}
}

// outcome is an append whose outcome can be awaited.
type outcome struct {
	Append
	ended chan struct{}
	times int
}

// begin appends a batch.
func begin(t testing.TB, p *Partition, acks Acks, records int) *outcome {
	t.Helper()
	d := &outcome{ended: make(chan struct{}, 8)}
	d.LeaderEpoch, d.Acks, d.Batches = -1, acks, batch(t, records)
	d.Done = func(*Append) { d.times++; d.ended <- struct{}{} }
	p.Append(&d.Append, nil)
	return d
}

// patience is how long a test waits for an event, even on a busy machine.
const patience = 2 * time.Minute

// wait returns the append's error.
func (d *outcome) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		t.Fatal("the append never ends")
	}
	return d.Err
}

// pending reports whether the append has not ended yet.
func (d *outcome) pending() bool { return len(d.ended) == 0 }

// waitFor polls until another goroutine has made a condition true.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Since(begin) > patience {
			t.Fatalf("%s: never", what)
		}
	}
}

// cluster is the metadata as keys, and the Cluster of a manager that follows it. Each request of
// the manager is one transaction, which the test applies.
//
// The manager calls it from its own goroutine. A test that does not wait for that must hold mu when
// it accesses the fields; put, topic, change and delete lock it themselves.
type cluster struct {
	mu       sync.Mutex
	keys     map[string]metadata.KV
	revision int64
	image    *metadata.Image
	assigned []map[metadata.TopicPartition][16]byte
	raised   []map[metadata.TopicPartition]metadata.Raise
	fail     error // returned by every call
	altered  []metadata.ISRChange
}

func newCluster() *cluster {
	c := &cluster{keys: map[string]metadata.KV{}, image: metadata.Empty()}
	c.level(metadata.MaxFeatureLevel)
	return c
}

// level sets the feature level.
func (c *cluster) level(to int32) {
	cluster := metadata.NewCluster("c", [16]byte{})
	cluster.FeatureLevel = to
	c.put(metadata.ClusterKey, cluster.Encode())
}

func (c *cluster) put(key string, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(key, value)
}

// set is put for a caller that holds mu.
func (c *cluster) set(key string, value []byte) {
	c.keys[key] = metadata.KV{Key: key, Value: value, ModRevision: c.revision + 1}
}

// topic adds a topic whose partitions broker 1 leads.
func (c *cluster) topic(name string, id [16]byte, partitions int32) {
	c.put(metadata.NameKey(name), metadata.Name{Topic: name, ID: id}.Encode())
	c.put(metadata.TopicKey(id), metadata.TopicRecord{Name: name, Partitions: partitions}.Encode())
	for i := range partitions {
		c.partition(id, i, metadata.Partition{Leader: self, Replicas: []int32{self}, ISR: []int32{self}})
	}
}

func (c *cluster) partition(id [16]byte, i int32, p metadata.Partition) {
	c.put(metadata.PartitionKey(id, i), p.Encode())
}

func (c *cluster) delete(name string, id [16]byte, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(metadata.DeletingKey(id), metadata.Deleting{Name: name, Partitions: partitions}.Encode())
	c.set(metadata.DeletingBrokerKey(id, self), metadata.EncodeWaiting())
	for _, k := range []string{metadata.NameKey(name), metadata.TopicKey(id), metadata.TopicConfigKey(id)} {
		delete(c.keys, k)
	}
	for i := range partitions {
		delete(c.keys, metadata.PartitionKey(id, i))
	}
}

// register registers a broker and makes it active.
func (c *cluster) register(id int32, incarnation [16]byte) {
	b := metadata.Broker{Incarnation: incarnation}
	if id == 2 {
		b.Dirs = []metadata.BrokerDir{{ID: [16]byte{22}}}
	}
	c.put(metadata.BrokerKey(id), b.Encode())
	c.put(metadata.LivenessKey(id), metadata.BrokerState{Liveness: metadata.Active}.Encode())
}

// record records the log directory of a replica of any broker.
func (c *cluster) record(broker int32, tp metadata.TopicPartition, dir [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.placeAt(broker, tp, dir)
}

// acknowledge subscribes a follower, as the image shows it, whose log in a directory ends at end.
func (c *cluster) acknowledge(p *Partition, follower, epoch int32, dir [16]byte, end int64) error {
	b, _ := c.image.Broker(follower)
	_, _, err := p.Subscribe(epoch, progress.Subscription{Broker: follower, BrokerEpoch: b.Epoch, Dir: dir, Written: end, Durable: end,
		LogStart: p.log.DurableStart(), Serial: serials.Add(1)})
	return err
}

// apply passes the changes since the last call to the manager, and waits until it has applied them.
// The error also has why partitions stay offline.
func (c *cluster) apply(t testing.TB, m *Manager) error {
	t.Helper()
	err := c.show(t, m)
	must(t, m.AwaitApplied(t.Context(), c.image.Version()))
	return err
}

// show is apply without waiting.
func (c *cluster) show(t testing.TB, m *Manager) error {
	t.Helper()
	c.mu.Lock()
	c.revision++
	var kvs []metadata.KV
	for _, kv := range c.keys {
		kvs = append(kvs, kv)
	}
	next, err := metadata.Load(kvs, c.revision)
	prev := c.image
	c.image = next
	c.mu.Unlock()
	must(t, err)
	return errors.Join(m.apply(prev, next, metadata.Diff(prev, next)))
}

// applyUntilPlaced applies until the image shows the directory of this broker's replica.
func (c *cluster) applyUntilPlaced(t testing.TB, m *Manager, topic [16]byte, partition int32) {
	t.Helper()
	waitFor(t, "its directory is recorded", func() bool {
		must(t, c.apply(t, m))
		_, ok := c.image.Placement(self, metadata.TopicPartition{Topic: topic, Partition: partition})
		return ok
	})
}

func (c *cluster) change(tp metadata.TopicPartition, edit func(*metadata.Partition)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.edit(tp, edit)
}

// edit is change for a caller that holds mu.
func (c *cluster) edit(tp metadata.TopicPartition, edit func(*metadata.Partition)) error {
	kv, ok := c.keys[metadata.PartitionKey(tp.Topic, tp.Partition)]
	if !ok {
		return nil
	}
	p, err := metadata.DecodePartition(kv)
	if err == nil {
		edit(&p)
		c.set(kv.Key, p.Encode())
	}
	return err
}

func (c *cluster) AssignDirs(_ context.Context, broker int32, dirs map[metadata.TopicPartition][16]byte) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigned = append(c.assigned, maps.Clone(dirs))
	if c.fail != nil {
		return c.revision + 1, c.fail
	}
	for tp, dir := range dirs {
		if _, ok := c.keys[metadata.PartitionKey(tp.Topic, tp.Partition)]; ok {
			c.placeAt(broker, tp, dir)
		}
	}
	return c.revision + 1, nil
}

// place records the log directory of one of this broker's replicas.
func (c *cluster) place(tp metadata.TopicPartition, dir [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.placeAt(self, tp, dir)
}

func (c *cluster) placeAt(broker int32, tp metadata.TopicPartition, dir [16]byte) {
	key := metadata.PlacementKey(broker, tp.Topic)
	p, err := metadata.DecodePlacement(c.keys[key])
	if err != nil {
		panic(err)
	}
	c.set(key, p.With(map[int32][16]byte{tp.Partition: dir}).Encode())
}

// placed returns the log directory that is recorded for one of this broker's replicas.
func (c *cluster) placed(id [16]byte, partition int32) [16]byte {
	dir, _ := c.image.Placement(self, metadata.TopicPartition{Topic: id, Partition: partition})
	return dir
}

func (c *cluster) RaiseEpochs(_ context.Context, list map[metadata.TopicPartition]metadata.Raise) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raised = append(c.raised, list)
	errs := []error{c.fail}
	for tp, x := range list {
		errs = append(errs, c.edit(tp, func(p *metadata.Partition) {
			if c.fail != nil {
				return
			}
			if p.LeaderEpoch != x.From {
				return
			}
			p.LeaderEpoch, _ = metadata.NextEpoch(x.From, x.Seen, [16]byte{})
			if x.Lossy {
				p.Unclean = p.LeaderEpoch
			}
		}))
	}
	return c.revision + 1, errors.Join(errs...)
}

// current reports whether the brokers are as a change says. The caller holds mu.
func (c *cluster) current(x *metadata.ISRChange) bool {
	for _, m := range x.Members {
		if c.keys[metadata.BrokerKey(m.Broker)].ModRevision != m.Epoch || c.keys[metadata.LivenessKey(m.Broker)].ModRevision != m.Liveness {
			return false
		}
	}
	return true
}

// AlterISR accepts the changes whose partition and brokers are as they say.
func (c *cluster) AlterISR(_ context.Context, changes []metadata.ISRChange) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := make([]error, len(changes))
	for i, x := range changes {
		c.altered = append(c.altered, x)
		kv := c.keys[metadata.PartitionKey(x.Topic, x.Partition)]
		switch {
		case c.fail != nil:
			errs[i] = c.fail
		case kv.ModRevision != x.Revision || !c.current(&x):
			errs[i] = &metadata.ConflictError{Revision: c.revision + 1, Key: kv.Key, Found: kv.ModRevision, Expected: x.Revision}
		default:
			errs[i] = c.edit(x.TopicPartition, func(p *metadata.Partition) { p.ISR, p.ELR = x.ISR, x.ELR })
		}
	}
	return errs
}

func (c *cluster) ForgetDeleted(_ context.Context, broker int32, ids ...[16]byte) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.fail == nil {
			delete(c.keys, metadata.DeletingBrokerKey(id, broker))
			delete(c.keys, metadata.PlacementKey(broker, id))
			delete(c.keys, metadata.DeletingKey(id))
		}
	}
	return c.revision + 1, c.fail
}

// life is one run of a broker's partitions on a file system and a cluster.
type life struct {
	*Manager
	storage *storage.Manager
}

func start(t testing.TB, fs vfs.FS, c *cluster) life {
	t.Helper()
	return startIn(t, fs, c, "/d")
}

// startIn is start with several log directories.
func startIn(t testing.TB, fs vfs.FS, c *cluster, dirs ...string) life {
	t.Helper()
	return startWith(t, fs, c, Options{}, dirs...)
}

// startWith is startIn with options of a cluster.
func startWith(t testing.TB, fs vfs.FS, c *cluster, opt Options, dirs ...string) life {
	t.Helper()
	c.image = metadata.Empty()
	if opt.Incarnation == [16]byte{} {
		opt.Incarnation = joined
		c.register(self, joined)
	}
	s := openStorage(t, fs, dirs...)
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	m := NewManager(Options{Self: self, Storage: s, Cluster: c, Logger: opt.Logger,
		Incarnation: opt.Incarnation, Resigner: opt.Resigner, Lease: opt.Lease, Now: opt.Now,
		Config: func(_ *metadata.Image, topic *metadata.Topic) storage.Config {
			if profile := topic.Configs["profile"]; profile != "" {
				return config(t, profile)
			}
			return config(t, "sync")
		}})
	t.Cleanup(func() { must(t, m.Close(context.Background())) })
	return life{storage: s, Manager: m}
}

// cut truncates one log.
func cut(log *storage.Log, end int64, reset bool) error {
	cuts := []storage.Truncation{{Log: log, End: end, Reset: reset}}
	log.Dir().Truncate(cuts)
	return cuts[0].Err
}

// moveStart moves the start of one log.
func moveStart(log *storage.Log, start int64) error {
	moves := []storage.StartMove{{Log: log, To: start}}
	log.Dir().MoveStarts(moves)
	return moves[0].Err
}
