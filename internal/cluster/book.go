package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/link"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// callTime bounds a request whose caller sets no limit.
const callTime = 30 * time.Second

// book knows how to reach the other brokers: at the addresses of cluster.seeds, whatever member
// answers there, and at the addresses with which brokers registered or asked to join. An address is
// never trusted: the link's handshake proves which member answers.
//
// Seeds stay even if their brokers are registered elsewhere: after a restart of all machines with
// new addresses, they are what leads to the quorum that registrations need.
type book struct {
	own  func() uint64 // this node's member id
	here func(ctx context.Context, method uint16, body []byte) ([]byte, error)

	mu     sync.Mutex
	links  *link.Links // nil before start and after close
	seeds  []*seed
	others map[uint64]*other
	// registered are the other registered brokers that have an address for brokers.
	registered []listed
	// ended are the nodes whose machine has closed a metadata connection, and that were not heard
	// since.
	ended  map[int32]bool
	ending sync.WaitGroup // of peers that are being closed
}

// seed is an entry of cluster.seeds.
type seed struct {
	address  string
	peer     *link.Peer // nil before start, and if this node has the address
	itself   bool       // this node has the address
	rejected string     // why the broker there and this one do not connect; empty if they may
	refused  time.Time  // since when they do not
	node     int32      // of the broker that answered last, -1 if none did
	member   uint64     // of that broker, 0 for none
	since    time.Time  // since when that member answers
}

// listed is a broker that has registered an address, in a broker epoch. It has been running since a
// time, as far as this node knows; if that is zero, it does not run.
type listed struct {
	membership.Member
	former []uint64 // its members before, of lost metadata directories
	epoch  int64
	since  time.Time
}

// other is a member that is reached by its own address.
type other struct {
	node int32
	peer *link.Peer
}

func newBook(seeds []string, own func() uint64, here func(context.Context, uint16, []byte) ([]byte, error)) *book {
	b := &book{own: own, here: here, others: make(map[uint64]*other), ended: make(map[int32]bool)}
	for _, s := range seeds {
		b.seeds = append(b.seeds, &seed{address: s, node: -1})
	}
	return b
}

// start begins to dial the seeds, except the one that is this node's own address.
func (b *book) start(l *link.Links, own string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = l
	for _, s := range b.seeds {
		if s.itself = s.address == own; !s.itself {
			s.peer = l.Peer(link.Target{Address: s.address, Node: -1})
		}
	}
}

// close ends all connections that this node has dialed. Further calls fail.
func (b *book) close() {
	b.mu.Lock()
	b.links = nil
	var all []*link.Peer
	for _, s := range b.seeds {
		if s.peer != nil {
			all = append(all, s.peer)
			s.peer = nil
		}
	}
	for id, o := range b.others {
		all = append(all, o.peer)
		delete(b.others, id)
	}
	b.mu.Unlock()
	for _, p := range all {
		p.Close()
	}
	b.ending.Wait()
}

// discard closes a peer in the background, because that waits for its goroutine. Caller holds mu.
func (b *book) discard(p *link.Peer) {
	b.ending.Go(p.Close)
}

// notify takes an event of a link. It returns the node whose process is gone, -1 for none.
//
// A refused dial alone proves nothing: a firewall may refuse it in the name of a broker that runs
// and holds a lease. But a firewall does not close a connection as the kernel of that machine does,
// so both are needed. What closes connections in between, such as a relay, closes both ends: then
// the broker runs, and has no lease until the controller has heard it again.
func (b *book) notify(e link.Event) (gone int32) {
	if e.Lane != link.Meta {
		return -1
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case e.Kind == link.Connected:
		delete(b.ended, e.Peer.Node)
	case e.Kind == link.Broken && errors.Is(e.Err, io.EOF):
		b.ended[e.Peer.Node] = true
	}
	if !e.Dialed {
		return -1
	}
	if gone = b.refusedBy(e); b.ended[gone] {
		return gone
	}
	return -1
}

// heard notes that a broker runs.
func (b *book) heard(node int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ended, node)
}

// forGood are the reasons for a refusal that last until someone changes something on one of the
// brokers.
var forGood = []link.Reason{link.WrongCluster, link.WrongGeneration, link.Removed}

