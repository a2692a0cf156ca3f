package group

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/protocol"
)

// classicState is the state of a classic group. Kafka's state Dead means here that the group does
// not exist.
type classicState uint8

const (
	empty      classicState = iota // no members; some ids may be pending
	preparing                      // members must join
	completing                     // the join phase has ended; members wait for the leader's assignment
	stable
)

func (c classicState) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[c]
}

// classic is a classic group. Its record holds the state at the time the group last became stable
// or empty, with the present ids of static members. State between those points, and fields marked
// volatile, are lost in a reload. The record of a group that was a consumer group has no leader:
// its members must rejoin, and a load begins with that.
type classic struct {
	recorded     bool // the log has a record of it
	state        classicState
	generation   int32
	protocolType string // empty: none
	protocol     string // chosen for this generation; empty: none
	leader       string // empty: none
	since        int64  // ms since 1970 when it entered its state, -1: not known

	members map[string]*classicMember
	static  map[string]string // member ids by instance
	joined  uint64            // numbers members in the order in which they joined

	// Volatile.
	pending        map[string]uint64   // ids assigned to clients that have not joined with them yet, and the clients' connections
	pendingSync    map[string]struct{} // members that have not synced in this generation
	awaiting       int                 // members with a waiting JoinGroup
	initial        bool                // preparing, and the group was empty before
	newMember      bool                // initial: a member joined since the delay began
	delay, remains time.Duration       // initial: the current delay, and by how much it may still be extended

	bytes int  // memory for members and pending ids, see weight
	stale bool // bytes is out of date
}

func newClassic() *classic {
	return &classic{since: -1, members: map[string]*classicMember{}, static: map[string]string{},
		stale: true, pending: map[string]uint64{}, pendingSync: map[string]struct{}{}}
}

// classicMember is a member of a classic group.
type classicMember struct {
	id                   string
	instance             string // empty: not static
	clientID, clientHost string
	session, rebalance   int32 // ms
	assignment           []byte
	// protocols are the supported protocols in the member's order of preference. After a load they
	// are only the chosen one.
	protocols []format.Protocol

	order     uint64
	groupType string // the protocol type it joined with
	// Volatile.
	fresh      bool // has not completed a join phase yet
	join, sync parked
}

// parked is a waiting request, with the version of its response.
type parked struct {
	to      coordinator.Ticket
	version int16
}

// apply applies the group's record. Members that remain keep their volatile state, and the
// protocols that the record does not have. What the record has counts: live it is what the member
// said last, and in a load the member may be known from an earlier record.
func (c *classic) apply(v format.ClassicGroup, broken Broken) {
	c.recorded, c.stale = true, true
	c.protocolType, c.generation, c.since = v.ProtocolType, v.Generation, v.Since
	c.protocol, c.leader = deref(v.Protocol), deref(v.Leader)
	old := c.members
	c.members, c.static = make(map[string]*classicMember, len(v.Members)), map[string]string{}
	for i := range v.Members {
		r := &v.Members[i]
		m := old[r.ID]
		if m == nil {
			m = &classicMember{id: r.ID}
		}
		if known := m.supports(c.protocol); !known || !bytes.Equal(m.metadata(c.protocol), r.Subscription) &&
			!broken.Has(FirstSubscription) {
			m.protocols = []format.Protocol{{Name: c.protocol, Metadata: r.Subscription}}
		}
		m.instance, m.clientID, m.clientHost = deref(r.Instance), r.ClientID, r.ClientHost
		m.session, m.rebalance, m.assignment = r.SessionTimeout, r.RebalanceTimeout, r.Assignment
		m.order = uint64(i)
		c.members[m.id] = m
		if m.instance != "" {
			c.static[m.instance] = m.id
		}
	}
	c.joined = uint64(len(v.Members))
	switch {
	case len(c.members) == 0:
		c.state = empty
	case c.leader == "":
		c.state = preparing
	default:
		c.state = stable
	}
}

// record returns the group's current record.
func (c *classic) record() format.ClassicGroup {
	v := format.ClassicGroup{ProtocolType: c.protocolType, Generation: c.generation, Protocol: ptr(c.protocol), Since: c.since}
	if len(c.members) == 0 {
		return v
	}
	v.Leader = ptr(c.leader)
	for _, m := range c.list() {
		v.Members = append(v.Members, format.ClassicMember{ID: m.id, Instance: ptr(m.instance), ClientID: m.clientID,
			ClientHost:       m.clientHost,
			RebalanceTimeout: m.rebalance, SessionTimeout: m.session, Subscription: m.metadata(c.protocol), Assignment: m.assignment})
	}
	return v
}

