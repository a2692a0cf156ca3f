// Package diagnose looks at what a broker knows of itself and of its machine for
// what goes wrong before somebody notices.
//
// It owns the checks: each takes Facts and notes findings, and each finding says
// what is wrong, where, and what to do. A check reads nothing and changes
// nothing, so that a test gives it any machine; diagnose/host reads the real one.
// A Watcher runs all of them now and then and on request, and tells the log what
// came and went. The daemon gathers the facts and shows the one list that comes
// out of it on the admin port and as a metric. The package knows no room.
//
// Every check is there for something that this broker does, and says so. Left out
// on purpose, because nothing here depends on it: vm.max_map_count (there is no
// mmap), transparent huge pages, vm.swappiness and dirty ratios, the I/O
// scheduler, and ext4's data=writeback (stale bytes behind what was synced do not
// pass a checksum, and nothing that was synced is touched).
package diagnose

import (
	"cmp"
	"slices"
	"time"
)

// Severity says what a finding means for records. The words are those of
// chronikctl.
type Severity string

// The severities, worst first.
const (
	// Bad: records cannot be written or read now.
	Bad Severity = "bad"
	// Warn: one more failure, or more of the same, and they cannot; or a promise
	// does not hold.
	Warn Severity = "warn"
	// Note: it works as it was set up; somebody should know.
	Note Severity = "note"
)

// Severities lists all, worst first.
func Severities() []Severity { return []Severity{Bad, Warn, Note} }

// Finding is one thing that is wrong.
type Finding struct {
	Check    string   // name of the check
	Severity Severity //
	Subject  string   // where: "log directory /data"
	What     string   // what is wrong and what follows
	Remedy   string   // what to do
	// Told is true where the room that it concerns logs the same, with more detail:
	// the Watcher does not repeat it.
	Told bool
}

// Check is one thing that is looked at.
type Check struct {
	Name string // [a-z_]+; a label of the metric
	Doc  string // what it looks for and why, one line
	// Loud has the log say notes as loudly as warnings.
	Loud bool
	run  func(*Facts, *Report)
}

// Checks lists all checks, in the order in which they are told.
func Checks() []Check {
	return slices.Concat(servingChecks(), hostChecks(), diskChecks(), configChecks())
}

// Report gathers what one check notes.
type Report struct {
	check    string
	findings []Finding
	saw      []string
}

func (r *Report) add(severity Severity, subject, what, remedy string) {
	r.findings = append(r.findings, Finding{Check: r.check, Severity: severity, Subject: subject, What: what, Remedy: remedy})
}

// see notes what was looked at and how it is, so that nobody takes an empty list
// for more than it is.
func (r *Report) see(text string) { r.saw = append(r.saw, text) }

// Looked is what one check saw.
type Looked struct {
	Check
	Saw []string
}

// Result is what all checks found at one time.
type Result struct {
	At       time.Time
	Findings []Finding // worst first; of the same severity in the order of Checks
	Looked   []Looked  // in the order of Checks
}

// Examine runs checks over facts.
func Examine(checks []Check, f *Facts) *Result {
	all := &Result{At: f.Now}
	for _, c := range checks {
		r := Report{check: c.Name}
		c.run(f, &r)
		all.Findings = append(all.Findings, r.findings...)
		all.Looked = append(all.Looked, Looked{c, r.saw})
	}
	order := Severities()
	slices.SortStableFunc(all.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity))
	})
	return all
}
