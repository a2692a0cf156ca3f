package progress

import (
	"math"
	"slices"
	"time"
)

// Config describes one leadership of a partition.
type Config struct {
	// Broken is empty in an ordinary build.
	Broken Broken
	// Self is the leader's broker id, BrokerEpoch its own registration, and Dir the log directory
	// of its replica.
	Self        int32
	BrokerEpoch int64
	Dir         Dir
	// Epoch is the leader epoch, EpochStart the log end when it began.
	Epoch      int32
	EpochStart int64
	// Noted states that the own log needs no note of the epoch, or that it is durable; see
	// Leader.Note.
	Noted bool
	// High is the high watermark that the replica knew, End the end that the profile counts for the
	// own log.
	High, End int64
	// LogStart is the durable start of the own log.
	LogStart int64
	// Limits are the durations of the rules that exclude replicas.
	Limits Limits
}

// Limits are durations. None of them decides whether a record is safe.
type Limits struct {
	// Lag is replica.lag.time.max.ms, Stall is replica.stall.time.max.ms.
	Lag, Stall time.Duration
	// Gone is the time in which an ended stream may come back.
	Gone time.Duration
	// Replace is the time in which the controller elects another leader if followers cannot connect
	// to this one. Until then, members without a stream stay in an ISR that would be smaller than
	// min.insync.replicas without them: alone in it, this leader could not be replaced.
	Replace time.Duration
	// Session is the time after which a broker that does not know of this leader has no lease.
	Session time.Duration
	// Repeat is the time after which a proposal without a known outcome is sent again.
	Repeat time.Duration
}

// Handle names one subscription of a follower. No other subscription has the same handle, whatever
// the epoch. The zero Handle names none.
type Handle struct {
	epoch  int32
	broker int32
	serial uint32
}

// Effect is the consequence of an event.
type Effect uint8

// The effects.
const (
	// HighMoved states that the high watermark has moved.
	HighMoved Effect = 1 << iota
	// ProposalDue states that the caller should call Propose soon.
	ProposalDue
	// MemberShort states that a member of the ISR or the ELR lacks committed records. The caller
	// reports it loudly.
	MemberShort
)

// Leader is the state of one partition that this broker leads in one leader epoch. Its methods
// neither block nor lock; the caller serialises them. Times are monotonic durations since an origin
// of the caller.
type Leader struct {
	cfg     Config
	high    int64
	end     int64 // the counted end of the own log; see own
	start   int64 // the durable start of the own log
	version int64 // of the last view
	// revision is the revision of the partition's record in the last view.
	revision int64
	minISR   int // limited to the number of replicas
	written  bool
	notes    bool // see View.Notes
	noted    bool // the own log notes the epoch
	// alone states that the own end is the high watermark: the maximal ISR has no other member, the
	// ELR is empty, the own placement is recorded and the own log needs no note any longer.
	alone    bool
	counts   bool // the own end counts
	eligible int  // members of the ELR
	members  []member
	serial   uint32 // of the last subscription
	pending  pending
	stuck    stuck
	swept    time.Duration // time of the last Sweep
	sweeping bool          // it returned true
}

// member is one replica, the leader included.
type member struct {
	Replica
	next bool // the pending proposal has it in the ISR
	// The present subscription.
	handle      Handle
	brokerEpoch int64
	dir         Dir
	asked       uint64 // Subscription.Serial
	counts      bool   // registration and placement of the view are those of the subscription
	written     int64
	durable     int64
	through     bool // the follower's log is known to acknowledge written records
	logStart    int64
	penalty     penalty
	returns     int64 // an end that a member needs for its return, if it left because it was too slow
	state       streamState
	since       time.Duration // of state
	ahead       bool          // it has committed records that the leader's log lacks; see Lacks
	lag         lag
}

// streamState is the state of a member's subscription.
type streamState uint8

