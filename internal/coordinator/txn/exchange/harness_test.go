package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	states  = "__transaction_state"
	offsets = "__consumer_offsets"
	// leaderEpoch is that of all partitions.
	leaderEpoch = 6
)

// world is a cluster of brokers whose partitions, coordinators and links are fakes. Every broker
// leads the topics that leaders names.
type world struct {
	t       testing.TB
	mu      sync.Mutex
	image   *metadata.Image
	views   map[int32]*metadata.Image // of brokers that know older metadata
	brokers map[int32]*node
	logged  *observer.ObservedLogs // of all brokers, from Info on
	// incarnation makes topics of the same names other ones.
	incarnation byte
	// link carries a call. The default one handles it.
	link func(ctx context.Context, from, to int32, body []byte) ([]byte, error)
}

// node is a broker.
type node struct {
	*Exchange
	w     *world
	mu    sync.Mutex
	parts map[string]*fakePartition // by topic
	// events are those that the coordinator got; answers are what it answers by id, nil: the event
	// waits.
	events  []any
	answers map[string]func(event any) (any, error)
	offsets []Marker
	fenced  []string
	pending []func(any, error)
}

// fakePartition collects what it is asked for. decide answers at once, or never if it returns
// false.
type fakePartition struct {
	mu      sync.Mutex
	got     []string
	appends []*replica.Append
	decide  func(pid int64) (err error, done bool)
	epoch   int32 // of the leader
	batches map[*groupcommit.Batch]bool
}

// newWorld returns a cluster. leaders has the leader of every topic, which has four partitions.
func newWorld(t testing.TB, leaders map[string]int32, ids ...int32) *world {
	core, logged := observer.New(zap.InfoLevel)
	w := &world{t: t, brokers: map[int32]*node{}, views: map[int32]*metadata.Image{}, logged: logged}
	w.setLeaders(leaders, ids...)
	w.link = w.deliver
	for _, id := range ids {
		n := &node{w: w, parts: map[string]*fakePartition{}, answers: map[string]func(any) (any, error){}}
		opt := Options{
			Self: id, Logger: zap.New(core), Topic: states, Offsets: offsets, Submit: n.submit, Partition: n.partition,
			Image: func() *metadata.Image { w.mu.Lock(); defer w.mu.Unlock(); return cmp.Or(w.views[id], w.image) },
			WriteOffsets: func(_ int32, m Marker, done func(error)) {
				n.mu.Lock()
				n.offsets = append(n.offsets, m)
				n.mu.Unlock()
				done(nil)
			},
			Fenced: func(partition, epoch, known int32) {
				n.mu.Lock()
				n.fenced = append(n.fenced, fmt.Sprint(partition, " ", epoch, " ", known))
				n.mu.Unlock()
			},
			Call: func(ctx context.Context, to int32, body []byte) ([]byte, error) {
				w.mu.Lock()
				link := w.link
				w.mu.Unlock()
				return link(ctx, id, to, slices.Clone(body))
			},
		}
		n.Exchange = New(opt)
		w.brokers[id] = n
	}
	return w
}

// said returns what was logged since the last call, and about which broker.
func (w *world) said() (list []string) {
	for _, e := range w.logged.TakeAll() {
		list = append(list, fmt.Sprint(e.Message, " ", e.ContextMap()["broker"]))
	}
	return list
}

// close ends the Exchanges.
func (w *world) close() {
	for _, n := range w.brokers {
		n.Close()
	}
}

func (w *world) deliver(ctx context.Context, from, to int32, body []byte) ([]byte, error) {
	return w.brokers[to].Handle(ctx, from, body)
}

