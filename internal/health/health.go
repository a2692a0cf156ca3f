// Package health is the vocabulary in which a broker reports its problems: one Report with one list
// of Findings, in one JSON form, with one set of severities.
//
// Every surface shows that list in the same words: GET /v1/health is a Report, /readyz is
// Report.Text, the log and the metric chronik_findings are derived from it, and chronikctl prints
// it. The package imports no other, so that both the broker and chronikctl can import it.
// health/checks makes the reports; health/host reads the machine.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity is the effect of a finding on records.
type Severity string

// The severities, worst first.
const (
	// Bad: some records cannot be written or read now.
	Bad Severity = "bad"
	// Warn: a guarantee is not met, or one more failure, or more of the same, makes the finding
	// Bad.
	Warn Severity = "warn"
	// Note: everything works as configured, but the operator should know.
	Note Severity = "note"
)

// Severities lists all severities, worst first.
func Severities() []Severity { return []Severity{Bad, Warn, Note} }

// Known reports whether the severity is one of Severities.
func (s Severity) Known() bool { return slices.Contains(Severities(), s) }

// Finding is one problem. Two findings of the same check and subject are the same fault with other
// numbers.
type Finding struct {
	Check    string    `json:"check"`    // name of the check that found it
	Severity Severity  `json:"severity"` //
	Subject  string    `json:"subject"`  // where: "log directory /data"
	Problem  string    `json:"problem"`  // the problem and its effect
	Works    string    `json:"works"`    // what still works; empty if there is nothing to add
	Remedy   string    `json:"remedy"`   // what to do
	Since    time.Time `json:"since"`    // when the broker first found it, UTC
	NotReady bool      `json:"notReady"` // clients should be sent elsewhere: /readyz answers 503
}

// String returns the finding in one line, without its remedy.
func (f *Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Severity, f.Subject, f.Problem)
	if f.Works != "" {
		text += "; " + f.Works
	}
	return text
}

// Examined is a check and its measurements, which show how much an empty list of findings means.
type Examined struct {
	Name string   `json:"name"`
	Doc  string   `json:"doc"`
	Saw  []string `json:"saw"`
}

// Report is a broker's health at one moment.
type Report struct {
	Broker  int32     `json:"broker"` // node.id
	Version string    `json:"version"`
	At      time.Time `json:"at"` // UTC
	// Ready reports whether clients are served: no finding is NotReady.
	Ready bool `json:"ready"`
	// Phase is what the broker does instead of serving clients, such as "recovering logs"; empty
	// while it serves them. Progress has one line for each part of the phase.
	Phase    string     `json:"phase"`
	Progress []string   `json:"progress"`
	Findings []Finding  `json:"findings"` // worst first
	Checks   []Examined `json:"checks"`
}

// Sort orders findings, worst first; those of the same severity keep their order.
func Sort(all []Finding) {
	order := Severities()
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
}

// Text returns the report for people and for /readyz: a first line that begins with "ready" or "not
// ready", the progress of startup or shutdown, and one line for each finding that is worse than a
// note.
func (r *Report) Text() string {
	var b strings.Builder
	switch {
	case r.Ready:
		b.WriteString("ready\n")
	case r.Phase != "":
		b.WriteString("not ready: " + r.Phase + "\n")
	default:
		b.WriteString("not ready\n")
	}
	for _, line := range r.Progress {
		b.WriteString(line + "\n")
	}
	for i := range r.Findings {
		// The first line already reports the phase.
		if f := &r.Findings[i]; f.Severity != Note && f.Check != CheckServing {
			b.WriteString(f.String() + "\n")
		}
	}
	return b.String()
}

// Line returns Text as one line.
func (r *Report) Line() string { return strings.ReplaceAll(strings.TrimSpace(r.Text()), "\n", "; ") }

// CheckServing is the check whose finding is the phase of a broker that does not serve clients.
const CheckServing = "serving"

// CheckMembership is the check that measures, on a member of a cluster, whether the controller
// accepts its heartbeats.
const CheckMembership = "membership"