const (
	streamNone    streamState = iota // none in this epoch
	streamLive                       // open
	streamGone                       // ended; the ends still count
	streamOffline                    // the follower reported the replica offline
	streamDamaged                    // its log misses records below the high watermark
)

// lag measures for how long a member has not been caught up.
type lag struct {
	behind bool
	since  time.Duration // when it was last caught up
	target int64         // the log end at the time at
	at     time.Duration
}

// stuck measures for how long the high watermark has not moved.
type stuck struct {
	is    bool
	high  int64
	since time.Duration
}

// Lead returns the state at the beginning of a leadership. The view must show it.
func Lead(cfg Config, v *View, now time.Duration) *Leader {
	l := &Leader{cfg: cfg, high: cfg.High, end: cfg.End, noted: cfg.Noted, start: cfg.LogStart}
	l.SetView(v, now)
	return l
}

// Epoch returns the leader epoch.
func (l *Leader) Epoch() int32 { return l.cfg.Epoch }

// High returns the high watermark. It never falls.
func (l *Leader) High() int64 { return l.high }

// MinISR returns min.insync.replicas, limited to the number of replicas that are not being added.
func (l *Leader) MinISR() int { return l.minISR }

// SetView replaces the metadata. The view must show the same leader and epoch; for another one, the
// caller makes a new Leader or stops leading. It ignores a view that is older than the last.
func (l *Leader) SetView(v *View, now time.Duration) Effect {
	if v.Version < l.version {
		return 0
	}
	l.version, l.revision = v.Version, v.Revision
	l.written, l.notes, l.eligible = v.Written, v.Notes, 0
	old := l.members
	l.members = make([]member, len(v.Replicas))
	for i, r := range v.Replicas {
		m := &l.members[i]
		m.since = now
		for j := range old {
			if old[j].Broker == r.Broker {
				*m = old[j]
			}
		}
		if r.InSync && !m.InSync {
			m.lag = lag{} // it had to reach the high watermark to join, and now has time for the rest
		}
		m.Replica = r
		if r.Eligible {
			l.eligible++
		}
		l.compare(m, now)
	}
	l.minISR = v.EffectiveMinISR()
	if l.pending.decided(v) {
		l.dropPending()
	}
	l.recompute()
	return l.advance() | l.due()
}

// compare decides whether a member's ends count. An end is worth something only as long as the
// replica is what it was: the same process on the same directory, which the metadata knows, so that
// the controller notices if the directory is replaced.
func (l *Leader) compare(m *member, now time.Duration) {
	unplaced := m.Placement == Dir{} || m.Placement != m.dir
	if m.Broker == l.cfg.Self {
		m.dir = l.cfg.Dir
		unplaced = m.Placement == Dir{} || m.Placement != m.dir
		m.counts = m.BrokerEpoch == l.cfg.BrokerEpoch && (!unplaced || l.cfg.Broken.Has(CountUnplaced))
		l.counts = m.counts
		return
	}
	had := m.handle != Handle{}
	same := m.brokerEpoch == m.BrokerEpoch || l.cfg.Broken.Has(CountFormerLives)
	placed := !unplaced || l.cfg.Broken.Has(CountUnplaced) || l.cfg.Broken.Has(CountFormerLives)
	m.counts = had && same && placed
	if had && m.brokerEpoch != m.BrokerEpoch && m.state != streamGone {
		m.state, m.since = streamGone, now
	}
}

// recompute updates alone after a change of the view or of the pending proposal.
func (l *Leader) recompute() {
	l.alone = l.counts && l.eligible == 0 && l.Noted()
	for i := range l.members {
		if m := &l.members[i]; m.Broker != l.cfg.Self && l.maximal(m) {
			l.alone = false
		}
	}
}

// maximal reports whether a member belongs to the ISR or to the one of the pending proposal, which
// may have been accepted already (KIP-497).
func (l *Leader) maximal(m *member) bool {
	switch {
	case l.pending.is && l.cfg.Broken.Has(CountNewISR):
		return m.next
	case l.cfg.Broken.Has(CountOldISR):
		return m.InSync
	}
	return m.InSync || m.next
}

