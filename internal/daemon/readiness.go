package daemon

import (
	"fmt"
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
	r.phase = phase
	if phase == "" {
		r.gauge.Set(1)
	} else {
		r.gauge.Set(0)
	}
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
	phase, parts := r.phase, make(map[string]func() string, len(r.parts))
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
	slices.Sort(lines)
	if phase != "" {
		lines = append([]string{phase + "\n"}, lines...)
	}
	if len(lines) == 0 {
		return "ready\n", true
	}
	return strings.Join(lines, ""), false
}
