package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/view"
)

// watchEvery is the interval at which the state of the metadata group is read for findings.
const watchEvery = time.Second

// Watched is the state of the metadata group at a time. It is older than a few seconds only if the
// metadata store does not respond, because its disk hangs.
type Watched struct {
	raftstore.Status
	At time.Time
	// Led is when this node last knew a leader; a node that never knew one knows since when it
	// waits.
	Led time.Time
}

// Watched returns the state of the metadata group without waiting for the store. Its Leader is the
// present one: a broker that has waited for one serves clients at once when there is one.
func (c *Cluster) Watched() Watched {
	w := *c.watched.Load()
	role, _ := c.store.Leadership()
	return w.with(role.Leader, time.Now())
}

// with returns w with the leader that a node knows at a time.
func (w Watched) with(leader uint64, now time.Time) Watched {
	if leader != 0 || w.Leader != 0 {
		w.Led = now
	}
	w.Leader = leader
	return w
}

// voters returns the member ids of the voters.
func (w Watched) voters() (list []uint64) {
	for _, m := range w.Members {
		if m.Voter {
			list = append(list, m.Member)
		}
	}
	return list
}

// watch keeps Watched until Close. It also reads the state at each change of the leader: one that
// is elected and lost again within watchEvery was known.
func (c *Cluster) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		role, moved := c.store.Leadership()
		w := c.watched.Load().with(role.Leader, time.Now())
		w.Status, w.At = c.store.Status(c.ctx), time.Now()
		if c.ctx.Err() != nil {
			return // the store may not have answered
		}
		w.Leader = role.Leader // that to which Led belongs
		c.watched.Store(&w)
		select {
		case <-c.ctx.Done():
			return
		case <-moved:
		case <-tick.C:
		}
	}
}

// describeVoters counts the voters, and sets which of them have no broker and to which this node
// has no connection.
func (c *Cluster) describeVoters(img *metadata.Image, members []raftstore.MemberStatus, q *view.Quorum) {
	for _, m := range members {
		if !m.Voter {
			continue
		}
		q.Voters++
		name := fmt.Sprintf("a member without a broker, %016x", m.Member)
		known, broker := false, int32(-1)
		for _, b := range img.Brokers() {
			if b.Member != m.Member {
				continue
			}
			known, broker, name = true, b.ID, fmt.Sprintf("broker %d", b.ID)
			if at, ok := b.Peer(); ok {
				name += " (" + address(at.Host, at.Port) + ")"
			}
		}
		if former, gone := img.Gone(m.Member); gone {
			q.Unregistered, name = append(q.Unregistered, former), fmt.Sprintf("broker %d, which was unregistered", former)
		} else if !known {
			q.Orphans++
		}
		if m.Member == c.self.ID {
			q.Votes = true
		} else if !c.book.connected(m.Member) {
			q.Unreachable = append(q.Unreachable, name)
			if known {
				q.Away = append(q.Away, broker)
			}
		}
	}
	voters := Watched{Status: raftstore.Status{Members: members}}.voters()
	for _, b := range img.Brokers() {
		if membership.LostVote(&b, voters) != 0 {
			q.Unmoved = append(q.Unmoved, b.ID)
		}
	}
	c.describeLost(voters, q)
	slices.Sort(q.Unregistered)
}

// describeLost sets which voters run with another metadata directory than the one that has the
// vote. They are reached, but not as voters.
func (c *Cluster) describeLost(voters []uint64, q *view.Quorum) {
	others := c.book.votes(voters)
	for i := range others {
		v := &others[i]
		switch {
		case v.Lost:
			q.Lost = append(q.Lost, v.String())
			q.Unreachable = slices.DeleteFunc(q.Unreachable, func(name string) bool { return name == v.String() })
			q.Away = slices.DeleteFunc(q.Away, func(id int32) bool { return id == v.Node })
		default:
			q.Whole = append(q.Whole, v.String())
		}
	}
	if self := len(voters) - len(others); membership.Gone(others, self) {
		q.Recover = membership.RecoverCommand(others)
	}
}

// connected reports whether there is a connection to a member.
func (b *book) connected(member uint64) bool {
	p := b.of(member)
	return p != nil && p.Stats().Connected
}
