// Package checks detects what is wrong with a broker and its machine, or about to go wrong.
//
// A check takes Facts and adds findings: each states the problem, where it is, what still works and
// what to do. Checks read nothing and change nothing, so that a test can describe any machine. A
// Monitor gathers the facts from the sources that components register, runs all checks every few
// seconds and on request, and logs findings that appear, change their severity or are resolved. A
// component with something to report adds a field to Facts, a source that fills it, and a check.
//
// Every check states which function of this broker depends on it. Left out on purpose, because
// nothing here depends on them, are vm.max_map_count (there is no mmap), transparent huge pages,
// vm.swappiness and dirty ratios, the I/O scheduler, and ext4's data=writeback (stale bytes behind
// synced data fail the checksum, and synced data is not overwritten).
package checks

import (
	"slices"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

// Check examines one aspect of a broker or its machine.
type Check struct {
	Name string // [a-z_]+; a label of the metric
	Doc  string // its subject and the reason, one line
	// Loud logs notes as warnings.
	Loud bool
	run  func(*Facts, *notes)
}

// Checks returns all checks in the order of reports.
func Checks() []Check {
	return slices.Concat(servingChecks(), clusterChecks(), hostChecks(), diskChecks(), configChecks())
}

// notes collects the findings of one check.
type notes struct {
	check    string
	findings []health.Finding
	saw      []string
}

func (n *notes) add(severity health.Severity, subject, problem, remedy string) {
	n.addFinding(health.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
}

// addDir is add for a finding about a log directory.
func (n *notes) addDir(severity health.Severity, path, problem, remedy string) {
	x := health.OfDir(path)
	x.Severity, x.Problem, x.Remedy = severity, problem, remedy
	n.addFinding(x)
}

// addFinding is add for a finding with further fields. Clients choose the names in it, and readers
// print them: on terminals, in the log, and as lines of /readyz. So nothing is read from its words:
// a check whose remedy stops a broker sets Stops.
func (n *notes) addFinding(f health.Finding) {
	f.Check = n.check
	for _, s := range []*string{&f.Subject, &f.Problem, &f.Works, &f.Remedy} {
		*s = text.Plain(*s)
	}
	n.findings = append(n.findings, f)
}

// addShared is addFinding for what follows from the metadata, so that every broker finds it.
func (n *notes) addShared(f health.Finding) {
	f.Broker = health.NoBroker
	n.addFinding(f)
}

// see records a measurement.
func (n *notes) see(text string) { n.saw = append(n.saw, text) }

// Examine runs checks over facts. The findings are sorted, worst first, and those of one severity
// in the order of the checks. Their Since is not set.
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
