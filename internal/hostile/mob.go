package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mob is the connections of one attack. They stay open until Close, so that what the broker holds for them can be measured.
type Mob struct {
	Addr string
	// Part is the part of the full attack that is made, in percent; 100 is all of it.
	Part int
	// Most bounds the connections that are open at a time; 0 is no bound.
	Most int
	// Turns bounds how often a connection repeats what an endless attack repeats; 0: until the attack's context ends.
	Turns int

	sent atomic.Int64

	mu       sync.Mutex
	open     map[*Conn]struct{}
	outcomes map[string]int64
}

// Sent is how many bytes were sent.
func (m *Mob) Sent() int64 { return m.sent.Load() }

// some is the number of connections or things of which the full attack has n; at least 1.
func (m *Mob) some(n int) int { return max(1, n*m.Part/100) }

// connections is some, and at most what the mob may open.
func (m *Mob) connections(n int) int {
	n = m.some(n)
	if m.Most > 0 {
		n = min(n, m.Most)
	}
	return n
}

// note counts what became of a request or a connection.
func (m *Mob) note(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outcomes == nil {
		m.outcomes = make(map[string]int64)
	}
	m.outcomes[outcome]++
}

// Outcomes is what became of requests and connections, most frequent first: Kafka's error names, or what happened to the
// connection.
func (m *Mob) Outcomes() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(m.outcomes), func(a, b string) int { return int(m.outcomes[b] - m.outcomes[a]) })
	var list []string
	for _, name := range names[:min(len(names), 4)] {
		list = append(list, fmt.Sprintf("%d %s", m.outcomes[name], name))
	}
	return strings.Join(list, ", ")
}

// dial opens a connection of the mob.
func (m *Mob) dial(ctx context.Context) (*Conn, error) {
	c, err := Dial(ctx, m.Addr)
	if err != nil {
		return nil, err
	}
	c.mob = m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = make(map[*Conn]struct{})
	}
	m.open[c] = struct{}{}
	return c, nil
}

// drop closes one connection.
func (m *Mob) drop(c *Conn) {
	m.mu.Lock()
	delete(m.open, c)
	m.mu.Unlock()
	_ = c.Close()
}

// Close closes all connections.
func (m *Mob) Close() {
	m.mu.Lock()
	open := slices.Collect(maps.Keys(m.open))
	m.open = nil
	m.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// dialers bounds how many connections are being made at a time.
const dialers = 64

// once makes n connections and calls act on each. It returns when all have returned, with the first error that is not the
// end of a connection or of ctx.
func (m *Mob) once(ctx context.Context, n int, act func(c *Conn, i int) error) error {
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

// again keeps n connections and calls act on each until ctx ends or the mob's turns are over; one that is lost is replaced.
func (m *Mob) again(ctx context.Context, n int, act func(c *Conn, i, turn int) error) error {
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
			pause(ctx, 10*time.Millisecond)
		}
		return nil
	})
}

// each runs n goroutines and returns their errors.
func (m *Mob) each(n int, act func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = act(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// judge counts the loss of a connection, and returns other errors: of the attack itself.
func (m *Mob) judge(ctx context.Context, err error) error {
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

// pause waits for d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
