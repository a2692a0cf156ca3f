package network

import (
	"time"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/view"
)

// queue has the requests of a connection in the order of their arrival, and counts them.
//
//	add ──▶ with the handler ── handled ──▶ ready ── take ──▶ being written ── wrote ──▶ forgotten
//
// It has no lock and no I/O; conn.mu guards it.
type queue struct {
	// The requests whose answers were not yet taken for writing.
	oldest, newest *Request
	n              int   // requests whose answers are not written
	unready        int   // of these, requests without an answer
	produces       int   // of those, Produce requests
	produceBytes   int64 // of their frames
	unwritten      int   // bytes of answers that are ready and not written
	encoded        int   // of these, bytes that Respond encoded
	counted        int   // of those, bytes that are counted in Server.outgoing
	raw            int   // of the unwritten bytes, those in memory that RespondRaw passed
	writing        writing
	written        int64     // bytes of answers that were written, in all
	answered       time.Time // when the last answer was ready
	traffic        view.Traffic
	away           absence
}

// writing are the answers that are being written.
type writing struct {
	bytes int
	since time.Time // when slow first saw them; zero before
}

// add appends a request that is about to be handled.
func (q *queue) add(r *Request) {
	if q.newest == nil {
		q.oldest = r
	} else {
		q.newest.next = r
	}
	q.newest = r
	q.n++
	q.unready++
	q.traffic.Requests++
	q.traffic.BytesIn += int64(r.size) + 4
	if r.Key == protocol.KeyProduce {
		q.produces++
		q.produceBytes += int64(r.size)
	}
}

// handled counts that the handler has answered a request.
func (q *queue) handled(r *Request, now time.Time) {
	q.unready--
	q.answered = now
	q.traffic.BytesOut += int64(r.outSize)
	q.traffic.RecordsIn += r.records
	if r.Key == protocol.KeyProduce {
		q.produces--
		q.produceBytes -= int64(r.size)
	}
}

// ready marks an answer that is to be written.
func (q *queue) ready(r *Request) {
	r.ready = true
	q.unwritten += r.outSize
	q.encoded += len(r.head)
	q.raw += r.raw
}

// mayAdd reports whether a request of size bytes may start after those that have: only Produce
// requests may be with the handler together, and within the limits of the connection.
func (q *queue) mayAdd(o *Options, key int16, size int) bool {
	switch {
	case q.unready > q.produces, q.n >= o.ConnectionRequests, q.unwritten > o.UnwrittenBytes:
		return false
	case key != protocol.KeyProduce:
		return q.unready == 0
	}
	return q.produces == 0 || q.produceBytes+int64(size) <= o.ConnectionBytes
}

// take removes answers that are ready from the head of the queue, of at most limit bytes or a
// single larger one. The first one must be ready, and only it may have files.
func (q *queue) take(limit int) answers {
	job := answers{first: q.oldest}
	var last *Request
	fits := func(r *Request) bool { return job.n == 0 || job.bytes+r.outSize <= limit && len(r.files) == 0 }
	for r := job.first; r != nil && r.ready && job.n < takeRequests && fits(r); r = r.next {
		job.n++
		job.bytes += r.outSize
		job.encoded += len(r.head)
		job.raw += r.raw
		last = r
		if r.aborted {
			break
		}
	}
	q.oldest = last.next
	if q.oldest == nil {
		q.newest = nil
	}
	last.next = nil
	q.writing.bytes = job.bytes
	return job
}

// wrote forgets answers that were taken.
func (q *queue) wrote(job answers) {
	q.n -= job.n
	q.unwritten -= job.bytes
	q.encoded -= job.encoded
	q.raw -= job.raw
	q.written += int64(job.bytes)
	q.writing = writing{}
}

// drop empties the queue when nothing is being written, and returns its requests. Those without an
// answer count in unready and produces until they are handled.
func (q *queue) drop() (first *Request) {
	first = q.oldest
	q.oldest, q.newest = nil, nil
	q.unwritten, q.encoded, q.raw = 0, 0, 0
	return first
}

// slow reports whether the answers that are being written take longer than lagTime and a second for
// every lagBytes. It measures from its first call.
func (q *queue) slow(now time.Time) bool {
	w := &q.writing
	if w.since.IsZero() {
		w.since = now
	}
	return now.Sub(w.since) > lagTime+time.Duration(w.bytes)*time.Second/lagBytes
}

// lastBusy returns when a request was last in flight: now, when the last one was answered, or when
// it arrived. A connection that waits for a slow answer is not idle.
func (q *queue) lastBusy(arrived, now time.Time) time.Time {
	switch {
	case q.n > 0:
		return now
	case q.answered.After(arrived):
		return q.answered
	}
	return arrived
}
