package gate

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

const (
	// maxQueue bounds the batches that wait in one partition for one producer. Clients have five in
	// flight on a connection.
	maxQueue = 64
	// maxTries bounds how often a batch enters the log after a yes that was outdated there.
	maxTries = 4
	// Bounds of the pause before a Question is repeated.
	firstPause = 20 * time.Millisecond
	mostPause  = 500 * time.Millisecond
	// shards bounds how many queues share a lock.
	shards = 64
)

var backoff = pause.Backoff{First: firstPause, Most: mostPause}

// Options configure a Gate.
type Options struct {
	Coordinators Coordinators
}

// Gate holds the batches that wait for a transaction's coordinator. All methods may be called
// concurrently, and none waits for a disk or a coordinator.
type Gate struct {
	coordinators Coordinators
	shards       [shards]shard
	waiting      atomic.Int64
	closed       atomic.Bool
	running      sync.WaitGroup // goroutines in queue.run
}

// shard has the queues of some producers. Its lock is held while a log's producer state is asked,
// and never while an append, a Done or a Question is under way.
type shard struct {
	gate    *Gate
	mu      sync.Mutex
	queues  map[key]*queue
	holders holders
}

type key struct {
	partition *replica.Partition
	id        int64 // of the producer
}

// New returns a Gate in which no batch waits.
func New(opt Options) *Gate {
	g := &Gate{coordinators: opt.Coordinators}
	for i := range g.shards {
		g.shards[i].gate, g.shards[i].queues = g, map[key]*queue{}
	}
	return g
}

func (g *Gate) shard(producer int64) *shard { return &g.shards[uint64(producer)%shards] }

// Waiting returns the number of batches that wait.
func (g *Gate) Waiting() int { return int(g.waiting.Load()) }

// Close ends all batches that wait, and refuses later ones that would, with an error for which
// clients look for another leader. Batches of open transactions still pass. Close waits for the
// goroutines that pass batches on. Append.Done must not call it.
func (g *Gate) Close() {
	g.closed.Store(true)
	for i := range g.shards {
		s := &g.shards[i]
		var ended refused
		s.mu.Lock()
		for _, q := range s.queues {
			for q.head != nil {
				ended.add(q.pop(), errClosed())
			}
			q.closeIfIdle()
		}
		s.mu.Unlock()
		ended.finish()
	}
	g.running.Wait()
}

// Producer is the sender of transactional batches.
type Producer struct {
	TransactionalID string
	ID              int64
	Epoch           int16
	// Bumps: the producer gets a new epoch with each transaction, and its partitions are added by
	// their leaders (transaction.version 2). Otherwise the client has added the partition.
	Bumps bool
}

// Turn is the transactional part of one request: the coordinator is asked once for all its
// partitions. It belongs to one goroutine. The zero value with the exported fields is ready for
// use.
type Turn struct {
	Gate   *Gate
	From   Producer
	Client Client
	// Deadline is when the sender stops waiting. It ends batches by Entry.Overdue then; the gate
	// itself only stops asking.
	Deadline time.Time

	round *round // the queues that this request began
}

// Append passes a transactional batch of From to its partition, at once or later. Its promises to
// the caller are those of Partition.Append; topic is the name of the partition's topic. If the
// batch waits, or waited, Append returns an Entry. Its Overdue and Expire must then be called
// instead of those of a.
//
// The caller must call Ask after the last Append.
func (t *Turn) Append(p *replica.Partition, topic string, a *replica.Append, batch *groupcommit.Batch) *Entry {
	s, k := t.Gate.shard(t.From.ID), key{p, t.From.ID}
	s.mu.Lock()
	q := s.queues[k]
	if q == nil {
		knows := s.holders.allow(k, t.From)
		s.mu.Unlock()
		// The partition itself refuses batches that are late or meant for another leader.
		if knows && k.open(t.From.Epoch) || k.late(t.From.Epoch) || p.Refusal(a.LeaderEpoch, storage.Client) != nil {
			a.Permit = producers.Permit{Bumps: t.From.Bumps}
			p.Append(a, batch)
			return nil
		}
		s.mu.Lock()
		q = s.queues[k]
	}
	if err := t.refusal(q); err != nil {
		s.mu.Unlock()
		fail(a, err)
		return nil
	}
	if q == nil {
		q = t.begin(s, k, topic)
	}
	e := &Entry{queue: q, to: a, from: t.From, client: t.Client, deadline: t.Deadline}
	q.push(e)
	s.mu.Unlock()
	return e
}

// refusal returns why no batch may line up. q may be nil.
func (t *Turn) refusal(q *queue) error {
	switch {
	case t.Gate.closed.Load():
		return errClosed()
	case q != nil && q.n >= maxQueue:
		return errFull(t.From)
	}
	return nil
}

// begin makes a queue, for which Ask will ask. The caller holds the lock of the shard.
func (t *Turn) begin(s *shard, k key, topic string) *queue {
	if t.round == nil {
		t.round = &round{gate: t.Gate, from: t.From}
	}
	q := &queue{key: k, shard: s, name: txn.Partition{Topic: topic, Index: k.partition.Log().ID().Partition}, round: t.round}
	s.queues[k] = q
	t.round.queues = append(t.round.queues, q)
	return q
}

// Ask asks the coordinator about the batches that wait.
func (t *Turn) Ask() {
	if r := t.round; r != nil {
		t.round = nil
		r.ask()
	}
}

// open reports whether the producer has an open transaction of an epoch in the partition.
func (k key) open(epoch int16) bool {
	p, ok := k.partition.Log().Producer(k.id)
	return ok && p.First >= 0 && p.Epoch == epoch
}

// late reports whether the partition knows a later epoch of the producer.
func (k key) late(epoch int16) bool {
	p, ok := k.partition.Log().Producer(k.id)
	return ok && p.Epoch > epoch
}
