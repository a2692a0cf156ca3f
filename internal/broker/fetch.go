package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/purgatory"
)

// Fetch (key 1), versions 4 to 18.
//
// What differs from Kafka: batches are always whole; a request may wait for
// maxFetchWait at most; an offset between the high watermark and the log's end
// waits instead of being answered with nothing. Nobody replicates by Fetch: one
// that claims to come from a replica is answered like Kafka answers a replica
// that it doesn't know.
func fetchAPI() api {
	return apiDef[*kmsg.FetchRequest]{
		API:    protocol.API{Key: int16(kmsg.Fetch), Min: 4, Max: 18, MaxCost: maxFetchCost},
		needs:  fetchNeeds,
		handle: fetch,
	}.api()
}

func fetchNeeds(req *kmsg.FetchRequest, n *needs) {
	for i := range req.Topics {
		n.topicRef(opRead, req.Version >= 13, req.Topics[i].Topic, req.Topics[i].TopicID)
	}
	if claimedReplica(req) >= 0 {
		n.cluster(opClusterAction)
	}
}

// claimedReplica is the broker that a request claims to come from, below 0 for a consumer.
func claimedReplica(req *kmsg.FetchRequest) int32 {
	if req.Version >= 15 {
		return req.ReplicaState.ID
	}
	return req.ReplicaID
}

// maxFetchCost bounds what a decoded request takes: 100,000 partitions are within it.
const maxFetchCost = 16 << 20

// maxFetchWait bounds max.wait.ms.
const maxFetchWait = 5 * time.Minute

// fetchOp is one Fetch on its way, and a purgatory.ClientOp while it waits:
//
//	fetch     reader            session, name and find the partitions; answer at once, or park
//	peek      reader, and       how much is there? nothing is read and no memory is held until it
//	          whoever Checks    is enough, or the time is over
//	answer    whoever ended it  read from memory, settle with the session, encode
//	          its own goroutine the same, where the disk has to be read, or much
//	Abandon   its own goroutine the client is gone: nothing is read
//	giveBack  writer            the record bytes are on their way: release them, op to the pool
//
// It is owned by one of these at a time: once peek or Expire have started answer
// they touch it no more. Its parts are in files of their own: what is read (fetch_read.go),
// waiting (fetch_park.go, fetch_damage.go), sessions (fetch_session.go), the answer (fetch_answer.go).
type fetchOp struct {
	fetchRead
	r *network.Request
	w protocol.FetchWriter

	version int16
	sess    sessionUse
	parked  int64         // bytes taken from Broker.parked
	wide    int64         // bytes taken from Broker.wide
	delay   time.Duration // for which the connection is throttled
	// follower: the request claims to be another broker's, which needs no hint about leaders.
	follower bool

	// Made once.
	answers func()
	give    func()
}

func (b *Broker) fetchOp(r *network.Request) *fetchOp {
	op, _ := b.fetches.Get().(*fetchOp)
	if op == nil {
		op = &fetchOp{fetchRead: fetchRead{b: b}}
		op.answers, op.give = op.answer, op.recycle
	}
	op.r = r
	return op
}

// fetch parks the request, or has it answered at once.
func fetch(c call, req *kmsg.FetchRequest) {
	b, r := c.b, c.r
	op := b.fetchOp(r)
	op.delay, op.version, op.byID, op.committed = c.delay, req.Version, req.Version >= 13, req.IsolationLevel == 1
	if !op.admit(req) {
		// As Kafka answers a client that is over its quota.
		op.delay = max(op.delay, maxFetchDelay)
		c.slot.end()
		op.respondEmpty()
		return
	}
	op.maxBytes = int64(min(max(req.MaxBytes, 0), b.conf.MaxFetchBytes))
	op.minBytes = min(int64(max(req.MinBytes, 0)), op.maxBytes)
	op.sess = b.sessions.begin(req, &op.fetchRead, time.Now())
	op.follower = claimedReplica(req) >= 0
	keys, atOnce := op.find(claimedReplica(req))
	c.slot.end() // it may read the disk now, or wait
	wait := max(min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait), op.holdDamage(r.Received))
	if !atOnce && len(keys) > 0 && wait > 0 && !op.enough(purgatory.Everything) && op.park(wait) {
		r.ReleaseBody() // the parts are counted from now on
		b.opt.Replicas.Purgatory().WatchFor(r, op, r.Received.Add(wait), keys...)
		return
	}
	// What need not wait is answered here if that may take its time: each goroutine
	// that a large answer is handed to costs a fifth of its throughput.
	if r.MayBlock() {
		op.answer()
	} else {
		b.work.Go(op.answers)
	}
}

// maxKeptFetch bounds how many parts an idle op has room for, and one whose answer is being
// written.
const maxKeptFetch = 256

// recycle releases the record bytes and makes the op ready for another use.
func (op *fetchOp) recycle() {
	op.reset()
	op.unpark()
	op.w.Reset()
	op.r, op.sess, op.delay = nil, sessionUse{}, 0
	op.b.fetches.Put(op)
}
