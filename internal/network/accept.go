package network

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/security/origin"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// acceptBackoff bounds the pause after a failed accept. A process without free descriptors can only
// accept again when other connections close.
var acceptBackoff = pause.Backoff{First: 5 * time.Millisecond, Most: time.Second}

// accept takes connections from ln until it is closed.
func (s *Server) accept(l *Listener, ln net.Listener) {
	label.Goroutine("network accept", l.Name)
	failures := 0
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			failures = 0
			s.admit(l, nc)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		s.opts.Observer.Refused(l, netip.Addr{}, RefusedFiles)
		s.limited.listener(l, "accept failed; waiting before the next", err)
		failures++
		if !pause.Wait(s.draining, acceptBackoff.After(failures)) {
			return
		}
	}
}

// admit serves a new connection, refuses it, or holds it. It blocks for as long as
// Options.Accepting asks for.
func (s *Server) admit(l *Listener, nc net.Conn) {
	if s.opts.Connecting != nil && !l.Brokers {
		if wait := s.opts.Connecting(remoteIP(nc)); wait > 0 {
			s.hold(l, nc, wait)
			return
		}
	}
	if s.opts.Accepting != nil && !l.Brokers {
		if wait := s.opts.Accepting(l.Name); wait > 0 {
			s.limited.listener(l, "connections are served late", fmt.Errorf("more are made than max.connection.creation.rate allows"))
			pause.Wait(s.draining, wait)
		}
	}
	reason, ok := s.add(l, nc)
	if ok {
		return
	}
	if reason == RefusedDraining {
		closeWithReset(nc) // as the connections that were accepted a moment earlier; see lingerAndClose
	} else {
		_ = nc.Close() // no bytes were exchanged on it
	}
	s.refused(l, nc.RemoteAddr(), remoteIP(nc), reason)
}

// refused reports that a connection was refused.
func (s *Server) refused(l *Listener, client net.Addr, ip netip.Addr, reason RefuseReason) {
	s.opts.Observer.Refused(l, ip, reason)
	if reason != RefusedDraining {
		s.limited.listener(l, "connection refused", fmt.Errorf("limit %q reached, client %s", reason, client))
	}
}

const (
	// logInterval is the least time between two log messages with the same cause and client
	// address.
	logInterval = time.Minute
	// maxLogSources bounds how many messages and addresses are remembered. Beyond it all other
	// addresses count as one.
	maxLogSources = 256
)

// logLimiter limits log messages that clients can cause at will: it logs the first one, and later
// ones with a count of those it suppressed. zap's sampler logs no such count, and does not
// distinguish clients. Messages are constants.
type logLimiter struct {
	logger *zap.Logger

	mu   sync.Mutex
	seen map[logSource]*repeated
}

// logSource identifies a message and the client it is about; by is zero for messages about a
// listener.
type logSource struct {
	msg string
	by  netip.Prefix // origin.Of its address
}

type repeated struct {
	last    time.Time
	skipped int
}

func (n *logLimiter) log(c *conn, level zapcore.Level, msg string, err error) {
	if skipped, ok := n.due(logSource{msg, origin.Of(c.ip)}, time.Now()); ok {
		n.logger.Log(level, msg, zap.Error(err), zap.String("listener", c.listener.Name), zap.Stringer("peer", c.peer),
			zap.Int("repeated", skipped))
	}
}

func (n *logLimiter) listener(l *Listener, msg string, err error) {
	if skipped, ok := n.due(logSource{msg: msg}, time.Now()); ok {
		n.logger.Warn(msg, zap.Error(err), zap.String("listener", l.Name), zap.Int("repeated", skipped))
	}
}

// due reports whether a message should be logged now, and how many were suppressed since the last
// one.
func (n *logLimiter) due(from logSource, now time.Time) (skipped int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.seen[from]
	if r == nil && len(n.seen) >= maxLogSources {
		maps.DeleteFunc(n.seen, func(_ logSource, r *repeated) bool { return now.Sub(r.last) >= logInterval })
		if len(n.seen) >= maxLogSources {
			from.by = netip.Prefix{}
			r = n.seen[from]
		}
	}
	if r == nil {
		if n.seen == nil {
			n.seen = make(map[logSource]*repeated)
		}
		r = &repeated{}
		n.seen[from] = r
	}
	if !r.last.IsZero() && now.Sub(r.last) < logInterval {
		r.skipped++
		return 0, false
	}
	skipped = r.skipped
	r.last, r.skipped = now, 0
	return skipped, true
}
