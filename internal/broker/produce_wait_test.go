package broker

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/replicatest"
	"github.com/chronik-io/chronik/internal/vfs"
)

// follower is broker 2 from the partition's point of view: it is in the ISR, and acknowledges when
// the test says so.
type follower struct {
	t testing.TB
	p *replica.Partition
}

func (n *node) follow(t testing.TB, id [16]byte) follower {
	t.Helper()
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	p.SetRole(replicatest.Role(p, 1, p.LeaderEpoch()+1, []int32{1, 2}, []int32{1, 2})) // ahead of the metadata
	return follower{t, p}
}

func (f follower) acknowledge(end int64) { replicatest.Acknowledge(f.t, f.p, 2, end) }

func TestAcksAllIsAnsweredWhenTheFollowerHasIt(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	f := n.follow(t, id)
	all, one := n.dial(t), n.dial(t)
	req := produceRequest("t", id, -1, plain(t, "a", "b"))
	req.SetVersion(13)
	must(t, all.send(req))
	// Its records are in the log: those of a later request come after them, but are answered first.
	for f.p.Ends().LogEnd != 2 {
		time.Sleep(50 * time.Microsecond)
	}
	if p := produced(t, one, 13, produceRequest("t", id, 1, plain(t, "c"))); p.ErrorCode != 0 || p.BaseOffset != 2 {
		t.Fatalf("acks=1: %+v", p)
	}
	if got := n.highWatermark(t, id); got != 0 {
		t.Fatalf("high watermark %d without the follower", got)
	}
	f.acknowledge(2)
	resp, err := all.receive(req)
	must(t, err)
	if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 || n.highWatermark(t, id) != 2 {
		t.Fatalf("acks=all: %+v, high watermark %d", p, n.highWatermark(t, id))
	}
}

func TestWhatIsNotAcknowledgedInTimeIsTimedOutAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.pipe = true })
		id := n.topic(t, "t", 1)
		alone := n.topic(t, "alone", 1)
		f := n.follow(t, id)
		w := n.dial(t)
		defer w.Close()
		for i, timeout := range []int32{0, 1, 20, -5} {
			req := produceRequest("", id, -1, plain(t, "a"))
			req.TimeoutMillis = timeout
			req.Topics = append(req.Topics, produceRequest("", [16]byte{9}, -1, plain(t, "a")).Topics...)
			if timeout > 0 { // without a timeout this one is late, too
				req.Topics = append(req.Topics, produceRequest("", alone, -1, plain(t, "a")).Topics...)
			}
			began := time.Now()
			resp := ask[*kmsg.ProduceResponse](t, w, 13, req)
			if took := time.Since(began); took != time.Duration(max(timeout, 0))*time.Millisecond {
				t.Errorf("request %d was answered after %v", i, took)
			}
			want := []*kerr.Error{kerr.RequestTimedOut, kerr.UnknownTopicID, nil}
			for j, topic := range resp.Topics {
				if got := kerr.ErrorForCode(topic.Partitions[0].ErrorCode); !errors.Is(got, orNil(want[j])) {
					t.Errorf("request %d, partition %d: %v, want %v", i, j, got, want[j])
				}
			}
		}
		end := f.p.Ends().LogEnd
		f.acknowledge(end)
		if p := produced(t, w, 13, produceRequest("", alone, -1, plain(t, "a"))); p.ErrorCode != 0 {
			t.Fatalf("after timeouts: %+v", p)
		}
	})
}

// As in Kafka, the timeout of a request applies to the other replicas of acks=all. Records that
// wait for this broker's own disk are stored and acknowledged, not timed out: a producer without
// idempotence would store them twice.
func TestATimeoutDoesNotConcernThisBrokersDisk(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs, o.broker = disk, func(b *Options) { b.AppendTime = 2 * patience } })
	alone, shared := n.topic(t, "alone", 1), n.topic(t, "shared", 1)
	f := n.follow(t, shared)
	calls, release := stuck(t, disk, errfs.Datasync)
	var sent []*kmsg.ProduceRequest
	var from []*wire // one connection each, since only a connection's oldest request expires
	for _, id := range [][16]byte{alone, shared} {
		for _, acks := range []int16{1, -1} {
			req := produceRequest("", id, acks, plain(t, "a"))
			req.TimeoutMillis = 0
			req.SetVersion(13)
			w := n.dial(t)
			must(t, w.send(req))
			sent, from = append(sent, req), append(from, w)
		}
	}
	<-calls
	other := waiting(0, 1, named("", alone)) // gives the timeouts some time, in which nothing may happen
	other.MaxWaitMillis = 20
	ask[*kmsg.FetchResponse](t, n.dial(t), 13, other)
	release() // requests that wait for their disk continue, those that wait for the follower have timed out
	for i, want := range []*kerr.Error{nil, nil, nil, kerr.RequestTimedOut} {
		resp, err := from[i].receive(sent[i])
		must(t, err)
		if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; !errors.Is(kerr.ErrorForCode(p.ErrorCode), orNil(want)) {
			t.Errorf("request %d: %+v, want %v", i, p, want)
		}
	}
	if ends := f.p.Ends(); ends.LogEnd != 2 || ends.Ack != 2 {
		t.Errorf("the log holds what was timed out too: %+v", ends)
	}
}

