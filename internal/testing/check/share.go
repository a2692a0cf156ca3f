package check

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
)

// Share is the history of one share partition: of a partition whose records the members of a share
// group get one by one and acknowledge. Its methods may be called concurrently.
//
// A request without an answer may have had any effect until then, and none later: its session ends
// with its connection. So a record whose acknowledgement has no answer may be finished or not.
type Share struct {
	// Limit is the largest delivery count. Letters: what is rejected or reaches it has a copy in
	// another topic. Both must be set before the first call.
	Limit   int
	Letters bool

	mu         sync.Mutex
	records    map[int64][]*sharedRecord // by offset: a lost record may have a successor there
	alive      map[string]time.Time      // when the last request of a session was sent that has an answer
	suspects   []suspect
	accepts    map[string][]accept // by session, since the last Shown
	unanswered int                 // fetches, which may have acquired anything
	below      int64
	passed     time.Time // when it was known that the records below are finished
	start      int64     // the largest one that was seen
	unclean    []int32   // leader epochs that began without records of earlier ones
	lostState  bool      // answered acknowledgements may be lost
	short      bool      // see LeaderWasShort
	forgotten  []string  // see forgot
	lostCopies bool
	delivered  int
	answered   int
	problems   []string
}

// Delivery is a record that a member got.
type Delivery struct {
	Record
	// Session is that of the member at a broker. No two have the same name, and a session of a
	// member ends before its next one begins.
	Session string
	// Leader is the leader epoch that the broker showed for the partition before and after the
	// fetch; -1 if it showed none or two.
	Leader int32
	Count  int // of deliveries of the record, with this one
	// Asked is when the fetch was sent, and Lock for how long the member may keep the record.
	Asked time.Time
	Lock  time.Duration
}

// Ack is how a member acknowledges a record, with the numbers of the protocol.
type Ack int8

// The types of acknowledgements.
const (
	Gap Ack = iota
	Accept
	Release
	Reject
	Renew
)

// sharedRecord is what happened to a record.
type sharedRecord struct {
	Record
	holds    []*hold // those whose time may not be over, and the last one
	counts   uint64  // bit n: it was delivered with the count n
	accept   bool    // an accept was sent: it may be finished so
	reject   bool    // a reject was
	finished *mark   // the first accept or reject that was answered with success
	released *mark   // the release with the largest count that was answered with success
	accepted bool    // an accept finished it: the answer was success, and the leader epoch the same
	copies   int
	trace    []string // what happened to it
}

// happened notes what happened to a record now.
func (r *sharedRecord) happened(format string, args ...any) {
	r.trace = append(r.trace, clock(time.Now())+" "+fmt.Sprintf(format, args...))
}

// mark is an acknowledgement that was answered.
type mark struct {
	by     string
	leader int32 // in whose leader epoch
	count  int
	at     time.Time
}

// accept is one that was answered with success.
type accept struct {
	*sharedRecord
	leader int32 // in whose leader epoch it was delivered
}

// hold is a record that a member holds, or held.
type hold struct {
	Delivery
	got, until time.Time
	over       bool // an acknowledgement was sent, or the member knows that it has lost the record
}

// suspect is a problem if the sessions continued at a time.
type suspect struct {
	sessions []string
	at       time.Time
	problem  string
}

// Took notes that a member got a record. The answer to its fetch has just arrived.
func (s *Share) Took(d Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if d.Offset < s.below {
		if d.Asked.After(s.passed.Add(time.Minute)) { // a former leader may deliver until it knows
			s.report("again: offset %d was delivered to %s, and the group had finished all below %d", d.Offset, d.Session, s.below)
		}
		return
	}
	s.delivered++
	r := s.record(d.Record, true)
	r.happened("%s got it, count %d, leader epoch %d", d.Session, d.Count, d.Leader)
	if m := r.finished; m != nil && d.Asked.After(m.at) && s.present(d, m) {
		s.forgot("again: offset %d, %q, was delivered to %s with count %d in leader epoch %d, and %s had finished it in epoch %d",
			d.Offset, d.Value, d.Session, d.Count, d.Leader, m.by, m.leader)
	}
	if m := r.released; m != nil && d.Asked.After(m.at) && d.Count <= m.count && s.present(d, m) {
		s.forgot("count: offset %d, %q, was delivered to %s with count %d in leader epoch %d, "+
			"and %s had released it with count %d in epoch %d", d.Offset, d.Value, d.Session, d.Count, d.Leader, m.by, m.count, m.leader)
	}
	if d.Count < 1 || d.Count > s.Limit {
		s.report("limit: offset %d, %q, was delivered to %s with count %d", d.Offset, d.Value, d.Session, d.Count)
	}
	h := &hold{Delivery: d, got: now, until: d.Asked.Add(d.Lock)}
	kept := r.holds[:0]
	for _, x := range r.holds {
		if x.Leader == d.Leader && d.Leader >= 0 && x.Session != d.Session {
			s.compare(x, h, now)
		}
		if !x.over && now.Before(x.until) {
			kept = append(kept, x)
		}
	}
	kept = append(kept, h)
	r.holds = kept
	r.counts |= 1 << min(d.Count, 63)
}