// counted returns the end of a member's log that the profile counts. Written records count only if
// the follower's log is in the mode for it: after a loss of power, that mode tells the follower
// that it may lack records that it acknowledged.
func (l *Leader) counted(m *member) int64 {
	if m.Broker == l.cfg.Self {
		return l.own()
	}
	if l.written && (m.through || l.cfg.Broken.Has(CountWritten)) {
		return m.written
	}
	return m.durable
}

// Own sets the end of the leader's own log that the profile counts. It may fall after a revert.
func (l *Leader) Own(end int64) Effect {
	l.end = end
	if l.alone {
		if end <= l.high {
			return 0
		}
		l.high = end
		return HighMoved
	}
	return l.advance()
}

// Note records that the own log notes durably that this broker has led in the epoch. Until then
// nothing is committed in the epoch: the records may be of older epochs only, and logs that are
// compared without metadata would not show that they were committed later than records of an epoch
// in between, which another log has (Raft's figure 8).
func (l *Leader) Note() Effect {
	l.noted = true
	l.recompute()
	return l.advance() | l.due()
}

// Noted reports whether the own log needs no note of the epoch any longer. The log of the only
// replica is compared with no other. A view can make the note necessary: the leader commits nothing
// more until it is durable.
func (l *Leader) Noted() bool {
	return l.noted || !l.notes || len(l.members) == 1 || l.cfg.Broken.Has(CommitUnnoted)
}

// own returns the end of the own log as it counts for the high watermark.
func (l *Leader) own() int64 {
	if !l.Noted() {
		return min(l.end, l.high)
	}
	return l.end
}

// Durable returns the lowest durable end of the maximal ISR, where own is that of the own log. It
// is -1 while the high watermark cannot move: then it is not known which replicas must have a
// record. Records below both survive a loss of power of all replicas at once, and are committed.
func (l *Leader) Durable(own int64) int64 {
	if !l.counts || l.eligible > 0 {
		return -1
	}
	for i := range l.members {
		m := &l.members[i]
		switch {
		case m.Broker == l.cfg.Self || !l.maximal(m):
		case !m.counts:
			return -1
		case l.cfg.Broken.Has(DurableWritten):
			own = min(own, m.written)
		default:
			own = min(own, m.durable)
		}
	}
	return own
}

// Subscription is what a follower reports about its replica when it subscribes.
type Subscription struct {
	Broker      int32
	BrokerEpoch int64
	Dir         Dir
	// Serial grows with every subscription of the follower's process. It orders the requests of
	// connections that have replaced each other.
	Serial uint64
	// Written and Durable are the ends of its log, LogStart its durable start.
	Written, Durable, LogStart int64
	// WriteThrough states that the follower's checkpoint records that its log acknowledges written
	// records. A change of the mode needs a new subscription.
	WriteThrough bool
}

