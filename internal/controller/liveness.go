package controller

import (
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Default times of sessions; broker.heartbeat.interval.ms and broker.session.timeout.ms.
const (
	DefaultHeartbeatInterval = 500 * time.Millisecond
	DefaultSessionTimeout    = 3 * time.Second
)

// MaxReportedDamaged bounds the damaged logs that a heartbeat may report. A broker with more
// reports their directories as failed.
const MaxReportedDamaged = 1000

// MaxReportedUncompared bounds the logs that a heartbeat may name as UncomparedLogs. A broker with
// more reports Uncompared.
const MaxReportedUncompared = 100

// MaxReportedUnreached bounds the brokers that a heartbeat may name as Unreached.
const MaxReportedUnreached = 1000

// Heartbeat is what a broker reports to the controller, at each interval and on every change.
type Heartbeat struct {
	Broker      int32       `json:"broker"`
	Epoch       int64       `json:"epoch"` // the broker epoch
	Incarnation metadata.ID `json:"incarnation"`
	// Sequence numbers the heartbeats of a process from 1 on. Answered is the sequence of the last
	// answer that the broker has received, 0 for none: it proves that both directions work.
	Sequence uint64 `json:"sequence"`
	Answered uint64 `json:"answered"`
	// Applied is the version of the broker's Image, 0 before it follows the metadata.
	Applied int64 `json:"applied"`
	// Ready reports that all logs were recovered or found to be offline.
	Ready bool `json:"ready,omitempty"`
	// Drain reports that the broker is about to stop.
	Drain bool `json:"drain,omitempty"`
	// Unable and Damaged are those of metadata.BrokerState.
	Unable  []metadata.UnableDir     `json:"unable,omitempty"`
	Damaged metadata.TopicPartitions `json:"damaged,omitempty"`
	// Uncompared and UncomparedLogs are those of metadata.BrokerState. A broker of an earlier
	// version has none.
	Uncompared     bool                     `json:"uncompared,omitempty"`
	UncomparedLogs metadata.TopicPartitions `json:"uncomparedLogs,omitempty"`
	// Unreached are the brokers to whose registered addresses this one could not connect for a
	// session timeout. A broker of an earlier version names none.
	Unreached []int32 `json:"unreached,omitempty"`
}

// HeartbeatAnswer is the controller's answer.
//
// The broker's lease ends when Lease has passed since the broker sent heartbeat Proven. The
// controller does not let the session end earlier, whatever becomes of this answer.
type HeartbeatAnswer struct {
	Sequence uint64            `json:"sequence"`
	Proven   uint64            `json:"proven"`
	Lease    time.Duration     `json:"-"` // 0 or less: no lease
	Liveness metadata.Liveness `json:"state"`
	// Revision is that of the metadata that the controller showed when it composed the answer.
	Revision int64 `json:"revision"`
	// Shunned are the brokers that get no leadership as long as others can lead, because more than
	// half of the others name them as Unreached.
	Shunned []int32 `json:"shunned,omitempty"`
}

// sessions decides which brokers are alive. It is pure: times are readings of a monotonic clock,
// passed in by the caller, which serializes the calls.
//
//	broker                        controller
//	  heartbeat 7 ──────────────────▶  answer 7, composed at time a, revision r
//	  ◀──────────────────────────────
//	  applies r
//	  heartbeat 8, answered 7, ─────▶  answer 7 has arrived: both directions worked at time a,
//	  applied r                        and the broker knows what was decided before a.
//	  ◀──────────────────────────────  answer 8: proven 7
//
// A session is proven at the time of the newest answer up to which both hold: it, or a later one,
// has arrived, and the broker has applied its revision. It ends when timeout has passed since then.
// So a broker that is not heard, one that hears nothing, and one whose metadata stand still, lose
// their session within the timeout. The lease that answer 8 grants counts from the time at which
// the broker sent heartbeat 7, which is before a, so it never outlives the session.
//
// A broker that applies revisions later than they are written keeps its session as long as it is
// less than the timeout behind: an answer proves as soon as its own revision is applied, however
// many others have followed.
//
// Only a broker that runs has a lease. One that is starting or fenced keeps its session as long as
// answers arrive, and becomes active with its next proof. Its lease needs another one, of an answer
// that follows the activation: replicas may have left the ISR since the first one.
//
// A lease also ends when a quorum has not confirmed the controller for most of the timeout, because
// another one may lead since then. That one knows when this one was confirmed at the latest. When
// all these leases are over, it fences the broker of this one, which is probably cut off too:
//
//	former controller   confirmed ── timeout - spare ──▶ its leases are over
//	next controller     knows until when ── the same ──▶ fences the former one's broker
//
// The clocks of brokers may run at different rates, and need not show the same time.
type sessions struct {
	timeout time.Duration
	broken  broken
	brokers map[int32]*session
	judged  time.Duration // time of the last call of expired
	late    bool          // that call came late
	grace   time.Duration // until then no session ends
}

// session is the session of one broker process.
type session struct {
	incarnation [16]byte
	runs        bool                  // the metadata shows the broker as running
	since       int64                 // the revision at which this was known; earlier answers prove nothing for a lease
	reached     time.Duration         // when the newest answer that has arrived was composed
	proven      time.Duration         // when the newest answer was composed that has arrived and whose revision is applied
	answered    uint64                // the sequence of that answer
	heard       time.Duration         // when the last heartbeat arrived
	sent        [MaxUnproven]composed // the newest answers, by sequence
	refused     bool                  // the broker's process does not listen any longer, since refusedAt
	refusedAt   time.Duration
	ended       bool      // its end is being written: nothing is proven any longer
	last        Heartbeat // the newest one
}

// MaxUnproven is how many answers may wait for their revision to be applied. The pauses between
// heartbeats are such that these are the answers of a session.
const MaxUnproven = 64

type composed struct {
	sequence uint64
	at       time.Duration
	revision int64
}

// drift is which part of a session its lease is shorter: two clocks count the same time.
const drift = 100

// spare is the time by which leases of a controller that is not confirmed any longer end before the
// sessions.
func (s *sessions) spare() time.Duration { return s.timeout / 4 }

// beginFormer begins the session of the former controller's broker. No controller of an earlier
// term was confirmed after until, so its leases end when spare is left of a session from then on.
// The broker has an interval to be heard, at least.
func (s *sessions) beginFormer(broker int32, incarnation [16]byte, until, now, interval time.Duration) {
	if s.broken.Has(ignoreUntil) {
		until = now - s.timeout
	}
	s.begin(broker, incarnation, true, now)
	s.brokers[broker].proven = max(min(until, now)-s.spare(), now-s.timeout+interval)
}

func newSessions(timeout time.Duration, now time.Duration) *sessions {
	return &sessions{timeout: timeout, brokers: map[int32]*session{}, judged: now}
}

// begin starts the session of a broker process, as if it had been heard at the given time. Answers
// to a former process, or before the begin, count no longer.
func (s *sessions) begin(broker int32, incarnation [16]byte, runs bool, at time.Duration) {
	s.brokers[broker] = &session{incarnation: incarnation, runs: runs, reached: at, proven: at, heard: at}
}

// fenced notes that the metadata shows a broker as fenced whose session has ended. If its process
// is still reached, it needs a new proof, and no registration.
func (s *sessions) fenced(broker int32, now time.Duration) {
	x := s.brokers[broker]
	if x == nil {
		return
	}
	if x.refused || now-x.reached >= s.timeout {
		delete(s.brokers, broker)
		return
	}
	s.brokers[broker] = &session{incarnation: x.incarnation, reached: x.reached, proven: x.proven, heard: x.heard, last: x.last}
}

// live reports whether a broker has a session, of which process, and its newest heartbeat.
func (s *sessions) live(broker int32) (incarnation [16]byte, last Heartbeat, ok bool) {
	x := s.brokers[broker]
	if x == nil {
		return incarnation, last, false
	}
	return x.incarnation, x.last, true
}

// proof reports whether the process of a broker has proven that it knows what was decided before
// its session began, and is known to be reached since.
func (s *sessions) proof(broker int32, now time.Duration) bool {
	x := s.brokers[broker]
	if s.broken.Has(activateUnproven) {
		return x != nil && x.last.Sequence > 0
	}
	return x != nil && !x.ended && x.answered > 0 && now-x.proven < s.timeout
}

// shown is what a controller knows when it composes an answer.
type shown struct {
	now time.Duration
	// confirmed is the last time at which a quorum of the metadata confirmed this controller:
	// another one may exist since, which knows nothing of the leases granted here. Before the first
	// confirmation, ever is false, and no lease is granted.
	confirmed time.Duration
	ever      bool
	revision  int64 // of the metadata
	runs      bool  // they show the broker as running
}

// beat records a heartbeat of the process that has the session, and returns the answer without
// Liveness. ok is false if the process has no session; it must register.
func (s *sessions) beat(h Heartbeat, is shown) (a HeartbeatAnswer, ok bool) {
	x := s.brokers[h.Broker]
	if x == nil || x.incarnation != h.Incarnation {
		return a, false
	}
	if h.Sequence > x.last.Sequence {
		x.last = h // an older one was overtaken
	}
	if is.runs && !x.runs {
		x.since, x.answered = is.revision, 0
	}
	x.heard, x.refused, x.runs = is.now, false, is.runs
	a = HeartbeatAnswer{Sequence: h.Sequence, Revision: is.revision}
	if x.ended && !s.broken.Has(answerEnded) {
		return a, true
	}
	s.prove(x, h.Answered)
	if c := &x.sent[h.Sequence%MaxUnproven]; c.sequence < h.Sequence {
		*c = composed{h.Sequence, is.now, is.revision} // the first answer may be the one that arrives
	}
	if a.Proven = x.answered; is.ever && is.runs && x.answered > 0 {
		known := is.confirmed - s.spare()
		if s.broken.Has(leaseToTheEnd) {
			known = is.confirmed
		}
		if a.Lease = min(x.proven, known) + s.timeout - x.proven; !s.broken.Has(equalClocks) {
			a.Lease -= s.timeout / drift
		}
	}
	return a, true
}

// prove moves a session to the newest answer that proves something, after the answer of a sequence
// has arrived.
func (s *sessions) prove(x *session, answered uint64) {
	if c := &x.sent[answered%MaxUnproven]; c.sequence == answered && answered > 0 {
		x.reached = max(x.reached, c.at)
	}
	for i := range x.sent {
		c := &x.sent[i]
		known := c.revision <= x.last.Applied && c.revision >= x.since || s.broken.Has(TrustAnswers)
		if c.sequence > 0 && c.at <= x.reached && known && (x.answered == 0 || c.at > x.proven) {
			x.answered, x.proven = c.sequence, c.at
		}
	}
}

// refusedDial records that a connection to a broker broke and that its machine refused a new one:
// no process listens there, so its leaderships need not wait until the session times out. gone says
// when the session ends: no heartbeat has arrived for an interval, and the dial was refused half an
// interval ago. That is the time of a process that runs and is only cut off to learn of the broken
// connection, which ends its lease. A process that was not heard in this term may not know who
// leads, and its session times out.
func (s *sessions) refusedDial(broker int32, now time.Duration) {
	if x := s.brokers[broker]; x != nil && !x.refused && (x.last.Sequence > 0 || s.broken.Has(refuseUnheard)) {
		x.refused, x.refusedAt = true, now
	}
}

// gone reports whether a broker's process has ended.
func (x *session) gone(now, interval time.Duration) bool {
	return x.refused && now-x.heard > interval && now-x.refusedAt > interval/2
}

// expired returns the brokers whose sessions have ended, in order, until fenced is called.
// Meanwhile they prove nothing, so that no lease begins while the fence is being written. If this
// controller did not run for a while, no session ends for a while: heartbeats may wait that it has
// not read yet. A controller that is late each time, because its own writes are slow, judges
// nevertheless.
// The session of the process kept, which may be zero, does not end.
func (s *sessions) expired(now, interval time.Duration, kept [16]byte) []int32 {
	gap := now - s.judged
	s.judged = now
	late := gap > s.timeout/2
	if late && !s.late {
		s.grace = now + s.timeout
	}
	if s.late = late; now < s.grace {
		return nil
	}
	var ended []int32
	for id, x := range s.brokers {
		if kept != [16]byte{} && x.incarnation == kept {
			continue
		}
		proven := x.proven
		if !x.runs { // it holds no lease that its knowledge could make wrong
			proven = max(proven, x.reached)
		}
		if x.ended = x.ended || now-proven >= s.timeout || x.gone(now, interval); x.ended {
			ended = append(ended, id)
		}
	}
	slices.Sort(ended)
	return ended
}

// shunned returns the brokers that are running and to which more than half of the other running
// brokers cannot connect, by the newest heartbeat of each, in order. A broker that was not heard in
// this term, or that does not report it, counts as one that can connect. So a controller that has
// just begun knows of none, and what a broker has reported is forgotten with its session.
//
// Those that were shunned before remain so while brokers restart that could not connect either: a
// broker that has run for too short a time to know, which fresh reports, does not count.
//
// A broker whose own network fails may report all others. With two or more others it is outvoted.
// The only other one is not: a leader that its only follower cannot reach has no follower, whatever
// the reason is.
func (s *sessions) shunned(img *metadata.Image, before []int32, fresh func(broker int32) bool) (list []int32) {
	var runs []int32
	reports := map[int32][]int32{} // by broker, who cannot connect to it
	for _, b := range img.Brokers() {
		state, _ := img.State(b.ID)
		if !running(state.Liveness) {
			continue
		}
		runs = append(runs, b.ID)
		x := s.brokers[b.ID]
		if x == nil || x.incarnation != b.Incarnation || x.last.Epoch != b.Epoch {
			continue
		}
		for i, id := range x.last.Unreached {
			if id != b.ID && !slices.Contains(x.last.Unreached[:i], id) {
				reports[id] = append(reports[id], b.ID)
			}
		}
	}
	for _, id := range runs {
		others := 0
		for _, b := range runs {
			counts := !slices.Contains(before, id) || slices.Contains(reports[id], b) || !fresh(b)
			if b != id && counts {
				others++
			}
		}
		if 2*len(reports[id]) > others {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}
