// Package health is the vocabulary in which a broker reports what is wrong with it: one Report
// with one list of Findings, in one JSON form, with one set of severities.
//
// Every surface shows that list in the same words: GET /v1/health is a Report, /readyz is
// Report.Text, the log and the metric chronik_findings are made from it, and chronikctl prints it.
// The package has no dependencies, so that both the broker and chronikctl can import it.
// health/checks makes the reports; health/host reads the machine.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity says what a finding means for records.
type Severity string

// The severities, worst first.
const (
	// Bad: some records cannot be written or read now.
	Bad Severity = "bad"
	// Warn: one more failure, or more of the same, and they cannot; or a promise does not hold.
	Warn Severity = "warn"
	// Note: everything works as it was configured, but the operator should know.
	Note Severity = "note"
)

// Severities lists all severities, worst first.
func Severities() []Severity { return []Severity{Bad, Warn, Note} }

// Known reports whether the severity is one of Severities.
func (s Severity) Known() bool { return slices.Contains(Severities(), s) }

// Finding is one thing that is wrong. Two findings of the same check and subject are the same fault
// with other numbers.
type Finding struct {
	Check    string    `json:"check"`    // name of the check that found it
	Severity Severity  `json:"severity"` //
	Subject  string    `json:"subject"`  // where: "log directory /data"
	Problem  string    `json:"problem"`  // what is wrong and what follows from it
	Works    string    `json:"works"`    // what still works; empty if there is nothing to add
	Remedy   string    `json:"remedy"`   // what to do
	Since    time.Time `json:"since"`    // when the broker first found it, UTC
	NotReady bool      `json:"notReady"` // clients should be sent elsewhere: /readyz answers 503
}

// String is the finding in one line, without its remedy.
func (f *Finding) String() string {
	text := fmt.Sprintf("%s: %s: %s", f.Severity, f.Subject, f.Problem)
	if f.Works != "" {
		text += "; " + f.Works
	}
	return text
}

// Examined is a check and what it measured, so that an empty list of findings is not mistaken for
// more than it is.
type Examined struct {
	Name string   `json:"name"`
	Doc  string   `json:"doc"`
	Saw  []string `json:"saw"`
}

// Report is what a broker knows about its health at one moment.
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

// Text is the report for people and for /readyz: a first line that begins with "ready" or
// "not ready", how far a start or stop is, and one line for each finding that is worse than a note.
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

// CheckServing is the check whose finding is the phase of a broker that does not serve clients.
const CheckServing = "serving"
