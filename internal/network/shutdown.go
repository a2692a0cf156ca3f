package network

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

// killTime is how long goroutines that waited for a client have to end after its connection was
// closed. They need hardly any time; those left afterwards wait for a disk.
const killTime = 250 * time.Millisecond

// ending is closed step by step when a stopped Server's goroutines end.
type ending struct {
	conns chan struct{} // the goroutines of connections and pollers
	all   chan struct{} // and of commits, which may wait for a disk
}

// Shutdown stops accepting and reading requests, waits until requests that the handler has are
// answered and written, and closes the connections, those of other brokers last: the answers may
// need them. When it returns nil, all goroutines of the
// Server have ended. If ctx ends first, it closes the connections at once and returns soon, even if
// a disk hangs; the error names what is still running. The remaining work ends, and releases its
// memory, when the disk responds again.
func (s *Server) Shutdown(ctx context.Context) error {
	for c := range s.stop() {
		c.stopReading(ClosedShutdown)
	}
	s.awaitEnd()
	ended := within(ctx, s.ended.all)
	var oldest []view.Wait
	if !ended {
		oldest = s.Waits(maxNamed).List // of connections that are about to be closed
		s.killAll()
		soon, cancel := context.WithTimeout(context.Background(), killTime)
		defer cancel()
		ended = within(soon, s.ended.all)
	}
	if ended && within(ctx, s.orphans.none()) {
		return nil
	}
	return fmt.Errorf("network: %s: %w", s.unfinished(oldest), ctx.Err())
}

// within waits until ch is closed; it returns false if ctx ends first.
func within(ctx context.Context, ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
	}
	select {
	case <-ch:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close closes all listeners and connections at once, and waits for handlers that block. Unanswered
// requests may still be answered; the answers are dropped.
func (s *Server) Close() error {
	s.stop()
	s.killAll()
	s.awaitEnd()
	<-s.ended.conns
	return nil
}

// awaitEnd closes the channels of ending when the Server's goroutines have ended. Only then does it
// release the pollers' descriptors: a reader that was blocked by a disk may offer its connection
// to a poller afterwards.
func (s *Server) awaitEnd() {
	s.endOnce.Do(func() {
		go func() {
			s.wg.Wait()
			s.closeHijacked()
			s.stopPollers()
			close(s.ended.conns)
			s.loops.Wait()
			close(s.ended.all)
		}()
	})
}

// maxNamed is the number of unanswered requests that the error of a Shutdown names.
const maxNamed = 3

// unfinished names what still runs although the connections are closed. oldest are the oldest
// requests that had no answer before.
func (s *Server) unfinished(oldest []view.Wait) string {
	type blocked struct {
		n       int
		longest time.Duration
	}
	apis := make(map[int16]blocked)
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	unanswered, now := s.orphans.count(), time.Now()
	for c := range conns {
		c.mu.Lock()
		unanswered += c.queue.unready
		if w := c.blocked; !w.since.IsZero() {
			apis[w.key] = blocked{apis[w.key].n + 1, max(apis[w.key].longest, now.Sub(w.since))}
		}
		c.mu.Unlock()
	}
	what := []string{fmt.Sprintf("%d requests are still unanswered", unanswered)}
	for i := range oldest {
		what = append(what, waitText(&oldest[i]))
	}
	for key, b := range apis {
		what = append(what, fmt.Sprintf("%d handlers of API %d still block, on a disk most probably, for up to %v", b.n, key,
			b.longest.Round(time.Millisecond)))
	}
	select {
	case <-s.ended.conns:
		select {
		case <-s.ended.all:
		default:
			what = append(what, "a write of small Produce requests still waits for its disk")
		}
	default:
	}
	return strings.Join(what, ", ")
}

// waitText says which request waits, and at which step.
func waitText(w *view.Wait) string {
	b := fmt.Appendf(nil, "%s of client id %q at %s for %v", cmp.Or(w.Request, "a request"), w.ClientID, w.Address,
		(time.Duration(w.AgeMs) * time.Millisecond).Round(time.Second))
	for i, step := range w.Steps {
		b = append(b, [...]string{", at the step ", " and "}[min(i, 1)]...)
		b = append(b, step.Step...)
		if on := cmp.Or(step.Partition, step.Dir); on != "" {
			b = fmt.Appendf(b, " of %s", on)
		}
		if step.For != "" {
			b = fmt.Appendf(b, " (for %s)", step.For)
		}
	}
	return string(b)
}

// stop closes the listeners and returns the connections; no more are added.
func (s *Server) stop() map[*conn]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.draining)
	}
	s.dropHeld()
	for ln := range s.listeners {
		_ = ln.Close() // it is not used again, whatever close returns
	}
	return s.snapshot()
}

// snapshot copies the set of connections. Caller holds mu.
func (s *Server) snapshot() map[*conn]struct{} {
	conns := make(map[*conn]struct{}, len(s.conns))
	for c := range s.conns {
		conns[c] = struct{}{}
	}
	return conns
}

func (s *Server) killAll() {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	for c := range conns {
		c.mu.Lock()
		c.kill(ClosedShutdown)
		c.mu.Unlock()
	}
	s.closeHijacked()
}

// orphans counts requests whose connection ended before they were answered.
type orphans struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n becomes zero; nil without a waiter
}

func (o *orphans) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n += n; o.n == 0 && o.zero != nil {
		close(o.zero)
		o.zero = nil
	}
}

func (o *orphans) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// none returns a channel that is closed when there are no orphans.
func (o *orphans) none() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.zero == nil {
		o.zero = make(chan struct{})
	}
	ch := o.zero
	if o.n == 0 {
		close(ch)
		o.zero = nil
	}
	return ch
}
