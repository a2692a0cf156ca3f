package broker

import (
	"cmp"
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/sorts"
)

// sessions are the incremental fetch sessions of this broker (KIP-227): a client names its
// partitions once and afterwards only changes, and answers contain only changes. They are kept in
// memory and do not belong to a connection.
//
// Bounds: the configured slots, and on average sessionPartitions partitions for each of them (but
// at least 65,536 in all), as far as the memory for sessions allows; a partition counts
// memberBytes. If the cache is full, a new session replaces one that was not used for evictAfter,
// or one that was created longer ago than evictAfter and has fewer partitions. Otherwise the new
// client gets no session and must name all partitions in each fetch.
//
// Locks: session.mu before sessions.mu.
type sessions struct {
	slots, limit int

	mu    sync.Mutex
	byID  map[int32]*session
	used  list.List // of *session, least recently used first
	parts int       // of all sessions
}

const (
	evictAfter        = 2 * time.Minute // Kafka's min.incremental.fetch.session.eviction.ms
	sessionPartitions = 256
	// memberBytes is the memory of a partition in a session: 200 bytes and the name of its topic,
	// which a client may choose as long as names can be.
	memberBytes = 200 + controller.MaxNameLength
)

// owner is who a session belongs to. For other clients it does not exist: its id is a number that
// they may guess, and it names topics.
type owner struct{ principal, listener string }

func ownerOf(r *network.Request) owner { return owner{r.Session.Principal, r.Session.Listener} }

// session is the session of one client.
type session struct {
	id      int32
	owner   owner
	byTopic bool // members are named by topic id
	created time.Time

	// Guarded by sessions.mu.
	elem     *list.Element // nil: the session was removed
	lastUsed time.Time
	counted  int // members that are counted in sessions.parts

	mu    sync.Mutex
	epoch int32 // expected in the next request
	// Members by name, and in the order in which they are read: a member whose records were sent
	// moves to the end, so that none starves when a request's bytes are used up.
	members map[memberKey]*member
	order   list.List // of *member
	// badName: a member has a name that no topic can have. Only the maximum length of names bounds
	// a session's memory, so the session ends.
	badName bool
}

type memberKey struct {
	topic topicRef
	index int32
}

// member is a partition of a session, with the values that the client was sent last.
type member struct {
	partitionRequest
	elem                    *list.Element
	highWatermark, logStart int64
}

// sessionUse is what one request needs from sessions.
type sessionUse struct {
	err     error
	make    bool // create a session when the answer is known
	byTopic bool
	owner   owner
	session *session
	epoch   int32 // of session, when the request came
	members int   // of session, when the request came
}

// newSessions returns a cache for that many sessions and that many bytes.
func newSessions(slots int, bytes int64) *sessions {
	return &sessions{slots: slots, limit: int(min(max(int64(slots)*sessionPartitions, 1<<16), bytes/memberBytes)),
		byID: map[int32]*session{}}
}

// begin finds the session of a request and applies the request's changes to it. A request without a
// session names the partitions to fetch, which begin adds to rd. Those of a session may be many
// more than its request names: fill adds them when their memory is charged.
func (c *sessions) begin(req *kmsg.FetchRequest, by owner, rd *fetchRead, now time.Time) sessionUse {
	use := sessionUse{byTopic: req.Version >= 13, owner: by}
	if req.Version < 7 || req.SessionEpoch == 0 || req.SessionEpoch == -1 { // all partitions are named
		use.make = req.Version >= 7 && req.SessionEpoch == 0
		if req.SessionID != 0 {
			c.mu.Lock()
			c.removeLocked(c.ownedLocked(req.SessionID, by))
			c.mu.Unlock()
		}
		eachPartition(req, rd.add)
		return use
	}
	c.mu.Lock()
	s := c.ownedLocked(req.SessionID, by)
	c.mu.Unlock()
	if s == nil {
		use.err = kerr.FetchSessionIDNotFound
		return use
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch != req.SessionEpoch:
		use.err = kerr.InvalidFetchSessionEpoch
		return use
	case s.byTopic != use.byTopic:
		use.err = kerr.FetchSessionTopicIDError
		return use
	}
	s.update(req)
	if s.order.Len() == 0 {
		c.mu.Lock()
		c.removeLocked(s)
		c.mu.Unlock()
		return use
	}
	s.epoch = nextEpoch(s.epoch)
	use.session, use.epoch, use.members = s, s.epoch, s.order.Len()
	c.touch(s, now)
	return use
}

// fill adds the partitions of a request's session to rd. If another request of the session came
// since begin, it adds none, and finish returns the error.
func (c *sessions) fill(use *sessionUse, rd *fetchRead) {
	s := use.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != use.epoch {
		return
	}
	rd.parts = slices.Grow(rd.parts, s.order.Len())
	for e := s.order.Front(); e != nil; e = e.Next() {
		m := e.Value.(*member)
		rd.parts = append(rd.parts, fetchPartition{partitionRequest: m.partitionRequest, member: m})
	}
}

// ownedLocked returns a session if it belongs to an owner.
func (c *sessions) ownedLocked(id int32, by owner) *session {
	if s := c.byID[id]; s != nil && s.owner == by {
		return s
	}
	return nil
}

// eachPartition calls visit for each partition that a request names.
func eachPartition(req *kmsg.FetchRequest, visit func(partitionRequest)) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			visit(partitionRequest{topic: topicRef{t.Topic, t.TopicID}, index: p.Partition, maxBytes: p.PartitionMaxBytes,
				currentEpoch: p.CurrentLeaderEpoch, fetchedEpoch: p.LastFetchedEpoch, offset: p.FetchOffset})
		}
	}
}

// nextEpoch returns the epoch after e; 0 and below have special meanings.
func nextEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}

