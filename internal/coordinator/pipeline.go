package coordinator

import (
	"time"

	"go.uber.org/zap"
)

// pipeline carries records into the log and holds responses and requests until their records are
// committed.
//
//	open ──flush──▶ in flight, numbered sent ──done──▶ covered
//	   ▲ records    answers and sends held, each until covered reaches its after ▲
type pipeline struct {
	open      []Record
	openBytes int
	// Batches are numbered from 1. sent is the last one appended; all up to covered are committed.
	// ended holds committed batches beyond covered: the log calls back in order, but its goroutines
	// may overtake each other.
	sent, covered uint64
	ended         map[uint64]struct{}
	inFlight      int       // unfinished appends, of earlier incarnations too
	since         time.Time // since when an append is in flight, or when the last one ended
	held          []held
}

// held is a response, or a request to send, that depends on batch after.
type held struct {
	Reply
	send  any // nil: a response
	after uint64
}

func newPipeline() pipeline { return pipeline{ended: map[uint64]struct{}{}} }

// queueEffects adds records to the open batch and holds responses and requests.
func (s *shard) queueEffects(e *Effects) {
	p := &s.pipeline
	p.open = append(p.open, e.Records...)
	for _, r := range e.Records {
		p.openBytes += r.Size()
	}
	after := p.sent
	if len(p.open) > 0 {
		after++
	}
	for _, r := range e.Replies {
		p.held = append(p.held, held{Reply: r, after: after})
	}
	for _, r := range e.Sends {
		p.held = append(p.held, held{send: r, after: after})
	}
	if p.openBytes >= s.r.opt.MaxBatchBytes {
		s.flush()
	}
}

// full reports whether the shard can accept no requests before an append has ended.
func (s *shard) full() bool {
	return s.pipeline.openBytes >= s.r.opt.MaxBatchBytes && s.pipeline.inFlight >= s.r.opt.MaxInFlight
}

// overfull reports whether no timer may fire before an append has ended. Timers have the room of
// one more batch than requests, so that requests can't keep them waiting.
func (s *shard) overfull() bool {
	return s.full() && s.pipeline.openBytes >= 2*s.r.opt.MaxBatchBytes
}

// flush appends the open batch if fewer than MaxInFlight appends are in flight.
func (s *shard) flush() {
	p := &s.pipeline
	if len(p.open) == 0 || p.inFlight >= s.r.opt.MaxInFlight || s.phase != active {
		return
	}
	records := p.open
	p.open, p.openBytes = nil, 0
	if p.inFlight == 0 {
		p.since = time.Now()
	}
	p.sent++
	p.inFlight++
	s.count.appends.Add(1)
	s.count.records.Add(int64(len(records)))
	incarnation, batch := s.incarnation, p.sent
	s.log.Append(s.epoch, records, time.Now(), &s.batch, func(err error) {
		s.post(func() { s.appended(incarnation, batch, err) })
	})
}

// appended handles the result of an append.
func (s *shard) appended(incarnation, batch uint64, err error) {
	p := &s.pipeline
	s.extendForSlowAppend(time.Now())
	p.inFlight--
	switch {
	case incarnation != s.incarnation:
		if s.phase == draining && p.inFlight == 0 {
			s.load()
		}
	case err != nil:
		s.count.failures.Add(1)
		s.limited.Warn("append to coordinator log failed, reloading the shard",
			zap.Int32("epoch", s.epoch), zap.Error(err))
		s.haltWrites(time.Now(), err)
		s.begin()
	default:
		p.ended[batch] = struct{}{}
		for _, ok := p.ended[p.covered+1]; ok; _, ok = p.ended[p.covered+1] {
			p.covered++
			delete(p.ended, p.covered)
		}
		s.halt.committed()
	}
}

// release sends the responses and requests that no longer depend on uncommitted records.
func (s *shard) release() {
	p := &s.pipeline
	n := 0
	for n < len(p.held) && p.held[n].after <= p.covered {
		h := p.held[n]
		n++
		if h.send != nil {
			s.send(h.send)
		} else if done := s.tickets[h.To]; done != nil {
			delete(s.tickets, h.To)
			s.answer(done, h.Response, nil)
		}
	}
	clear(p.held[:n])
	if p.held = p.held[n:]; len(p.held) == 0 {
		p.held = nil
	}
}

// send sends a request of the machine. Its result is an event of the same incarnation.
func (s *shard) send(request any) {
	incarnation := s.incarnation
	s.r.opt.Send(s.partition, s.epoch, request, &s.batch, func(result any) {
		s.post(func() {
			if incarnation == s.incarnation {
				s.notify(result)
			}
		})
	})
}

// drop discards records that are not appended, and responses and requests that are not sent.
func (p *pipeline) drop() {
	p.open, p.openBytes, p.held = nil, 0, nil
	p.covered = p.sent
	clear(p.ended)
}