// Subscribe begins a subscription, which ends an earlier one of the same broker, and sets its ends,
// whether they are higher or lower than before. The caller must have found with Answer that the
// logs agree up to the follower's end. ok is false if the broker has no replica, or if its
// registration or directory is not the one of the last view: the follower must try again later. It
// is also false for a request that is older than the present subscription.
//
// A log that begins above the leader's lacks records, unless a former leader has removed them. Only
// a member of the ISR or the ELR is known to have moved its start as its leaders did. So ok is
// false for another one, which begins again as Answer says.
func (l *Leader) Subscribe(s Subscription, now time.Duration) (h Handle, effect Effect, ok bool) {
	m := l.member(s.Broker)
	if m == nil || s.Broker == l.cfg.Self {
		return Handle{}, 0, false
	}
	known := m.BrokerEpoch == s.BrokerEpoch && (m.Placement == Dir{} || m.Placement == s.Dir)
	if !known && !l.cfg.Broken.Has(CountFormerLives) {
		return Handle{}, 0, false
	}
	if s.LogStart > l.start && !m.InSync && !m.Eligible && !l.cfg.Broken.Has(JoinAboveStart) {
		return Handle{}, 0, false
	}
	if m.overtook(s) && !l.cfg.Broken.Has(AcceptOldRequests) {
		return Handle{}, 0, false
	}
	m.asked = s.Serial
	l.serial++
	m.handle = Handle{l.cfg.Epoch, s.Broker, l.serial}
	m.brokerEpoch, m.dir = s.BrokerEpoch, s.Dir
	m.state, m.since, m.ahead, m.lag = streamLive, now, false, lag{}
	if l.cfg.Broken.Has(KeepHigherEnds) {
		s.Written, s.Durable = max(s.Written, m.written), max(s.Durable, m.durable)
	}
	m.written, m.durable, m.logStart, m.through = s.Written, s.Durable, s.LogStart, s.WriteThrough
	l.compare(m, now)
	effect = l.advance() | l.due()
	if l.short(m) {
		effect |= MemberShort
	}
	return m.handle, effect, true
}

// Asks notes that a broker asks for a subscription, whatever the answer will be, and reports
// whether it is a member of the ISR, of a proposed one that may have been accepted already, or of
// the ELR. The log of a member may not be emptied. The broker has left its earlier subscription,
// whose ends say nothing about the log that it has now: from here on, it joins the ISR only after
// Subscribe. So a log that has to begin again is not proposed meanwhile. A request that is older
// than the present subscription, or of another registration than that of the view, ends nothing: a
// proposal names the registration.
func (l *Leader) Asks(s Subscription, now time.Duration) (member bool, effect Effect) {
	m := l.member(s.Broker)
	if m == nil || s.Broker == l.cfg.Self {
		return false, 0
	}
	if l.cfg.Broken.Has(EmptyProposed) {
		return m.InSync || m.Eligible, 0
	}
	if m.state == streamLive && m.BrokerEpoch == s.BrokerEpoch && !m.overtook(s) {
		m.state, m.since = streamGone, now
		effect = l.due()
	}
	return l.maximal(m) || m.Eligible, effect
}

// overtook reports whether a request is not newer than the present subscription.
func (m *member) overtook(s Subscription) bool {
	return s.BrokerEpoch == m.brokerEpoch && s.Serial <= m.asked
}

// short reports whether a member of the ISR or the ELR lacks committed records, because it
// subscribed with a lower end than it had. It must leave at once: if it led, they would be lost.
func (l *Leader) short(m *member) bool {
	if m.state != streamLive || m.written >= l.high || m.Broker == l.cfg.Self || l.cfg.Broken.Has(KeepDamaged) {
		return false
	}
	return m.Eligible || l.maximal(m)
}

// Followed reports whether another member of the ISR follows now.
func (l *Leader) Followed() bool {
	return slices.ContainsFunc(l.members, func(m member) bool {
		return m.Broker != l.cfg.Self && m.InSync && (m.state == streamLive || m.ahead)
	})
}

// Lacks notes that a follower cannot follow: its log has committed records that the leader's log
// lacks. It reports whether that is a member of the ISR, of a proposed one, or of the ELR. Such a
// member has every committed record, so the leader's disk has lost some, and the leader must give
// way. It proposes nothing meanwhile, so the member stays where it is, and nothing is committed.
// Others may have had records that no leader committed.
func (l *Leader) Lacks(follower int32) bool {
	m := l.member(follower)
	if m == nil || follower == l.cfg.Self || !l.maximal(m) && !m.Eligible || l.cfg.Broken.Has(LeadShort) {
		return false
	}
	m.ahead = true
	return true
}

// lacking reports whether a member has committed records that the leader's log lacks.
func (l *Leader) lacking() bool {
	return slices.ContainsFunc(l.members, func(m member) bool { return m.ahead && (m.InSync || m.next || m.Eligible) })
}

