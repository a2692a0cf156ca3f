package checks

import (
	"github.com/chronik-io/chronik/internal/health"
)

// Lost is a directory that was removed, replaced or emptied while the broker uses it.
type Lost struct {
	Role, Path string
	Why        string // "it was removed"
}

// checkLost reports what no read or write notices: files that have no name any more can be read and
// written as long as the process has them open.
func checkLost(f *Facts, n *notes) {
	for _, l := range f.Lost {
		what := "the records in it, and those that the broker acknowledges from now on, can be lost when the broker stops"
		if l.Role == RoleMetadata {
			what = "topics, configs and group settings that change from now on are lost when the broker stops"
		}
		n.addFinding(health.Finding{Severity: health.Bad, Subject: l.Role + " " + l.Path, Problem: l.Why + " while the broker uses it: " + what,
			Works: "until then the broker reads and writes its open files",
			Remedy: "stop producers; as the broker's user run `mkdir -p " + l.Path + "`; stop the broker, run `chronikctl log repair --dir " + f.Settings.DataDir +
				" --backup " + f.Settings.DataDir + ".before-repair`, then start the broker (docs/operations.md, A directory that was removed)"})
	}
}
