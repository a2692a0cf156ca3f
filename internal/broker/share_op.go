package broker

import (
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// shareConfigs remembers the settings of groups under one image.
type shareConfigs struct {
	mu  sync.Mutex
	img *metadata.Image
	of  map[string]shareleader.Settings
}

func (b *Handler) groupConfigs(img *metadata.Image, group string) (configdef.Group, error) {
	return b.opt.Configs.ResolveGroup(configdef.Layers{Group: img.GroupConfig(group), Static: b.opt.Static})
}

// shareOp is one ShareFetch in flight. It has two parts: the fetch, and the acknowledgements that
// came with it. The answer leaves when both have ended. A fetch waits for records no longer than
// until the acknowledgements have their results, because the member waits for these, too.
//
//	shareFetch  the reader                find the session and partitions, acknowledge, try
//	Try         the reader, and the       take the turn of the partitions, read, acquire; without
//	            queues of the partitions  enough records it waits
//	answer      the one that ended it     encode
//
// One goroutine tries at a time; mu guards what decides that.
type shareOp struct {
	fetchRead
	c     call
	s     *shareleader.Session
	group string
	w     protocol.ShareFetchWriter

	maxRecords, batchSize int64
	strict                bool
	fetches               bool // records are wanted
	carries               bool // acknowledgements
	lock                  time.Duration
	shares                []sharePart // of the parts with the same indices
	parked                int64       // bytes taken from Handler.parked

	mu      sync.Mutex
	trying  bool
	again   bool // an event since the try began
	last    bool // the next try is the last one, with whatever there is
	gone    bool // the client is
	fetched bool // the fetch has ended
	pending int  // acknowledgements without a result
	done    bool // the answer is being made
	timer   *time.Timer
	stop    func() bool // of Request.OnClose
}

// sharePart is a partition of a shareOp.
type sharePart struct {
	p       *shareleader.Partition // nil: it has an error
	queued  *shareleader.Queued
	turn    shareleader.Turn
	has     bool // the turn
	got     []window.Delivery
	records [][]byte
	acked   bool
	waiting int         // acknowledgements without a result: a partition may be named repeatedly
	ack     *kerr.Error // the first error
}

// acknowledged returns the result of the acknowledgements. Some have none if the answer leaves
// before.
func (s *sharePart) acknowledged() *kerr.Error {
	if s.ack == nil && s.waiting > 0 {
		return kerr.CoordinatorNotAvailable
	}
	return s.ack
}

func newShareOp(c call, s *shareleader.Session, group string) *shareOp {
	op := &shareOp{fetchRead: fetchRead{b: c.b, may: c.b.rights(c.r), holder: c.r.Holder(), byID: true}, c: c, s: s, group: group}
	op.pending = 1 // until all acknowledgements were passed on
	return op
}

// name adds a partition.
func (op *shareOp) name(n shareleader.Named) {
	op.add(partitionRequest{topic: topicRef{id: n.Topic}, index: n.Partition, currentEpoch: -1, fetchedEpoch: -1})
}

// acknowledge passes on the acknowledgements of a partition.
func (op *shareOp) acknowledge(a *shareAcks, renew bool) {
	i := op.indexOf(&partitionRequest{topic: topicRef{id: a.of.Topic}, index: a.of.Partition})
	share := &op.shares[i]
	share.acked, op.carries = true, true
	if err := op.parts[i].err; err != nil {
		share.ack = kerr.TypedErrorForCode(op.c.b.codeByID(op.c.r, err))
		return
	}
	op.mu.Lock()
	op.pending++
	share.waiting++
	op.mu.Unlock()
	share.p.Acknowledge(op.s, a.acks, renew, func(code *kerr.Error) {
		op.mu.Lock()
		if op.done {
			op.mu.Unlock()
			return
		}
		share.waiting--
		if share.ack == nil {
			share.ack = code
		}
		op.mu.Unlock()
		op.acknowledged()
	})
}

// acknowledged notes that one more acknowledgement has its result.
func (op *shareOp) acknowledged() {
	op.mu.Lock()
	op.pending--
	answers := op.pending == 0 && op.fetched && !op.done
	hurries := op.pending == 0 && op.carries && !op.fetched && !op.last
	op.done = op.done || answers
	op.mu.Unlock()
	switch {
	case answers:
		op.answer()
	case hurries:
		op.lastTry(false)
	}
}

// begin begins the fetch, which may wait.
func (op *shareOp) begin(wait time.Duration, atOnce bool) {
	r := op.c.r
	op.c.place.end()
	waits := op.fetches && wait > 0 && !atOnce
	if waits {
		n := opCost + int64(len(op.parts))*2*partCost
		if op.parked = n; !op.b.parked.TryShare(n, 8) {
			op.parked, waits = 0, false
			r.Throttle(min(wait, maxFetchDelay))
		}
	}
	r.ReleaseBody()
	r.WaitsAt(op.b.at.shareFetch, "")
	if !op.fetches {
		op.end()
		op.acknowledged()
		return
	}
	op.mu.Lock()
	op.trying, op.last = true, !waits
	op.mu.Unlock()
	for i := range op.shares {
		if p := op.shares[i].p; p != nil {
			op.shares[i].queued = p.Join(op)
		}
	}
	if waits {
		op.mu.Lock()
		op.timer = time.AfterFunc(time.Until(r.Received.Add(wait)), func() { op.lastTry(false) })
		op.stop = r.OnClose(func() { op.lastTry(true) })
		op.mu.Unlock()
	}
	op.tryAll(!r.MayBlock())
	op.acknowledged()
}

// Try implements shareleader.Fetch.
func (op *shareOp) Try() {
	op.mu.Lock()
	if op.trying || op.fetched {
		op.again = true
		op.mu.Unlock()
		return
	}
	op.trying = true
	op.mu.Unlock()
	op.tryAll(false)
}

// lastTry ends the wait: the answer has the available records. For a client that is gone, nothing
// is read.
func (op *shareOp) lastTry(gone bool) {
	op.mu.Lock()
	op.last, op.gone = true, op.gone || gone
	op.mu.Unlock()
	op.b.work.Go(op.Try)
}

// tryAll tries until the fetch ends or nothing has happened since. memory: it runs on a goroutine
// that must not block.
func (op *shareOp) tryAll(memory bool) {
	for {
		if n, ok := op.try(memory); !ok {
			op.b.work.Go(func() {
				if n.probed && op.await(op.c.r, n) != nil {
					op.mu.Lock()
					op.gone = true
					op.mu.Unlock()
				}
				op.tryAll(false)
			})
			return
		}
		op.mu.Lock()
		if op.fetched || !op.again && !op.last {
			op.trying = false
			op.mu.Unlock()
			return
		}
		op.again = false
		op.mu.Unlock()
	}
}

// try tries once to take enough records, and ends the fetch if it did. It reports false if it needs
// memory for the answer, or, with memory, the disk. The turns have ended then: others do not wait
// meanwhile. Only the goroutine that has set trying calls it.
func (op *shareOp) try(memory bool) (n answerNeed, ok bool) {
	op.mu.Lock()
	last, gone := op.last, op.gone
	ended := op.fetched
	op.mu.Unlock()
	if ended {
		return n, true
	}
	op.askAgain(op.b.rights(op.c.r))
	for !gone {
		found, failed := op.turns()
		enough := found >= op.minBytes || found > 0 && (last || failed)
		if !enough {
			op.endTurns()
			op.release() // it may have waited for memory, and others have the records
			if last || failed {
				break
			}
			return n, true
		}
		if n = op.needs(); !op.readFree(&n, memory) {
			op.passOn()
			return n, false
		}
		got, bad := op.take()
		op.endTurns()
		if got || bad {
			break
		}
		op.release() // there were no records for the group among them
	}
	op.end()
	return n, true
}

// turns takes the turns of the partitions that may have records. It returns how many bytes they
// have, and whether a partition has an error that ends the wait.
func (op *shareOp) turns() (found int64, failed bool) {
	n := int64(0)
	for i := range op.shares {
		p, share := &op.parts[i], &op.shares[i]
		p.idle = true
		if p.err != nil || share.queued == nil {
			continue
		}
		var code *kerr.Error
		if share.turn, share.has, code = share.queued.Turn(op.maxRecords); code != nil {
			p.err, failed = code, true
		} else if share.has {
			p.idle, p.offset, p.currentEpoch = false, share.turn.From, share.turn.Epoch
			op.committed = op.committed || share.turn.Committed // the group's settings may have changed meanwhile
			n++
		}
	}
	if n == 0 {
		return 0, failed
	}
	each := max(op.maxBytes/n, 1)
	for i := range op.shares {
		p := &op.parts[i]
		if p.idle || p.err != nil {
			continue
		}
		p.maxBytes = int32(each)
		if have, atOnce := p.part.Peek(op.request(p), each); atOnce {
			found = max(found, op.minBytes) // the read has an error
		} else {
			found += min(have, each)
		}
	}
	return found, failed
}

func (op *shareOp) endTurns() {
	for i := range op.shares {
		if share := &op.shares[i]; share.has {
			share.has = false
			share.queued.End()
		}
	}
}

// passOn ends the turns of a fetch that has to wait for something else than records.
func (op *shareOp) passOn() {
	for i := range op.shares {
		if share := &op.shares[i]; share.has {
			share.has = false
			share.queued.Away()
		}
	}
}

// take acquires what was read. It reports whether there are records, and whether a read has failed,
// or the session has ended, so that the fetch does not wait for others.
func (op *shareOp) take() (got, failed bool) {
	left := op.maxRecords
	for i := range op.shares {
		p, share := &op.parts[i], &op.shares[i]
		if !share.has {
			continue
		}
		if errors.Is(p.err, storage.ErrOffsetOutOfRange) {
			p.err = nil // the log start has moved, or the log is shorter than the group's position
			continue
		}
		if p.err != nil {
			failed = true
			continue
		}
		if left <= 0 {
			continue
		}
		t := window.Taking{From: share.turn.From, Batches: batchesOf(&p.res), Records: min(share.turn.Records, left), Strict: op.strict,
			BatchSize: op.batchSize}
		if len(t.Batches) == 0 {
			continue
		}
		var lock time.Duration
		var ok bool
		if share.got, lock, ok = share.queued.Take(op.s, t); len(share.got) == 0 {
			failed = failed || !ok
			continue
		}
		op.lock = lock
		for _, d := range share.got {
			left -= d.Last - d.First + 1
		}
		share.records = between(p.res.Parts, share.got[0].First, share.got[len(share.got)-1].Last)
		got = true
	}
	return got, failed
}

// batchesOf returns the batches of a read, and which of them no member gets.
func batchesOf(res *replica.ReadResult) (list []window.Batch) {
	for _, part := range res.Parts {
		for len(part) > 0 {
			b, rest, err := record.Next(part)
			if err != nil {
				return list // reads return whole batches
			}
			part = rest
			list = append(list, window.Batch{Base: b.BaseOffset(), Last: b.LastOffset(), Gone: b.Control() || isAborted(b, res.Aborted)})
		}
	}
	return list
}

// isAborted reports whether a batch belongs to one of some aborted transactions.
func isAborted(b record.Batch, aborted []txnindex.Entry) bool {
	if !b.Transactional() {
		return false
	}
	for i := range aborted {
		if a := &aborted[i]; a.Producer == b.ProducerID() && a.First <= b.BaseOffset() && b.BaseOffset() <= a.Last {
			return true
		}
	}
	return false
}

// between returns the batches from that of the offset first to that of last.
func between(parts [][]byte, first, last int64) (list [][]byte) {
	for _, part := range parts {
		from, to := -1, 0
		for at := 0; at < len(part); {
			b, _, err := record.Next(part[at:])
			if err != nil {
				break
			}
			if b.LastOffset() >= first && b.BaseOffset() <= last {
				if from < 0 {
					from = at
				}
				to = at + b.Size()
			}
			at += b.Size()
		}
		if from >= 0 {
			list = append(list, part[from:to])
		}
	}
	return list
}

// end ends the fetch. The answer waits for acknowledgements that were sent with it, but not for so
// long that the locks of its records end.
func (op *shareOp) end() {
	for i := range op.shares {
		if pl := op.shares[i].queued; pl != nil {
			pl.Leave()
		}
	}
	op.mu.Lock()
	op.fetched = true
	if op.timer != nil {
		op.timer.Stop()
	}
	if op.stop != nil {
		op.stop()
	}
	answers := op.pending == 0 && !op.done
	op.done = op.done || answers
	if !op.done {
		op.timer = time.AfterFunc(op.lock/4, op.late)
	}
	op.mu.Unlock()
	if answers {
		op.answer()
	}
}

// late answers without the results of some acknowledgements. They may be stored; the member repeats
// them.
func (op *shareOp) late() {
	op.mu.Lock()
	answers := !op.done
	op.done = true
	op.mu.Unlock()
	if answers {
		op.answer()
	}
}

// answer sends the answer. It is called once.
func (op *shareOp) answer() {
	r := op.c.r
	if op.timer != nil {
		op.timer.Stop()
	}
	var bytes int64
	var parts []int
	for i := range op.shares {
		p, share := &op.parts[i], &op.shares[i]
		if op.fetches && p.err != nil || share.acked || len(share.got) > 0 {
			parts = append(parts, i)
		}
		for _, x := range share.records {
			bytes += int64(len(x))
		}
	}
	delay := time.Duration(0)
	if op.c.quota != nil {
		op.c.quota.Charge(quota.Fetched, bytes)
		delay = op.c.quota.Wait(quota.Fetched)
	}
	for i := range op.parts {
		if errors.Is(op.parts[i].err, storage.ErrCorrupt) {
			delay = max(delay, damageGap) // clients repeat the request at once
		}
	}
	if delay > 0 {
		r.Throttle(delay)
	}
	body := op.encode(parts, delay)
	op.b.parked.Release(op.parked)
	op.parked = 0
	op.c.charge.release()
	r.RespondRaw(body, op.reset)
}

// encode encodes the answer about some parts. Consecutive ones of a topic share its entry.
func (op *shareOp) encode(parts []int, delay time.Duration) [][]byte {
	r := op.c.r
	topic := func(i int) [16]byte { return op.parts[parts[i]].topicRef().id }
	count := func(at int) (n int) {
		for n = 1; at+n < len(parts) && topic(at+n) == topic(at); n++ {
		}
		return n
	}
	topics := 0
	for at := 0; at < len(parts); at += count(at) {
		topics++
	}
	var leaders nodeSet
	op.w.Begin(throttleMillis(delay), 0, int32(op.lock.Milliseconds()), topics)
	for at := 0; at < len(parts); {
		n := count(at)
		op.w.Topic(topic(at), n)
		for _, i := range parts[at : at+n] {
			res := op.result(i)
			if res.Leader != nil {
				leaders.add(res.Leader.ID)
			}
			op.w.Partition(&res)
		}
		at += n
	}
	return op.w.End(op.b.endpoints(r, leaders))
}

// result is the answer for one partition.
func (op *shareOp) result(i int) protocol.ShareFetchResult {
	p, share := &op.parts[i], &op.shares[i]
	res := protocol.ShareFetchResult{Index: p.index, Records: share.records}
	if p.err != nil && op.fetches {
		res.Code = op.b.codeByID(op.c.r, p.err)
	}
	if code := share.acknowledged(); code != nil {
		res.AckCode = code.Code
	}
	for _, code := range []int16{res.Code, res.AckCode} {
		if code == 0 {
			continue
		}
		op.c.r.Code = code
		if hint := op.b.leaderHint(code, p.topic, p.index, p.part); hint != nil {
			res.Leader = hint
		}
	}
	for _, d := range share.got {
		res.Acquired = append(res.Acquired, protocol.AcquiredRange{First: d.First, Last: d.Last, Count: int16(d.Count)})
	}
	return res
}
