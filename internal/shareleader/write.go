package shareleader

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

// Acknowledge applies what the member of a session acknowledges of this partition in a request: all
// of it, or nothing. renew states that the request may renew locks. done is called exactly once,
// possibly before Acknowledge returns, when the result is stored: with nil, INVALID_REQUEST,
// INVALID_RECORD_STATE, NOT_LEADER_OR_FOLLOWER, or COORDINATOR_NOT_AVAILABLE if that takes too
// long; then it may be stored later.
func (p *Partition) Acknowledge(s *Session, acks []window.Ack, renew bool, done func(*kerr.Error)) {
	p.lock()
	defer p.unlock()
	if !p.leads() || p.state != ready {
		code := p.err
		if code == nil {
			code = kerr.NotLeaderForPartition // the client asks for the metadata
		}
		p.do(func() { done(code) })
		return
	}
	if p.l.opt.Broken.Has(RefuseAnswers) && p.full(0) {
		p.do(func() { done(kerr.CoordinatorNotAvailable) })
		return
	}
	if code := p.renewals(acks, renew); code != nil {
		p.do(func() { done(code) })
		return
	}
	p.w.StartMoved(p.log.Ends().LogStart)
	seq, err := p.w.Acknowledge(p.member(s.key.member).number, p.l.now(), acks)
	switch {
	case err != nil:
		p.do(func() { done(ackError(err)) })
	case seq == 0 || p.l.opt.Broken.Has(AnswerEarly):
		p.do(func() { done(nil) })
	default:
		p.waiters = append(p.waiters, waiter{seq: seq, at: p.l.now(), done: done})
	}
	p.wake()
	p.pump()
}

// renewals returns the error for renewals that are not permitted.
func (p *Partition) renewals(acks []window.Ack, renew bool) *kerr.Error {
	if renew && p.cfg.Renew {
		return nil
	}
	for i := range acks {
		for _, t := range acks[i].Types {
			switch {
			case t != window.Renew:
			case !renew:
				return kerr.InvalidRequest
			default:
				return kerr.InvalidRecordState
			}
		}
	}
	return nil
}

func ackError(err error) *kerr.Error {
	switch {
	case errors.Is(err, window.ErrInvalidRequest):
		return kerr.InvalidRequest
	case errors.Is(err, window.ErrInvalidState):
		return kerr.InvalidRecordState
	}
	return kerr.NotLeaderForPartition
}

// pump begins a write if there is something to write and none is under way. Changes for which no
// request waits wait for others.
func (p *Partition) pump() {
	if p.state != ready && p.state != leaving || p.write != nil {
		return
	}
	if !p.w.Due() {
		p.due = 0
		return
	}
	now := p.l.now()
	switch {
	case len(p.waiters) > 0 || p.state == leaving || p.due > 0 && now >= p.due:
		p.due = 0
		p.write, p.began, p.tries = p.w.Begin(), now, 0
		p.send()
	case p.due == 0:
		p.due = now + linger
	}
}

// send sends the write under way.
func (p *Partition) send() {
	load, seq := p.load, p.write.Seq
	w := p.write
	item := sharestate.Writing{Key: p.key, ID: p.id, Leader: p.epoch, Start: w.Start, Complete: w.Complete, Marks: w.Marks}
	p.do(func() {
		ctx, cancel := context.WithTimeout(p.l.ctx, callTime)
		p.l.opt.Coordinator.Write(ctx, []sharestate.Writing{item}, func(codes []*kerr.Error) {
			cancel()
			p.lock()
			defer p.unlock()
			if p.load == load && p.write != nil && p.write.Seq == seq && p.writes() {
				p.wrote(codes[0])
			}
		})
	})
}

// wrote handles the answer to the write under way.
func (p *Partition) wrote(code *kerr.Error) {
	switch {
	case again(code):
		p.later(func() {
			if p.write != nil {
				p.send()
			}
		})
		return
	case code != nil && p.state == leaving:
		p.abandon() // another leader has opened the state
		return
	case code != nil:
		p.l.opt.Logger.Warn("a write of a share partition was refused, and its state is loaded again", p.named(), zap.Error(code))
		p.l.refused.Add(1)
		p.w.Refused()
		p.reload(kerr.NotLeaderForPartition)
		return
	}
	seq := p.write.Seq
	p.w.Written(seq)
	p.write, p.tries, p.retry, p.retryAt = nil, 0, nil, 0
	p.answer(nil, func(w waiter) bool { return w.seq <= seq })
	p.pump()
	if p.state == leaving {
		p.left()
		return
	}
	p.copyLetters()
	p.wake()
}

// arm sets the alarm to the earliest time at which there is something to do.
func (p *Partition) arm() {
	var next time.Duration
	at := func(t time.Duration) {
		if t > 0 && (next == 0 || t < next) {
			next = t
		}
	}
	if p.state != ended {
		at(p.due)
		at(p.dueAt)
		at(p.letters.at)
		at(p.retryAt)
		at(p.pressAt)
		at(p.idleAt)
		if len(p.waiters) > 0 {
			at(p.waiters[0].at + answerTime)
		}
		if p.w != nil {
			if d, ok := p.w.NextDeadline(); ok {
				at(max(d, 1))
			}
		}
	}
	switch {
	case next == 0:
		if p.armed != 0 {
			p.alarm.Stop()
			p.armed = 0
		}
	case p.armed == 0 || next < p.armed:
		p.armed = next
		d := next - p.l.now()
		if p.alarm == nil {
			p.alarm = time.AfterFunc(d, p.tick)
		} else {
			p.alarm.Reset(d)
		}
	}
}

// tick does what is due.
func (p *Partition) tick() {
	p.lock()
	defer p.unlock()
	now := p.l.now()
	if p.armed == 0 || now < p.armed {
		p.armed = 0 // it was set again meanwhile
		return
	}
	late := now - p.armed
	p.armed = 0
	if !p.writes() {
		return
	}
	if p.dueAt > 0 && now >= p.dueAt {
		p.abandon()
		return
	}
	if p.w != nil {
		if late >= lateAlarm && !p.l.opt.Broken.Has(StallEndsLocks) {
			p.w.Extend(late + stallGrace)
		}
		if _, available := p.w.Expire(now); available {
			p.wake()
		}
	}
	p.answer(kerr.CoordinatorNotAvailable, func(w waiter) bool { return now >= w.at+answerTime })
	if f := p.retry; f != nil && now >= p.retryAt {
		p.retry, p.retryAt = nil, 0
		f()
	}
	if p.pressAt > 0 && now >= p.pressAt {
		p.pressAt = 0
		p.wake()
	}
	if p.letters.at > 0 && now >= p.letters.at {
		p.letters.at = 0
		p.copyLetters()
	}
	p.pump()
	if p.idleAt > 0 && now >= p.idleAt && p.state != leaving {
		if p.write != nil || p.w != nil && p.inUse() || p.queue.Len() > 0 {
			p.idleAt = now + idleTime
		} else {
			p.end(kerr.NotLeaderForPartition)
		}
	}
}

// inUse reports whether the window has something that an idle share partition must not end. A
// member may hold records of a partition that its session does not name any more.
func (p *Partition) inUse() bool {
	s := p.w.Stats()
	return p.w.Due() || s.Offsets[window.Archiving] > 0 || s.Offsets[window.Acquired] > 0
}
