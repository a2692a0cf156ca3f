package shareleader

import (
	"container/list"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The epochs of requests that open and close a session.
const (
	OpenSession  int32 = 0
	CloseSession int32 = -1
)

const (
	// sessionIdle is for how long a session without requests and without locks keeps its place if
	// others need it.
	sessionIdle = 5 * time.Minute
	// sessionBytes and namedBytes are the memory of a session and of a partition that it names.
	sessionBytes = 512
	namedBytes   = 192
	// sessionPart is the part of the memory that sessions may have. The rest is for the records
	// that members hold: clients may name what does not exist.
	sessionPart = 2
)

// sessions are the share sessions of a broker. Leader.mu guards them. If their number or their
// memory is used up, those of the origin that has the most end for those of others.
type sessions struct {
	byKey map[sessionKey]*Session
	used  list.List // of *Session, the one without a request for longest first
	bytes int64
	of    map[netip.Prefix]*claim // those that have sessions
}

// claim is what the sessions of one origin take.
type claim struct{ sessions, bytes int64 }

// count counts what a session takes.
func (x *sessions) count(s *Session, n, bytes int64) {
	o := x.of[s.from]
	if o == nil {
		o = &claim{}
		x.of[s.from] = o
	}
	o.sessions += n
	o.bytes += bytes
	if x.bytes += bytes; o.sessions == 0 {
		delete(x.of, s.from)
	}
}

// most returns a session of the origin that has the most of something, and more than another one
// would have that wants some: the session without a request for longest. nil: no origin has more.
func (x *sessions) most(what func(*claim) int64, from netip.Prefix, wants int64) (found *Session) {
	least := wants
	if o := x.of[from]; o != nil {
		least += what(o)
	}
	for e := x.used.Front(); e != nil; e = e.Next() {
		s := e.Value.(*Session)
		if n := what(x.of[s.from]); n > least {
			found, least = s, n
		}
	}
	return found
}

func (o *claim) number() int64 { return o.sessions }
func (o *claim) memory() int64 { return o.bytes }

type sessionKey struct{ group, member string }

// Named is a partition that a session names.
type Named struct {
	Topic     [16]byte
	Partition int32
}

// Session is a share session: the partitions that a member of a group fetches from. It belongs to
// the connection that opened it.
type Session struct {
	l          *Leader
	key        sessionKey
	connection uint64
	from       netip.Prefix
	stop       func() bool // cancels the notice of the connection's end

	// Guarded by Leader.mu.
	elem  *list.Element // nil: the session has ended
	since time.Duration // of the last request

	mu    sync.Mutex
	ended bool
	epoch int32 // of the next request
	names map[Named]*list.Element
	order list.List // of Named
	held  map[*Partition]struct{}
	uses  map[Named]*Partition // that count the session
	bytes int64
}

// Client is the connection of a request.
type Client struct {
	// Connection is its number.
	Connection uint64
	// From is the address of the client (origin.Of).
	From netip.Prefix
	// OnClose calls a function on a goroutine of its own when the connection has ended.
	OnClose func(func()) (stop func() bool)
}

// Session returns the session of a request, and moves its epoch on. The epoch OpenSession opens
// one, which ends another one of the same member. After CloseSession the caller ends it with
// Session.End when it has applied the acknowledgements. The errors are SHARE_SESSION_NOT_FOUND,
// INVALID_SHARE_SESSION_EPOCH and SHARE_SESSION_LIMIT_REACHED.
func (l *Leader) Session(group, member string, epoch int32, c Client) (*Session, *kerr.Error) {
	key := sessionKey{group, member}
	if epoch == OpenSession {
		return l.openSession(key, c)
	}
	l.mu.Lock()
	s := l.sessions.byKey[key]
	if s == nil || s.connection != c.Connection && !l.opt.Broken.Has(AnyConnection) {
		l.mu.Unlock()
		return nil, kerr.ShareSessionNotFound
	}
	s.since = l.now()
	l.sessions.used.MoveToBack(s.elem)
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, kerr.ShareSessionNotFound
	case epoch == CloseSession:
	case epoch != s.epoch && !l.opt.Broken.Has(AnyEpoch):
		return nil, kerr.InvalidShareSessionEpoch
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
	return s, nil
}

func (l *Leader) openSession(key sessionKey, c Client) (*Session, *kerr.Error) {
	s := &Session{l: l, key: key, connection: c.Connection, from: c.From, epoch: 1,
		names: map[Named]*list.Element{}, held: map[*Partition]struct{}{},
		uses: map[Named]*Partition{}, bytes: sessionBytes + int64(len(key.group)+len(key.member))}
	l.mu.Lock()
	old := l.sessions.byKey[key]
	l.mu.Unlock()
	if old != nil {
		old.End()
	}
	for {
		l.mu.Lock()
		n := len(l.sessions.byKey)
		if l.sessions.byKey[key] != nil {
			l.mu.Unlock() // another connection was faster
			return nil, kerr.ShareSessionNotFound
		}
		full := l.full(s.bytes)
		if n < l.opt.Sessions && !full {
			break
		}
		idle := l.sessions.idle(l.now())
		var other *Session
		switch {
		case idle != nil:
		case full:
			other = l.sessions.most((*claim).memory, s.from, s.bytes)
		default:
			other = l.sessions.most((*claim).number, s.from, 1)
		}
		l.mu.Unlock()
		switch {
		case other != nil:
			other.End()
		case idle == nil || !idle.endIdle():
			return nil, kerr.ShareSessionLimitReached
		}
	}
	l.sessions.byKey[key] = s
	s.since = l.now()
	s.elem = l.sessions.used.PushBack(s)
	l.opt.Memory.Count(s.bytes)
	l.sessions.count(s, 1, s.bytes)
	l.mu.Unlock()
	s.mu.Lock()
	s.stop = c.OnClose(s.closed)
	s.mu.Unlock()
	return s, nil
}

// full reports whether sessions may not take n more bytes. The caller holds mu.
func (l *Leader) full(n int64) bool {
	m := l.opt.Memory
	return m.Used()+n > m.Size() || l.sessions.bytes+n > m.Size()/sessionPart
}

// idle returns a session without a request for sessionIdle, nil if there is none.
func (x *sessions) idle(now time.Duration) *Session {
	if front := x.used.Front(); front != nil {
		if s := front.Value.(*Session); now-s.since >= sessionIdle {
			return s
		}
	}
	return nil
}

// endIdle ends an idle session whose member has no record locked. If it has one, the session counts
// as used now: the locks end with time, and the session can end if it is idle until then. Either
// way sessions.idle returns another session afterwards. endIdle reports whether it did one of both.
func (s *Session) endIdle() bool {
	if s.l.opt.Broken.Has(KeepIdle) {
		return false
	}
	s.mu.Lock()
	held := s.partitions()
	s.mu.Unlock()
	for _, p := range held {
		if p.holds(s.key.member) {
			s.l.mu.Lock()
			if s.elem != nil {
				s.since = s.l.now()
				s.l.sessions.used.MoveToBack(s.elem)
			}
			s.l.mu.Unlock()
			return true
		}
	}
	s.End()
	return true
}

func (s *Session) partitions() []*Partition {
	list := make([]*Partition, 0, len(s.held))
	for p := range s.held {
		list = append(list, p)
	}
	return list
}

// closed ends the session because its connection has ended.
func (s *Session) closed() {
	s.End()
	if s.l.opt.Broken.Has(EndOther) {
		s.l.mu.Lock()
		other := s.l.sessions.byKey[s.key]
		s.l.mu.Unlock()
		if other != nil {
			other.End()
		}
	}
}

// End ends the session, and releases what its member holds. It may be called repeatedly.
func (s *Session) End() {
	l := s.l
	l.mu.Lock()
	if s.elem != nil {
		l.sessions.used.Remove(s.elem)
		s.elem = nil
		delete(l.sessions.byKey, s.key)
		l.opt.Memory.Count(-s.bytes)
		l.sessions.count(s, -1, -s.bytes)
		s.bytes = 0
	}
	l.mu.Unlock()
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	stop, held, uses := s.stop, s.partitions(), s.uses
	s.held, s.uses, s.names = nil, nil, nil
	s.order.Init()
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	for _, p := range held {
		p.release(s.key.member)
	}
	for _, p := range uses {
		p.used(s, -1)
	}
}

// Name adds partitions, and reports whether there is memory for them. Otherwise the caller ends the
// session: its client names all partitions again.
func (s *Session) Name(add []Named) bool {
	for _, a := range add {
		for !s.name(a) {
			s.l.mu.Lock()
			other := s.l.sessions.most((*claim).memory, s.from, namedBytes)
			s.l.mu.Unlock()
			if other == nil {
				return false
			}
			other.End()
		}
	}
	return true
}

// name adds a partition, and reports whether there is memory for it.
func (s *Session) name(a Named) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.names[a] != nil {
		return true
	}
	if !s.charge(namedBytes) {
		return false
	}
	s.names[a] = s.order.PushBack(a)
	return true
}

