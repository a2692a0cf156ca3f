package txn

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// A client that asks again and again for a transaction whose markers are late, and goes away each
// time, must not use up the requests that may wait in the shard.
func TestFewRequestsWaitForATransactionAndNotForLong(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.MaxPark = time.Second })
	d.bring(PrepareCommit, 2)
	add := d.addOf(2, a(0))
	add.Deadline = d.now.Add(24 * time.Hour)
	var tickets []coordinator.Ticket
	for range maxParked {
		tickets = append(tickets, d.send(add))
	}
	late := []coordinator.Ticket{d.send(add), d.send(InitProducerID{ID: "x", Timeout: 1000, ProducerID: none, Epoch: none})}
	if n := len(d.shard.ids["x"].parked); n != maxParked {
		t.Errorf("%d requests wait", n)
	}
	if d.got[late[0]] != (Added{Err: kerr.ConcurrentTransactions, CoordinatorEpoch: d.epoch}) ||
		d.got[late[1]] != (Identity{Err: kerr.ConcurrentTransactions, ProducerID: none, Epoch: none}) {
		t.Errorf("beyond the bound: %+v, %+v", d.got[late[0]], d.got[late[1]])
	}
	d.advance(maxPark)
	for _, to := range tickets {
		if d.got[to] != (Added{Err: kerr.ConcurrentTransactions, CoordinatorEpoch: d.epoch}) {
			t.Fatalf("after %v: %+v", maxPark, d.got[to])
		}
	}
}

// The cost of an Add grows with its partitions, and not with their square: while it is handled, no
// other transaction of the shard can end.
func TestAnAddOfManyPartitionsInAnyOrder(t *testing.T) {
	const n = 100_000
	d := newDesk(t, func(c *Config) { c.OpenMemory = coordinator.NewMemoryBudget(1 << 30) })
	d.trusts = true
	d.bring(Empty, 2)
	d.handle(0, TopicsChanged{Topics: wideTopics{d.topics}, Tagged: true}, false)
	e := d.addOf(2)
	for i := range n {
		e.Partitions = append(e.Partitions, AddedPartition{Partition: Partition{"wide", int32(n - 1 - i)}, TopicID: d.topics.ID("wide")})
	}
	e.Partitions = append(e.Partitions, e.Partitions...)
	if got := ask[Added](d, e); got.Err != nil {
		t.Fatal(got.Err)
	}
	for i, p := range d.state().partitions {
		if p.Index != int32(i) {
			t.Fatalf("partition %d is %v", i, p)
		}
	}
	if len(d.state().partitions) != n {
		t.Errorf("%d partitions", len(d.state().partitions))
	}
}

// A producer of version 2 has its next epoch when a transaction is decided. It may end the next
// transaction, of which nothing has come, before the markers of the last one are written.
func TestAnEndOfATransactionOfWhichNothingHasCome(t *testing.T) {
	for _, decided := range []State{PrepareCommit, PrepareAbort} {
		for _, commit := range []bool{false, true} {
			d := newDesk(t, func(c *Config) { c.MaxPark = time.Second })
			d.bring(decided, 2)
			pid, epoch := d.state().identity()
			e := End{ID: "x", ProducerID: pid, Epoch: epoch, Commit: commit, Version: 2}
			to := d.send(e)
			d.advance(time.Second)
			if got := d.got[to]; got != (Identity{kerr.ConcurrentTransactions, none, none}) {
				t.Fatalf("%v: %+v", decided, got)
			}
			to = d.send(e)
			again := d.send(e)
			d.answer(nil)
			want, repeated := Identity{nil, pid, epoch + 1}, Identity{kerr.ConcurrentTransactions, none, none}
			if commit {
				want = Identity{kerr.InvalidTxnState, none, none}
				repeated = want
			}
			if got := d.got[to]; got != want || d.got[again] != repeated {
				t.Errorf("%v, commit %t: %+v, a copy: %+v", decided, commit, got, d.got[again])
			}
		}
	}
}

// wideTopics are topics with any number of partitions.
type wideTopics struct{ fakeTopics }

func (wideTopics) Exists(Partition) bool { return true }
