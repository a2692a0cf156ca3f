package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

// world is a cluster of processes that a test moves, with its controller. Its time stands still
// except in pass.
type world struct {
	testing.TB
	store    metadata.Store
	applier  *metadata.Applier
	loop     *Loop
	loopMu   sync.Mutex // of loop, for the applier's goroutine
	now      time.Duration
	minISR   int
	procs    map[int32]*process
	confirms bool // the quorum confirms the controller
	sole     bool // its node is the only voter
	own      [16]byte
	unclean  bool // the topic permits unclean elections
	reports  map[int32]election.LogState
	offline  map[int32]bool // their logs cannot be used now
	term     uint64         // in which the node leads
}

// leading is a store of the node that leads in the term of a world.
type leading struct {
	metadata.Store
	w *world
}

func (s leading) LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (int64, error) {
	if term != s.w.term {
		return 0, ErrNotController
	}
	return s.Txn(ctx, t)
}

func (w *world) leading(s metadata.Store) Store { return leading{s, w} }

// use makes the controller use another store from now on.
func (w *world) use(s metadata.Store) {
	w.loop.opt.Store, w.loop.store.Store = w.leading(s), w.leading(s)
}

// process is a broker process. It beats while it is up.
type process struct {
	RegisterRequest
	epoch        int64
	seq, heard   uint64
	up, drain    bool
	failed       [][16]byte
	unable       metadata.DirFault // of its first directory
	damaged      []metadata.TopicPartition
	unreached    []int32
	uncompared   bool
	suspects     []metadata.TopicPartition // of UncomparedLogs
	deaf, silent bool                      // it receives or sends nothing
	stuck        bool                      // it applies no metadata
	applied      int64
}

// applies returns the revision that a process has applied when the metadata is at another one.
func (p *process) applies(revision int64) int64 {
	if !p.stuck {
		p.applied = revision
	}
	return p.applied
}

var topicA = [16]byte{0xa0, 15: 1}

const clusterID = "cluster"

func newWorld(t testing.TB) *world {
	s := solestore.Open(t, raftstore.Options{FS: vfs.Memory(), Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { _ = s.Close() })
	w := &world{TB: t, store: s, minISR: 2, procs: map[int32]*process{}, confirms: true, now: time.Hour, term: 1}
	w.level(1)
	w.applier = metadata.NewApplier(zap.NewNop())
	w.newLoop()
	// Follow goes to the newest loop.
	w.applier.Subscribe("controller", func(ctx context.Context, prev, next *metadata.Image, d *metadata.Delta) error {
		w.loopMu.Lock()
		l := w.loop
		w.loopMu.Unlock()
		return l.Follow(ctx, prev, next, d)
	})
	must.OK(t, w.applier.Start(context.Background(), s))
	t.Cleanup(w.applier.Stop)
	return w
}

// newLoop makes the next controller, whose sessions start now.
func (w *world) newLoop() {
	w.loopMu.Lock()
	defer w.loopMu.Unlock()
	w.loop = NewLoop(LoopOptions{Store: w.leading(w.store), Images: w.applier, Leadership: w, Log: zap.NewNop(), Own: w.own,
		MinISR:    func(*metadata.Image, *metadata.Topic, *metadata.Partition) int { return w.minISR },
		Unclean:   func(*metadata.Image, *metadata.Topic) bool { return w.unclean },
		LogStates: w.report,
		Now:       func() time.Duration { return w.now }})
}

func (w *world) report(_ context.Context, of *metadata.Broker, logs []metadata.TopicPartition) (
	map[metadata.TopicPartition]election.LogState, error) {
	r, ok := w.reports[of.ID]
	if !ok {
		return nil, errCut
	}
	if w.offline[of.ID] {
		return nil, nil
	}
	return map[metadata.TopicPartition]election.LogState{logs[0]: r}, nil
}

func (w *world) Leads() (Term, <-chan struct{}) { return Term{Number: w.term}, nil }

func (w *world) Confirmed() (time.Duration, bool) { return w.now, w.confirms }

func (w *world) Sole() bool { return w.sole }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) put(key string, value []byte) {
	w.Helper()
	rev, err := w.store.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{{Key: key, Value: value}}})
	w.must(err)
	if w.applier != nil {
		w.must(w.applier.WaitShown(context.Background(), rev))
	}
}

// topic makes topicA with one partition, placed in directory {N} of each broker N.
func (w *world) topic(p metadata.Partition) {
	w.Helper()
	txn := metadata.Txn{Put: []metadata.KV{
		{Key: metadata.NameKey("a"), Value: metadata.Name{Topic: "a", ID: topicA}.Encode()},
		{Key: metadata.TopicKey(topicA), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
		{Key: metadata.PartitionKey(topicA, 0), Value: p.Encode()},
	}}
	var none metadata.Placement
	for _, b := range p.Replicas {
		placed := none.With(map[int32][16]byte{0: {byte(b)}})
		txn.Put = append(txn.Put, metadata.KV{Key: metadata.PlacementKey(b, topicA), Value: placed.Encode()})
	}
	rev, err := w.store.Txn(context.Background(), txn)
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), rev))
}