// compare finds what contradicts two deliveries of a record in one leader epoch. If a session has
// ended meanwhile, so has its hold; and with the process its memory. Caller holds mu.
func (s *Share) compare(was, is *hold, now time.Time) {
	if !was.over && now.Before(was.until) && now.Before(is.until) {
		s.suspects = append(s.suspects, suspect{[]string{was.Session, is.Session}, now, fmt.Sprintf(
			"owners: offset %d, %q, is held by %s until %s and was delivered to %s in the same leader epoch %d, at %s", is.Offset, is.Value,
			was.Session, clock(was.until), is.Session, is.Leader, clock(now))})
	}
	if is.Asked.After(was.got) && is.Count <= was.Count {
		s.suspects = append(s.suspects, suspect{[]string{was.Session}, now, fmt.Sprintf(
			"count: offset %d, %q, was delivered to %s with count %d and then to %s with count %d in the same leader epoch %d", is.Offset,
			is.Value, was.Session, was.Count, is.Session, is.Count, is.Leader)})
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// present reports whether the leader of a delivery must know a mark. A former one does not, nor one
// of which the log has got back a record that another leader had lost meanwhile: that takes two
// unclean elections, and the group forgot the record after the first.
func (s *Share) present(d Delivery, m *mark) bool {
	if d.Leader < 0 || m.leader < 0 || d.Leader < m.leader {
		return false
	}
	elections := 0
	for _, epoch := range s.unclean {
		if epoch > m.leader && epoch <= d.Leader {
			elections++
		}
	}
	return elections < 2
}

// record returns what is known of a record. Those of epoch -1 may have any. Caller holds mu.
func (s *Share) record(of Record, keep bool) *sharedRecord {
	for _, r := range s.records[of.Offset] {
		if r.Value == of.Value && (r.Epoch == of.Epoch || of.Epoch < 0) {
			return r
		}
	}
	r := &sharedRecord{Record: of}
	if keep {
		if s.records == nil {
			s.records = map[int64][]*sharedRecord{}
		}
		s.records[of.Offset] = append(s.records[of.Offset], r)
	}
	return r
}

// Alive notes that a request of a session was answered, and when it was sent: until then the
// session had not ended.
func (s *Share) Alive(session string, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive == nil {
		s.alive = map[string]time.Time{}
	}
	if asked.After(s.alive[session]) {
		s.alive[session] = asked
	}
}

// Shown notes the leader epoch that the broker of a session shows now, -1 for none. Only an accept
// within the leader epoch of the delivery is known to have finished the record. In a later one the
// broker does not know of the hold, and answers with success too if the group starts above the
// record: a member whose fetch had no answer may have got it for the last time.
func (s *Share) Shown(session string, leader int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.accepts[session] {
		x.accepted = x.accepted || x.leader == leader
	}
	delete(s.accepts, session)
}

// Unanswered notes that a fetch has no answer. It may have acquired any records.
func (s *Share) Unanswered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unanswered++
}

// Acknowledging notes that a session is about to acknowledge a record. The result must be called
// when there is an answer, with whether it is success.
func (s *Share) Acknowledging(session string, of Record, by Ack) (answered func(success bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, r := time.Now(), s.record(of, false)
	var h *hold
	for _, x := range r.holds {
		if x.Session == session && !x.over {
			h = x
		}
	}
	r.happened("%s sends %s", session, [...]string{"gap", "accept", "release", "reject", "renew"}[by])
	r.accept, r.reject = r.accept || by == Accept, r.reject || by == Reject
	if h == nil {
		return func(bool) {}
	}
	h.over = by != Renew
	return func(success bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.happened("%s has the answer, success: %t", session, success)
		if !success {
			h.over = true
			return
		}
		m := &mark{by: session, leader: h.Leader, count: h.Count, at: time.Now()}
		held := now.Before(h.until) && h == r.holds[len(r.holds)-1]
		switch s.answered++; {
		case !held: // it succeeds also if the record is finished without it, and the group starts above it
		case by == Renew:
			h.until = now.Add(h.Lock)
		case by == Release:
			if r.released == nil || m.count >= r.released.count {
				r.released = m
			}
		case by == Accept || by == Reject:
			if by == Accept && h.Leader >= 0 {
				if s.accepts == nil {
					s.accepts = map[string][]accept{}
				}
				s.accepts[session] = append(s.accepts[session], accept{r, h.Leader})
			}
			if r.finished == nil {
				r.finished = m
			}
		}
	}
}

// Copied notes that the topic of dead letters has a copy of a record, whose epoch is -1.
func (s *Share) Copied(of Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.Offset < s.below {
		s.report("copies: one of offset %d, %q, came when all below %d was finished", of.Offset, of.Value, s.below)
		return
	}
	r := s.record(of, true)
	if r.copies++; r.copies == 2 && s.unclean == nil {
		s.report("copies: offset %d, %q, has two", of.Offset, of.Value)
	}
}

// Started notes the group's start offset that a coordinator showed. No two calls may overlap with
// the requests for it.
func (s *Share) Started(start int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if start < s.start && s.unclean == nil && !s.lostState {
		s.report("start: it fell from %d to %d", s.start, start)
	}
	s.start = max(s.start, start)
}

// Forget judges the records below an offset that the log had, and forgets them, so that a run of
// hours takes a bounded memory. All below it must be finished.
func (s *Share) Forget(below int64, log []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range log {
		if r.Offset >= s.below && r.Offset < below {
			s.judge(r)
		}
	}
	for offset := range s.records {
		if offset < below {
			delete(s.records, offset)
		}
	}
	s.below, s.passed = max(s.below, below), time.Now()
	s.confirm()
}

// LoseRecords notes that records may be lost, and with them what was acknowledged of them, since a
// leader epoch began without them.
func (s *Share) LoseRecords(epoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.unclean, epoch) {
		s.unclean = append(s.unclean, epoch)
	}
}

// LoseState notes that the coordinator may have lost acknowledgements that were answered until now.
func (s *Share) LoseState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostState = true
	for _, list := range s.records {
		for _, r := range list {
			r.finished, r.released, r.accepted = nil, nil, false
		}
	}
	clear(s.accepts)
}

