package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
)

// partitionRequest is what a client asks of a partition; a session remembers it.
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

// tooLong: no topic can have the name.
func (r topicRef) tooLong() bool { return len(r.name) > controller.MaxNameLength }

// fetchPartition is one partition of the request.
type fetchPartition struct {
	partitionRequest
	member *member // of the session, nil without one
	topic  *metadata.Topic
	part   *replica.Partition
	err    error
	res    replica.ReadResult
	have   int64 // bytes, as of the last peek
	skip   bool  // nothing that the session does not know already
	held   bool  // its damage was just reported, see fetch_damage.go
}

func (p *fetchPartition) topicRef() topicRef { return p.partitionRequest.topic }

func (p *fetchPartition) request(committed bool) replica.ReadRequest {
	return replica.ReadRequest{Offset: p.offset, Committed: committed, CurrentEpoch: p.currentEpoch, FetchedEpoch: p.fetchedEpoch}
}

// fetchRead is what one request reads of partitions: name and find them, look how much there
// is, read it within bounds, release it. It knows neither how long the request waits nor how
// it is answered. One goroutine uses it at a time.
type fetchRead struct {
	b         *Broker
	byID      bool // topics are named by id
	committed bool
	minBytes  int64
	maxBytes  int64
	parts     []fetchPartition
	found     int64   // bytes that the parts have
	held      int64   // bytes of the budget for answers
	waits     []int32 // for each key that find returned its part
	seen      map[memberKey]int32
}

// fewParts is how many parts are compared with each other; of more each is looked up.
const fewParts = 16

// add adds a partition. One that is named again is one part: as in Kafka, whose map they
// are put into, it asks for what is asked last, at the place of the first.
func (rd *fetchRead) add(a partitionRequest) {
	if at := rd.place(&a); at < len(rd.parts) {
		rd.parts[at].partitionRequest = a
		return
	}
	rd.parts = append(rd.parts, fetchPartition{partitionRequest: a})
}

// place returns the place of the part that names the partition of a, or that of the next one.
func (rd *fetchRead) place(a *partitionRequest) int {
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

// find looks the partitions up and returns the keys of those that may be waited
// for. As in Kafka, a topic that does not exist is no reason to answer before
// the others have something, if there are others; any other error is.
func (rd *fetchRead) find(replicaID int32) (keys []purgatory.Key, atOnce bool) {
	img := rd.b.image()
	rd.waits = rd.waits[:0]
	for i := range rd.parts {
		p := &rd.parts[i]
		if p.topic, p.err = rd.b.topicByRef(img, rd.byID, p.topicRef()); p.err == nil {
			p.part, p.err = rd.b.partition(p.topic, p.index)
		}
		if p.err == nil && replicaID >= 0 {
			p.err = unknownReplica(p.currentEpoch, replicaID)
		}
		if p.err != nil {
			atOnce = atOnce || !unknownTopic(code(p.err))
			continue
		}
		if keys == nil {
			keys = make([]purgatory.Key, 0, len(rd.parts)-i)
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

// topicByRef finds a topic by its id or name, as the request has it.
func (b *Broker) topicByRef(img *metadata.Image, byID bool, ref topicRef) (*metadata.Topic, error) {
	if byID {
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

// enough looks at the part of one key, or at all, and says whether the answer is due.
func (rd *fetchRead) enough(i int) bool {
	if i != purgatory.Everything {
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

// peek counts what one part has now, and says whether the answer is due.
func (rd *fetchRead) peek(p *fetchPartition) bool {
	if p.part.Log().DamagedAt(p.offset) {
		return !p.held
	}
	limit := max(min(int64(p.maxBytes), rd.maxBytes), 1) // one batch may come in any case
	n, atOnce := p.part.Peek(p.request(rd.committed), limit)
	n = min(n, limit)
	rd.found += n - p.have
	p.have = n
	return atOnce || rd.found >= rd.minBytes
}

// leastAnswer is how many bytes of records an answer may have where the memory for
// answers is used up by those that clients do not read.
const leastAnswer = 64 << 10

// read reads the partitions in order, until the request's bytes are used up, or its
// share of the memory for answers. The first one that has something gives a batch
// whatever its size, so that a client always gets on. It says whether that was
// possible: from memory alone it may not be, and then nothing is held.
func (rd *fetchRead) read(memory bool) bool {
	rd.held = rd.b.answers.Share(rd.wanted(), leastAnswer)
	left, first := rd.held, true
	for i := range rd.parts {
		p := &rd.parts[i]
		if p.err != nil {
			continue
		}
		req := p.request(rd.committed)
		req.MaxBytes, req.AtLeastOne = int(max(min(int64(p.maxBytes), left), 0)), first
		if memory {
			var ok bool
			if p.res, ok, p.err = p.part.ReadMemory(req); !ok {
				rd.release()
				return false
			}
		} else {
			p.res, p.err = p.part.Read(req)
		}
		if p.res.Size > 0 {
			first, left = false, left-int64(p.res.Size)
		}
	}
	if left > 0 {
		rd.b.answers.Release(left)
	} else {
		rd.b.answers.Share(-left, -left) // the first batch was larger
	}
	rd.held -= left
	return true
}

// release gives back what read took.
func (rd *fetchRead) release() {
	for i := range rd.parts {
		rd.parts[i].res.Release()
		rd.parts[i].res = replica.ReadResult{}
	}
	rd.b.answers.Release(rd.held)
	rd.held = 0
}

// wanted is how many bytes the request may be answered with.
func (rd *fetchRead) wanted() (n int64) {
	for i := range rd.parts {
		n += int64(max(rd.parts[i].maxBytes, 0))
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
	rd.parts, rd.found = rd.parts[:0], 0
}

// shrink drops the parts of a large request but for what its client is being sent, which the
// budget for answers counts, and reports whether it did: how long that takes is up to the client.
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
