package link

import (
	"fmt"
	"time"
)

// serving is an accepted connection of a peer that has proved who it is.
type serving struct {
	*Conn
	key   peerLane
	hello Hello
	ended chan struct{} // closed when nothing uses the connection any longer
	after *serving      // the one that must end before it is used; guarded by Links.mu
}

// peerLane identifies a Dialer of a peer. At most one accepted connection of it is in use.
type peerLane struct {
	node   int32
	lane   Lane
	dialer uint32
}

// await waits until nothing uses a connection that s replaces: Options.Data does not run for two
// connections of one follower at a time. One that ended while it waited itself leaves its own
// predecessor to s.
func (l *Links) await(s *serving) error {
	late := time.NewTimer(l.opts.Silence)
	defer late.Stop()
	for {
		l.mu.Lock()
		old := s.after
		l.mu.Unlock()
		if old == nil {
			return nil
		}
		select {
		case <-old.ended:
		case <-l.ctx.Done():
			return ErrClosed
		case <-late.C:
			return fmt.Errorf("the former connection of node %d has not ended within %v", old.hello.Node, l.opts.Silence)
		}
		l.mu.Lock()
		s.after = old.after
		l.mu.Unlock()
	}
}

// claim makes c the only accepted connection of its peer's Dialer. The newest one wins, because a
// broker dials again only if its former connection is broken; this end may not have noticed yet.
// Which one is newer does not depend on the order of arrival: a process counts its dials, and of
// two processes the one with the lower broker epoch is the older, unless it is not registered yet.
// All connections of the older process end. A node of another member is refused while the first one
// is connected: one of them has a wrong node.id.
func (l *Links) claim(c *Conn, peer *Hello) (*serving, *Mismatch) {
	if peer.Lane == Meta && l.opts.Handler == nil || peer.Lane == Data && l.opts.Data == nil || peer.Lane == Client {
		return nil, &Mismatch{Reason: NotAdmitted, Cause: fmt.Sprintf("the node does not serve the lane %s", peer.Lane),
			Remedy: "run the same release at all nodes, and check the addresses in cluster.seeds"}
	}
	key := peerLane{peer.Node, peer.Lane, peer.Dialer}
	s := &serving{Conn: c, key: key, ended: make(chan struct{})}
	var ran *serving // of another process, whose connection has not ended
	defer func() {
		if ran != nil {
			l.opts.Met(ran.hello, ran.nc.RemoteAddr(), time.Now().Add(-l.opts.Silence))
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	var replaced []*serving
	for _, old := range l.serving {
		if old.key.node != peer.Node || old.Err() != nil {
			continue
		}
		replaces, m := supersedes(peer, &old.hello, old.key == key)
		if m != nil {
			if old.hello.Process != peer.Process {
				m.Other, ran = old.hello.Address, old
			}
			return nil, m
		}
		if replaces {
			replaced = append(replaced, old)
		}
	}
	if m := l.enter(c); m != nil {
		return nil, m
	}
	for _, old := range replaced {
		_ = old.fail(fmt.Errorf("%w: node %d dialed again", ErrClosed, peer.Node))
	}
	s.hello, s.after = *peer, l.serving[key]
	l.serving[key] = s
	return s, nil
}

// supersedes reports whether a peer's new connection replaces an old one of its node, or why it is
// refused. sameDialer: both have the same lane and Dialer number.
func supersedes(peer, old *Hello, sameDialer bool) (bool, *Mismatch) {
	newer := &Mismatch{Reason: Superseded, Cause: fmt.Sprintf("node %d has a newer connection", peer.Node),
		Remedy: "nothing is to be done, unless two processes run as this node: then stop one of them"}
	switch {
	case old.Member != peer.Member:
		return false, &Mismatch{
			Reason: WrongNode, Remedy: "set another node.id at one of them",
			Cause: fmt.Sprintf("node.id %d is used by two nodes: member %016x is connected, and %016x dials",
				peer.Node, old.Member, peer.Member),
		}
	case old.Process != peer.Process:
		if peer.BrokerEpoch >= 0 && peer.BrokerEpoch < old.BrokerEpoch {
			return false, newer
		}
		return true, nil
	case sameDialer && peer.Attempt < old.Attempt:
		return false, newer
	}
	return sameDialer, nil
}

// drop forgets an accepted connection that nothing uses any longer. If it was not used because its
// predecessor still is, the next one waits for that.
func (l *Links) drop(s *serving) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(s.ended)
	if l.serving[s.key] != s {
		return
	}
	delete(l.serving, s.key)
	for old := s.after; old != nil; old = old.after {
		select {
		case <-old.ended:
		default:
			l.serving[s.key] = old
			return
		}
	}
}