// A hung disk holds a request for a bounded time: AppendTime, or the request's timeout if that is
// longer.
func TestAStuckDiskHoldsARequestForABoundedTime(t *testing.T) {
	const bound = 30 * time.Millisecond
	disk := errfs.New(vfs.Memory())
	n := newNode(t, func(o *nodeOptions) { o.fs, o.broker = disk, func(b *Options) { b.AppendTime = bound } })
	id := n.topic(t, "t", 1)
	_, release := stuck(t, disk, errfs.Datasync)
	for _, acks := range []int16{1, -1} {
		for timeout, least := range map[int32]time.Duration{0: bound, 10: bound, 60: 2 * bound} {
			req := produceRequest("", id, acks, plain(t, "a"))
			req.TimeoutMillis = timeout
			began := time.Now()
			if p := produced(t, n.dial(t), 13, req); p.ErrorCode != kerr.RequestTimedOut.Code || time.Since(began) < least {
				t.Errorf("acks=%d, timeout %d: %v after %v", acks, timeout, kerr.ErrorForCode(p.ErrorCode), time.Since(began))
			}
		}
	}
	release()
}

func TestNotEnoughReplicasIsTold(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1, "min.insync.replicas", "2")
	w := n.dial(t)
	if p := produced(t, w, 13, produceRequest("", id, -1, plain(t, "a"))); p.ErrorCode != 0 {
		t.Fatalf("one replica can't have two in sync, and is enough: %+v", p)
	}
	f := n.follow(t, id)
	few := replicatest.Role(f.p, 1, f.p.LeaderEpoch(), []int32{1, 2}, []int32{1})
	few.View.MinISR = 2
	few.View.Version = math.MaxInt64 // not older than the one of the image
	f.p.SetRole(few)
	for acks, want := range map[int16]*kerr.Error{-1: kerr.NotEnoughReplicas, 1: nil} {
		if p := produced(t, w, 13, produceRequest("", id, acks, plain(t, "a"))); !errors.Is(kerr.ErrorForCode(p.ErrorCode), orNil(want)) {
			t.Errorf("acks=%d: %v, want %v", acks, kerr.ErrorForCode(p.ErrorCode), want)
		}
	}
}

func TestWhoDoesNotLeadNamesWhoDoes(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	f := n.follow(t, id)
	n.register(t, 2, metadata.Active, metadata.Endpoint{Listener: "test", Host: "b", Port: 9})
	f.p.SetRole(replicatest.Role(f.p, 2, 9, []int32{1, 2}, []int32{1, 2}))
	resp := ask[*kmsg.ProduceResponse](t, n.dial(t), 13, produceRequest("", id, -1, plain(t, "a")))
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != kerr.NotLeaderForPartition.Code || p.CurrentLeader.LeaderID != 2 || p.CurrentLeader.LeaderEpoch != 9 {
		t.Fatalf("%+v", p)
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Brokers[0].Port != 9 {
		t.Fatalf("endpoints %+v", resp.Brokers)
	}
}

// Requests are answered and expire at the same moment, while their ops are reused: every answer
// reports success or timeout, and a reported success is true. Run with -race.
func TestExpiryAndAcknowledgementRace(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	f := n.follow(t, id)
	var clients, acks sync.WaitGroup
	stop := make(chan struct{})
	acks.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				f.acknowledge(f.p.Ends().LogEnd)
				time.Sleep(20 * time.Microsecond) // leaves a single processor to the others
			}
		}
	})
	for c := range 4 {
		w := n.dial(t)
		clients.Go(func() {
			for i := range 150 {
				req := produceRequest("", id, []int16{-1, 1}[i%2], plain(t, "a"))
				req.TimeoutMillis = int32((i + c) % 3)
				req.SetVersion(13)
				must(t, w.send(req))
				resp, err := w.receive(req)
				must(t, err)
				p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				switch {
				case p.ErrorCode == kerr.RequestTimedOut.Code && p.BaseOffset == -1:
				case p.ErrorCode != 0 || p.BaseOffset < 0:
					t.Errorf("%+v", p)
				case req.Acks == -1 && f.p.Ends().HighWatermark <= p.BaseOffset:
					t.Errorf("offset %d was acknowledged above the high watermark", p.BaseOffset)
				}
			}
		})
	}
	clients.Wait()
	close(stop)
	acks.Wait()
}
