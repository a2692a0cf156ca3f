package progress

import "time"

// pending is a proposal whose outcome no view has shown yet.
type pending struct {
	is       bool
	proposal Proposal
	sent     time.Duration
	refused  int64 // revision at which a copy was refused, 0 if none was
}

// decided reports whether a view shows the outcome. An answer of the store does not: an earlier
// copy may have been accepted before the one that was refused. Revisions never come back, so that a
// refused proposal is refused for ever, and a view at that revision shows what was accepted before.
func (p *pending) decided(v *View) bool {
	if !p.is {
		return false
	}
	return v.Revision != p.proposal.Revision || p.refused > 0 && v.Version >= p.refused
}

func (l *Leader) dropPending() {
	l.pending = pending{}
	for i := range l.members {
		l.members[i].next = false
	}
}

// Pending reports whether a proposal has no known outcome yet.
func (l *Leader) Pending() bool { return l.pending.is }

// Undecided reports whether a proposal was refused at a revision that no view has shown yet. Views
// are renewed by changes; a caller that shows no others must renew this one.
func (l *Leader) Undecided() bool { return l.pending.refused > 0 }

// Refused reports that the store refused a copy of a proposal at a revision.
func (l *Leader) Refused(id uint64, revision int64) Effect {
	p := &l.pending
	if !p.is || p.proposal.ID != id {
		return 0
	}
	if p.refused == 0 || revision < p.refused {
		p.refused = revision
	}
	if p.refused > l.version && !l.cfg.Broken.Has(DropRefused) {
		return 0
	}
	l.dropPending()
	l.recompute()
	return l.advance() | l.due()
}

// Sweep updates the measurements of lag at the time now, where logEnd is the leader's log end. The
// caller calls it every 500 ms as long as it returns true, and after each append, End or SetView
// that follows a false one. It then calls Propose, since the time of a member may have run out.
func (l *Leader) Sweep(now time.Duration, logEnd int64) (more bool) {
	if pause := now - l.swept; l.sweeping && pause > min(l.cfg.Limits.Lag, l.cfg.Limits.Stall)/2 {
		l.forgive(now)
	}
	more = l.pending.is
	for i := range l.members {
		m := &l.members[i]
		if m.Broker == l.cfg.Self {
			continue
		}
		end := l.counted(m)
		if !m.counts {
			end = -1 // it holds the high watermark, however many records it has
		}
		m.penalty.sweep(m.lag.sweep(end, logEnd, now), now)
		if m.InSync && (m.lag.behind || m.state != streamLive) || !m.InSync && m.penalty.waits() {
			more = true
		}
	}
	switch {
	case l.high >= l.own() || l.eligible > 0:
		l.stuck = stuck{}
	case !l.stuck.is || l.high != l.stuck.high:
		l.stuck = stuck{is: true, high: l.high, since: now}
	}
	l.swept, l.sweeping = now, more || l.stuck.is
	return l.sweeping
}

// Unsubscribed reports whether a member of the maximal ISR has no open subscription. Then the high
// watermark cannot pass what that member has acknowledged.
func (l *Leader) Unsubscribed() bool {
	for i := range l.members {
		if m := &l.members[i]; m.Broker != l.cfg.Self && l.maximal(m) && m.state != streamLive {
			return true
		}
	}
	return false
}

// forgive begins all measurements again. After a pause of this process, the followers have not had
// the time that has passed: their frames may still be unread.
func (l *Leader) forgive(now time.Duration) {
	l.stuck = stuck{}
	for i := range l.members {
		m := &l.members[i]
		m.lag = lag{}
		if m.state == streamGone || m.state == streamNone {
			m.since = now
		}
	}
}

// sweep notes whether a member is caught up. A member whose end has reached the log end of the last
// sweep was caught up at that time, even if the log has grown since: it keeps pace, and under load
// it never does better.
func (g *lag) sweep(end, logEnd int64, now time.Duration) (pace bool) {
	switch {
	case end >= logEnd:
		*g = lag{}
	case !g.behind:
		*g = lag{behind: true, since: now, target: logEnd, at: now}
	case end >= g.target:
		g.since, g.target, g.at = g.at, logEnd, now
	default:
		return false
	}
	return true
}

// penalty delays the return of a member that left because it was too slow: a disk that stands still
// from time to time would otherwise stop all appends each time.
type penalty struct {
	length time.Duration // for which it must have kept pace, 0 for none
	left   time.Duration // when it left the last time
	since  time.Duration // from when on it has kept pace
	pace   bool
	served bool
}

// Bounds of a penalty, and the number of penalties after which the next one is a first one again: a
// disk that stands still more often holds up appends for a small part of the time.
const (
	minPenalty     = time.Second
	maxPenalty     = time.Minute
	quietPenalties = 20
)

