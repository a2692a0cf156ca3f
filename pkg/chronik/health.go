package chronik

import (
	"context"
	"time"

	"github.com/chronik-io/chronik/internal/health"
)

// Severity is the effect of a finding on records.
type Severity string

// The severities, worst first. A later version may add others.
const (
	// Bad: some records cannot be written or read now.
	Bad Severity = "bad"
	// Warn: a guarantee is not met, or one more failure, or more of the same, makes the finding
	// Bad.
	Warn Severity = "warn"
	// Note: everything works as configured, but the operator should know.
	Note Severity = "note"
)

// Finding is one problem, with what to do about it. docs/operations.md lists the checks.
type Finding struct {
	Check    string // name of the check that found it
	Severity Severity
	Subject  string    // where: "log directory /data"
	Problem  string    // the problem and its effect
	Works    string    // what still works; empty if there is nothing to add
	Remedy   string    // what to do
	Since    time.Time // when the broker first found it
	NotReady bool      // clients should be sent elsewhere
}

// Health is what a broker knows of its own problems, and in a cluster of those of the others.
type Health struct {
	// Ready reports whether the broker serves clients: no finding of its own is NotReady.
	Ready bool
	// Findings are the problems, worst first.
	Findings []Finding
}

// Health runs the broker's checks and returns what they find. It waits a second at most.
func (b *Broker) Health(ctx context.Context) Health {
	r := b.inner.Health().Report(ctx)
	h := Health{Ready: r.Ready, Findings: make([]Finding, 0, len(r.Findings))}
	for i := range r.Findings {
		f := &r.Findings[i]
		own := f.Broker == r.Broker || f.Broker == health.NoBroker
		h.Findings = append(h.Findings, Finding{Check: f.Check, Severity: Severity(f.Severity), Subject: f.Where(),
			Problem: f.Problem, Works: f.Works, Remedy: f.Remedy, Since: f.Since, NotReady: f.NotReady && own})
	}
	return h
}
