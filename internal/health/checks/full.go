package checks

import (
	"slices"
	"strings"
	"syscall"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// checkOfSpace is the check of free space.
const checkOfSpace = "space"

// freeSpace begins the remedy of a fault whose cause is a full file system.
const freeSpace = "free space, or enlarge the disk (`df -h`, `df -i`): "

// full reports whether an error says that a file system, or a quota, is full.
func full(err string) bool {
	return strings.Contains(err, syscall.ENOSPC.Error()) || strings.Contains(err, syscall.EDQUOT.Error())
}

// filled returns the cause of a fault in a log directory whose own finding is that it is full;
// empty if it has none.
func (f *Facts) filled(dir string) string {
	low := func(d view.Dir) bool { return d.Path == dir && d.SpaceMessage != "" }
	if f.Cluster == nil || !slices.ContainsFunc(f.Dirs, low) {
		return ""
	}
	return health.Cause(checkOfSpace, f.Cluster.Self)
}

// onlyFull returns the cause of faults of the storage of a broker if that is only a full log
// directory, according to its own findings; otherwise it returns an empty string.
func (f *Facts) onlyFull(broker int32) string {
	var found []health.Finding
	if broker == f.Cluster.Self {
		found, _ = Examine(slices.Concat(servingChecks(), diskChecks()), f)
	} else if o := f.other(broker); o != nil && o.Fresh(f.Now) {
		found = o.Report.Findings
	}
	cause := health.Cause(checkOfSpace, broker)
	if !slices.ContainsFunc(found, func(x health.Finding) bool { return x.Check == checkOfSpace && x.Severity == health.Bad }) {
		return ""
	}
	for i := range found {
		switch x := &found[i]; x.Check {
		case "log_dir", "removed", "stuck_disk", "partition", "damage":
			if x.Severity == health.Bad && x.Follows != cause {
				return ""
			}
		}
	}
	return cause
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