// unname removes a partition, and returns its memory.
func (s *Session) unname(n Named) {
	if e := s.names[n]; e != nil {
		s.order.Remove(e)
		delete(s.names, n)
		s.charge(-namedBytes)
	}
}

// charge counts memory that the session takes, and reports whether there is enough.
func (s *Session) charge(n int64) bool {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.full(n) {
		return false
	}
	if s.elem != nil {
		s.bytes += n
		l.opt.Memory.Count(n)
		l.sessions.count(s, 0, n)
	}
	return true
}

// Forget removes partitions. What the member holds of them stays locked.
func (s *Session) Forget(remove []Named) {
	s.mu.Lock()
	var unused []*Partition
	for _, r := range remove {
		s.unname(r)
		if p := s.uses[r]; p != nil {
			unused = append(unused, p)
			delete(s.uses, r)
		}
	}
	s.mu.Unlock()
	for _, p := range unused {
		p.used(s, -1)
	}
}

// Partitions returns the partitions that the session names. Each call begins with another one, so
// that none starves when the bytes of an answer are used up.
func (s *Session) Partitions() []Named {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Named, 0, s.order.Len())
	for e := s.order.Front(); e != nil; e = e.Next() {
		list = append(list, e.Value.(Named))
	}
	if e := s.order.Front(); e != nil {
		s.order.MoveToBack(e)
	}
	return list
}

// Use records that the session uses a share partition, which stays in memory meanwhile.
func (s *Session) Use(n Named, p *Partition) {
	s.mu.Lock()
	old := s.uses[n]
	if s.ended || old == p {
		s.mu.Unlock()
		return
	}
	s.uses[n] = p
	delete(s.held, old) // it has ended, and holds nothing
	s.mu.Unlock()
	p.used(s, 1)
	if old != nil {
		old.used(s, -1)
	}
}
