package checks

import (
	"slices"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// checkOfSpace is the check of free space.
const checkOfSpace = "space"

// checkOfRemoved is the check of directories that were removed.
const checkOfRemoved = "removed"

// checkOfLogs is the check of logs that cannot be used, and checkOfDamage that of damaged records.
const (
	checkOfLogs   = "partition"
	checkOfDamage = "damage"
)

// checkOfSeeds is the check of the addresses of other brokers, and checkOfForwarding that of the
// requests that are passed to them.
const (
	checkOfSeeds      = "seeds"
	checkOfForwarding = "forwarding"
)

// ofStorage are the checks of what a broker needs to write.
var ofStorage = []string{checkOfSpace, checkOfRemoved, "log_dir", "stuck_disk", checkOfLogs, checkOfDamage}

// freeSpace begins the remedy of a fault whose cause is a full file system.
const freeSpace = "free space, or enlarge the disk (`df -h`, `df -i`): "

// cause returns the cause of a fault in a directory that has a finding of its own: it is full, or
// was removed; empty if it has none. full reports that the error of the fault says the former.
func (f *Facts) cause(dir string, full bool) string {
	low := func(d view.Dir) bool { return d.Path == dir && d.SpaceMessage != "" }
	switch {
	case f.Cluster == nil:
	case full && slices.ContainsFunc(f.Dirs, low):
		return health.Cause(checkOfSpace, f.Cluster.Self)
	case f.removed(dir):
		return health.Cause(checkOfRemoved, f.Cluster.Self)
	}
	return ""
}

// causeOf returns the cause of faults of the storage of a broker if its own findings have one;
// otherwise it returns an empty string.
func (f *Facts) causeOf(broker int32) string {
	var found []health.Finding
	if broker == f.Cluster.Self {
		found, _ = Examine(slices.Concat(servingChecks(), diskChecks()), f)
	} else if o := f.other(broker); o != nil && o.Fresh(f.Now) {
		found = o.Report.Findings
	}
	cause := ""
	for i := range found {
		x := &found[i]
		if x.Severity == health.Note || x.Follows != "" || !slices.Contains(ofStorage, x.Check) {
			continue
		}
		switch own := health.Cause(x.Check, broker); cause {
		case "", own:
			cause = own
		default:
			return ""
		}
	}
	return cause
}

// onlyFull is causeOf if the cause is a full log directory.
func (f *Facts) onlyFull(broker int32) string {
	if cause := f.causeOf(broker); cause == health.Cause(checkOfSpace, broker) {
		return cause
	}
	return ""
}

// onlyAllFull is onlyFull for several brokers; it returns the cause of the first.
func (f *Facts) onlyAllFull(brokers []int32) string {
	for _, id := range brokers {
		if f.onlyFull(id) == "" {
			return ""
		}
	}
	if len(brokers) == 0 {
		return ""
	}
	return f.onlyFull(brokers[0])
}
