package broker

import (
	"errors"
	"time"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/storage"
)

// answer reads the available records and answers. It may read the disk, so no other connection may
// wait for its goroutine.
func (op *fetchOp) answer() {
	op.askAgain(op.b.rights(op.r))
	if !op.read(op.r) {
		op.respondEmpty()
		return
	}
	op.respond()
}

// promptParts bounds the partitions of an answer that is built on a goroutine with other work to
// do.
const promptParts = 100

// answerNow answers on the goroutine that completed the fetch if memory holds all its records,
// which avoids waking another goroutine.
func (op *fetchOp) answerNow() {
	op.askAgain(op.b.rights(op.r))
	if len(op.parts) <= promptParts && op.read(nil) {
		op.respond()
		return
	}
	op.r.WaitsAt(op.b.at.disk, "")
	op.b.work.Go(op.answers)
}

// respond updates the session, charges the client and sends the records that were read.
func (op *fetchOp) respond() {
	if op.quota != nil {
		within := op.quota.Take(quota.Fetched, op.bytes())
		op.delay = max(op.delay, op.quota.Wait(quota.Fetched))
		if !within { // others have used it since this fetch began
			op.respondLater()
			return
		}
	}
	id, err := op.b.sessions.finish(&op.sess, op.parts, time.Now())
	if op.delay > 0 {
		op.r.Throttle(op.delay)
	}
	if err != nil {
		op.respondWithout(id, err)
		return
	}
	body := op.encode(id)
	op.lentFiles()
	if op.shrink() || op.wide > 0 {
		op.unpark()
	}
	op.r.RespondFiles(body, op.files, op.give)
}

// lentFiles lists the loans of the encoded answer.
func (op *fetchOp) lentFiles() {
	before := op.w.Lent()
	for i := range op.parts {
		if p := &op.parts[i]; p.res.Loan != nil && !p.skip && p.err == nil {
			op.files = append(op.files, network.FileBytes{Before: before[len(op.files)], File: p.res.Loan})
		}
	}
}

// bytes returns the size of the records in the answer.
func (op *fetchOp) bytes() (n int64) {
	for i := range op.parts {
		if p := &op.parts[i]; !p.skip && p.err == nil {
			n += int64(p.res.Size)
		}
	}
	return n
}

// respondLater answers a client that is over its quota: without partitions, and without a new
// session. The session that it has stays.
func (op *fetchOp) respondLater() {
	op.r.Throttle(op.delay)
	id, err := op.b.sessions.pass(&op.sess)
	op.respondWithout(id, err)
}

// respondWithout sends an answer without partitions; err may be nil.
func (op *fetchOp) respondWithout(session int32, err error) {
	if err != nil {
		op.r.Code = op.b.code(op.r, err)
	}
	op.w.Begin(op.version, throttleMillis(op.delay), op.r.Code, session, 0)
	op.shrink()
	op.unpark() // sending may take as long as the client likes
	op.r.RespondRaw(op.w.End(nil), op.give)
}

// respondEmpty sends an answer without partitions.
func (op *fetchOp) respondEmpty() {
	if op.delay > 0 {
		op.r.Throttle(op.delay)
	}
	op.w.Begin(op.version, throttleMillis(op.delay), 0, 0, 0)
	op.r.RespondRaw(op.w.End(nil), op.give)
}

// encode writes the response around the record bytes. Consecutive parts of one topic share its
// entry.
func (op *fetchOp) encode(session int32) [][]byte {
	topics := 0
	for at, n := op.group(0); n > 0; at, n = op.group(at + n) {
		topics++
	}
	var leaders nodeSet
	op.w.Begin(op.version, throttleMillis(op.delay), 0, session, topics)
	for at, n := op.group(0); n > 0; at, n = op.group(at + n) {
		count := 0
		for i := at; i < at+n; i++ {
			if !op.parts[i].skip {
				count++
			}
		}
		ref := op.parts[at].topicRef()
		op.w.Topic(ref.name, ref.id, count)
		for i := at; i < at+n; i++ {
			if p := &op.parts[i]; !p.skip {
				res := op.result(p, &leaders)
				op.w.Partition(&res)
			}
		}
	}
	return op.w.End(op.b.endpoints(op.r, leaders))
}

// group returns the index of the first part at or after at that is not skipped, and the number of
// parts from there that belong to its topic.
func (op *fetchOp) group(at int) (int, int) {
	for at < len(op.parts) && op.parts[at].skip {
		at++
	}
	n := 0
	for at+n < len(op.parts) && (op.parts[at+n].skip || op.parts[at+n].topicRef() == op.parts[at].topicRef()) {
		n++
	}
	return at, n
}

// result is the answer for one partition.
func (op *fetchOp) result(p *fetchPartition, leaders *nodeSet) protocol.FetchPartitionResult {
	res := protocol.FetchPartitionResult{Index: p.index, HighWatermark: -1, LastStable: -1, LogStart: -1, PreferredReplica: -1}
	if p.err != nil {
		if op.byID {
			res.Code = op.b.codeByID(op.r, p.err)
		} else {
			res.Code = op.b.code(op.r, p.err)
		}
		op.r.Code = res.Code
		if errors.Is(p.err, storage.ErrCorrupt) {
			op.b.damage.note(op.damageReport(p), time.Now())
		}
		if unknownTopic(res.Code) {
			res.Aborted = []protocol.AbortedTransaction{} // as in Kafka; null with any other error
		}
		if op.version >= 16 && !op.follower {
			if res.Leader = op.b.leaderHint(res.Code, p.topic, p.index, p.part); res.Leader != nil {
				leaders.add(res.Leader.ID)
			}
		}
		return res
	}
	res.HighWatermark, res.LastStable, res.LogStart = p.res.HighWatermark, p.res.LastStable, p.res.LogStart
	if p.res.Loan != nil {
		res.Lent = p.res.Loan.Size()
	}
	if res.Records = p.res.Parts; p.elsewhere {
		res.PreferredReplica = p.preferred
	}
	if op.committed {
		res.Aborted = make([]protocol.AbortedTransaction, len(p.res.Aborted))
		for i, x := range p.res.Aborted {
			res.Aborted[i] = protocol.AbortedTransaction{ProducerID: x.Producer, FirstOffset: x.First}
		}
	}
	if p.res.DivergingEpoch >= 0 {
		res.Diverging = &protocol.Diverging{Epoch: p.res.DivergingEpoch, EndOffset: p.res.DivergingEnd}
	}
	return res
}
