package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// checkReports finds active brokers whose own report does not arrive. Brokers that are not active
// have a finding of their own, which says how old their report is.
func checkReports(f *Facts, n *notes) {
	if f.Cluster == nil || !f.Serving {
		return
	}
	for i := range f.Others {
		o := &f.Others[i]
		switch {
		case o.Mute:
			n.see(fmt.Sprintf("broker %d runs a version that reports nothing to other brokers", o.Broker))
			continue
		case o.Report != nil:
			n.see(fmt.Sprintf("report of broker %d, %s old", o.Broker, age(f.Now.Sub(o.At))))
		}
		expected := o.Active
		if o.At.After(expected) {
			expected = o.At
		}
		if o.Active.IsZero() || f.Now.Sub(expected) < health.FreshFor || elects(f.Cluster) {
			continue
		}
		cause, state := "", "it is active, but "
		if !leads(f.Cluster) { // then it may have ended
			cause, state = health.Cause(health.CheckQuorum, f.Cluster.Self), ""
		}
		if i := slices.IndexFunc(f.Cluster.Unreached, func(x view.Unreached) bool { return x.Broker == o.Broker && f.stands(&x) }); i >= 0 {
			x := &f.Cluster.Unreached[i]
			if x.Follows {
				continue // the connection that cannot be made is a finding
			}
			cause = f.follows(x)
		}
		cause = cmp.Or(f.twins(o.Broker, f.Cluster.Self), cause)
		problem := state + "its own report does not arrive, so that its findings are not known here" +
			f.unreached(o.Broker)
		if o.Report != nil {
			problem += f.reported(o.Broker)
		}
		n.addFinding(health.Finding{Follows: cause, Severity: health.Warn, Subject: fmt.Sprintf("report of broker %d", o.Broker),
			Problem: problem,
			Works:   "what follows from the metadata is known of it",
			Remedy: fmt.Sprintf("check the network between this broker and broker %d, in both directions, and the load of both machines; "+
				"the log of this broker names what happens to the connection (%s)", o.Broker, clusterPage)})
	}
}

// other returns the report of a broker, nil if none is expected.
func (f *Facts) other(broker int32) *Other {
	if i := slices.IndexFunc(f.Others, func(o Other) bool { return o.Broker == broker }); i >= 0 {
		return &f.Others[i]
	}
	return nil
}

// reported returns what another broker's own report adds to what the metadata show of it: what it
// does instead of serving clients, or how old the report is and what it had; empty if there is
// nothing to add.
func (f *Facts) reported(broker int32) string {
	o := f.other(broker)
	switch {
	case o == nil || o.Report == nil:
		return ""
	case !o.Fresh(f.Now):
		text := fmt.Sprintf("; its own report is %s old", age(f.Now.Sub(o.At)))
		if i := slices.IndexFunc(o.Report.Findings, telling); i >= 0 {
			x := &o.Report.Findings[i]
			text += fmt.Sprintf(" and has: %s: %s", x.Subject, x.Problem)
		}
		return text
	case o.Report.Phase != "":
		return "; it reports: " + strings.Join(append([]string{o.Report.Phase}, o.Report.Progress...), ", ")
	}
	return ""
}

// telling reports whether a finding may explain why its broker was not heard later.
func telling(x health.Finding) bool {
	return x.Broker != health.NoBroker && x.Severity != health.Note && !slices.Contains(ofContact, x.Check)
}

// ofContact are the checks whose findings are about the contact with other brokers, or about these:
// when a broker ends, the others are often not in order, either.
var ofContact = []string{
	health.CheckServing, health.CheckMembership, health.CheckQuorum, health.CheckReports, checkOfSeeds, checkOfForwarding,
}

// ofLogs are the checks whose findings about a log are faults of the log.
var ofLogs = []string{checkOfLogs, checkOfDamage}

// faulty returns those of some partitions about which a broker itself has a finding: their replicas
// there are offline or damaged, so that waiting does not help.
func (f *Facts) faulty(broker int32, p *view.Partitions) (list view.Partitions) {
	o := f.other(broker)
	if o == nil || !o.Fresh(f.Now) {
		return list
	}
	for _, name := range p.Names {
		if slices.ContainsFunc(o.Report.Findings, func(x health.Finding) bool {
			return x.Severity != health.Note && x.IsAboutLog(name) && slices.Contains(ofLogs, x.Check)
		}) {
			list.Count, list.Names = list.Count+1, append(list.Names, name)
		}
	}
	return list
}

// age formats the age of a report.
func age(d time.Duration) string { return d.Truncate(time.Second).String() }
