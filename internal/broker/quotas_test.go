package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/view"
)

// keeperOf returns a Keeper with one quota, for all users that have none of their own.
func keeperOf(l quota.Limit, rate float64, clock func() time.Duration) *quota.Keeper {
	k := quota.NewKeeper(clock)
	q := quota.Quota{Entity: quota.Entity{User: quota.Any()}}
	q.Limits[l] = rate
	k.Set(quota.Compile(slices.Values([]quota.Quota{q})))
	return k
}

// indebted returns a Keeper whose clock stands still, and under which the clients of tests have to
// wait for d.
func indebted(d time.Duration) *quota.Keeper {
	k := keeperOf(quota.RequestTime, 100, func() time.Duration { return time.Hour })
	k.Tenant(nil, "ANONYMOUS", "").ChargeTime(d + 250*time.Millisecond)
	return k
}

// virtual is a Keeper's clock in a bubble of synctest.
func virtual() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// A producer over its quota is answered at once and its connection is not read for the time that
// the answer names, so that it gets its rate; another one does not wait.
func TestAProducerGetsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100_000
		n := newNode(t, func(o *nodeOptions) {
			o.pipe, o.broker = true, func(b *Options) { b.Quotas = keeperOf(quota.Produced, rate, virtual()) }
		})
		id := n.topic(t, "t", 1)
		w := n.dial(t)
		defer w.Close()
		began, sent := time.Now(), 0
		batch := batchOf(t, record.BatchOptions{}, 1, strings.Repeat("x", 10_000))
		for time.Since(began) < 10*time.Second {
			if sent > 2*10*rate {
				t.Fatalf("the producer sent %d bytes in %v", sent, time.Since(began))
			}
			req := produceRequest("t", id, 1, batch)
			req.Version = 9
			sent += len(req.AppendTo(nil))
			at := time.Now()
			resp := ask[*kmsg.ProduceResponse](t, w, 9, req)
			if waited := time.Since(at); resp.ThrottleMillis > 0 && waited > 200*time.Millisecond {
				t.Fatalf("the answer came after %v", waited)
			}
		}
		share := float64(sent) / rate / time.Since(began).Seconds()
		if share < 0.95 || share > 1.05 {
			t.Errorf("the producer got %.3f of its rate", share)
		}
	})
}

// A consumer over its quota is answered at once without records, its session stays, and it gets
// its rate.
func TestAConsumerGetsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 10_000
		n := newNode(t, func(o *nodeOptions) {
			o.pipe, o.broker = true, func(b *Options) { b.Quotas = keeperOf(quota.Fetched, rate, virtual()) }
		})
		id := n.topic(t, "t", 1)
		w, other := n.dial(t), n.dial(t)
		defer w.Close()
		defer other.Close()
		batch := batchOf(t, record.BatchOptions{}, 1, strings.Repeat("x", 2*rate))
		for range 2 {
			produced(t, w, 9, produceRequest("t", id, 1, batch))
		}
		req := fetchRequest(0, named("t", id))
		req.SessionEpoch = 0
		first := ask[*kmsg.FetchResponse](t, w, 12, req)
		if got := len(first.Topics[0].Partitions[0].RecordBatches); got < 2*rate || got > 3*rate || first.ThrottleMillis < 1700 {
			t.Fatalf("the first answer has %d bytes and a wait of %d ms", got, first.ThrottleMillis)
		}
		next := fetchRequest(0)
		next.SessionID, next.SessionEpoch = first.SessionID, 1
		next.Version = 12
		began := time.Now()
		late := ask[*kmsg.FetchResponse](t, other, 12, next)
		if late.ErrorCode != 0 || late.SessionID != first.SessionID || len(late.Topics) != 0 ||
			late.ThrottleMillis != first.ThrottleMillis ||
			time.Since(began) > 100*time.Millisecond {
			t.Errorf("in debt: error %d, session %d, %d topics, a wait of %d ms after %v", late.ErrorCode, late.SessionID, len(late.Topics),
				late.ThrottleMillis, time.Since(began))
		}
		next.SessionEpoch = 2
		if again := ask[*kmsg.FetchResponse](t, other, 12, next); again.ErrorCode != 0 || len(again.Topics) != 1 {
			t.Errorf("after the wait: error %d, %d topics", again.ErrorCode, len(again.Topics))
		}
		if waited := time.Since(began); waited < 1700*time.Millisecond {
			t.Errorf("the connection was read after %v", waited)
		}
	})
}

