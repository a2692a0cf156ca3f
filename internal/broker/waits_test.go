package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// waitsAt returns the request of an API once it waits at a step.
func (n *node) waitsAt(t testing.TB, key kmsg.Key, step view.Step) (w view.Wait, at view.WaitStep) {
	t.Helper()
	var last view.Waits
	eventually(t, fmt.Sprintf("a %s waits at %s", key.Name(), step), func() bool {
		last = n.server.Load().Waits(view.MaxWaits)
		for _, x := range last.List {
			i := slices.IndexFunc(x.Steps, func(s view.WaitStep) bool { return s.Step == step })
			if x.Request == key.Name() && i >= 0 {
				w, at = x, x.Steps[i]
				return true
			}
		}
		return false
	})
	return w, at
}

// send sends a request of a new connection, and does not wait for the answer.
func (n *node) send(t testing.TB, version int16, req kmsg.Request) *wire {
	t.Helper()
	w := n.dial(t)
	req.SetVersion(version)
	must(t, w.send(req))
	return w
}

func TestAnAckWaitsForTheJournal(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	id := n.topic(t, "orders", 1)
	_, release := stuck(t, disk, errfs.Datasync)
	req := produceRequest("", id, 1, plain(t, "a"))
	w := n.send(t, 13, req)
	got, at := n.waitsAt(t, kmsg.Produce, view.StepJournal)
	if at.Partition != "orders-0" || at.Dir != "/data/logs" || got.ClientID != "test" || got.Version != 13 || got.Idle {
		t.Errorf("%+v", got)
	}
	began := got.AgeMs
	eventually(t, "the age grows", func() bool {
		got, _ = n.waitsAt(t, kmsg.Produce, view.StepJournal)
		return got.AgeMs > began
	})
	eventually(t, "the standstill of the disk is named", func() bool {
		_, at = n.waitsAt(t, kmsg.Produce, view.StepJournal)
		return strings.Contains(at.For, "no write and no fdatasync of it has ended for ")
	})
	release()
	_, err := w.receive(req)
	must(t, err)
	eventually(t, "nothing waits", func() bool { return n.server.Load().Waits(9).Waiting == 0 })
}

// A request with acks=0 has no timeout, and still says at which step its appends wait.
func TestARequestWithoutAnAckSaysWhereItWaits(t *testing.T) {
	op := produceOp{born: time.Now()}
	op.expires.Store(notStarted)
	op.started()
	if op.expires.Load() == notStarted || int64(time.Since(op.born)) >= op.expires.Load() {
		t.Errorf("expires is %d", op.expires.Load())
	}
}

func TestAnAckWaitsForAFollower(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "orders", 1)
	f := n.follow(t, id)
	req := produceRequest("", id, -1, plain(t, "a"))
	w := n.send(t, 13, req)
	_, at := n.waitsAt(t, kmsg.Produce, view.StepReplication)
	if at.Partition != "orders-0" || !slices.Equal(at.Brokers, []int32{2}) || at.Dir != "" ||
		!strings.Contains(at.For, "offset 0, the high watermark is 0; broker 2 ") {
		t.Errorf("%+v", at)
	}
	f.acknowledge(1)
	_, err := w.receive(req)
	must(t, err)
}

// Requests whose clients ask to wait do not hide one that waits for the broker.
func TestAFetchForRecordsWaitsIdly(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	id := n.topic(t, "orders", 2)
	req := waiting(0, 1, named("", id))
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes = 1, 1<<20
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	n.send(t, 13, req)
	got, at := n.waitsAt(t, kmsg.Fetch, view.StepRecords)
	if !got.Idle || at.Partition != "orders-0" || !strings.HasSuffix(at.For, " at most, in this or 1 other partitions") {
		t.Errorf("%+v", got)
	}
	_, release := stuck(t, disk, errfs.Datasync)
	n.send(t, 13, produceRequest("", id, 1, plain(t, "a")))
	n.waitsAt(t, kmsg.Produce, view.StepJournal)
	if all := n.server.Load().Waits(1); len(all.List) != 1 || all.List[0].Request != "Produce" || all.Waiting != 2 || all.Idle != 1 {
		t.Errorf("%+v", all)
	}
	release()
}