// update applies what a request adds, changes and forgets. The caller holds mu.
func (s *session) update(req *kmsg.FetchRequest) {
	eachPartition(req, s.add)
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, index := range t.Partitions {
			key := memberKey{topicRef{t.Topic, t.TopicID}, index}
			if m := s.members[key]; m != nil {
				s.order.Remove(m.elem)
				delete(s.members, key)
			}
		}
	}
}

func (s *session) add(a partitionRequest) {
	key := memberKey{a.topic, a.index}
	if m := s.members[key]; m != nil {
		m.partitionRequest = a
		return
	}
	s.badName = s.badName || a.topic.tooLong()
	m := &member{partitionRequest: a, highWatermark: -1, logStart: -1}
	m.elem = s.order.PushBack(m)
	s.members[key] = m
}

// finish is the session's part of an answer: it marks the parts without news, and returns the
// session id for the answer. The error is that of the request as a whole.
func (c *sessions) finish(use *sessionUse, parts []fetchPartition, now time.Time) (int32, error) {
	switch {
	case use.err != nil:
		return 0, use.err
	case use.make && len(parts) > 0:
		if s := c.create(use.owner, use.byTopic, parts, now); s != nil {
			return s.id, nil
		}
		return 0, nil
	case use.session == nil:
		return 0, nil
	}
	s := use.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != use.epoch { // another request of the session was faster
		return s.id, kerr.InvalidFetchSessionEpoch
	}
	for i := range parts {
		p := &parts[i]
		p.skip = !p.member.changed(p)
		if p.res.Size > 0 {
			s.order.MoveToBack(p.member.elem)
		}
	}
	return s.id, nil
}

// pass is finish for an answer that has no partitions, because the client is over its quota. It
// makes no session.
func (c *sessions) pass(use *sessionUse) (int32, error) {
	if use.err != nil || use.session == nil {
		return 0, use.err
	}
	s := use.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != use.epoch {
		return s.id, kerr.InvalidFetchSessionEpoch
	}
	return s.id, nil
}

// changed reports whether a part has something that the client was not sent yet, and records it as
// sent.
func (m *member) changed(p *fetchPartition) bool {
	if p.err != nil || p.res.DivergingEpoch >= 0 {
		m.highWatermark = -1 // the next answer without an error is a change
		return true
	}
	news := p.res.Size > 0 || p.elsewhere || m.highWatermark != p.res.HighWatermark || m.logStart != p.res.LogStart
	m.highWatermark, m.logStart = p.res.HighWatermark, p.res.LogStart
	return news
}

// create makes a session of the partitions that a request named; nil if there is no space for it.
// Its partitions are counted under the lock of all sessions, and filled in under its own, since
// they may be many.
func (c *sessions) create(by owner, byTopic bool, parts []fetchPartition, now time.Time) *session {
	if c.slots == 0 || len(parts) > c.limit || slices.ContainsFunc(parts,
		func(p fetchPartition) bool { return p.partitionRequest.topic.tooLong() }) {
		return nil // and none is evicted for it
	}
	s := &session{owner: by, byTopic: byTopic, created: now, lastUsed: now, epoch: 1}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.enter(s, len(parts), now) {
		return nil
	}
	s.members = make(map[memberKey]*member, len(parts))
	for i := range parts {
		s.add(parts[i].partitionRequest)
		s.members[memberKey{parts[i].topicRef(), parts[i].index}].changed(&parts[i])
	}
	return s
}

// enter gives a session of size partitions, which are all different, its place and its id, and
// reports whether there is space for it.
func (c *sessions) enter(s *session, size int, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.makeSpaceLocked(size, now) {
		return false
	}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	c.byID[s.id] = s
	s.elem = c.used.PushBack(s)
	s.counted = size
	c.parts += size
	return true
}

// makeSpaceLocked removes sessions in favor of one with size partitions, and reports whether there
// is space for it. It examines each session once, since every fetch with a session waits meanwhile.
func (c *sessions) makeSpaceLocked(size int, now time.Time) bool {
	lacks := func(sessions, parts int) bool { return sessions >= c.slots || parts+size > c.limit }
	for e := c.used.Front(); e != nil && lacks(len(c.byID), c.parts); e = c.used.Front() {
		s := e.Value.(*session)
		if now.Sub(s.lastUsed) <= evictAfter {
			break
		}
		c.removeLocked(s)
	}
	if !lacks(len(c.byID), c.parts) {
		return true
	}
	var small []*session
	left := c.parts // without the small ones
	for _, s := range c.byID {
		if now.Sub(s.created) > evictAfter && s.counted < size {
			small = append(small, s)
			left -= s.counted
		}
	}
	if lacks(len(c.byID)-len(small), left) {
		return false // and none of these is evicted for it
	}
	sorts.Sort(small, func(a, b *session) int { return cmp.Compare(a.counted, b.counted) })
	for i := 0; lacks(len(c.byID), c.parts); i++ {
		c.removeLocked(small[i])
	}
	return true
}

// touch records that a session was used, and its number of members. It removes a session that
// outgrew the cache, whose client then starts over with a full request. The caller holds s.mu.
func (c *sessions) touch(s *session, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.elem == nil {
		return
	}
	c.parts += len(s.members) - s.counted
	s.counted, s.lastUsed = len(s.members), now
	c.used.MoveToBack(s.elem)
	if c.parts > c.limit || s.badName {
		c.removeLocked(s)
	}
}

// removeLocked removes a session; its requests in flight are still answered.
func (c *sessions) removeLocked(s *session) {
	if s == nil || s.elem == nil {
		return
	}
	delete(c.byID, s.id)
	c.used.Remove(s.elem)
	s.elem = nil
	c.parts -= s.counted
}