// begin notes that the member leaves.
func (p *penalty) begin(now time.Duration) {
	if p.length == 0 || now-p.left > quietPenalties*p.length {
		p.length = minPenalty
	} else {
		p.length = min(2*p.length, maxPenalty)
	}
	p.left, p.pace, p.served = now, false, false
}

func (p *penalty) sweep(pace bool, now time.Duration) {
	switch {
	case !p.waits():
	case !pace:
		p.pace = false
	case !p.pace:
		p.pace, p.since = true, now
	case now-p.since >= p.length:
		p.served = true
	}
}

// waits reports whether the member may not return yet.
func (p *penalty) waits() bool { return p.length > 0 && !p.served }

// due returns ProposalDue if Propose may have a new proposal that depends on no duration.
func (l *Leader) due() Effect {
	if l.pending.is {
		return 0
	}
	for i := range l.members {
		m := &l.members[i]
		if m.Broker == l.cfg.Self {
			continue
		}
		damaged := (m.InSync || m.Eligible) && (m.state == streamDamaged || l.short(m))
		if damaged || m.InSync && m.state == streamOffline || !m.InSync && l.mayJoin(m) {
			return ProposalDue
		}
	}
	if l.eligible > 0 && l.inSync() >= l.minISR {
		return ProposalDue
	}
	return 0
}

// Propose returns a change to send to the metadata store, either a new one or the pending one
// again. lease states that the broker's lease is live: without one, the controller may have
// replaced this leader, and its proposals would only be refused. The answer of the store goes to
// Refused if it was a refusal, and is ignored otherwise.
func (l *Leader) Propose(now time.Duration, lease bool) (p Proposal, ok bool) {
	if !lease || l.lacking() {
		return p, false
	}
	if l.pending.is {
		if now-l.pending.sent < l.cfg.Limits.Repeat {
			return p, false
		}
		l.pending.sent = now
		p = l.pending.proposal
		if l.cfg.Broken.Has(ForgetPending) {
			l.dropPending()
		}
		return p, true
	}
	c := l.shrink(now)
	if c.reason == NoReason {
		c = l.grow()
	}
	if c.reason == NoReason {
		return p, false
	}
	l.serial++
	p = c.proposal(l)
	p.ID = uint64(l.cfg.Epoch)<<32 | uint64(l.serial)
	l.pending = pending{is: true, proposal: p, sent: now}
	for i := range l.members {
		m := &l.members[i]
		if m.next = c.inSync[i]; m.InSync && !m.next && (c.reason == Lagging || c.reason == Stalled) {
			m.penalty.begin(now)
			m.returns = l.counted(m) + 1
		}
	}
	l.recompute()
	return p, true
}

// change is a proposal under construction; its slices are indexed like the members.
type change struct {
	reason           Reason
	inSync, eligible []bool
}

func (l *Leader) change() change {
	c := change{inSync: make([]bool, len(l.members)), eligible: make([]bool, len(l.members))}
	for i := range l.members {
		c.inSync[i], c.eligible[i] = l.members[i].InSync, l.members[i].Eligible
	}
	return c
}

func (c *change) because(r Reason) {
	if c.reason == NoReason || r < c.reason {
		c.reason = r
	}
}

func (c *change) size() (n int) {
	for _, in := range c.inSync {
		if in {
			n++
		}
	}
	return n
}

func (l *Leader) inSync() (n int) {
	for i := range l.members {
		if l.members[i].InSync {
			n++
		}
	}
	return n
}

// shrink returns the change that removes the members that are damaged, offline, gone or too slow. A
// member that leaves an ISR below min.insync.replicas remains eligible, since the high watermark
// stands still from then on; a damaged one does not.
func (l *Leader) shrink(now time.Duration) change {
	c := l.change()
	left := make([]bool, len(l.members))
	for i := range l.members {
		m := &l.members[i]
		if m.Broker == l.cfg.Self || !m.InSync && !m.Eligible {
			continue
		}
		if m.state == streamDamaged || l.short(m) {
			c.because(Damaged)
			c.inSync[i], c.eligible[i] = false, false
		} else if m.InSync && l.tooSlow(m, now) != NoReason {
			c.inSync[i], left[i] = false, true
		}
	}
	few := c.size() < l.minISR
	for i := range left {
		if m := &l.members[i]; left[i] && few && l.awaited(m, now) {
			c.inSync[i], left[i] = true, false
		} else if left[i] {
			c.because(l.tooSlow(m, now))
		}
	}
	if c.reason == NoReason {
		l.stalled(now, &c, left)
	}
	if c.size() < l.minISR && !l.cfg.Broken.Has(ShrinkWithoutELR) {
		for i := range left {
			c.eligible[i] = c.eligible[i] || left[i]
		}
	}
	return c
}

