package shareleader

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/sharegroup/window"
)

const (
	// mostWaiting is how many operators' requests wait for the load of a share partition, for at
	// most operatorTime: until then its sender may wait.
	mostWaiting  = 64
	operatorTime = 10 * time.Second
	// mostRuns is how many runs of a window an InspectRecords visits at most, with the lock.
	mostRuns = 4096
)

// Seen is what an operator sees of a share partition: its numbers, and runs of records that are not
// finished.
type Seen struct {
	// Start is SPSO and End is SPEO. The group gets records below Limit: the high watermark, or the
	// last stable offset. LogStart is that of the data partition.
	Start, End, Limit, LogStart int64
	// Epoch is the leader epoch, for reads of the records. Committed: see Settings.Committed.
	Epoch     int32
	Committed bool
	Runs      []SeenRun
	// Next is the offset with which another InspectRecords continues, -1: there is nothing more.
	Next int64
}

// SeenRun is a range of records with equal values.
type SeenRun struct {
	First, Last int64
	State       window.State
	// Count is how often the records were delivered, the present delivery included.
	Count int
	// Member holds them, "": none does. Left is when the lock or the retry delay ends.
	Member string
	Left   time.Duration
}

// InspectRecords returns up to most records from an offset on that are in some states. Those at or
// above SPEO are Available with the count 0. The share partition is loaded if it is not. done is
// called once, possibly before InspectRecords returns; its errors are NOT_LEADER_OR_FOLLOWER,
// UNKNOWN_TOPIC_OR_PARTITION for a group without a state of the partition, KAFKA_STORAGE_ERROR, and
// COORDINATOR_LOAD_IN_PROGRESS if too many wait.
func (p *Partition) InspectRecords(from, most int64, states []window.State, done func(Seen, *kerr.Error)) {
	p.whenReady(func(code *kerr.Error) {
		var s Seen
		if code == nil {
			s = p.inspectRecords(from, most, states)
		}
		p.do(func() { done(s, code) })
	})
}

func (p *Partition) inspectRecords(from, most int64, states []window.State) Seen {
	p.w.StartMoved(p.log.Ends().LogStart)
	p.pump()
	stats, now := p.w.Stats(), p.l.now()
	s := Seen{Start: stats.Start, End: stats.End, Limit: p.limit(), LogStart: p.log.Ends().LogStart, Epoch: p.epoch,
		Committed: p.cfg.Committed, Next: -1}
	// add adds what is left of a run, and reports whether there is room for more.
	add := func(r SeenRun) bool {
		if !slices.Contains(states, r.State) {
			return true
		}
		r.First = max(r.First, from)
		if n := r.Last - r.First + 1; n > most {
			r.Last, s.Next = r.First+most-1, r.First+most
		}
		if most -= r.Last - r.First + 1; r.First <= r.Last {
			s.Runs = append(s.Runs, r)
		}
		return s.Next < 0
	}
	runs := 0
	for r := range p.w.InFlight(from) {
		if runs++; runs > mostRuns || most == 0 {
			s.Next = max(r.First, from)
			return s
		}
		one := SeenRun{First: r.First, Last: r.Last, State: r.State, Count: r.Count, Member: p.nameOf(r.Member)}
		if r.Deadline > 0 {
			one.Left = max(r.Deadline-now, 1)
		}
		if !add(one) {
			return s
		}
	}
	if first := max(s.End, from); first < s.Limit {
		if most == 0 {
			s.Next = first
		} else {
			add(SeenRun{First: first, Last: s.Limit - 1, State: window.Available})
		}
	}
	return s
}

// nameOf returns the id of a member.
func (p *Partition) nameOf(m window.Member) string {
	if m == 0 {
		return ""
	}
	for id, x := range p.members {
		if x.number == m {
			return id
		}
	}
	return ""
}

// Operate applies what an operator asks for a range of offsets (window.Window.Operate). The share
// partition is loaded if it is not. done is called once, possibly before Operate returns, when the
// result is stored. Its errors are those of InspectRecords, with which nothing has changed, and
// REQUEST_TIMED_OUT if it is not known whether the change is stored: the leader has changed
// meanwhile, or the coordinator does not answer.
func (p *Partition) Operate(by window.AckType, first, last int64, done func(window.Operated, *kerr.Error)) {
	p.whenReady(func(code *kerr.Error) {
		if code != nil {
			p.do(func() { done(window.Operated{}, code) })
			return
		}
		p.w.StartMoved(p.log.Ends().LogStart)
		o, available, err := p.w.Operate(by, p.l.now(), first, last)
		if err != nil {
			p.do(func() { done(o, kerr.NotLeaderForPartition) })
			return
		}
		if seq := p.w.Pending(); seq == 0 || p.l.opt.Broken.Has(AnswerEarly) {
			p.do(func() { done(o, nil) })
		} else {
			p.waiters = append(p.waiters, waiter{seq: seq, at: p.l.now(), done: func(code *kerr.Error) {
				if code != nil {
					code = kerr.RequestTimedOut
				}
				done(o, code)
			}})
		}
		if available {
			p.wake()
		}
		p.pump()
	})
}

// whenReady calls f, with the lock, when the share partition is loaded, or with the error that ends
// it.
func (p *Partition) whenReady(f func(*kerr.Error)) {
	p.lock()
	defer p.unlock()
	switch {
	case !p.leads():
		code := p.err
		if code == nil {
			code = kerr.NotLeaderForPartition
		}
		f(code)
	case p.state == ready:
		f(nil)
	default:
		p.outwaited()
		if len(p.operators) >= mostWaiting {
			f(kerr.CoordinatorLoadInProgress)
			return
		}
		p.operators = append(p.operators, operator{p.l.now(), f})
	}
}

// operator is an operator's request that waits for the load.
type operator struct {
	at time.Duration // since when
	f  func(*kerr.Error)
}

// outwaited refuses the operators' requests that have waited for too long: who sent them knows by
// now that they may not be carried out, and decides again.
func (p *Partition) outwaited() {
	n := 0
	for now := p.l.now(); n < len(p.operators) && now >= p.operators[n].at+operatorTime; n++ {
		p.operators[n].f(kerr.CoordinatorLoadInProgress)
	}
	p.operators = slices.Delete(p.operators, 0, n)
}

// loaded calls the operators' requests that wait for the load.
func (p *Partition) loaded(code *kerr.Error) {
	p.outwaited()
	list := p.operators
	p.operators = nil
	for _, x := range list {
		x.f(code)
	}
}