// LoseCopies notes that copies of dead letters may be lost.
func (s *Share) LoseCopies() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostCopies = true
}

// Count returns the numbers of deliveries and of acknowledgements that were answered with success.
func (s *Share) Count() (delivered, answered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivered, s.answered
}

// Problems returns what contradicts the promise, where final are the committed records of the
// partition's log, from the group's first one on, and start is the group's start offset when its
// members get no more. If records have no epoch in it, theirs is -1.
//
//	again     a record that was finished and is delivered
//	owners    a record that two members hold, within one leader epoch
//	count     a delivery count that is not above the one of an answered release, or of the
//	          delivery before it by the same leader
//	limit     a delivery count above the limit
//	start     a start offset that falls
//	left      a record that no member gets
//	skipped   a record that was finished, and no member has accepted or rejected it, or got it for
//	          the last time
//	copies    a dead letter that has no copy or two, or a copy of a record that is none
//
// What LoseRecords, LoseState and LoseCopies excuse is none of them.
func (s *Share) Problems(final []Record, start int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirm()
	for _, r := range final {
		switch {
		case r.Offset >= start:
			s.report("left: offset %d, %q, and the group starts at %d", r.Offset, r.Value, start)
		case r.Offset >= s.below:
			s.judge(r)
		}
	}
	problems := slices.Clone(s.problems)
	if !s.short {
		problems = append(problems, s.forgotten...)
	}
	return problems
}

// LeaderWasShort notes that a broker has led whose disk had lost records unnoticed, until another
// replica compared its log. A record that was finished may have been delivered again meanwhile.
func (s *Share) LeaderWasShort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.short = true
}

// judge finds what is wrong with a finished record. Caller holds mu.
func (s *Share) judge(of Record) {
	r := s.record(of, false)
	copies := s.record(Record{of.Offset, -1, of.Value}, false).copies
	seen := bits.OnesCount64(r.counts)
	last := s.Limit-seen <= s.unanswered || r.counts&(1<<s.Limit) != 0
	what := fmt.Sprintf("offset %d, %q", of.Offset, of.Value)
	was := strings.Join(r.trace, "; ")
	switch {
	case !r.accept && !r.reject && !last:
		s.report("skipped: %s is finished, was delivered %d times, and no member has finished it: %s", what, seen, was)
	case !s.Letters:
	case copies == 0 && !r.accept && !s.lostCopies:
		s.report("copies: %s has none, and no member has accepted it: %s", what, was)
	case copies > 0 && r.accepted:
		s.report("copies: %s has one, and a member has accepted it: %s", what, was)
	case copies > 0 && !r.reject && !last:
		s.report("copies: %s has one, and no member has rejected it: %s", what, was)
	}
}

// confirm judges what depends on later answers. Caller holds mu.
func (s *Share) confirm() {
	kept := s.suspects[:0]
	for _, x := range s.suspects {
		continued := true
		for _, session := range x.sessions {
			continued = continued && s.alive[session].After(x.at)
		}
		if continued {
			s.report("%s", x.problem)
		} else if time.Since(x.at) < time.Minute {
			kept = append(kept, x)
		}
	}
	s.suspects = kept
}

// forgot is report for a delivery that a group makes only if it has forgotten something.
func (s *Share) forgot(format string, args ...any) {
	s.forgotten = append(s.forgotten, fmt.Sprintf(format, args...))
}

// report notes a problem. Caller holds mu.
func (s *Share) report(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}