func TestARequestOfManyPartitionsShowsSomeSteps(t *testing.T) {
	const parts = 2 * view.MaxWaitSteps
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	id := n.topic(t, "orders", parts)
	_, release := stuck(t, disk, errfs.Datasync)
	req := produceRequest("", id, 1, plain(t, "a"))
	for i := int32(1); i < parts; i++ {
		p := req.Topics[0].Partitions[0]
		p.Partition = i
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	n.send(t, 13, req)
	eventually(t, "all partitions wait", func() bool {
		w, _ := n.waitsAt(t, kmsg.Produce, view.StepJournal)
		return len(w.Steps) == view.MaxWaitSteps && w.More == parts-view.MaxWaitSteps
	})
	release()
}

func TestRequestsOfGroupsWaitForMembersAndTheirLog(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, quick, func(o *nodeOptions) {
		o.fs = disk
		o.static["group.initial.rebalance.delay.ms"] = "60000"
	})
	n.topic(t, "orders", 1)
	long := strings.Repeat("g", 300)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = long
	eventually(t, "the topic of offsets exists", func() bool {
		return ask[*kmsg.FindCoordinatorResponse](t, n.dial(t), 3, find).ErrorCode == 0
	})
	for _, group := range []string{long, "alone"} {
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group = group
		eventually(t, "the group's coordinator is loaded", func() bool {
			return ask[*kmsg.OffsetFetchResponse](t, n.dial(t), 5, fetch).ErrorCode == 0
		})
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = long, 30_000, 60_000, "consumer"
	protocolOf := kmsg.NewJoinGroupRequestProtocol()
	protocolOf.Name = "range"
	join.Protocols = append(join.Protocols, protocolOf)
	n.send(t, 3, join)
	if _, at := n.waitsAt(t, kmsg.JoinGroup, view.StepGroup); !strings.HasPrefix(at.For, "the other members of group ggg") ||
		len(at.For) > 2*view.MaxWaitText {
		t.Errorf("%+v", at)
	}
	_, release := stuck(t, disk, errfs.Datasync)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = "alone", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "orders", []kmsg.OffsetCommitRequestTopicPartition{{Offset: 7}}
	commit.Topics = append(commit.Topics, topic)
	n.send(t, 8, commit)
	if _, at := n.waitsAt(t, kmsg.OffsetCommit, view.StepJournal); !strings.HasPrefix(at.Partition, "__consumer_offsets-") ||
		!strings.HasSuffix(at.For, ", for group alone") {
		t.Errorf("%+v", at)
	}
	release()
}

func TestAChangeWaitsForTheMetadata(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	calls, release := stuck(t, disk, errfs.Datasync)
	create := createRequest(false)
	create.Topics = append(create.Topics, newTopic("orders", 1, 1))
	w := n.send(t, 5, create)
	<-calls
	n.waitsAt(t, kmsg.CreateTopics, view.StepMetadata)
	release()
	_, err := w.receive(create)
	must(t, err)
}

func TestATransactionalBatchWaitsForItsCoordinator(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "orders", 1)
	answers := make(chan func(gate.Answer), 1)
	n.coordinators.set(func(_ gate.Question, done func(gate.Answer)) { answers <- done })
	req := produceRequest("", id, -1, inTransaction(t, 7, 0, 0, "a"))
	req.TransactionID = kmsg.StringPtr("billing")
	n.send(t, 13, req)
	if _, at := n.waitsAt(t, kmsg.Produce, view.StepTransaction); at.Partition != "orders-0" || !strings.Contains(at.For, "billing") {
		t.Errorf("%+v", at)
	}
	(<-answers)(gate.Answer{Err: kerr.InvalidTxnState})
}

// A trace that ends early tells about the request that still waits.
func TestATraceTellsOfARequestThatHangs(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs = disk })
	id := n.topic(t, "orders", 1)
	_, release := stuck(t, disk, errfs.Datasync)
	n.send(t, 13, produceRequest("", id, -1, plain(t, "a")))
	n.waitsAt(t, kmsg.Produce, view.StepJournal)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, ok := n.server.Load().Trace(ctx, "test", 0); !ok || got.TookMs != 0 || len(got.Seen) == 0 {
		t.Errorf("%+v", got)
	}
	if got, ok := n.server.Load().Trace(ctx, "other", 0); ok {
		t.Errorf("%+v", got)
	}
	release()
}

// A new API can't forget to say where its requests wait: a handler of another kind does not
// compile, and one that parks a request in silence fails its first test with the race detector.
func TestAHandlerThatWaitsInSilenceIsFound(t *testing.T) {
	if !bufpool.Invariants {
		t.Skip("needs the race detector, or -tags invariants")
	}
	n := newNode(t)
	silent := apiDef[*kmsg.ListGroupsRequest]{API: protocol.API{Key: int16(kmsg.ListGroups), Max: 5},
		asks:   asks[*kmsg.ListGroupsRequest]{inside: true},
		handle: parks(func(call, *kmsg.ListGroupsRequest) {})}.api()
	found := make(chan any, 1)
	watched := silent
	watched.handle = func(b *Handler, r *network.Request) {
		defer func() {
			found <- recover()
			r.Abort(errors.New("the test ends"))
		}()
		silent.handle(b, r)
	}
	n.entries[kmsg.ListGroups] = &watched
	n.send(t, 0, kmsg.NewPtrListGroupsRequest())
	if got, ok := (<-found).(string); !ok || !strings.Contains(got, "the handler of ListGroups left a request unanswered") {
		t.Errorf("%v", got)
	}
}
