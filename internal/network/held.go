package network

import (
	"net"
	"time"
)

// maxHeld bounds the connections that are held because their address made too many (KIP-612). One
// more is closed at once.
const maxHeld = 1000

// hold keeps a connection for some time without serving it, and closes it then: its client, which
// would connect again at once, waits. Nothing is read from it.
func (s *Server) hold(l *Listener, nc net.Conn, wait time.Duration) {
	s.refused(l, nc.RemoteAddr(), RefusedRate)
	s.mu.Lock()
	if s.stopped || len(s.held) >= maxHeld {
		s.mu.Unlock()
		_ = nc.Close() // no bytes were exchanged on it
		return
	}
	defer s.mu.Unlock()
	s.held[nc] = time.AfterFunc(wait, func() {
		s.mu.Lock()
		delete(s.held, nc)
		s.mu.Unlock()
		_ = nc.Close()
	})
}

// dropHeld closes the connections that are held. The caller holds mu, and has set stopped.
func (s *Server) dropHeld() {
	for nc, timer := range s.held {
		timer.Stop()
		_ = nc.Close()
	}
	clear(s.held)
}
