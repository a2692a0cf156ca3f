package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
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

var topicID = [16]byte{0xa}

// cluster is the metadata of topic "t", led by broker 1, its only replica.
type cluster struct {
	partitions int32
	dirs       map[int32][16]byte
	image      *metadata.Image
	rev        int64
}

func (c *cluster) AssignDirs(_ context.Context, _ int32, dirs map[metadata.TopicPartition][16]byte) (int64, error) {
	for tp, dir := range dirs {
		c.dirs[tp.Partition] = dir
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
		{Key: metadata.NameKey("t"), Value: metadata.Name{Topic: "t", ID: topicID}.Encode(), ModRevision: c.rev},
		{Key: metadata.TopicKey(topicID), Value: metadata.TopicRecord{Name: "t", Partitions: c.partitions}.Encode(), ModRevision: c.rev},
		{Key: metadata.PlacementKey(1, topicID), Value: none.With(c.dirs).Encode(), ModRevision: c.rev},
		{Key: metadata.BrokerKey(1), Value: metadata.Broker{}.Encode(), ModRevision: 1},
		{Key: metadata.LivenessKey(1), Value: metadata.BrokerState{Liveness: metadata.Active}.Encode(), ModRevision: 1},
	}
	for i := range c.partitions {
		kvs = append(kvs, metadata.KV{Key: metadata.PartitionKey(topicID, i), ModRevision: c.rev,
			Value: metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}.Encode()})
	}
	next, err := metadata.Load(kvs, c.rev)
	must(t, err)
	prev := c.image
	c.image = next
	must(t, m.Apply(t.Context(), prev, next, metadata.Diff(prev, next)))
	must(t, m.AwaitApplied(t.Context(), next.Version()))
}

// world is a gate in front of the partitions of a topic.
type world struct {
	t          testing.TB
	gate       *Gate
	partitions []*replica.Partition
	asked      *asked
}

func newWorld(t testing.TB, partitions int32) *world {
	t.Helper()
	set, err := durability.NewSet()
	must(t, err)
	profile, err := set.Lookup("sync")
	must(t, err)
	cfg := storage.Config{Profile: profile, Segment: segment.Limits{Bytes: 1 << 20, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 1 << 20}}
	s, err := storage.Open([]storage.Location{{Path: "/d"}},
		storage.Options{FS: vfs.Memory(), JournalFileSize: 1 << 20, Config: func(string, storage.ID) storage.Config { return cfg }})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	c := &cluster{partitions: partitions, dirs: map[int32][16]byte{}, image: metadata.Empty()}
	m := replica.NewManager(replica.Options{Self: 1, Storage: s, Cluster: c, Logger: zap.NewNop(),
		Config: func(*metadata.Image, *metadata.Topic) storage.Config { return cfg }})
	t.Cleanup(m.Purgatory().Close)
	t.Cleanup(func() { must(t, m.Close(context.Background())) })
	c.apply(t, m)
	c.apply(t, m)
	w := &world{t: t, asked: &asked{answer: yes}}
	for i := range partitions {
		p, err := m.Partition(topicID, i)
		must(t, err)
		w.partitions = append(w.partitions, p)
	}
	w.gate = New(Options{Coordinators: w.asked})
	return w
}

// asked is a coordinator whose answers a test gives.
type asked struct {
	mu        sync.Mutex
	questions []Question
	times     []time.Time
	// answer answers at once; nil: the test answers by held.
	answer func(n int, q Question) Answer
	held   []func(Answer)
}

func yes(int, Question) Answer { return Answer{} }

func (a *asked) Ask(q Question, done func(Answer)) {
	a.mu.Lock()
	n := len(a.questions)
	a.questions, a.times = append(a.questions, q), append(a.times, time.Now())
	answer := a.answer
	if answer == nil {
		a.held = append(a.held, done)
	}
	a.mu.Unlock()
	if answer != nil {
		done(answer(n, q))
	}
}

func (a *asked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.questions)
}

// reply answers the oldest question that waits.
func (w *world) reply(x Answer) {
	w.t.Helper()
	w.asked.mu.Lock()
	if len(w.asked.held) == 0 {
		w.t.Fatal("no question waits")
	}
	done := w.asked.held[0]
	w.asked.held = w.asked.held[1:]
	w.asked.mu.Unlock()
	done(x)
}

// tv1 and tv2 are a producer with transaction.version 1 and 2.
var (
	tv1 = Producer{TransactionalID: "tx", ID: 7}
	tv2 = Producer{TransactionalID: "tx", ID: 7, Bumps: true}
)

func (p Producer) at(epoch int16) Producer {
	p.Epoch = epoch
	return p
}