// refusedBy notes what answers at a seed's address. It returns the node that a refused dial was
// meant for, -1 for none. Caller holds mu.
func (b *book) refusedBy(e link.Event) (gone int32) {
	gone = -1
	if e.Kind == link.Refused {
		gone = e.Target.Node
	}
	for _, s := range b.seeds {
		if s.address != e.Target.Address || e.Target.Member != 0 {
			continue
		}
		var m *link.Mismatch
		switch {
		case e.Kind == link.Connected:
			s.itself = false
			if s.node, s.rejected = e.Peer.Node, ""; s.member != e.Peer.Member {
				s.member, s.since = e.Peer.Member, time.Now()
			}
		case e.Kind == link.Refused:
			gone, s.itself = s.node, false
		case e.Kind == link.Rejected && errors.As(e.Err, &m) && m.Reason == link.Itself:
			if s.itself = true; s.peer != nil {
				b.discard(s.peer)
				s.peer = nil
			}
		case e.Kind == link.Rejected && errors.As(e.Err, &m) && m.Reason == link.Twin:
			s.itself = true // and dialed still: that shows how long the other process runs
		case e.Kind == link.Rejected && errors.As(e.Err, &m) && slices.Contains(forGood, m.Reason):
			if s.rejected == "" {
				s.refused = time.Now()
			}
			s.rejected = m.Error()
		}
	}
	return gone
}

// of returns the peer of a member, nil if it can't be reached.
func (b *book) of(member uint64) *link.Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seeds {
		if s.peer == nil {
			continue
		}
		if h, ok := s.peer.Hello(); ok && h.Member == member {
			return s.peer
		}
	}
	if o := b.others[member]; o != nil {
		return o.peer
	}
	return nil
}

// unreached returns the registered brokers to which no connection for the metadata can be made at
// the address that they registered: other brokers follow them there. That they are reached at
// another address, that of a seed, does not count.
func (b *book) unreached() (list []view.Unreached) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.registered {
		if since, err := b.failing(r.Member); err != nil {
			list = append(list, unreached(r.Node, r.Address, since, err))
		}
	}
	return list
}

// wrongSeeds returns the entries of cluster.seeds that lead to no broker of the cluster, and those
// that lead to the broker of an earlier entry.
func (b *book) wrongSeeds() (list []view.WrongSeed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := map[uint64]string{} // the first entry that leads to a member
	for _, s := range b.seeds {
		member := s.member
		if s.itself {
			member = b.own()
		}
		registered := slices.ContainsFunc(b.registered, func(r listed) bool { return r.Address == s.address || r.ID == member })
		switch first := at[member]; {
		case s.rejected != "":
			list = append(list, view.WrongSeed{Address: s.address, Since: s.refused, Err: s.rejected})
		case member != 0 && first != "":
			list = append(list, view.WrongSeed{Address: s.address, Since: s.since, Err: "it leads to the same broker as " + first})
		case s.itself, registered, s.peer == nil:
		default:
			if since, err := s.peer.Failing(); err != nil {
				list = append(list, view.WrongSeed{Address: s.address, Since: since, Silent: true,
					Err: unreached(-1, s.address, since, err).Err})
			}
		}
		if member != 0 && at[member] == "" {
			at[member] = s.address
		}
	}
	return list
}

// runsSince returns when this node learned that another broker runs with its present registration,
// the zero time if it does not run.
func (b *book) runsSince(node int32) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.registered {
		if r.Node == node {
			return r.since
		}
	}
	return time.Time{}
}

// failing returns why a registered broker is not reached at its address, and since when; the zero
// time if that depends on nothing but the registration. The caller holds mu.
func (b *book) failing(m membership.Member) (since time.Time, err error) {
	for _, s := range b.seeds {
		if s.address != m.Address {
			continue
		}
		if s.itself {
			return since, errors.New("it is the address of this broker")
		}
		if s.member != 0 && s.member != m.ID {
			return s.since, fmt.Errorf("broker %d answers there", s.node)
		}
		if s.peer == nil {
			return since, nil
		}
		return s.peer.Failing()
	}
	if o := b.others[m.ID]; o != nil {
		return o.peer.Failing()
	}
	return since, nil
}

// Reach makes a member reachable at an address, also if it answers at the address of a seed:
// clients and followers dial what it registers, and a connection shows whether that works.
func (b *book) Reach(m membership.Member) {
	if m.Address == "" || m.ID == 0 || m.ID == b.own() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.links == nil {
		return
	}
	if slices.ContainsFunc(b.seeds, func(s *seed) bool { return s.address == m.Address }) {
		return
	}
	if o := b.others[m.ID]; o != nil {
		if o.peer.Target().Address == m.Address {
			return
		}
		b.discard(o.peer)
	}
	b.others[m.ID] = &other{m.Node, b.links.Peer(link.Target{Address: m.Address, Node: m.Node, Member: m.ID})}
}

