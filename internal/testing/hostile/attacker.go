package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/pause"
)

// Attacker holds the connections of one attack. They stay open until Close, so that a test can
// measure what the broker holds for them.
type Attacker struct {
	Addr string
	// TLS is used on the connections of the attack, if it is set.
	TLS *tls.Config
	// Part is the part of the full attack to run, in percent; 100 is all of it.
	Part int
	// Most is the maximum number of concurrent connections; 0 means no limit.
	Most int
	// Turns is how often a connection repeats an endless attack; 0 means until the attack's context
	// ends.
	Turns int

	sent atomic.Int64

	mu       sync.Mutex
	open     map[*Conn]struct{}
	outcomes map[string]int64
}

// Sent returns how many bytes were sent.
func (m *Attacker) Sent() int64 { return m.sent.Load() }

// some scales a number of the full attack to Part; it is at least 1.
func (m *Attacker) some(n int) int { return max(1, n*m.Part/100) }

// connections is some, limited to Most.
func (m *Attacker) connections(n int) int {
	n = m.some(n)
	if m.Most > 0 {
		n = min(n, m.Most)
	}
	return n
}

// note counts the outcome of a request or a connection.
func (m *Attacker) note(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outcomes == nil {
		m.outcomes = make(map[string]int64)
	}
	m.outcomes[outcome]++
}

// Outcomes returns the outcomes of requests and connections, most frequent first: Kafka's error
// names, or the fate of the connection.
func (m *Attacker) Outcomes() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(m.outcomes), func(a, b string) int { return int(m.outcomes[b] - m.outcomes[a]) })
	var list []string
	for _, name := range names[:min(len(names), 4)] {
		list = append(list, fmt.Sprintf("%d %s", m.outcomes[name], name))
	}
	return strings.Join(list, ", ")
}

// dial opens a connection of the attacker.
func (m *Attacker) dial(ctx context.Context) (*Conn, error) {
	c, err := Dial(ctx, m.Addr)
	if err != nil {
		return nil, err
	}
	c.attacker = m
	if m.TLS != nil {
		t := tls.Client(c.Conn, m.TLS)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Conn = t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = make(map[*Conn]struct{})
	}
	m.open[c] = struct{}{}
	return c, nil
}

// drop closes one connection.
func (m *Attacker) drop(c *Conn) {
	m.mu.Lock()
	delete(m.open, c)
	m.mu.Unlock()
	_ = c.Close()
}

// Close closes all connections.
func (m *Attacker) Close() {
	m.mu.Lock()
	open := slices.Collect(maps.Keys(m.open))
	m.open = nil
	m.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// dialers is the number of connections that are opened concurrently: fewer than may be without a
// TLS handshake (max.connections.unauthenticated.per.ip).
const dialers = 32

// once opens n connections and calls act on each. It returns when all calls have returned, with the
// first error other than the end of a connection or of ctx.
func (m *Attacker) once(ctx context.Context, n int, act func(c *Conn, i int) error) error {
	turns := make(chan struct{}, dialers)
	return m.each(n, func(i int) error {
		turns <- struct{}{}
		c, err := m.dial(ctx)
		<-turns
		if err == nil {
			err = act(c, i)
		}
		return m.judge(ctx, err)
	})
}

// again keeps n connections open and calls act on each until ctx ends or Turns is reached; it
// replaces lost connections.
func (m *Attacker) again(ctx context.Context, n int, act func(c *Conn, i, turn int) error) error {
	return m.each(n, func(i int) error {
		var c *Conn
		for turn := 0; ctx.Err() == nil && (m.Turns == 0 || turn < m.Turns); turn++ {
			var err error
			if c == nil {
				c, err = m.dial(ctx)
			}
			if err == nil {
				err = act(c, i, turn)
			}
			if err == nil {
				continue
			}
			if c != nil && ctx.Err() == nil {
				m.drop(c)
				c = nil
			}
			if err := m.judge(ctx, err); err != nil {
				return err
			}
			pause.Wait(ctx.Done(), 10*time.Millisecond)
		}
		return nil
	})
}

// each runs n goroutines and returns their errors.
func (m *Attacker) each(n int, act func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = act(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// judge counts the loss of a connection, and returns other errors, which are the attack's own.
func (m *Attacker) judge(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case !lost(err):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		m.note("not answered")
	default:
		m.note("connection closed")
	}
	return nil
}
