package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/protocol"
)

// classicState is the state of a classic group. A dead one is not there.
type classicState uint8

const (
	empty      classicState = iota // no members; some may have been given an id (pending)
	preparing                      // members are to join
	completing                     // they have, and wait for the leader's assignment
	stable
)

func (c classicState) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[c]
}

// classic is a classic group. Its record holds it as of the last time that it became
// stable or empty; between those, and in what is marked so, it is volatile.
type classic struct {
	recorded     bool // there is a record of it
	state        classicState
	generation   int32
	protocolType string // empty: none
	protocol     string // chosen for this generation, empty: none
	leader       string // empty: none
	since        int64  // ms since 1970 when it came into its state, -1: not known

	members map[string]*classicMember
	static  map[string]string // member ids by instance
	joined  uint64            // numbers members in the order in which they came

	// Volatile.
	pending        map[string]uint64   // ids that were given out and have not joined yet, and to which connection
	pendingSync    map[string]struct{} // members that have not synced in this generation
	awaiting       int                 // members whose join waits
	initial        bool                // preparing: since the group was empty
	newMember      bool                // initial: somebody came since the delay began
	delay, remains time.Duration       // initial: this delay, and how much longer it may become

	bytes   int  // what members and pending ids hold, see weight
	touched bool // bytes is to be computed
}

func newClassic() *classic {
	return &classic{since: -1, members: map[string]*classicMember{}, static: map[string]string{},
		touched: true, pending: map[string]uint64{}, pendingSync: map[string]struct{}{}}
}

// classicMember is a member of a classic group.
type classicMember struct {
	id                   string
	instance             string // empty: not static
	clientID, clientHost string
	session, rebalance   int32 // ms
	assignment           []byte
	// protocols that it supports, as it prefers them. After a load it is only the one
	// that was chosen.
	protocols []format.Protocol

	order     uint64
	groupType string // the protocol type it joined with
	// Volatile.
	fresh      bool // has not been through a join phase yet
	join, sync parked
}

// parked is a request that waits, and the version in which to answer.
type parked struct {
	to      coordinator.Ticket
	version int16
}

// apply takes the group's record. What a member that stays has of volatile state
// it keeps.
func (c *classic) apply(v format.ClassicGroup) {
	c.recorded, c.touched = true, true
	c.protocolType, c.generation, c.since = v.ProtocolType, v.Generation, v.Since
	c.protocol, c.leader = deref(v.Protocol), deref(v.Leader)
	old := c.members
	c.members, c.static = make(map[string]*classicMember, len(v.Members)), map[string]string{}
	for i := range v.Members {
		r := &v.Members[i]
		m := old[r.ID]
		if m == nil {
			m = &classicMember{id: r.ID, protocols: []format.Protocol{{Name: c.protocol, Metadata: r.Subscription}}}
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
	c.state = stable
	if len(c.members) == 0 {
		c.state = empty
	}
}

// record is the group as its record shows it.
func (c *classic) record() format.ClassicGroup {
	v := format.ClassicGroup{ProtocolType: c.protocolType, Generation: c.generation, Protocol: ptr(c.protocol), Since: c.since}
	if len(c.members) == 0 {
		return v
	}
	v.Leader = ptr(c.leader)
	for _, m := range c.list() {
		v.Members = append(v.Members, format.ClassicMember{ID: m.id, Instance: ptr(m.instance), ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeout: m.rebalance, SessionTimeout: m.session, Subscription: m.metadata(c.protocol), Assignment: m.assignment})
	}
	return v
}

// list is the members in the order in which they came.
func (c *classic) list() []*classicMember {
	list := make([]*classicMember, 0, len(c.members))
	for _, m := range c.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *classicMember) int { return cmp.Compare(a.order, b.order) })
	return list
}

// add takes in a member.
func (c *classic) add(m *classicMember) {
	c.touched = true
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

// remove takes out a member or a pending id. succeed is to follow, once for any
// number of them.
func (c *classic) remove(id string) {
	c.touched = true
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

// succeed gives a group whose leader was taken out the next one: who came first.
func (c *classic) succeed() {
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

// rebalanceTimeout is the longest of its members'.
func (c *classic) rebalanceTimeout() time.Duration {
	var longest int32
	for _, m := range c.members {
		longest = max(longest, m.rebalance)
	}
	return millis(longest)
}

// supports says whether somebody with these protocols can be a member.
func (c *classic) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if c.state == empty {
		return protocolType != "" && len(protocols) > 0
	}
	if c.protocolType != protocolType {
		return false
	}
	return c.supportsOne(protocols)
}

// supportsOne says whether all members support one of some protocols.
func (c *classic) supportsOne(protocols []kmsg.JoinGroupRequestProtocol) bool {
	all := c.supportedByAll
	if len(protocols) > fewProtocols {
		shared := c.shared()
		all = func(name string) bool { return len(c.members) == 0 || shared[name] }
	}
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return all(p.Name) })
}

// fewProtocols is up to how many it costs less to ask the members for each. Who names
// more than any client has must not cost the square of that.
const fewProtocols = 8

func (c *classic) supportedByAll(protocol string) bool {
	for _, m := range c.members {
		if !m.supports(protocol) {
			return false
		}
	}
	return true
}

// shared are the protocols that all members support.
func (c *classic) shared() map[string]bool {
	by, walked := map[string]int{}, 0 // how many of the members walked so far all support
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

// elect chooses the protocol of a generation: every member votes for the first one
// it has that all support.
func (c *classic) elect() string {
	votes, shared := map[string]int{}, c.shared()
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

// subscribed are the topics that the members of a group of consumers subscribe to;
// known is false where they can't be told.
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
