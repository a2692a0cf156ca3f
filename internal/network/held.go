package network

import (
	"net"
	"net/netip"
	"time"
)

// maxHeld bounds the connections that are held because their address made too many (KIP-612). One
// more is closed at once.
const maxHeld = 1000

// held is a connection that is not served, and closed when its timer ends.
type held struct {
	timer *time.Timer
	slot  slot
}

// hold keeps a connection for some time without serving it, and closes it then: its client, which
// would connect again at once, waits. Nothing is read from it. It counts against the limits on
// connections, and at a limit makes room for one that is served; at a limit it is closed at once.
func (s *Server) hold(l *Listener, nc net.Conn, wait time.Duration) {
	ip := remoteIP(nc)
	s.refused(l, nc.RemoteAddr(), ip, RefusedRate)
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, _ := s.over(l, ip, false); s.stopped || len(s.held) >= maxHeld || over != "" {
		_ = nc.Close() // no bytes were exchanged on it
		return
	}
	h := held{slot: slot{ip: ip, listener: l.Name}}
	s.take(h.slot, 1)
	h.timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		s.letGo(nc)
		s.mu.Unlock()
	})
	s.held[nc] = h
}

// letGo closes a connection that is held, unless that was done. The caller holds mu.
func (s *Server) letGo(nc net.Conn) {
	if h, ok := s.held[nc]; ok {
		delete(s.held, nc)
		s.take(h.slot, -1)
		h.timer.Stop()
		_ = nc.Close() // no bytes were exchanged on it
	}
}

// heldYields closes a connection that is held, if that makes room below a limit. The caller holds
// mu.
func (s *Server) heldYields(over RefuseReason, l *Listener, ip netip.Addr) bool {
	for nc, h := range s.held {
		if over == RefusedTotal || over == RefusedListener && h.slot.listener == l.Name || over == RefusedPerIP && h.slot.ip == ip {
			s.letGo(nc)
			return true
		}
	}
	return false
}

// dropHeld closes the connections that are held. The caller holds mu, and has set stopped.
func (s *Server) dropHeld() {
	for nc := range s.held {
		s.letGo(nc)
	}
}
