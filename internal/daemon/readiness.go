package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chronik-io/chronik/internal/diagnose"
)

// readiness is what /readyz says. It is safe for concurrent use.
//
// Not being ready is no failure: a broker that recovers or drains is healthy
// and must not be killed for it. So /healthz does not look here.
type readiness struct {
	gauge prometheus.Gauge

	mu    sync.Mutex
	phase string            // what goes on; empty while clients are served
	doing map[string]string // how far the phase is, by part
	moves uint64            // grows with every change of the two
	parts map[string]part   // by name
}

// part is something that may be wrong.
type part struct {
	check    string            // the check of diagnose that tells it
	severity diagnose.Severity // Bad: the broker is not ready with it
	eased    func() bool       // where set and true, Bad is Warn: something else does its work
	problem  func() string     // asked on every request; empty is well
	remedy   string
}

// newReadiness starts with a broker that is starting.
func newReadiness(gauge prometheus.Gauge) *readiness {
	return &readiness{gauge: gauge, phase: "starting", parts: make(map[string]part)}
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

// watch adds a part that says what is wrong with it, or nothing. A problem of
// severity Bad makes the broker not ready; with another one clients are served all
// the same.
func (r *readiness) watch(name string, p part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts[name] = p
}

// findings returns everything that is wrong with the broker itself at this
// moment, the worst first.
func (r *readiness) findings() []diagnose.Finding {
	r.mu.Lock()
	phase, parts := r.phase, maps.Clone(r.parts)
	r.mu.Unlock()
	var all []diagnose.Finding
	if phase != "" {
		all = append(all, diagnose.Finding{Check: diagnose.CheckServing, Severity: diagnose.Bad, Subject: "broker", What: phase,
			Remedy: "wait: /readyz and systemctl status say how far it is; a recovery takes as long as the disk needs for the journal, a stop a minute at most"})
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name]
		text := p.problem()
		if text == "" {
			continue
		}
		if p.severity == diagnose.Bad && p.eased != nil && p.eased() {
			p.severity = diagnose.Warn
		}
		all = append(all, diagnose.Finding{Check: p.check, Severity: p.severity, Subject: name, What: text, Remedy: p.remedy})
	}
	order := diagnose.Severities()
	slices.SortStableFunc(all, func(a, b diagnose.Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
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
		case f.Severity != diagnose.Bad:
			weak = append(weak, fmt.Sprintf("degraded: %s: %s\n", f.Subject, f.What))
		case f.Check != diagnose.CheckServing:
			lines = append(lines, fmt.Sprintf("%s: %s\n", f.Subject, f.What))
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
