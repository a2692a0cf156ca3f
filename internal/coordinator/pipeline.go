package coordinator

import (
	"time"

	"go.uber.org/zap"
)

// pipeline is the way of records into the log and of answers out.
//
//	open ──flush──▶ in flight, numbered sent ──done──▶ covered
//	   ▲ records          answers held, each until covered reaches its after ▲
type pipeline struct {
	open      []Record
	openBytes int
	// Batches are numbered from 1. sent is the last one appended; all up to covered
	// are committed. ended has those beyond covered that are: the log calls back in
	// order, but from goroutines that may overtake one another.
	sent, covered uint64
	ended         map[uint64]struct{}
	inFlight      int       // appends that have not ended, of earlier lives too
	since         time.Time // since when one is in flight, or since the last one ended
	held          []heldReply
}

// heldReply is an answer that depends on batch after.
type heldReply struct {
	Reply
	after uint64
}

func newPipeline() pipeline { return pipeline{ended: map[uint64]struct{}{}} }

// take takes records and answers.
func (s *shard) take(e *Effects) {
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
		p.held = append(p.held, heldReply{r, after})
	}
	if p.openBytes >= s.r.opt.MaxBatchBytes {
		s.flush()
	}
}

// full says that nothing can be taken in before an append has ended.
func (s *shard) full() bool {
	return s.pipeline.openBytes >= s.r.opt.MaxBatchBytes && s.pipeline.inFlight >= s.r.opt.MaxInFlight
}

// flush appends the open batch if it may.
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
	life, batch := s.life, p.sent
	s.log.Append(s.epoch, records, time.Now(), func(err error) {
		s.post(func() { s.appended(life, batch, err) })
	})
}

// appended hears of the end of an append.
func (s *shard) appended(life, batch uint64, err error) {
	p := &s.pipeline
	s.ended(time.Now())
	p.inFlight--
	switch {
	case life != s.life:
		if s.phase == draining && p.inFlight == 0 {
			s.load()
		}
	case err != nil:
		s.count.failures.Add(1)
		s.r.broken.log(s.logger, zap.WarnLevel, "append to the coordinator's log failed: the shard is loaded from the log",
			zap.Int32("epoch", s.epoch), zap.Error(err))
		s.failed(time.Now(), err)
		s.begin()
	default:
		p.ended[batch] = struct{}{}
		for _, ok := p.ended[p.covered+1]; ok; _, ok = p.ended[p.covered+1] {
			p.covered++
			delete(p.ended, p.covered)
		}
		s.door.committed()
	}
}

// release lets the answers go that depend on nothing uncommitted any more.
func (s *shard) release() {
	p := &s.pipeline
	n := 0
	for n < len(p.held) && p.held[n].after <= p.covered {
		h := p.held[n]
		if done := s.tickets[h.To]; done != nil {
			delete(s.tickets, h.To)
			s.answer(done, h.Response, nil)
		}
		n++
	}
	clear(p.held[:n])
	if p.held = p.held[n:]; len(p.held) == 0 {
		p.held = nil
	}
}

// drop forgets what is not appended or not answered.
func (p *pipeline) drop() {
	p.open, p.openBytes, p.held = nil, 0, nil
	p.covered = p.sent
	clear(p.ended)
}
