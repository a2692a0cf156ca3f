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
	weak  map[string]func() string // the same, of what doesn't make the broker unready
}

// newReadiness starts with a broker that is starting.
func newReadiness(gauge prometheus.Gauge) *readiness {
	return &readiness{gauge: gauge, phase: "starting", parts: make(map[string]func() string), weak: make(map[string]func() string)}
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

// doingNow is what goes on, empty while clients are served.
func (r *readiness) doingNow() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

// watch adds a part that says what is wrong with it, or nothing. A part with a
// problem makes the broker not ready.
func (r *readiness) watch(part string, problem func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[part] = problem
}

// degrade adds a part that says what of it doesn't work while clients are served
// all the same: the broker stays ready, and says so.
func (r *readiness) degrade(part string, problem func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weak[part] = problem
}

// finding is something that is wrong.
type finding struct {
	Severity string `json:"severity"` // severityDown, severityDegraded
	Part     string `json:"part"`
	Message  string `json:"message"`
}

// The severities of findings.
const (
	severityDown     = "down"     // the broker is not ready
	severityDegraded = "degraded" // it is, but something doesn't work
)

// findings returns everything that is wrong, the worst first.
func (r *readiness) findings() []finding {
	r.mu.Lock()
	phase, parts, weak := r.phase, maps.Clone(r.parts), maps.Clone(r.weak)
	r.mu.Unlock()
	all := []finding{}
	if phase != "" {
		all = append(all, finding{severityDown, "broker", phase})
	}
	for _, kind := range []struct {
		severity string
		parts    map[string]func() string
	}{{severityDown, parts}, {severityDegraded, weak}} {
		for _, name := range slices.Sorted(maps.Keys(kind.parts)) {
			if text := kind.parts[name](); text != "" {
				all = append(all, finding{kind.severity, name, text})
			}
		}
	}
	return all
}

// report returns one line for everything that stands in the way, and whether
// nothing does. Where the broker is ready and something doesn't work all the same,
// lines that begin with "degraded" say it.
func (r *readiness) report() (string, bool) {
	r.mu.Lock()
	phase, doing := r.phase, maps.Clone(r.doing)
	r.mu.Unlock()
	var lines, weak []string
	for _, f := range r.findings() {
		switch {
		case f.Severity == severityDegraded:
			weak = append(weak, fmt.Sprintf("degraded: %s: %s\n", f.Part, f.Message))
		case f.Part != "broker":
			lines = append(lines, fmt.Sprintf("%s: %s\n", f.Part, f.Message))
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
		return "ready\n" + strings.Join(weak, ""), true
	}
	return strings.Join(append(lines, weak...), ""), false
}