// sent is one batch on its way.
type sent struct {
	append replica.Append
	entry  *Entry
	ended  chan struct{}
	mu     sync.Mutex
	calls  int
}

// batchOf is a batch of one record.
func batchOf(t testing.TB, from Producer, seq int32) record.Accepted {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{Transactional: true,
		Producer: &record.Producer{ID: from.ID, Epoch: from.Epoch, Sequence: seq}})
	b.Append(time.Now().UnixMilli(), nil, fmt.Appendf(nil, "%d", seq), nil)
	bytes, err := b.Build()
	must(t, err)
	return record.Accepted{Bytes: bytes, Batches: 1, Records: 1}
}

const patience = 30 * time.Second

func (w *world) turn(from Producer) *Turn {
	return &Turn{Gate: w.gate, From: from, Client: Client{ID: "client"}, Deadline: time.Now().Add(patience)}
}

// send sends one batch to a partition.
func (w *world) send(from Producer, partition int, seq int32) *sent {
	w.t.Helper()
	turn := w.turn(from)
	var batch groupcommit.Batch
	s := w.add(turn, partition, seq, &batch)
	turn.Ask()
	batch.HandOff()
	return s
}

// add adds one batch to a turn.
func (w *world) add(turn *Turn, partition int, seq int32, batch *groupcommit.Batch) *sent {
	w.t.Helper()
	s := &sent{ended: make(chan struct{})}
	s.append = replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Batches: batchOf(w.t, turn.From, seq)}
	s.append.Done = func(*replica.Append) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls++; s.calls == 1 {
			close(s.ended)
		} else {
			w.t.Errorf("Done of sequence %d was called %d times", seq, s.calls)
		}
	}
	s.entry = turn.Append(w.partitions[partition], "t", &s.append, batch)
	return s
}

// wants waits for the outcome; nil is success.
func (s *sent) wants(t testing.TB, want error) {
	t.Helper()
	<-s.ended
	if !errors.Is(s.append.Err, want) || want == nil && s.append.BaseOffset < 0 {
		t.Fatalf("%v at offset %d, want %v", s.append.Err, s.append.BaseOffset, want)
	}
}

// waits reports whether the batch has not ended.
func (s *sent) waits() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// marker ends a transaction, and waits until the log has the marker.
func (w *world) marker(partition int, from Producer, kind record.ControlType, coordinatorEpoch int32) {
	w.t.Helper()
	done := make(chan error, 1)
	w.partitions[partition].Append(&replica.Append{LeaderEpoch: -1, Acks: replica.AcksAll, Kind: storage.Marker,
		Sender:  producers.Sender{Bumps: from.Bumps},
		Batches: record.Accepted{Bytes: record.EndTxnMarker(from.ID, from.Epoch, kind, coordinatorEpoch, 1)},
		Done:    func(a *replica.Append) { done <- a.Err }}, nil)
	must(w.t, <-done)
}

// stored returns the sequences of the data batches of a producer in a partition, in order.
func (w *world) stored(partition int, id int64) (list []int32) {
	w.t.Helper()
	p := w.partitions[partition]
	for at := int64(0); at < p.Ends().HighWatermark; {
		r, err := p.Read(replica.ReadRequest{Offset: at, MaxBytes: 1 << 20, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
		must(w.t, err)
		for rest := slices.Concat(r.Parts...); len(rest) > 0; {
			b, next, err := record.Next(rest)
			must(w.t, err)
			if rest = next; b.ProducerID() == id && !b.Control() {
				list = append(list, b.BaseSequence())
			}
			at = b.LastOffset() + 1
		}
		r.Release()
	}
	return list
}

func (w *world) wantStored(partition int, id int64, want ...int32) {
	w.t.Helper()
	if got := w.stored(partition, id); !slices.Equal(got, want) {
		w.t.Fatalf("partition %d has sequences %v, want %v", partition, got, want)
	}
}

// wantEmpty waits until the gate holds nothing: the last batch of a queue ends before the queue.
func (w *world) wantEmpty() {
	w.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		queues := 0
		for i := range w.gate.shards {
			s := &w.gate.shards[i]
			s.mu.Lock()
			queues += len(s.queues)
			s.mu.Unlock()
		}
		n := w.gate.Waiting()
		if n == 0 && queues == 0 {
			return
		}
		if time.Since(begun) > patience {
			w.t.Fatalf("%d batches in %d queues are left", n, queues)
		}
	}
}

func refuses(err *kerr.Error) func(int, Question) Answer {
	return func(int, Question) Answer { return Answer{Err: err} }
}
