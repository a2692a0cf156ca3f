// Package checks finds what is wrong with a broker and its machine, or is about to go wrong.
//
// A check takes Facts and adds findings: each says what is wrong, where, what still works and what
// to do. Checks read nothing and change nothing, so that a test can give them any machine. A
// Monitor gathers the facts from the sources that components register, runs all checks every few
// seconds and on request, and logs what appeared, changed or went. A component that has something
// to report adds a field to Facts, a source that fills it, and a check that words it.
//
// Every check is there for something that this broker does, and says so. Left out on purpose,
// because nothing here depends on it: vm.max_map_count (there is no mmap), transparent huge pages,
// vm.swappiness and dirty ratios, the I/O scheduler, and ext4's data=writeback (stale bytes behind
// what was synced do not pass a checksum, and nothing that was synced is touched).
package checks

import (
	"slices"

	"github.com/chronik-io/chronik/internal/health"
)

// Check is one thing that is examined.
type Check struct {
	Name string // [a-z_]+; a label of the metric
	Doc  string // what it examines and why, one line
	// Loud logs notes as warnings.
	Loud bool
	run  func(*Facts, *notes)
}

// Checks lists all checks, in the order in which reports have them.
func Checks() []Check {
	return slices.Concat(servingChecks(), hostChecks(), diskChecks(), configChecks())
}

// notes gathers what one check finds.
type notes struct {
	check    string
	findings []health.Finding
	saw      []string
}

func (n *notes) add(severity health.Severity, subject, problem, remedy string) {
	n.addFinding(health.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
}

// addFinding is add for a finding with more than the usual fields.
func (n *notes) addFinding(f health.Finding) {
	f.Check = n.check
	n.findings = append(n.findings, f)
}

// see notes what was measured and how it is.
func (n *notes) see(text string) { n.saw = append(n.saw, text) }

// Examine runs checks over facts. The findings are sorted, worst first, and within a severity in
// the order of the checks; their Since is not set.
func Examine(all []Check, f *Facts) ([]health.Finding, []health.Examined) {
	findings, examined := []health.Finding{}, make([]health.Examined, 0, len(all))
	for _, c := range all {
		n := notes{check: c.Name, saw: []string{}}
		if c.run != nil {
			c.run(f, &n)
		}
		findings = append(findings, n.findings...)
		examined = append(examined, health.Examined{Name: c.Name, Doc: c.Doc, Saw: n.saw})
	}
	health.Sort(findings)
	return findings, examined
}