// setLeaders sets the metadata. A topic's id begins with the leader's and its first letter.
func (w *world) setLeaders(leaders map[string]int32, ids ...int32) {
	w.t.Helper()
	var kvs []metadata.KV
	put := func(key string, value []byte) { kvs = append(kvs, metadata.KV{Key: key, Value: value, ModRevision: 7}) }
	for _, id := range ids {
		put(metadata.BrokerKey(id), metadata.Broker{ID: id, Member: uint64(id), Incarnation: [16]byte{byte(id)}}.Encode())
	}
	for _, name := range slices.Sorted(maps.Keys(leaders)) {
		id := [16]byte{name[0], name[len(name)-1], 1 + w.incarnation}
		put(metadata.NameKey(name), metadata.Name{Topic: name, ID: id}.Encode())
		put(metadata.TopicKey(id), metadata.TopicRecord{Name: name, Partitions: 4}.Encode())
		for i := range int32(4) {
			p := metadata.Partition{Leader: leaders[name], LeaderEpoch: leaderEpoch, Replicas: ids, ISR: ids}
			if p.Leader < 0 {
				p.ELR, p.ISR = nil, ids
			}
			put(metadata.PartitionKey(id, i), p.Encode())
		}
	}
	img, err := metadata.Load(kvs, 7)
	must.OK(w.t, err)
	w.mu.Lock()
	w.image = img
	w.mu.Unlock()
}

// see lets a broker know older metadata than the others, or the same again with nil.
func (w *world) see(id int32, img *metadata.Image) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.views[id] = img
}

func (n *node) submit(id string, event any, done func(any, error)) {
	n.mu.Lock()
	n.events = append(n.events, event)
	answer := n.answers[id]
	if answer == nil {
		n.pending = append(n.pending, done)
	}
	n.mu.Unlock()
	if answer != nil {
		done(answer(event))
	}
}

// part returns the fake for the partitions of a topic.
func (n *node) part(topic string) *fakePartition {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.parts[topic]
	if p == nil {
		p = &fakePartition{epoch: leaderEpoch, batches: map[*groupcommit.Batch]bool{}}
		n.parts[topic] = p
	}
	return p
}

func (n *node) partition(topic [16]byte, _ int32) (Partition, error) {
	n.w.mu.Lock()
	t := n.w.image.TopicByID(topic)
	n.w.mu.Unlock()
	if t == nil || t.Partitions.At(0).Leader != n.opt.Self {
		return nil, replica.ErrUnknownPartition
	}
	return n.part(t.Name), nil
}

func (p *fakePartition) Append(a *replica.Append, batch *groupcommit.Batch) {
	b := record.Batch(a.Batches.Bytes)
	kind, epoch, err := b.EndTxn()
	p.mu.Lock()
	p.got = append(p.got, fmt.Sprintf("%d %d %v ce%d", b.ProducerID(), b.ProducerEpoch(), kind == record.Commit, epoch))
	p.appends = append(p.appends, a)
	p.batches[batch] = true
	decide := p.decide
	p.mu.Unlock()
	done := true
	if err == nil && decide != nil {
		err, done = decide(b.ProducerID())
	}
	if done {
		a.Err = err
		a.Done(a)
	}
}

func (p *fakePartition) Flush(leaderEpoch int32, pid int64, epoch int16, done func(error)) {
	p.mu.Lock()
	p.got = append(p.got, fmt.Sprintf("flush %d %d in %d", pid, epoch, leaderEpoch))
	decide := p.decide
	p.mu.Unlock()
	if decide == nil {
		done(nil)
	} else if err, now := decide(pid); now {
		done(err)
	}
}

func (p *fakePartition) LeaderEpoch() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

func (p *fakePartition) log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

func (p *fakePartition) set(decide func(int64) (error, bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = decide
}

// results collects the results of requests.
type results struct {
	mu   sync.Mutex
	list []any
}

func (r *results) add(x any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, x)
}

func (r *results) take() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func (r *results) marked() (errs []string) {
	for _, x := range r.take() {
		m := x.(txn.Marked)
		errs = append(errs, fmt.Sprintf("%s-%d: %v", m.Partition.Topic, m.ProducerID, m.Err))
	}
	slices.Sort(errs)
	return errs
}

// marker returns the marker of a producer for partition 0 of a topic.
func marker(topic string, pid int64) txn.WriteMarker {
	return txn.WriteMarker{ID: "id", ProducerID: pid, Epoch: 3, CoordinatorEpoch: 5, Commit: true, Version: 2,
		Partition: txn.Partition{Topic: topic}}
}

var errLink = errors.New("the link broke")