// A client in debt creates and deletes no partitions; a version that does not know the error waits.
func TestPartitionsHaveAQuota(t *testing.T) {
	var clock atomic.Int64
	clock.Store(int64(time.Hour))
	n := newNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) {
			b.Quotas = keeperOf(quota.Mutations, 1, func() time.Duration { return time.Duration(clock.Load()) })
		}
	})
	create := func(version int16, name string, validate bool) *kmsg.CreateTopicsResponse {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis, req.ValidateOnly = 10_000, validate
		one := kmsg.NewCreateTopicsRequestTopic()
		one.Topic, one.NumPartitions, one.ReplicationFactor = name, 12, 1
		req.Topics = append(req.Topics, one)
		return ask[*kmsg.CreateTopicsResponse](t, n.dial(t), version, req)
	}
	show := func(what string, resp *kmsg.CreateTopicsResponse, code int16, wait int32) {
		t.Helper()
		if resp.Topics[0].ErrorCode != code || resp.ThrottleMillis != wait {
			t.Errorf("%s: error %d, a wait of %d ms, want %d and %d", what, resp.Topics[0].ErrorCode, resp.ThrottleMillis, code, wait)
		}
	}
	show("only validated", create(7, "v", true), 0, 0)
	show("12 partitions of 11", create(7, "a", false), 0, 1000)
	show("in debt", create(7, "b", false), 89, 1000)
	show("one that exists, in debt", create(7, "a", false), 36, 1000)
	old := make(chan *kmsg.CreateTopicsResponse)
	go func() { old <- create(5, "c", false) }()
	eventually(t, "a request in debt waits for its turn", n.throttles)
	clock.Add(int64(time.Second))
	show("with an old version, after the wait", <-old, 0, 12_000)
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TimeoutMillis, del.TopicNames = 10_000, []string{"a"}
	if got := ask[*kmsg.DeleteTopicsResponse](t, n.dial(t), 5, del).Topics[0].ErrorCode; got != 89 {
		t.Errorf("deletion in debt: %d", got)
	}
	more := kmsg.NewPtrCreatePartitionsRequest()
	more.TimeoutMillis, more.Topics = 10_000, []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 20}}
	if got := ask[*kmsg.CreatePartitionsResponse](t, n.dial(t), 3, more).Topics[0].ErrorCode; got != 89 {
		t.Errorf("more partitions in debt: %d", got)
	}
	clock.Add(int64(13 * time.Second))
	if got := ask[*kmsg.DeleteTopicsResponse](t, n.dial(t), 5, del).Topics[0].ErrorCode; got != 0 {
		t.Errorf("deletion after the wait: %d", got)
	}
}

// A client is not charged for more partitions than a request can create, which nothing creates.
func TestImpossiblePartitionsAreNotCharged(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) {
		o.broker = func(b *Options) {
			b.Quotas = keeperOf(quota.Mutations, 1, func() time.Duration { return time.Hour })
		}
	})
	w := n.dial(t)
	create := func(counts ...int32) *kmsg.CreateTopicsResponse {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 10_000
		for i, count := range counts {
			one := kmsg.NewCreateTopicsRequestTopic()
			one.Topic, one.NumPartitions, one.ReplicationFactor = fmt.Sprint("t", i), count, 1
			req.Topics = append(req.Topics, one)
		}
		return ask[*kmsg.CreateTopicsResponse](t, w, 7, req)
	}
	for _, counts := range [][]int32{{math.MaxInt32}, {controller.MaxPartitions, 1}} {
		for _, got := range create(counts...).Topics {
			if got.ErrorCode != kerr.PolicyViolation.Code {
				t.Errorf("%d partitions: error %d", counts, got.ErrorCode)
			}
		}
	}
	if got := create(1); got.Topics[0].ErrorCode != 0 || got.ThrottleMillis != 0 {
		t.Errorf("one partition: error %d, a wait of %d ms", got.Topics[0].ErrorCode, got.ThrottleMillis)
	}
	more := func(count int32) (int16, int32) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.Topics = 10_000, []kmsg.CreatePartitionsRequestTopic{{Topic: "t0", Count: count}}
		got := ask[*kmsg.CreatePartitionsResponse](t, w, 3, req)
		return got.Topics[0].ErrorCode, got.ThrottleMillis
	}
	if code, _ := more(math.MaxInt32); code != kerr.PolicyViolation.Code {
		t.Errorf("too many further partitions: error %d", code)
	}
	if code, wait := more(2); code != 0 || wait != 0 {
		t.Errorf("one more partition: error %d, a wait of %d ms", code, wait)
	}
}

