package desk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	states = "__share_group_state"
	orders = "orders"
	// partitions is how many each topic has.
	partitions = 4
)

// world is a cluster of brokers whose links and logs are fakes: what a shard emits is committed at
// once. The shards are real, and are those of the partition that a broker leads.
type world struct {
	t       testing.TB
	mu      sync.Mutex
	image   *metadata.Image
	version int64
	nodes   map[int32]*node
	logged  *observer.ObservedLogs // of all brokers, from Info on
	shards  [partitions]*sharestate.Shard
	// coordinators is the leader epoch of group coordinators that the shards know.
	coordinators int32
	// link carries a call. The default one handles it.
	link func(ctx context.Context, from, to int32, body []byte) ([]byte, error)
}

// node is a broker.
type node struct {
	*Desk
	w    *world
	self int32

	mu       sync.Mutex
	behind   *metadata.Image // what it knows, if that is not the newest metadata
	refusals []error         // of the next events
	silent   bool            // its shards do not answer
	events   []any
	creating []func(error)
	changed  []sharestate.Changed
}

// newWorld returns a cluster. Broker n leads partition n-1 of each topic, and the last partitions
// belong to the first broker.
func newWorld(t testing.TB, ids ...int32) *world {
	core, logged := observer.New(zap.InfoLevel)
	w := &world{t: t, nodes: map[int32]*node{}, logged: logged}
	w.link = w.deliver
	leaders := make([]int32, partitions)
	for i := range leaders {
		leaders[i] = ids[0]
		if i < len(ids) {
			leaders[i] = ids[i]
		}
	}
	w.lead(leaders...)
	for i := range w.shards {
		w.shards[i] = sharestate.New(sharestate.Config{SnapshotUpdates: 3, Memory: coordinator.NewMemoryBudget(1 << 20)})
		w.shards[i].Handle(time.Now(), 0, sharestate.TopicsChanged{Topics: w}, &coordinator.Effects{})
	}
	for _, id := range ids {
		n := &node{w: w, self: id}
		opt := Options{Self: id, Coordinators: n, Logger: zap.New(core)}
		if len(ids) > 1 {
			opt.Call = func(ctx context.Context, to int32, body []byte) ([]byte, error) {
				w.mu.Lock()
				link := w.link
				w.mu.Unlock()
				return link(ctx, id, to, slices.Clone(body))
			}
		}
		n.Desk = New(opt)
		n.Watch(func(c sharestate.Changed) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.changed = append(n.changed, c)
		})
		w.nodes[id] = n
	}
	return w
}

func (w *world) close() {
	for _, n := range w.nodes {
		n.Close()
	}
}

func (w *world) deliver(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
	return w.nodes[to].Handle(ctx, from, body)
}

// lead sets the leaders of the partitions of both topics.
func (w *world) lead(leaders ...int32) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.image = w.imageOf(leaders, states, orders)
}

func (w *world) imageOf(leaders []int32, topics ...string) *metadata.Image {
	w.t.Helper()
	var kvs []metadata.KV
	for _, name := range topics {
		id := idOf(name)
		kvs = append(kvs, metadata.KV{Key: metadata.NameKey(name), Value: metadata.Name{Topic: name, ID: id}.Encode()},
			metadata.KV{Key: metadata.TopicKey(id), Value: metadata.TopicRecord{Name: name, Partitions: partitions}.Encode()})
		for i, leader := range leaders {
			p := metadata.Partition{Leader: leader, LeaderEpoch: 7, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}}
			kvs = append(kvs, metadata.KV{Key: metadata.PartitionKey(id, int32(i)), Value: p.Encode()})
		}
	}
	for i := range kvs {
		kvs[i].ModRevision = w.version
	}
	img, err := metadata.Load(kvs, w.version)
	must.OK(w.t, err)
	return img
}

func idOf(topic string) [16]byte { return [16]byte{topic[0], topic[2]} }

