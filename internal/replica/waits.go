package replica

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// Waits appends the step at which the append waits to list; nothing if its outcome is decided. It
// must not be called before Append has returned or after the append may have been reused. It
// acquires the partition's lock, and that of the journal.
func (a *Append) Waits(list []view.WaitStep) []view.WaitStep {
	p := a.p
	if p == nil || a.state.Load() != pending {
		return list
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.queue != nil {
		return p.waitsFor(a, list)
	}
	if a.state.Load() != pending {
		return list
	}
	return append(list, p.step(view.StepLog, "offsets: the log commits, or waits for memory"+p.stalled()))
}

// Waits appends the steps at which the oldest append waits that has offsets; nothing if none does.
// It acquires the partition's lock, and that of the journal.
func (p *Partition) Waits(list []view.WaitStep) []view.WaitStep {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first *Append
	for _, q := range [...]*fifo{&p.waitLeader, &p.waitISR, &p.waitDurable} {
		if a := q.head; a != nil && (first == nil || a.inner.Next < first.inner.Next) {
			first = a
		}
	}
	if first == nil {
		return list
	}
	return p.waitsFor(first, list)
}

// waitsFor appends the steps of an append that has offsets: the own journal, a freeze, and the
// replicas that lack it. The caller holds mu.
func (p *Partition) waitsFor(a *Append, list []view.WaitStep) []view.WaitStep {
	own, end := p.log.AckEnd(), a.inner.Next
	if a.durable() {
		own = p.log.Ends().Durable
	}
	if own < end {
		list = append(list, p.step(view.StepJournal, fmt.Sprintf("its journal to have offset %d%s", end-1, p.stalled())))
	}
	if p.frozen() {
		s := p.step(view.StepSnapshot, "all brokers to know where a snapshot cuts their logs")
		s.Dir = ""
		list = append(list, s)
	}
	if a.Acks == AcksAll && p.lead != nil {
		s := p.step(view.StepReplication, fmt.Sprintf("offset %d, the high watermark is %d", end-1, p.high.Load()))
		s.Dir = ""
		p.lead.Lacking(end, a.durable(), p.env.now(), func(broker int32, lack string) {
			s.Brokers = append(s.Brokers, broker)
			s.For += fmt.Sprintf("; broker %d %s", broker, lack)
		})
		if reason := p.lead.Blocked(); reason != "" {
			s.For += "; " + reason
		} else if len(s.Brokers) == 0 {
			return list // they have it, and the append ends now, or waits for the own journal alone
		}
		list = append(list, s)
	}
	return list
}

// step returns a step of the partition.
func (p *Partition) step(s view.Step, reason string) view.WaitStep {
	return view.WaitStep{Step: s, Partition: p.String(), Dir: p.log.Dir().Path(), For: reason}
}

// stalled says for how long the journal has completed nothing, empty if it works.
func (p *Partition) stalled() string {
	d := p.log.Dir().Stalled()
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf("; no write and no fdatasync of it has ended for %v", d.Round(time.Millisecond))
}