// unaware reports whether a member may still believe that it leads: it has not followed in this
// epoch, and not enough time has passed for its lease to end. It must stay in the ISR: without it,
// this leader would commit records that the readers of the former one lack. A member without a
// session leaves by a decision of the controller.
func (l *Leader) unaware(m *member, now time.Duration) bool {
	return m.state == streamNone && now-m.since < l.cfg.Limits.Session && !l.cfg.Broken.Has(LeaveUnaware)
}

// tooSlow returns why an in-sync member must leave, or NoReason.
func (l *Leader) tooSlow(m *member, now time.Duration) Reason {
	switch {
	case l.unaware(m, now):
	case m.state == streamOffline:
		return Offline
	case m.state == streamGone && now-m.since >= l.cfg.Limits.Gone, m.state == streamNone && now-m.since >= l.cfg.Limits.Lag:
		return Gone
	case m.lag.behind && now-m.lag.since >= l.cfg.Limits.Lag:
		return Lagging
	}
	return NoReason
}

// awaited reports whether a member has no stream for so short a time that the controller may be
// about to elect it instead of this leader, because none connects to this one.
func (l *Leader) awaited(m *member, now time.Duration) bool {
	return (m.state == streamGone || m.state == streamNone) && now-m.since < l.cfg.Limits.Replace
}

// stalled removes the members that hold the high watermark, provided that enough remain and that
// the leader itself is not one of them.
func (l *Leader) stalled(now time.Duration, c *change, left []bool) {
	if !l.stuck.is || l.stuck.high != l.high || now-l.stuck.since < l.cfg.Limits.Stall || !l.counts || l.own() <= l.high {
		return
	}
	n := l.inSync()
	for i := range l.members {
		if m := &l.members[i]; l.holds(m) {
			if l.unaware(m, now) {
				return
			}
			n--
		}
	}
	if n < l.minISR || n == l.inSync() {
		return
	}
	c.because(Stalled)
	for i := range l.members {
		if l.holds(&l.members[i]) {
			c.inSync[i], left[i] = false, true
		}
	}
}

// holds reports whether an in-sync follower keeps the high watermark from moving.
func (l *Leader) holds(m *member) bool {
	return m.Broker != l.cfg.Self && m.InSync && (!m.counts || l.counted(m) <= l.high)
}

// grow returns the change that adds the followers that are caught up, and that empties the ELR when
// the ISR has min.insync.replicas members: what is committed from then on is on enough of them.
func (l *Leader) grow() change {
	c := l.change()
	for i := range l.members {
		if m := &l.members[i]; m.Broker != l.cfg.Self && !m.InSync && l.mayJoin(m) {
			c.because(CaughtUp)
			c.inSync[i], c.eligible[i] = true, false
		}
	}
	if l.eligible > 0 && (c.size() >= l.minISR || l.cfg.Broken.Has(ClearELREarly)) {
		c.because(EnoughLive)
		clear(c.eligible)
	}
	return c
}

// mayJoin reports whether a follower may join the ISR: its log is whole. It has all records below
// the high watermark and below the start of this epoch, since an earlier leader may have committed
// more than this one knows. With a lower start than the leader's, deleted records would come back
// with it. Subscribe has refused a higher one, with which others would delete their records if it
// led, and a follower subscribes with the start that its log keeps. One that was too slow must have
// gone on since, or have all: below min.insync.replicas the high watermark waits where it stands.
func (l *Leader) mayJoin(m *member) bool {
	if !m.counts || m.state != streamLive || !m.Active {
		return false
	}
	if m.penalty.waits() && l.inSync() >= l.minISR {
		return false
	}
	if m.logStart < l.start && !l.cfg.Broken.Has(JoinBelowStart) {
		return false
	}
	end := l.counted(m)
	if end < min(m.returns, l.end) {
		return false
	}
	return (end >= l.high || l.cfg.Broken.Has(JoinBelowHigh)) && (end >= l.cfg.EpochStart || l.cfg.Broken.Has(JoinBelowEpochStart))
}

// proposal returns the change in the form for the store.
func (c *change) proposal(l *Leader) Proposal {
	p := Proposal{Revision: l.revision, Reason: c.reason}
	for i := range l.members {
		m := &l.members[i]
		if c.inSync[i] {
			p.ISR = append(p.ISR, m.Broker)
		}
		if c.eligible[i] {
			p.ELR = append(p.ELR, m.Broker)
		}
		if (m.Broker == l.cfg.Self || c.inSync[i] && !m.InSync) && !l.cfg.Broken.Has(JoinWithoutCompares) {
			p.Members = append(p.Members, Compare{m.Broker, m.BrokerEpoch, m.Liveness})
		}
	}
	return p
}
