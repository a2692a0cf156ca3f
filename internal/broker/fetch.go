package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// Fetch (key 1), versions 4 to 18.
//
// Differences from Kafka: batches are always whole; a request waits for at most maxFetchWait; an
// offset between the high watermark and the log end waits instead of being answered with nothing. A
// replica that does not lead serves consumers too (KIP-392), and the leader refers a consumer with
// a client.rack to an in-sync replica there, without a configuration. No broker replicates by
// Fetch: a request that claims to come from a replica is answered as Kafka answers an unknown one.
func fetchAPI() api {
	return apiDef[*kmsg.FetchRequest]{
		refuse:       refuseFetch,
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.Fetch), Min: 4, Max: 18, MaxCost: maxFetchCost},
		asks:         asks[*kmsg.FetchRequest]{inside: true},
		route:        toLeader(partitionsFetched),
		handle:       parks(fetch),
	}.api()
}

// refuseFetch refuses each partition. Only what is wrong with the request as a whole has an error
// at the top, which consumers take for one of their session.
func refuseFetch(_ *network.Request, req *kmsg.FetchRequest, code *kerr.Error) kmsg.Response {
	resp := refuseWhole(req, code).(*kmsg.FetchResponse)
	if code != kerr.NotLeaderForPartition {
		return resp
	}
	resp.ErrorCode, resp.SessionID = 0, 0
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
		}
	}
	return resp
}

// claimedReplica returns the broker that a request claims to come from, below 0 for a consumer.
func claimedReplica(req *kmsg.FetchRequest) int32 {
	if req.Version >= 15 {
		return req.ReplicaState.ID
	}
	return req.ReplicaID
}

// maxFetchCost bounds the memory of a decoded request. A request may name 100,000 partitions.
const maxFetchCost = 16 << 20

// maxFetchWait bounds max.wait.ms.
const maxFetchWait = 5 * time.Minute

// fetchOp is one Fetch in flight, and a purgatory.ClientOp while it waits:
//
//	step      goroutine              what it does
//	fetch     the reader             find the session and partitions; answer at once, or park
//	peek      the reader, and the    count the available bytes; nothing is read and no memory is
//	          callers of Check       held until they are enough, or the time is over
//	answer    the one that ended it  read from memory, update the session, encode
//	          the reader or its own  read from the disk, or much; then the same
//	Abandon   its own                the client is gone: nothing is read
//	recycle   the writer             the answer was written: release the records, reuse the op
//
// One of these owns it at a time: after they start answer, peek and Expire do not touch it.
// Its parts have files of their own: reading (fetch_read.go), waiting (fetch_park.go,
// fetch_damage.go), sessions (fetch_session.go), the answer (fetch_answer.go).
type fetchOp struct {
	fetchRead
	r     *network.Request
	w     protocol.FetchWriter
	files []network.FileBytes // of the answer

	version int16
	sess    sessionUse
	parked  int64         // bytes taken from Handler.parked
	wide    int64         // bytes taken from Handler.wide
	delay   time.Duration // how long the connection is throttled
	quota   *quota.Tenant // of the client; nil: it has none
	// follower: the request claims to come from a broker, which needs no hint about leaders.
	follower bool
	awaits   parkedFetch

	// Created once.
	waiter  network.Waiter
	answers func()
	due     func() bool
	give    func()
}

func (b *Handler) fetchOp(r *network.Request) *fetchOp {
	op, _ := b.fetches.Get().(*fetchOp)
	if op == nil {
		op = &fetchOp{fetchRead: fetchRead{b: b}}
		op.answers, op.give, op.due = op.answer, op.recycle, op.dueOf
		op.waiter = network.Waiter{Idle: true, Steps: op.waiting}
	}
	op.r = r
	return op
}

// fetch parks the request or answers it.
func fetch(c call, req *kmsg.FetchRequest) {
	b, r := c.b, c.r
	op := b.fetchOp(r)
	op.quota, op.version, op.byID, op.committed = c.quota, req.Version, req.Version >= 13, req.IsolationLevel == 1
	op.anyReplica, op.lend, op.may, op.holder = req.Version >= 11, r.SendsFiles(), b.rights(r), r.Holder()
	if !op.admit(&c, namedPartitions(req)) {
		// As Kafka answers a client that is over its quota.
		op.delay = max(op.delay, maxFetchDelay)
		c.place.end()
		op.respondEmpty()
		return
	}
	op.maxBytes = min(int64(min(max(req.MaxBytes, 0), b.conf.MaxFetchBytes)), c.quota.Second(quota.Fetched))
	op.minBytes = min(int64(max(req.MinBytes, 0)), op.maxBytes)
	op.sess = b.sessions.begin(req, ownerOf(r), &op.fetchRead, time.Now())
	op.sess.make = op.sess.make && !r.Listener.Forward // each request names its partitions, which say where it goes
	if op.delay = c.quota.Wait(quota.Fetched); op.delay > 0 {
		c.place.end()
		op.respondLater()
		return
	}
	if !op.fill(&c) {
		return
	}
	op.follower = claimedReplica(req) >= 0
	op.slow.Empty, op.slow.Due = true, op.due
	rack := req.Rack
	if r.Listener.Forward {
		rack = "" // its address is not that of a replica nearby
	}
	keys, atOnce := op.find(claimedReplica(req), rack)
	c.place.end() // from here on it may read the disk, or wait
	wait := max(min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait), op.delayDamage(r.Received))
	if end := r.Session.Expires; !end.IsZero() {
		wait = min(wait, end.Sub(r.Received)) // what comes later is not for this session
	}
	if !atOnce && len(keys) > 0 && wait > 0 && !op.enough(purgatory.AnyKey) && op.park(wait) {
		r.ReleaseBody() // its parts are charged instead
		op.parkedAt(r.Received.Add(wait))
		b.opt.Replicas.Purgatory().WatchFor(r, op, r.Received.Add(wait), keys...)
		return
	}
	// A fetch that need not wait is answered here if that may block: handing a large answer to
	// another goroutine costs a fifth of the throughput.
	if r.MayBlock() {
		op.answer()
	} else {
		r.WaitsAt(b.at.disk, "")
		b.work.Go(op.answers)
	}
}

// maxKeptFetch bounds the capacity for parts that an idle op keeps, and an op whose answer is being
// written.
const maxKeptFetch = 256

// recycle releases the record bytes and makes the op ready for another use.
func (op *fetchOp) recycle() {
	op.reset()
	op.unpark()
	op.w.Reset()
	clear(op.files)
	if op.files = op.files[:0]; cap(op.files) > maxKeptFetch {
		op.files = nil
	}
	op.r, op.sess, op.delay, op.quota, op.awaits = nil, sessionUse{}, 0, nil, parkedFetch{}
	op.b.fetches.Put(op)
}
