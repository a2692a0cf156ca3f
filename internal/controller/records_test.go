package controller

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
)

// loads fails the test if the store cannot be read as an image any more: then no broker follows the
// metadata, and none can start.
func (w *world) loads() {
	w.Helper()
	kvs, revision, err := w.store.Range(context.Background(), "/")
	w.must(err)
	if _, err := metadata.Load(kvs, revision); err != nil {
		w.Fatalf("the metadata can't be read any more: %v", err)
	}
}

// The last member of ISR and ELR stays and serves the rest, although its log is damaged and its
// directory is not recorded yet.
func TestADamagedLogThatIsNotPlaced(t *testing.T) {
	w := newWorld(t)
	w.lead()
	p := w.start(1)
	w.step()
	w.put(metadata.NameKey("a"), metadata.Name{Topic: "a", ID: topicA}.Encode())
	rev, err := w.store.Txn(context.Background(), metadata.Txn{Put: []metadata.KV{
		{Key: metadata.TopicKey(topicA), Value: metadata.TopicRecord{Name: "a", Partitions: 1}.Encode()},
		{Key: metadata.PartitionKey(topicA, 0), Value: metadata.Partition{Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}}.Encode()},
	}})
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), rev))
	p.damaged = []metadata.TopicPartition{tpA}
	w.step()
	w.step()
	w.loads()
	w.want("a damaged log without a directory", "1@0 isr [1] elr []")
	p.damaged = nil
	w.step()
	w.want("it was repaired", "1@0 isr [1] elr []")
}

// The only replica of a partition continues to lead it, whatever it lost: no other broker has what
// it lacks, and a broker without a cluster also serves the rest.
func TestTheOnlyReplicaStays(t *testing.T) {
	w := newWorld(t)
	w.lead()
	p := w.start(1)
	w.step()
	w.topic(metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}})
	p.damaged = []metadata.TopicPartition{tpA}
	w.step()
	w.step()
	w.want("damaged", "1@0 isr [1] elr []")
	w.start(1, func(q *RegisterRequest) {
		q.Lossy, q.Damaged = []metadata.TopicPartition{tpA}, []metadata.TopicPartition{tpA}
	})
	w.step()
	w.step()
	w.want("lossy and damaged at a start", "1@2 isr [1] elr []")
	if p := w.applier.Image().Partition(tpA); p.Unclean != 1 { // transactions of epoch 0 have lost records
		t.Errorf("unclean epoch %d", p.Unclean)
	}
	w.start(1)
	w.step()
	w.step()
	w.want("a start that lost nothing", "1@4 isr [1] elr []")
	if p := w.applier.Image().Partition(tpA); p.Unclean != 1 {
		t.Errorf("unclean epoch %d", p.Unclean)
	}
}

// hook is a store that runs a function before the next transaction.
type hook struct {
	metadata.Store
	before func()
}

func (h *hook) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	return h.Store.Txn(ctx, t)
}

// A broker that leaves the cluster while a topic is being deleted does not have to confirm that.
func TestTopicDeletedWhileABrokerIsUnregistered(t *testing.T) {
	w := three(t)
	w.start(4)
	w.step()
	w.procs[4].up = false
	w.pass(4 * time.Second)
	h := &hook{Store: w.store, before: func() {
		_, err := w.loop.Unregister(context.Background(), 4)
		w.must(err)
	}}
	c := New(Options{Store: h})
	rev, err := c.DeleteTopic(context.Background(), topicA)
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), rev))
	for id := range int32(3) {
		_, err := c.ForgetDeleted(context.Background(), id+1, topicA)
		w.must(err)
	}
	w.loads()
	if kvs, _, _ := w.store.Range(context.Background(), "/deleting"); len(kvs) > 0 {
		t.Errorf("%d keys of the tombstone are left, the first is %s", len(kvs), kvs[0].Key)
	}
}

// A registration that another process began and did not finish does not lock the broker out.
func TestAnUnfinishedRegistrationDoesNotLockOut(t *testing.T) {
	w := three(t)
	p := w.procs[3]
	p.silent = true
	w.pass(4 * time.Second)
	other := w.process(3)
	other.Member, other.up = 99, false
	w.procs[3] = p
	r := registrar{log: zap.NewNop(), store: w.loop.store, images: w.applier, minISR: w.loop.opt.MinISR}
	fence, err := r.begin(context.Background(), &other.RegisterRequest) // and dies
	w.must(err)
	w.must(w.applier.WaitShown(context.Background(), fence.ModRevision))
	p.silent = false
	for range 10 {
		b, _ := w.applier.Image().Broker(3)
		p.Seen = b.Epoch
		if epoch, err := w.loop.Register(context.Background(), &p.RegisterRequest); err == nil {
			p.epoch = epoch
			w.must(w.applier.WaitShown(context.Background(), epoch))
		}
		w.pass(time.Second)
	}
	if w.state(3) != metadata.Active {
		t.Errorf("broker 3 is %v", w.state(3))
	}
	w.want("nothing was lost", w.record())
}

// A process that was unregistered while it was away writes nothing about its broker any more.
func TestAnUnregisteredProcessWritesNothing(t *testing.T) {
	w := three(t)
	p := w.start(4)
	w.step()
	p.up = false
	w.pass(4 * time.Second)
	_, err := w.loop.Unregister(context.Background(), 4)
	w.must(err)
	c := New(Options{Store: w.store}).As(p.Incarnation)
	_, err = c.AssignDirs(context.Background(), 4, map[metadata.TopicPartition][16]byte{tpA: {4}})
	if !isRefusal(err, StaleBrokerEpoch) {
		t.Errorf("its placement: %v", err)
	}
}

// A record that contradicts itself would end the applier of every broker. It is not written,
// whatever decided it.
func TestARecordThatContradictsItselfIsNotWritten(t *testing.T) {
	w := three(t)
	img := w.applier.Image()
	bad, good := *img.Partition(tpA), *img.Partition(tpA)
	bad.Leader, bad.ISR = 1, []int32{2}
	good.LeaderEpoch++
	list := []change{newChange(img, tpA, img.Partition(tpA), bad), newChange(img, tpA, img.Partition(tpA), good)}
	revision, err := submit(context.Background(), w.store, list)
	if err == nil || revision == 0 {
		t.Errorf("revision %d, %v", revision, err)
	}
	w.loads()
	w.must(w.applier.WaitShown(context.Background(), revision))
	w.want("the other one is written", "1@1 isr [1 2 3] elr []")
}

// A controller whose every decision takes long still notices that a broker is gone.
func TestASlowControllerStillFences(t *testing.T) {
	w := three(t)
	w.procs[3].up = false
	for range 10 {
		for range 4 { // heartbeats are read while the controller writes
			w.now += 400 * time.Millisecond
			w.beat(w.procs[1])
			w.beat(w.procs[2])
		}
		w.step()
	}
	w.want("broker 3 is silent for 16 s", "1@0 isr [1 2] elr []")
}
