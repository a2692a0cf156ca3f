package checks

import (
	"fmt"
	"slices"

	"github.com/chronik-io/chronik/internal/health"
)

// mostPartitions bounds how many partitions a check reports one by one.
const mostPartitions = 10

func servingChecks() []Check {
	return []Check{
		{Name: health.CheckServing, // a Monitor adds its finding: see Monitor.Enter
			Doc: "Whether clients are served, and what the broker does instead: a start that recovers, a stop that drains."},
		{Name: checkResponding, // a Monitor adds its finding: see Monitor.Report
			Doc: "Whether the checks themselves finish. If not, a lock or a call of the operating system hangs."},
		{Name: "log_dir", run: checkLogDirs,
			Doc: "Whether each log directory was opened and takes records. After a failed write or sync the broker reopens its journal."},
		{Name: "partition", run: checkPartitions,
			Doc: "Partitions that cannot be written or read: their log is offline or could not be created."},
		{Name: "damage", run: checkDamage,
			Doc: "Partitions in which a read found damaged records."},
	}
}

// checkResponding is the name of the check whose finding reports checks that hang.
const checkResponding = "responding"

func checkLogDirs(f *Facts, n *notes) {
	works := func(d Dir) bool { return d.Err == "" }
	notReady := len(f.Dirs)+len(f.Unopened) > 0 && !slices.ContainsFunc(f.Dirs, works)
	const others = "partitions in the other log directories can be written and read"
	finding := func(path, problem, remedy string) {
		x := health.Finding{Severity: health.Bad, Subject: "log directory " + path, Problem: problem, Remedy: remedy, NotReady: notReady}
		if !notReady {
			x.Works = others
		}
		n.addFinding(x)
	}
	for _, d := range f.Dirs {
		n.see(fmt.Sprintf("log directory %s with %d partitions", d.Path, d.Logs))
		if d.Err != "" {
			finding(d.Path, d.Err, "check the disk and the kernel's log; the broker reopens the directory automatically when the disk works again "+
				"(docs/operations.md, A damaged disk)")
		}
	}
	for _, d := range f.Unopened {
		finding(d.Path, "it could not be opened, its partitions are offline: "+d.Why,
			"repair it and restart the broker (docs/operations.md, A damaged disk)")
	}
}

func checkPartitions(f *Facts, n *notes) {
	var all []Partition
	for _, p := range f.Partitions {
		if p.Offline != "" && !f.dirFailed(p.Dir) {
			all = append(all, p)
		}
	}
	for i, p := range all {
		if i == mostPartitions {
			n.addFinding(health.Finding{Severity: health.Bad, Subject: "partitions", Problem: fmt.Sprintf("%d more cannot be written or read", len(all)-i),
				Remedy: "follow the findings above; chronikctl topic describe TOPIC -o wide lists the partitions of a topic with their errors"})
			return
		}
		x := health.Finding{Severity: health.Bad, Subject: "partition " + p.String(), Problem: "it can be neither written nor read: " + p.Offline,
			Works: "the other partitions of the topic can be written and read",
			Remedy: "stop the broker; chronikctl log verify reports the damage, and chronikctl log repair --dry-run what a repair would do " +
				"(docs/operations.md, A damaged disk)"}
		if p.Retried {
			x.Remedy = "remove the cause; the broker then creates the log automatically within half a minute"
		}
		n.addFinding(x)
	}
}

// dirFailed reports whether a log directory has a finding of its own, which covers its partitions.
func (f *Facts) dirFailed(path string) bool {
	return slices.ContainsFunc(f.Dirs, func(d Dir) bool { return d.Path == path && d.Err != "" })
}

func checkDamage(f *Facts, n *notes) {
	count := 0
	for _, p := range f.Partitions {
		if p.Damaged == "" {
			continue
		}
		if count++; count > mostPartitions {
			continue
		}
		n.addFinding(health.Finding{Severity: health.Bad, Subject: "partition " + p.String(), Problem: "some records cannot be read: " + p.Damaged,
			Works: "the records before and after the damage can be read, and new ones can be written",
			Remedy: "consume from an offset behind the damage; chronikctl log verify on the stopped broker reports the offsets, and chronikctl log repair --dry-run " +
				"what a repair would do (docs/operations.md, A damaged disk)"})
	}
	if more := count - mostPartitions; more > 0 {
		n.addFinding(health.Finding{Severity: health.Bad, Subject: "partitions", Problem: fmt.Sprintf("%d more have damaged records", more),
			Remedy: "follow the findings above; chronikctl topic describe TOPIC -o wide lists the partitions of a topic with their errors"})
	}
}