// Passed reports whether an active follower that follows now has all records below end.
func (l *Leader) Passed(end int64) bool {
	return slices.ContainsFunc(l.members, func(m member) bool {
		return m.Broker != l.cfg.Self && m.Active && m.counts && m.state == streamLive && m.written >= end
	})
}

// Ends sets the ends that a follower acknowledged. It ignores a handle that is not that of the
// broker's present subscription, and an end below one that the subscription reported earlier. It
// does not allocate.
func (l *Leader) Ends(h Handle, written, durable int64) Effect {
	m := l.subscribed(h)
	if m == nil {
		return 0
	}
	m.written, m.durable = max(m.written, written), max(m.durable, durable)
	effect := l.advance()
	if !m.InSync && !l.pending.is && l.mayJoin(m) {
		effect |= ProposalDue
	}
	return effect
}

// StreamEnd states why a subscription ended.
type StreamEnd uint8

// The reasons for which a subscription ends.
const (
	StreamGone    StreamEnd = iota // the connection broke, or the follower left
	StreamOffline                  // the follower's replica is offline
	StreamDamaged                  // the follower's log is damaged
)

// End ends a subscription. Its ends count until the broker registers again or subscribes again.
func (l *Leader) End(h Handle, why StreamEnd, now time.Duration) Effect {
	m := l.subscribed(h)
	if m == nil || m.state == streamDamaged {
		return 0
	}
	m.since = now
	switch why {
	case StreamOffline:
		m.state = streamOffline
	case StreamDamaged:
		m.state = streamDamaged
	default:
		m.state = streamGone
	}
	return l.due()
}

// LogStart sets the log start that a follower made durable.
func (l *Leader) LogStart(h Handle, start int64) Effect {
	m := l.subscribed(h)
	if m == nil {
		return 0
	}
	m.logStart = max(m.logStart, start)
	return l.due()
}

// OwnLogStart sets the durable start of the leader's log.
func (l *Leader) OwnLogStart(start int64) Effect {
	l.start = max(l.start, start)
	return l.due() // a follower may have moved its start first
}

// MinLogStart returns the lowest durable log start of the leader, the maximal ISR and the ELR:
// records below it do not come back with another leader.
func (l *Leader) MinLogStart() int64 {
	low := l.start
	for i := range l.members {
		m := &l.members[i]
		switch {
		case l.cfg.Broken.Has(DeleteAlone):
		case m.Broker == l.cfg.Self || !l.maximal(m) && !m.Eligible:
		case !m.counts:
			return math.MinInt64
		default:
			low = min(low, m.logStart)
		}
	}
	return low
}

// advance raises the high watermark to the lowest counted end of the maximal ISR. It stands still
// while the ELR is not empty, because the members of the ELR do not receive every record.
func (l *Leader) advance() Effect {
	if !l.counts || l.eligible > 0 && !l.cfg.Broken.Has(MoveDespiteELR) {
		return 0
	}
	low := l.own()
	for i := range l.members {
		m := &l.members[i]
		if m.Broker == l.cfg.Self || !l.maximal(m) {
			continue
		}
		if !m.counts {
			return 0
		}
		low = min(low, l.counted(m))
	}
	if low <= l.high {
		return 0
	}
	l.high = low
	return HighMoved
}

// member returns a broker's member, nil if it has no replica.
func (l *Leader) member(broker int32) *member {
	for i := range l.members {
		if l.members[i].Broker == broker {
			return &l.members[i]
		}
	}
	return nil
}

// subscribed returns the member whose present subscription has a handle, or nil.
func (l *Leader) subscribed(h Handle) *member {
	if l.cfg.Broken.Has(AcceptOldHandles) {
		return l.member(h.broker)
	}
	for i := range l.members {
		if h != (Handle{}) && l.members[i].handle == h {
			return &l.members[i]
		}
	}
	return nil
}