var tpA = metadata.TopicPartition{Topic: topicA}

// level sets the feature level.
func (w *world) level(to int32) {
	w.Helper()
	w.put(metadata.ClusterKey, metadata.Cluster{ID: clusterID, Generation: [16]byte{1}, FeatureLevel: to}.Encode())
}

// start starts a process with the log directory {id} and registers it. It does not beat yet.
func (w *world) start(id int32, edit ...func(*RegisterRequest)) *process {
	w.Helper()
	p := w.process(id, edit...)
	epoch, err := w.loop.Register(context.Background(), &p.RegisterRequest)
	w.must(err)
	p.epoch = epoch
	w.must(w.applier.WaitShown(context.Background(), epoch))
	return p
}

// process makes a process that has not registered.
func (w *world) process(id int32, edit ...func(*RegisterRequest)) *process {
	b, _ := w.applier.Image().Broker(id)
	p := &process{up: true, RegisterRequest: RegisterRequest{
		Broker: id, Member: uint64(id), ClusterID: clusterID, Incarnation: metadata.NewID(), Seen: b.Epoch,
		Dirs:     []RegisterDir{{ID: [16]byte{byte(id)}, Finding: metadata.NewID(), Found: 5, Sequence: 5}},
		Features: metadata.Features{Min: 1, Max: max(1, w.applier.Image().FeatureLevel())},
	}}
	for _, e := range edit {
		e(&p.RegisterRequest)
	}
	w.procs[id] = p
	return p
}

// step lets every process beat, and the controller decide.
func (w *world) step() {
	w.Helper()
	for _, p := range w.procs {
		if p.up && p.epoch > 0 && !p.silent {
			if a, err := w.beat(p); err == nil && a.Proven == 0 {
				w.beat(p) // as a broker does whose first answer in a session has arrived
			}
		}
	}
	w.must(w.loop.step(context.Background(), w.now))
}

func (w *world) beat(p *process) (HeartbeatAnswer, error) {
	p.seq++
	var unable []metadata.UnableDir
	for _, dir := range p.failed {
		unable = append(unable, metadata.UnableDir{ID: dir, Why: metadata.DirFailed})
	}
	if p.unable != 0 {
		unable = append(unable, metadata.UnableDir{ID: p.Dirs[0].ID, Why: p.unable})
	}
	a, err := w.loop.Heartbeat(context.Background(), Heartbeat{Broker: p.Broker, Epoch: p.epoch, Incarnation: p.Incarnation,
		Sequence: p.seq, Answered: p.heard, Applied: p.applies(w.applier.Image().Version()), Ready: true, Drain: p.drain,
		Unable: unable, Damaged: p.damaged, Unreached: p.unreached,
		Uncompared: p.uncompared, UncomparedLogs: p.suspects})
	if err == nil && !p.deaf {
		p.heard = a.Sequence
	}
	return a, err
}

// pass lets time pass, in intervals.
func (w *world) pass(d time.Duration) {
	w.Helper()
	for end := w.now + d; w.now < end; {
		w.now += DefaultHeartbeatInterval
		w.step()
	}
}

// lead starts the controller's term.
func (w *world) lead() {
	w.loop.begin(Term{Number: w.term})
}

func (w *world) state(id int32) metadata.Liveness {
	state, _ := w.applier.Image().Liveness(id)
	return state
}

// record returns the partition as text.
func (w *world) record() string {
	p := w.applier.Image().Partition(tpA)
	text := fmt.Sprintf("%d@%d isr %v elr %v", p.Leader, p.LeaderEpoch, p.ISR, p.ELR)
	if !p.Last.IsZero() {
		text += fmt.Sprintf(" last %d lossy %t", p.Last.Broker, p.Last.Lossy)
	}
	return text
}

func (w *world) want(what, record string) {
	w.Helper()
	if got := w.record(); got != record {
		w.Fatalf("%s: %s, want %s", what, got, record)
	}
}

// three is a world with three active brokers and a partition that all of them replicate.
func three(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.lead()
	for id := range int32(3) {
		w.start(id + 1)
	}
	w.step()
	for id := range int32(3) {
		if w.state(id+1) != metadata.Active {
			t.Fatalf("broker %d is %v", id+1, w.state(id+1))
		}
	}
	w.topic(metadata.Partition{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}})
	w.step()
	w.want("at the beginning", "1@0 isr [1 2 3] elr []")
	return w
}