// follow makes the registered brokers reachable at the addresses of one of their listeners, and
// forgets members whose broker registered with another one.
func (b *book) follow(img *metadata.Image) {
	var all []listed
	for _, broker := range img.Brokers() {
		if at, ok := broker.Peer(); ok && broker.Member != b.own() {
			m := membership.Member{Node: broker.ID, ID: broker.Member, Address: address(at.Host, at.Port)}
			x := listed{Member: m, former: broker.Former, epoch: broker.Epoch}
			if state, _ := img.Liveness(broker.ID); state != metadata.Starting && state != metadata.Fenced {
				x.since = time.Now()
			}
			all = append(all, x)
		}
	}
	b.mu.Lock()
	for i := range all {
		x := &all[i]
		k := slices.IndexFunc(b.registered, func(r listed) bool { return r.Node == x.Node && r.epoch == x.epoch && r.Member == x.Member })
		if k >= 0 && !x.since.IsZero() && !b.registered[k].since.IsZero() {
			x.since = b.registered[k].since
		}
	}
	b.registered = all
	for _, broker := range img.Brokers() {
		for id, o := range b.others {
			if o.node == broker.ID && id != broker.Member {
				b.discard(o.peer)
				delete(b.others, id)
			}
		}
	}
	b.mu.Unlock()
	for _, r := range all {
		b.Reach(r.Member)
	}
}

// votes returns the other brokers that have votes, of the given voters. One that runs with another
// metadata directory than the one that has the vote is Lost.
func (b *book) votes(voters []uint64) (list []membership.Vote) {
	for _, v := range voters {
		if v == b.own() {
			continue
		}
		x := membership.Vote{Node: -1}
		b.mu.Lock()
		for _, r := range b.registered {
			if former := slices.Contains(r.former, v); former || r.ID == v {
				x = membership.Vote{Node: r.Node, Address: r.Address, Lost: former || b.renewed(r.Member)}
			}
		}
		b.mu.Unlock()
		x.Connected = b.connected(v)
		list = append(list, x)
	}
	sorts.Sort(list, func(a, c membership.Vote) int { return cmp.Compare(a.Node, c.Node) })
	return list
}

// renewed reports whether the process at the address of a broker is this broker with another
// metadata directory. The caller holds mu.
func (b *book) renewed(m membership.Member) bool {
	return slices.ContainsFunc(b.seeds, func(s *seed) bool {
		if s.address != m.Address || s.peer == nil {
			return false
		}
		h, ok := s.peer.Hello()
		return ok && h.Node == m.Node && h.Member != m.ID
	})
}

// member returns the known state of a member, for contacts of a node that joins.
func (b *book) member(id uint64) membership.Member {
	p := b.of(id)
	if p == nil {
		return membership.Member{}
	}
	m := membership.Member{ID: id, Node: p.Target().Node, Address: p.Target().Address}
	if h, ok := p.Hello(); ok {
		m.Node = h.Node
	}
	return m
}

// isSeed reports whether one of cluster.seeds is this node's address.
func (b *book) isSeed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seeds {
		if s.itself {
			return true
		}
	}
	return false
}

// Send implements raftstore.Peers.
func (b *book) Send(member uint64, message []byte) {
	if p := b.of(member); p != nil {
		p.Send(methodRaft, message)
	}
}

// requests implements raftstore.Peers for requests of the metadata store.
type requests struct{ *book }

// Call implements raftstore.Peers.
func (r requests) Call(ctx context.Context, member uint64, request []byte) ([]byte, error) {
	p, err := r.book.Call(ctx, member, methodMetadata, request)
	if errors.Is(err, link.ErrNotSent) {
		return nil, fmt.Errorf("%w: %w", raftstore.ErrNotSent, err)
	}
	return p, err
}

// Call implements membership.Seeds.
func (b *book) Call(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error) {
	if member == b.own() {
		return b.here(ctx, method, body)
	}
	p := b.of(member)
	if p == nil {
		return nil, fmt.Errorf("%w: the address of member %016x is not known", link.ErrNotSent, member)
	}
	return call(ctx, p, method, body)
}

// AskSeed implements membership.Seeds.
func (b *book) AskSeed(ctx context.Context, address string, method uint16, body []byte) (answer []byte, rejected string, err error) {
	b.mu.Lock()
	var p *link.Peer
	itself := false
	for _, s := range b.seeds {
		if s.address == address {
			p, itself, rejected = s.peer, s.itself, s.rejected
		}
	}
	b.mu.Unlock()
	switch {
	case itself:
		answer, err = b.here(ctx, method, body)
	case p == nil:
		err = link.ErrClosed
	case rejected == "":
		if answer, err = call(ctx, p, method, body); err != nil {
			if since, why := p.Failing(); why != nil {
				err = membership.Unconnected(unreached(-1, address, since, why).Err)
			}
		}
	}
	return answer, rejected, err
}

// call sends a request on a link, and makes a refusal of membership what it was at the other end.
func call(ctx context.Context, p *link.Peer, method uint16, body []byte) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	answer, err := p.Call(ctx, method, body)
	if r := (*link.RemoteError)(nil); errors.As(err, &r) && r.Code >= link.FirstCode {
		return nil, &membership.Failure{Code: r.Code, Text: r.Text}
	}
	return answer, err
}
