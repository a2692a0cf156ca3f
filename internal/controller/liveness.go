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

// Heartbeat is what a broker reports to the controller, at each interval and on every change.
type Heartbeat struct {
	Broker      int32
	Epoch       int64 // the broker epoch
	Incarnation [16]byte
	// Sequence numbers the heartbeats of a process from 1 on. Answered is the sequence of the last
	// answer that the broker has received, 0 for none: it proves that both directions work.
	Sequence, Answered uint64
	// Applied is the version of the broker's Image.
	Applied int64
	// Ready reports that all logs were recovered or found to be offline.
	Ready bool
	// Drain reports that the broker is about to stop.
	Drain bool
	// Unable and Damaged are those of metadata.BrokerState.
	Unable  []metadata.UnableDir
	Damaged []metadata.TopicPartition
}

// HeartbeatAnswer is the controller's answer.
//
// The broker's lease ends when Lease has passed since the broker sent heartbeat Proven. The
// controller does not let the session end earlier, whatever becomes of this answer.
type HeartbeatAnswer struct {
	Sequence, Proven uint64
	Lease            time.Duration // 0 or less: no lease
	Liveness         metadata.Liveness
}

// sessions decides which brokers are alive. It is pure: times are readings of a monotonic clock,
// passed in by the caller, which serializes the calls.
//
//	broker             controller
//	  heartbeat 7 ───────▶  answer 7, composed at time a
//	  ◀───────────────────
//	  heartbeat 8, ──────▶  answer 7 has arrived: both directions worked at time a.
//	  answered 7            The session now ends at a + timeout.
//	  ◀───────────────────  answer 8: proven 7
//
// A broker that is not heard, and one that hears nothing, lose their session within the timeout.
// The lease that answer 8 grants counts from the time at which the broker sent heartbeat 7, which
// is before a, so it never outlives the session.
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
	proven      time.Duration // when the newest answer that has arrived was composed
	heard       time.Duration // when the last heartbeat arrived
	answered    uint64        // the sequence of that answer
	sent        [16]composed  // the newest answers, by sequence
	refused     bool          // the broker's process does not listen any longer
	last        Heartbeat     // the newest one
}

type composed struct {
	sequence uint64
	at       time.Duration
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
	if s.broken.has(ignoreUntil) {
		until = now - s.timeout
	}
	s.begin(broker, incarnation, now)
	s.brokers[broker].proven = max(min(until, now)-s.spare(), now-s.timeout+interval)
}

func newSessions(timeout time.Duration, now time.Duration) *sessions {
	return &sessions{timeout: timeout, brokers: map[int32]*session{}, judged: now}
}

// begin starts the session of a broker process, as if it had been heard at the given time. Answers
// to a former process count no longer.
func (s *sessions) begin(broker int32, incarnation [16]byte, at time.Duration) {
	s.brokers[broker] = &session{incarnation: incarnation, proven: at, heard: at}
}

// end forgets the session of a broker.
func (s *sessions) end(broker int32) { delete(s.brokers, broker) }

// live reports whether a broker has a session, of which process, and its newest heartbeat.
func (s *sessions) live(broker int32) (incarnation [16]byte, last Heartbeat, ok bool) {
	x := s.brokers[broker]
	if x == nil {
		return incarnation, last, false
	}
	return x.incarnation, x.last, true
}

// beat records a heartbeat of the process that has the session, and returns the answer without
// Liveness. confirmed is the last time at which a quorum of the metadata confirmed this controller:
// another one may exist since, which knows nothing of the leases granted here. Before the first
// confirmation, ever is false, and no lease is granted. ok is false if the process has no session;
// it must register.
func (s *sessions) beat(h Heartbeat, now, confirmed time.Duration, ever bool) (a HeartbeatAnswer, ok bool) {
	x := s.brokers[h.Broker]
	if x == nil || x.incarnation != h.Incarnation {
		return a, false
	}
	if h.Sequence > x.last.Sequence {
		x.last = h // an older one was overtaken
	}
	x.heard, x.refused = now, false
	if c := x.sent[h.Answered%uint64(len(x.sent))]; c.sequence == h.Answered && h.Answered > x.answered {
		x.answered, x.proven = h.Answered, c.at
	}
	if c := &x.sent[h.Sequence%uint64(len(x.sent))]; c.sequence < h.Sequence {
		*c = composed{h.Sequence, now} // the first answer may be the one that arrives
	}
	a = HeartbeatAnswer{Sequence: h.Sequence, Proven: x.answered}
	if ever && x.answered > 0 {
		known := confirmed - s.spare()
		if s.broken.has(leaseToTheEnd) {
			known = confirmed
		}
		if a.Lease = min(x.proven, known) + s.timeout - x.proven; !s.broken.has(equalClocks) {
			a.Lease -= s.timeout / drift
		}
	}
	return a, true
}

// refusedDial records that a connection to a broker broke and that its machine refused a new one:
// no process listens there. The session ends unless a heartbeat arrives within interval.
func (s *sessions) refusedDial(broker int32) {
	if x := s.brokers[broker]; x != nil {
		x.refused = true
	}
}

// expired returns the brokers whose sessions have ended, in order; they stay until end. If this
// controller did not run for a while, no session ends for a while: heartbeats may wait that it has
// not read yet. A controller that is late each time, because its own writes are slow, judges
// nevertheless.
func (s *sessions) expired(now, interval time.Duration) []int32 {
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
		if now-x.proven >= s.timeout || x.refused && now-x.heard > interval {
			ended = append(ended, id)
		}
	}
	slices.Sort(ended)
	return ended
}
