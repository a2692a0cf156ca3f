package broker

import (
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
)

// Fetch (key 1), versions 4 to 18.
//
// What differs from Kafka: batches are always whole; a request may wait for
// maxFetchWait at most; an offset between the high watermark and the log's end
// waits instead of being answered with nothing. Nobody replicates by Fetch: one
// that claims to come from a replica is answered like Kafka answers a replica
// that it doesn't know.
func fetchAPI() api {
	return line[*kmsg.FetchRequest]{
		API:    protocol.API{Key: int16(kmsg.Fetch), Min: 4, Max: 18},
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

// maxFetchWait bounds max.wait.ms.
const maxFetchWait = 5 * time.Minute

// maxFetchDelay bounds how long a connection is throttled whose fetch can't be parked.
const maxFetchDelay = time.Second

// fetchOp is one Fetch on its way, and a purgatory.Op while it waits:
//
//	fetch     reader            decode, session, merge repetitions, find the partitions, count its memory
//	peek      reader, and       how much is there? nothing is read and no memory is held until it
//	          whoever Checks    is enough, or the time is over
//	answer    whoever ended it  read from memory, settle with the session, encode
//	          its own goroutine the same, where the disk has to be read, or much
//	abandon   its own goroutine the client is gone: nothing is read
//	giveBack  writer            the record bytes are on their way: release them, op to the pool
//
// It is owned by one of these at a time: once peek or Expire have started answer
// they touch it no more.
type fetchOp struct {
	b *Broker
	r *network.Request
	w protocol.FetchWriter

	version   int16
	committed bool
	minBytes  int64
	maxBytes  int64
	sess      sessionUse
	parts     []fetchPart
	found     int64         // bytes that the parts have
	held      int64         // bytes of the budget for answers
	parked    int64         // bytes of the budget for what is parked
	delay     time.Duration // for which the connection is throttled
	waits     []int32       // for each watched key its part
	seen      map[memberKey]int32

	// Made once.
	answers func()
	give    func()
}

// fetchAsk is what a client asks of a partition; a session remembers it.
type fetchAsk struct {
	topic        topicRef
	index        int32
	maxBytes     int32
	currentEpoch int32
	fetchedEpoch int32
	offset       int64
}

// topicRef is a topic as a client named it: by id from version 13 on.
type topicRef struct {
	name string
	id   [16]byte
}

// tooLong: no topic can have the name.
func (r topicRef) tooLong() bool { return len(r.name) > controller.MaxNameLength }

// fetchPart is one partition of the request.
type fetchPart struct {
	fetchAsk
	member *member // of the session, nil without one
	topic  *metadata.Topic
	part   *replica.Partition
	err    error
	res    replica.ReadResult
	have   int64 // bytes, as of the last peek
	skip   bool  // nothing that the session does not know already
}

func (b *Broker) fetchOp(r *network.Request) *fetchOp {
	op, _ := b.fetches.Get().(*fetchOp)
	if op == nil {
		op = &fetchOp{b: b}
		op.answers, op.give = op.answer, op.giveBack
	}
	op.r = r
	return op
}

// fetch parks the request, or has it answered at once.
func fetch(c call, req *kmsg.FetchRequest) {
	b, r := c.b, c.r
	r.ReleaseBody()
	op := b.fetchOp(r)
	op.delay = c.delay
	op.version, op.committed = req.Version, req.IsolationLevel == 1
	op.maxBytes = int64(min(max(req.MaxBytes, 0), b.conf.MaxFetchBytes))
	op.minBytes = min(int64(max(req.MinBytes, 0)), op.maxBytes)
	op.sess, op.parts = b.sessions.begin(req, op.parts[:0], time.Now())
	op.merge()
	keys, atOnce := op.find(claimedReplica(req))
	wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	// What need not wait is answered here if that may take its time: each goroutine
	// that a large answer is handed to costs a fifth of its throughput.
	if atOnce || len(keys) == 0 || wait <= 0 || op.enough(purgatory.Everything) || !op.park(wait) {
		if r.MayBlock() {
			op.answer()
		} else {
			b.work.Go(op.answers)
		}
		return
	}
	b.opt.Replicas.Purgatory().WatchFor(r, op, r.Received.Add(wait), keys...)
}

// park counts what the fetch holds while it waits. Where there is no room for it the answer
// is due, and its connection is throttled for the time that the client wanted to wait, up to
// a second: otherwise it would ask again at once, and be answered at once.
func (op *fetchOp) park(wait time.Duration) bool {
	if n := op.cost(); op.b.parked.TryShare(n) {
		op.parked = n
		return true
	}
	op.delay = max(op.delay, min(wait, maxFetchDelay))
	return false
}

// partCost is what a part that waits takes: itself, and its key in the purgatory, which is
// a map of its own where nothing else waits for the partition. opCost is what a fetch takes beside its parts.
const (
	partCost = int64(unsafe.Sizeof(fetchPart{})) + 320
	opCost   = int64(unsafe.Sizeof(fetchOp{})) + 1024
)

// cost is the memory that the fetch holds while it waits. The parts of one topic share
// its name.
func (op *fetchOp) cost() int64 {
	n := opCost + int64(len(op.parts))*partCost
	var last *byte
	for i := range op.parts {
		name := op.parts[i].fetchAsk.topic.name
		if at := unsafe.StringData(name); at != last {
			n, last = n+int64(len(name)), at
		}
	}
	return n
}

// fewParts is how many parts are compared with each other; of more each is looked up.
const fewParts = 16

// merge leaves one part of those that name the same partition: as in Kafka, whose map they
// are put into, it asks for what the last one asks, at the place of the first.
func (op *fetchOp) merge() {
	if len(op.parts) < 2 || op.sess.session != nil { // a session has each partition once
		return
	}
	find := op.findSmall
	if len(op.parts) > fewParts {
		find = op.findLarge
		if op.seen == nil {
			op.seen = make(map[memberKey]int32, len(op.parts))
		}
		clear(op.seen)
	}
	kept := 0
	for i := range op.parts {
		if at := find(kept, &op.parts[i].fetchAsk); at < kept {
			op.parts[at].fetchAsk = op.parts[i].fetchAsk
		} else {
			op.parts[kept] = op.parts[i]
			kept++
		}
	}
	clear(op.parts[kept:])
	op.parts = op.parts[:kept]
}

// findSmall returns the place among the first kept parts of one that names the partition of
// a, or kept.
func (op *fetchOp) findSmall(kept int, a *fetchAsk) int {
	for i := range kept {
		if x := &op.parts[i].fetchAsk; x.index == a.index && x.topic == a.topic {
			return i
		}
	}
	return kept
}

// findLarge is findSmall, and remembers what it does not find.
func (op *fetchOp) findLarge(kept int, a *fetchAsk) int {
	key := memberKey{a.topic, a.index}
	if at, ok := op.seen[key]; ok {
		return int(at)
	}
	op.seen[key] = int32(kept)
	return kept
}

// find looks the partitions up and returns the keys of those that may be waited
// for. As in Kafka, a topic that does not exist is no reason to answer before
// the others have something, if there are others; any other error is.
func (op *fetchOp) find(replicaID int32) (keys []purgatory.Key, atOnce bool) {
	img := op.b.image()
	op.waits = op.waits[:0]
	for i := range op.parts {
		p := &op.parts[i]
		if p.topic, p.err = op.b.topicByRef(img, op.version, p.topicRef()); p.err == nil {
			p.part, p.err = op.b.partition(p.topic, p.index)
		}
		if p.err == nil && replicaID >= 0 {
			p.err = unknownReplica(p.currentEpoch, replicaID)
		}
		if p.err != nil {
			c := code(p.err)
			atOnce = atOnce || c != kerr.UnknownTopicID.Code && c != kerr.UnknownTopicOrPartition.Code
			continue
		}
		if keys == nil {
			keys = make([]purgatory.Key, 0, len(op.parts)-i)
		}
		keys = append(keys, purgatory.Key{Topic: p.topic.ID, Partition: p.index})
		op.waits = append(op.waits, int32(i))
	}
	return keys, atOnce
}

func (p *fetchPart) topicRef() topicRef { return p.fetchAsk.topic }

// topicByRef finds a topic by its id or name, as the version has it.
func (b *Broker) topicByRef(img *metadata.Image, version int16, ref topicRef) (*metadata.Topic, error) {
	if version >= 13 {
		if t := img.TopicByID(ref.id); t != nil {
			return t, nil
		}
		return nil, refuse(kerr.UnknownTopicID, "this broker knows no topic with id %s", metadata.FormatID(ref.id))
	}
	if t := img.Topic(ref.name); t != nil {
		return t, nil
	}
	return nil, refuse(kerr.UnknownTopicOrPartition, "this broker knows no topic %q", ref.name)
}

// unknownReplica is the answer to a fetch that claims to be a follower's: none
// replicates in this way, so none is known.
func unknownReplica(currentEpoch, id int32) error {
	if currentEpoch >= 0 {
		return refuse(kerr.UnknownLeaderEpoch, "broker %d is no replica that fetches here", id)
	}
	return refuse(kerr.NotLeaderForPartition, "broker %d is no replica that fetches here", id)
}

// TryComplete is purgatory.Op's: it starts the answer if there is enough.
func (op *fetchOp) TryComplete(i int) bool {
	if !op.enough(i) {
		return false
	}
	op.answerNow()
	return true
}

// Expire is purgatory.Op's: the answer has what there is.
func (op *fetchOp) Expire() { op.answerNow() }

// Abandon is purgatory.ClientOp's: there is no client for the answer.
func (op *fetchOp) Abandon() {
	op.w.Begin(op.version, 0, 0, 0, 0)
	op.r.RespondRaw(op.w.End(nil), op.give)
}

// enough looks at the part of one key, or at all, and says whether the answer is due.
func (op *fetchOp) enough(i int) bool {
	if i != purgatory.Everything {
		return op.peek(&op.parts[op.waits[i]])
	}
	if op.minBytes == 0 {
		return true
	}
	for _, at := range op.waits {
		if op.peek(&op.parts[at]) {
			return true
		}
	}
	return false
}

// peek counts what one part has now, and says whether the answer is due.
func (op *fetchOp) peek(p *fetchPart) bool {
	limit := max(min(int64(p.maxBytes), op.maxBytes), 1) // one batch may come in any case
	n, atOnce := p.part.Peek(p.request(op.committed), limit)
	n = min(n, limit)
	op.found += n - p.have
	p.have = n
	return atOnce || op.found >= op.minBytes
}

func (p *fetchPart) request(committed bool) replica.ReadRequest {
	return replica.ReadRequest{Offset: p.offset, Committed: committed, CurrentEpoch: p.currentEpoch, FetchedEpoch: p.fetchedEpoch}
}

// maxKeptFetch bounds how many parts an idle op has room for, and one whose answer is being
// written.
const maxKeptFetch = 256

// giveBack releases the record bytes and makes the op ready for another use.
func (op *fetchOp) giveBack() {
	op.release()
	op.b.parked.Release(op.parked)
	clear(op.parts)
	clear(op.seen)
	if cap(op.parts) > maxKeptFetch {
		op.parts, op.waits, op.seen, op.w = nil, nil, nil, protocol.FetchWriter{}
	}
	op.w.Reset()
	op.r, op.sess, op.found, op.parked, op.delay, op.parts = nil, sessionUse{}, 0, 0, 0, op.parts[:0]
	op.b.fetches.Put(op)
}