// LeaderEpoch implements sharestate.Topics.
func (w *world) LeaderEpoch(topic [16]byte, partition int32) int32 {
	if topic != idOf(orders) || partition < 0 || partition >= partitions {
		return -1
	}
	return 7
}

// GroupEpoch implements sharestate.Topics. The caller holds mu.
func (w *world) GroupEpoch(string) int32 { return w.coordinators }

func (n *node) Topic() string { return states }

func (n *node) Image() *metadata.Image {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.behind != nil {
		return n.behind
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.image
}

// setBehind sets what the broker knows; nil: the newest metadata.
func (n *node) setBehind(img *metadata.Image) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behind = img
}

func (n *node) Partition(key string) (int32, bool) {
	if n.Image().Topic(states) == nil {
		return 0, false
	}
	return coordinator.PartitionFor(key, partitions), true
}

func (n *node) WhenCreated(done func(error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.creating = append(n.creating, done)
}

// refuse makes the broker refuse events, after those that it refuses anyway.
func (n *node) refuse(errs ...error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusals = append(n.refusals, errs...)
}

// SubmitTo hands an event to a shard, if the broker leads it.
func (n *node) SubmitTo(partition int32, event any, done func(any, error)) {
	n.mu.Lock()
	n.events = append(n.events, event)
	var err error
	if len(n.refusals) > 0 {
		err, n.refusals = n.refusals[0], n.refusals[1:]
	}
	silent := n.silent
	n.mu.Unlock()
	t := n.Image().Topic(states)
	if err == nil && (partition < 0 || t == nil || t.Partitions.At(partition).Leader != n.self) {
		err = coordinator.ErrNotCoordinator
	}
	switch {
	case silent:
	case err != nil:
		done(nil, err)
	default:
		done(n.w.handle(n, partition, event), nil)
	}
}

// handle handles an event, and sends what the shard sends.
func (w *world) handle(n *node, partition int32, event any) (answer any) {
	w.mu.Lock()
	var sends []any
	for deferred := []any{event}; len(deferred) > 0; deferred = deferred[1:] {
		var out coordinator.Effects
		w.shards[partition].Handle(time.Now(), 1, deferred[0], &out)
		for _, r := range out.Replies {
			answer = r.Response
		}
		sends, deferred = append(sends, out.Sends...), append(deferred, out.Deferred...)
	}
	w.mu.Unlock()
	for _, s := range sends {
		n.Notify(s.(sharestate.Changed))
	}
	return answer
}

// keyOn returns a key of a data partition whose state a partition of the topic of states has.
func keyOn(data, state int32) format.Key {
	for i := range 1000 {
		k := format.Key{Group: string(rune('a'+i%26)) + string(rune('a'+i/26)), Topic: idOf(orders), Partition: data}
		if coordinator.PartitionFor(k.Coordinator(), partitions) == state {
			return k
		}
	}
	panic("no such key")
}

// asks is what a request has answered.
type asks[R any] struct {
	mu   sync.Mutex
	list []R
	n    int
}

func (a *asks[R]) done(list []R) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = list
	a.n++
}

// now returns the results, nil if there are none yet, when all goroutines wait.
func (a *asks[R]) now(t testing.TB) []R {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n > 1 {
		t.Fatalf("answered %d times", a.n)
	}
	return a.list
}

// send sends a request.
func send[Item, R any](ctx context.Context, method func(context.Context, []Item, func([]R)), items ...Item) *asks[R] {
	a := &asks[R]{}
	method(ctx, items, a.done)
	return a
}

// begin begins a state at offset 0.
func begin(t testing.TB, n *node, keys ...format.Key) {
	t.Helper()
	items := mapped(keys, func(k format.Key) sharestate.Initializing { return sharestate.Initializing{Key: k, StateEpoch: 1} })
	for i, err := range send(t.Context(), n.Initialize, items...).now(t) {
		if err != nil {
			t.Fatalf("%s: %v", keys[i], err)
		}
	}
}

var errLink = errors.New("the link broke")