// throttles reports whether a connection is not read because of a quota.
func (n *node) throttles() bool {
	for _, w := range n.server.Load().Waits(10).List {
		if w.Steps[0].Step == view.StepThrottle {
			return true
		}
	}
	return false
}

// Those who share a quota get its rate together, and none of them wins anything with connections:
// with one for each request, with many at once, or with more than the quota can serve before
// requests time out.
func TestConnectionsWinNothing(t *testing.T) {
	const rate, size, during = 100_000, 10_000, 30 * time.Second
	for name, x := range map[string]struct {
		clients int
		keep    bool // the connection
		pause   time.Duration
	}{
		"one, a connection for each request":   {clients: 1},
		"many, a connection for each request":  {clients: 100},
		"many that pause, a connection each":   {clients: 50, pause: 100 * time.Millisecond},
		"many that stay":                       {clients: 40, keep: true},
		"so many that each has to wait longer": {clients: 400, keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, func(o *nodeOptions) {
					o.pipe, o.broker = true, func(b *Options) { b.Quotas = keeperOf(quota.Produced, rate, virtual()) }
				})
				req := produceRequest("t", n.topic(t, "t", 1), 1, batchOf(t, record.BatchOptions{}, 1, strings.Repeat("x", size)))
				req.SetVersion(9)
				over := time.Now().Add(during)
				var served atomic.Int64
				var all sync.WaitGroup
				for range x.clients {
					all.Go(func() {
						w := n.dial(t)
						for ; served.Load() < 2*rate*int64(during.Seconds()); time.Sleep(x.pause) {
							_ = w.SetDeadline(over)
							if w.send(req) != nil {
								break
							}
							if _, err := w.receive(req); err != nil {
								break
							}
							served.Add(int64(len(req.AppendTo(nil))))
							if !x.keep {
								_ = w.Close()
								w = n.dial(t)
							}
						}
						_ = w.Close()
					})
				}
				all.Wait()
				if share := float64(served.Load()) / rate / during.Seconds(); share < 0.95 || share > 1.05 {
					t.Errorf("the clients got %.3f of the rate", share)
				}
			})
		})
	}
}

// Consumers that share a quota get its rate together: with a connection for each request, and if
// many wait for the same records.
func TestConsumersWinNothingWithConnections(t *testing.T) {
	const rate, size, during = 100_000, 50_000, 30 * time.Second
	for name, keep := range map[string]bool{"a connection for each request": false, "many that stay": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, func(o *nodeOptions) {
					o.pipe, o.broker = true, func(b *Options) { b.Quotas = keeperOf(quota.Fetched, rate, virtual()) }
				})
				id := n.topic(t, "t", 1)
				over := time.Now().Add(during)
				var got atomic.Int64
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						w := n.dial(t)
						for got.Load() < 2*rate*int64(during.Seconds()) {
							req := fetchRequest(0, named("t", id))
							req.SetVersion(12)
							req.MaxWaitMillis, req.MinBytes = 500, 1 // until there are records
							_ = w.SetDeadline(over)
							if w.send(req) != nil {
								break
							}
							resp, err := w.receive(req)
							if err != nil {
								break
							}
							fetched := resp.(*kmsg.FetchResponse)
							for _, topic := range fetched.Topics {
								got.Add(int64(len(topic.Partitions[0].RecordBatches)))
							}
							if !keep { // its answers come at once, so it waits as they ask
								_ = w.Close()
								time.Sleep(time.Duration(fetched.ThrottleMillis) * time.Millisecond)
								w = n.dial(t)
							}
						}
						_ = w.Close()
					})
				}
				synctest.Wait() // for the consumers to be parked
				w := n.dial(t)
				produced(t, w, 9, produceRequest("t", id, 1, batchOf(t, record.BatchOptions{}, 1, strings.Repeat("x", size))))
				_ = w.Close()
				all.Wait()
				if share := float64(got.Load()) / rate / during.Seconds(); share < 0.95 || share > 1.05 {
					t.Errorf("the consumers got %.3f of the rate", share)
				}
			})
		})
	}
}
