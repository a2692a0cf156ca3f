package checks

import (
	"path"
	"strings"

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
			Remedy: "stop producers; as the broker's user run `mkdir -p " + l.Path + "`; stop the broker, run `chronikctl log repair " + f.whole() +
				" --backup " + f.Settings.DataDir + ".before-repair`, then start the broker (docs/operations.md, A directory that was removed)"})
	}
}

// whole is the flags that show all directories of the broker to chronikctl log: a repair that does not see one takes it for lost.
func (f *Facts) whole() string {
	logs := path.Join(f.Settings.DataDir, "logs")
	for _, d := range f.Dirs {
		// A log directory may be named relative to the broker's working directory, as data.dir is.
		own := d.Path == logs || !path.IsAbs(d.Path) && strings.HasSuffix(logs, "/"+d.Path)
		if !own || d.Journal != path.Join(d.Path, "journal") {
			return "--config /etc/chronik/chronikd.yaml" // the broker does not know which file was read; the unit's is there
		}
	}
	return "--dir " + f.Settings.DataDir
}
