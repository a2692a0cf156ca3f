package replica

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/record"
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
	places := make([]storage.Place, len(dirs))
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
func lone(t testing.TB, fs vfs.FS) *Partition {
	t.Helper()
	m := openStorage(t, fs, "/d")
	logs, err := m.CreateIn(m.Dirs()[0], []storage.Spec{{ID: storage.ID{Topic: [16]byte{1}}, Topic: "t", Config: config(t, "sync")}})
	must(t, err)
	return newPartition(logs[0], self, purgatory.New())
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
	d.LeaderEpoch, d.Acks, d.Batches, d.MinISR = -1, acks, batch(t, records), 1
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
	raised   [][]metadata.TopicPartition
	fail     error // returned by every call
}

func newCluster() *cluster {
	return &cluster{keys: map[string]metadata.KV{}, image: metadata.Empty()}
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
		c.partition(id, i, metadata.Partition{Leader: self, Replicas: []int32{self}, ISR: []int32{self}, Dirs: make([][16]byte, 1)})
	}
}

func (c *cluster) partition(id [16]byte, i int32, p metadata.Partition) {
	c.put(metadata.PartitionKey(id, i), p.Encode())
}

func (c *cluster) delete(name string, id [16]byte, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(metadata.DeletingKey(id), metadata.Deleting{Name: name, Partitions: partitions}.Encode())
	for _, k := range []string{metadata.NameKey(name), metadata.TopicKey(id), metadata.TopicConfigKey(id)} {
		delete(c.keys, k)
	}
	for i := range partitions {
		delete(c.keys, metadata.PartitionKey(id, i))
	}
}

// apply passes the changes since the last call to the manager, and waits until it has applied them.
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
	return m.Apply(t.Context(), prev, next, metadata.Diff(prev, next))
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
	errs := []error{c.fail}
	for tp, dir := range dirs {
		errs = append(errs, c.edit(tp, func(p *metadata.Partition) {
			for i, r := range p.Replicas {
				if r == broker && c.fail == nil {
					p.Dirs[i] = dir
				}
			}
		}))
	}
	return c.revision + 1, errors.Join(errs...)
}

func (c *cluster) RaiseEpochs(_ context.Context, list []metadata.TopicPartition) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raised = append(c.raised, list)
	errs := []error{c.fail}
	for _, tp := range list {
		errs = append(errs, c.edit(tp, func(p *metadata.Partition) {
			if c.fail == nil {
				p.LeaderEpoch++
			}
		}))
	}
	return c.revision + 1, errors.Join(errs...)
}

func (c *cluster) ForgetDeleted(_ context.Context, ids ...[16]byte) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.fail == nil {
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
	c.image = metadata.Empty()
	s := openStorage(t, fs, dirs...)
	m := NewManager(Options{Self: self, Storage: s, Cluster: c, Park: purgatory.New(), Logger: zap.NewNop(),
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
	cuts := []storage.Cut{{Log: log, End: end, Reset: reset}}
	log.Dir().Truncate(cuts)
	return cuts[0].Err
}

// moveStart moves the start of one log.
func moveStart(log *storage.Log, start int64) error {
	moves := []storage.StartMove{{Log: log, To: start}}
	log.Dir().MoveStarts(moves)
	return moves[0].Err
}
