package broker

import (
	"context"
	"net/netip"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// partitionRequest is what a client requests of a partition; a session remembers it.
type partitionRequest struct {
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

// tooLong reports whether the name is longer than a topic's can be.
func (r topicRef) tooLong() bool { return len(r.name) > controller.MaxNameLength }

// fetchPartition is one partition of the request.
type fetchPartition struct {
	partitionRequest
	member  *member // of the session, nil without one
	topic   *metadata.Topic
	part    *replica.Partition
	err     error
	res     replica.ReadResult
	have    int64 // bytes at the last peek
	idle    bool  // nothing is read of it
	skip    bool  // unchanged for the session, so not in the answer
	delayed bool  // its damage was just reported, see fetch_damage.go
	// If elsewhere is set, the consumer should read from the replica preferred instead (KIP-392).
	elsewhere bool
	preferred int32
	// led: this broker led the partition when the fetch arrived. If it no longer does, the consumer
	// gets an error that names the leader, instead of waiting for records at a follower.
	led bool
}

func (p *fetchPartition) topicRef() topicRef { return p.partitionRequest.topic }

func (rd *fetchRead) request(p *fetchPartition) replica.ReadRequest {
	return replica.ReadRequest{Offset: p.offset, Committed: rd.committed, CurrentEpoch: p.currentEpoch, FetchedEpoch: p.fetchedEpoch,
		AnyReplica: rd.anyReplica && !p.led, Lend: rd.lend, LendOnly: rd.lend && rd.held == 0, Slow: &rd.slow}
}

// fetchRead is the reading part of a fetch: it resolves the partitions, checks how many bytes they
// have, reads them within bounds and releases them. It knows neither how long the request waits nor
// how it is answered. One goroutine uses it at a time.
type fetchRead struct {
	b          *Handler
	may        rights // of the client, when the partitions were found
	byID       bool   // topics are named by id
	committed  bool
	anyReplica bool // the client accepts a replica that does not lead
	lend       bool // records that are in a file may be sent from there
	minBytes   int64
	maxBytes   int64
	parts      []fetchPartition
	found      int64 // bytes that the parts have
	held       int64 // bytes taken from the memory for answers
	holder     bufpool.Holder[netip.Prefix]
	waits      []int32 // part of each key that find returned
	seen       map[memberKey]int32
	slow       replica.SlowReads // of the answer
}

// fewParts is up to how many parts are compared with each other; beyond it a map is used.
const fewParts = 16

// add adds a partition. A partition that is named again is one part, since Kafka puts partitions
// into a map: the last request counts, at the place of the first.
func (rd *fetchRead) add(a partitionRequest) {
	if at := rd.indexOf(&a); at < len(rd.parts) {
		rd.parts[at].partitionRequest = a
		return
	}
	rd.parts = append(rd.parts, fetchPartition{partitionRequest: a})
}

// indexOf returns the index of the part for the partition of a, or of the next part to add.
func (rd *fetchRead) indexOf(a *partitionRequest) int {
	n := len(rd.parts)
	if n < fewParts {
		for i := range rd.parts {
			if x := &rd.parts[i].partitionRequest; x.index == a.index && x.topic == a.topic {
				return i
			}
		}
		return n
	}
	if rd.seen == nil {
		rd.seen = make(map[memberKey]int32, 2*fewParts)
	}
	for i := len(rd.seen); i < n; i++ {
		rd.seen[memberKey{rd.parts[i].topicRef(), rd.parts[i].index}] = int32(i)
	}
	if at, ok := rd.seen[memberKey{a.topic, a.index}]; ok {
		return int(at)
	}
	return n
}

// find resolves the partitions and returns the keys of those that the fetch may wait for. rack is
// the client's. As in Kafka, a topic that does not exist, or that the client may not read, does not
// make the fetch answer at once if there are others; any other error does.
func (rd *fetchRead) find(replicaID int32, rack string) (keys []purgatory.Key, atOnce bool) {
	img := rd.b.image()
	rd.waits = rd.waits[:0]
	var follower *kerr.Error
	if replicaID >= 0 {
		follower = rd.may.cluster(acl.ClusterAction)
		follower = unless(follower == nil, kerr.TopicAuthorizationFailed)
	}
	for i := range rd.parts {
		p := &rd.parts[i]
		ref := p.topicRef()
		if follower != nil {
			p.err = denied(follower)
		} else if p.topic, p.err = rd.may.find(acl.Read, img, rd.byID, ref.name, ref.id); p.err == nil {
			p.part, p.err = rd.b.partition(p.topic, p.index)
		}
		if p.err == nil && replicaID >= 0 {
			p.err = unknownReplica(p.currentEpoch, replicaID)
		}
		if p.err != nil {
			n := code(p.err)
			atOnce = atOnce || !unknownTopic(n) && n != kerr.TopicAuthorizationFailed.Code
			continue
		}
		if keys == nil {
			keys = make([]purgatory.Key, 0, len(rd.parts)-i)
		}
		if replicaID < 0 {
			leader, _ := p.part.Leader()
			p.led = leader == rd.b.opt.Self
			p.preferred = p.part.PreferredReplica(img, rack)
			p.elsewhere = p.preferred >= 0
			atOnce = atOnce || p.elsewhere
		}
		keys = append(keys, purgatory.Key{Topic: p.topic.ID, Partition: p.index})
		rd.waits = append(rd.waits, int32(i))
	}
	return keys, atOnce
}

// unknownTopic reports whether an error code means that there is no such topic or partition.
func unknownTopic(code int16) bool {
	return code == kerr.UnknownTopicID.Code || code == kerr.UnknownTopicOrPartition.Code
}

// askAgain asks for the rights again before records are read: they may have been taken from the
// client while the fetch was waiting.
func (rd *fetchRead) askAgain(now rights) {
	if now.same(rd.may) {
		return
	}
	rd.may = now
	for i := range rd.parts {
		p := &rd.parts[i]
		if p.err != nil {
			continue
		}
		var missing *kerr.Error
		if rd.byID {
			missing = now.topicByID(acl.Read, p.topic)
		} else {
			missing = now.topic(acl.Read, p.topic.Name)
		}
		if missing != nil {
			p.err, p.elsewhere = denied(missing), false
		}
	}
}

// unknownReplica returns the error for a fetch that claims to come from a follower: no follower
// replicates by Fetch, so none is known.
func unknownReplica(currentEpoch, id int32) error {
	if currentEpoch >= 0 {
		return protocolErrorf(kerr.UnknownLeaderEpoch, "broker %d is not a replica of this partition", id)
	}
	return protocolErrorf(kerr.NotLeaderForPartition, "broker %d is not a replica of this partition", id)
}

// enough checks the part of one key, or all parts, and reports whether the answer is due.
func (rd *fetchRead) enough(i int) bool {
	if i != purgatory.AnyKey {
		return rd.peek(&rd.parts[rd.waits[i]])
	}
	if rd.minBytes == 0 {
		return true
	}
	for _, at := range rd.waits {
		if rd.peek(&rd.parts[at]) {
			return true
		}
	}
	return false
}

// peek counts the bytes that one part has now, and reports whether the answer is due.
func (rd *fetchRead) peek(p *fetchPartition) bool {
	if p.part.Log().DamagedAt(p.offset) {
		return !p.delayed
	}
	limit := max(min(int64(p.maxBytes), rd.maxBytes), 1) // one batch is allowed in any case
	n, atOnce := p.part.Peek(rd.request(p), limit)
	n = min(n, limit)
	rd.found += n - p.have
	p.have = n
	return atOnce || rd.found >= rd.minBytes
}

// dueOf reports whether the answer is due without the records that only the object store has. Those
// then come with a later fetch: the client asks for a partition without records before the others
// (KIP-74).
func (rd *fetchRead) dueOf() bool {
	n := int64(0)
	for i := range rd.parts {
		p := &rd.parts[i]
		if p.err != nil || p.idle || p.elsewhere {
			continue
		}
		limit := max(min(int64(p.maxBytes), rd.maxBytes), 1)
		n += min(p.part.LocalBytes(rd.request(p), limit), limit)
		if n >= max(rd.minBytes, 1) {
			return true
		}
	}
	return false
}

// minAnswer is how many bytes of records an answer may have if clients that do not read use up
// the memory for answers.
const minAnswer = 64 << 10

// readers waits for those who read other answers (network.Request.AwaitReaders).
type readers interface {
	AwaitReaders(wait func(context.Context) error) error
}

// answerNeed is the memory that a read takes before it reads.
type answerNeed struct {
	most, least int64
	whole       bool // the first batch is read, however large it is
	probed      bool // without memory, it was read whether there are records and what files lend
}

// needs returns what a read needs at first.
func (rd *fetchRead) needs() answerNeed {
	most := max(rd.wanted(), 1)
	return answerNeed{most: most, least: min(most, minAnswer)}
}

// read reads the partitions in order, until the request's bytes or its share of the memory for
// answers are used up. The first partition with records returns a whole batch of any size, so that
// a client always makes progress (KIP-74). read takes the memory before it reads, and blocks while
// there is too little, unless it finds that files lend enough or that there are no records. It
// returns false if the client is gone meanwhile. Without others to wait for, it never blocks and
// reads memory only, and returns false if that is not enough. Then it holds nothing.
func (rd *fetchRead) read(others readers) bool {
	for n := rd.needs(); !rd.readFree(&n, others == nil); {
		if others == nil || rd.await(others, n) != nil {
			return false
		}
	}
	return true
}

// readFree is read within the memory that is free or held: it does not wait for memory. If there is
// too little it returns false and holds nothing, and n is what to await. memory: it must not read
// the disk, and returns false, too, if it would have to.
func (rd *fetchRead) readFree(n *answerNeed, memory bool) bool {
	rd.slow.Until = time.Time{}
	for {
		switch {
		case rd.held > 0, rd.take(n.most, n.least):
		case memory || n.probed:
			return false
		default:
			n.probed = true // with held == 0
		}
		needs, larger, ok := rd.pass(memory, n.whole)
		switch {
		case !ok:
			rd.release()
			return false
		case larger == 0 && needs <= rd.held:
			rd.b.answers.Return(rd.holder, rd.held-needs)
			rd.held = needs
			return true
		case larger == 0 && rd.take(needs-rd.held, needs-rd.held):
			return true
		}
		rd.release()
		n.least, n.whole = max(n.least, needs, larger), true
	}
}

// take takes memory for answers, if at least so many bytes are free.
func (rd *fetchRead) take(most, least int64) bool {
	n, ok := rd.b.answers.Try(rd.holder, most, least)
	rd.held += n
	return ok
}

// await takes the memory that a read needs, and waits for it. An error means that the client is
// gone.
func (rd *fetchRead) await(others readers, need answerNeed) error {
	return others.AwaitReaders(func(ctx context.Context) error {
		n, err := rd.b.answers.Take(ctx, rd.holder, need.most, need.least)
		rd.held += n
		return err
	})
}

// pass reads the partitions within the memory that is held; without any, only what files lend. It
// returns how much memory the answer needs. The first batch is read even if it needs more, if whole
// is set; otherwise larger is its size. ok is false if the disk would be needed, and pass may read
// memory only.
func (rd *fetchRead) pass(memory, whole bool) (needs, larger int64, ok bool) {
	left, first := rd.held, true
	if left == 0 && rd.lend {
		left = rd.wanted()
	}
	for i := range rd.parts {
		p := &rd.parts[i]
		if p.err != nil || p.idle {
			continue
		}
		req := rd.request(p)
		if !p.elsewhere {
			req.MaxBytes = int(max(min(int64(p.maxBytes), left), 0))
			if first {
				req.MaxBytes, req.AtLeastOne = max(req.MaxBytes, 1), req.LendOnly || whole && rd.held > 0
			}
		}
		if memory {
			if p.res, ok, p.err = p.part.ReadMemory(req); !ok {
				return 0, 0, false
			}
		} else {
			p.res, p.err = p.part.Read(req)
		}
		if first && !p.elsewhere && larger == 0 {
			larger = int64(p.res.Larger)
		}
		if p.res.Size > 0 {
			aborted := abortedCost * int64(len(p.res.Aborted))
			first, left, needs = false, left-int64(p.res.Size)-aborted, needs+aborted
			for _, part := range p.res.Parts { // what a file lends takes no memory
				needs += int64(len(part))
			}
		}
	}
	if !first {
		larger = 0 // the client makes progress
	}
	return needs, larger, true
}

// abortedCost is the memory that an aborted transaction takes in an answer: until it is encoded,
// and in its bytes.
const abortedCost = 32 + 16 + 16

// release releases what read took.
func (rd *fetchRead) release() {
	for i := range rd.parts {
		rd.parts[i].res.Release()
		rd.parts[i].res = replica.ReadResult{}
	}
	rd.b.answers.Return(rd.holder, rd.held)
	rd.held = 0
}

// wanted returns how many bytes the answer may have.
func (rd *fetchRead) wanted() (n int64) {
	for i := range rd.parts {
		if !rd.parts[i].idle {
			n += int64(max(rd.parts[i].maxBytes, 0))
		}
	}
	return min(n, rd.maxBytes)
}

// reset makes it ready for another request.
func (rd *fetchRead) reset() {
	rd.release()
	clear(rd.parts)
	clear(rd.seen)
	if cap(rd.parts) > maxKeptFetch {
		rd.parts, rd.waits, rd.seen = nil, nil, nil
	}
	rd.parts, rd.found, rd.may, rd.slow = rd.parts[:0], 0, rights{}, replica.SlowReads{}
}

// shrink drops the parts of a large request except for the records that are being sent, which the
// budget for answers counts, and reports whether it did. Sending may take as long as the client
// likes.
func (rd *fetchRead) shrink() bool {
	if cap(rd.parts) <= maxKeptFetch {
		return false
	}
	var kept []fetchPartition
	for i := range rd.parts {
		if rd.parts[i].res.Size > 0 {
			kept = append(kept, fetchPartition{res: rd.parts[i].res})
		}
	}
	rd.parts, rd.waits, rd.seen = kept, nil, nil
	return true
}
