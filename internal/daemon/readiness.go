package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// readiness is what /readyz says. It is safe for concurrent use.
//
// Not being ready is no failure: a broker that recovers or drains is healthy
// and must not be killed for it. So /healthz does not look here.
type readiness struct {
	gauge prometheus.Gauge

	mu    sync.Mutex
	phase string                   // what goes on; empty while clients are served
	doing map[string]string        // how far the phase is, by part
	moves uint64                   // grows with every change of the two
	parts map[string]func() string // asked on every request; empty is well
}

// newReadiness starts with a broker that is starting.
func newReadiness(gauge prometheus.Gauge) *readiness {
	return &readiness{gauge: gauge, phase: "starting", parts: make(map[string]func() string)}
}

// enter says what goes on; an empty phase is serving clients.
func (r *readiness) enter(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.doing = phase, nil
	r.moves++
	if phase == "" {
		r.gauge.Set(1)
	} else {
		r.gauge.Set(0)
	}
}

// progress says how far the phase is in one part of it. all is 0 where nobody
// knows how much there is.
func (r *readiness) progress(part, doing string, done, all int) {
	text := fmt.Sprintf("%s: %d", doing, done)
	if all > 0 && all != done {
		text += fmt.Sprintf(" of %d", all)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doing == nil {
		r.doing = make(map[string]string)
	}
	r.doing[part] = text
	r.moves++
}

// moved is a number that grows while a start or a stop makes progress.
func (r *readiness) moved() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moves
}

// watch adds a part that says what is wrong with it, or nothing. A part with a
// problem makes the broker not ready.
func (r *readiness) watch(part string, problem func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[part] = problem
}

// report returns one line for everything that stands in the way, and whether
// nothing does.
func (r *readiness) report() (string, bool) {
	r.mu.Lock()
	phase, doing, parts := r.phase, maps.Clone(r.doing), make(map[string]func() string, len(r.parts))
	for name, ask := range r.parts {
		parts[name] = ask
	}
	r.mu.Unlock()
	var lines []string
	for name, ask := range parts {
		if text := ask(); text != "" {
			lines = append(lines, fmt.Sprintf("%s: %s\n", name, text))
		}
	}
	for part, text := range doing {
		lines = append(lines, fmt.Sprintf("%s: %s\n", part, text))
	}
	slices.Sort(lines)
	if phase != "" {
		lines = append([]string{phase + "\n"}, lines...)
	}
	if len(lines) == 0 {
		return "ready\n", true
	}
	return strings.Join(lines, ""), false
}