// list returns the members in the order in which they joined.
func (c *classic) list() []*classicMember {
	list := make([]*classicMember, 0, len(c.members))
	for _, m := range c.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *classicMember) int { return cmp.Compare(a.order, b.order) })
	return list
}

// add adds a member.
func (c *classic) add(m *classicMember) {
	c.stale = true
	if len(c.members) == 0 {
		c.protocolType = m.protocolType()
	}
	if c.leader == "" {
		c.leader = m.id
	}
	c.joined++
	m.order = c.joined
	c.members[m.id] = m
	if m.instance != "" {
		c.static[m.instance] = m.id
	}
	delete(c.pending, m.id)
}

// remove removes a member or a pending id. The caller must then call replaceLeader, once for any
// number of them.
func (c *classic) remove(id string) {
	c.stale = true
	if m := c.members[id]; m != nil {
		delete(c.members, id)
		if m.join.to != 0 {
			c.awaiting--
		}
		if m.instance != "" {
			delete(c.static, m.instance)
		}
	}
	delete(c.pending, id)
	delete(c.pendingSync, id)
}

// replaceLeader makes the member that joined first the leader, if the leader was removed.
func (c *classic) replaceLeader() {
	if c.leader == "" || c.members[c.leader] != nil {
		return
	}
	c.leader = ""
	var first *classicMember
	for _, m := range c.members {
		if first == nil || m.order < first.order {
			first = m
		}
	}
	if first != nil {
		c.leader = first.id
	}
}

func (c *classic) allJoined() bool { return len(c.members) == c.awaiting && len(c.pending) == 0 }

// rebalanceTimeout returns the longest rebalance timeout of all members.
func (c *classic) rebalanceTimeout() time.Duration {
	var longest int32
	for _, m := range c.members {
		longest = max(longest, m.rebalance)
	}
	return millis(longest)
}

// supports reports whether a client with these protocols can become a member.
func (c *classic) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if c.state == empty {
		return protocolType != "" && len(protocols) > 0
	}
	if c.protocolType != protocolType {
		return false
	}
	return c.supportsOne(protocols)
}

// supportsOne reports whether all members support at least one of the protocols.
func (c *classic) supportsOne(protocols []kmsg.JoinGroupRequestProtocol) bool {
	all := c.supportedByAll
	if len(protocols) > fewProtocols {
		shared := c.commonProtocols()
		all = func(name string) bool { return len(c.members) == 0 || shared[name] }
	}
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return all(p.Name) })
}

// fewProtocols is the largest number of protocols for which asking each member about each protocol
// is cheaper. A client that names more than any real client must not cause quadratic work.
const fewProtocols = 8

func (c *classic) supportedByAll(protocol string) bool {
	for _, m := range c.members {
		if !m.supports(protocol) {
			return false
		}
	}
	return true
}

// commonProtocols returns the protocols that all members support.
func (c *classic) commonProtocols() map[string]bool {
	by, walked := map[string]int{}, 0 // how many of the members visited so far all support it
	for _, m := range c.members {
		for _, p := range m.protocols {
			if by[p.Name] == walked {
				by[p.Name]++
			}
		}
		walked++
	}
	all := map[string]bool{}
	for name, n := range by {
		if n == walked {
			all[name] = true
		}
	}
	return all
}

// elect chooses the protocol of a generation: every member votes for its first protocol that all
// members support.
func (c *classic) elect() string {
	votes, shared := map[string]int{}, c.commonProtocols()
	for _, m := range c.members {
		if i := slices.IndexFunc(m.protocols, func(p format.Protocol) bool { return shared[p.Name] }); i >= 0 {
			votes[m.protocols[i].Name]++
		}
	}
	best := ""
	for name, n := range votes {
		if best == "" || n > votes[best] || n == votes[best] && name < best {
			best = name
		}
	}
	return best
}

// subscribed returns the topics to which the members of a group of consumers subscribe. known is
// false if a subscription can't be read.
func (c *classic) subscribed() (topics map[string]struct{}, known bool) {
	topics = map[string]struct{}{}
	switch {
	case c.protocolType != consumerProtocol:
		return nil, false
	case len(c.members) == 0:
		return topics, true
	case c.protocol == "":
		return nil, false
	}
	for _, m := range c.members {
		list, err := protocol.DecodeSubscribedTopics(m.metadata(c.protocol))
		if err != nil {
			return nil, false
		}
		for _, t := range list {
			topics[t] = struct{}{}
		}
	}
	return topics, true
}
