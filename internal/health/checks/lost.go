package checks

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
)

// Lost is a directory that was removed, replaced or emptied while the broker uses it.
type Lost struct {
	Role, Path string
	Why        string // "it was removed"
	// Files: only journal files are missing, and the directory is there.
	Files bool
}

// Free is a name to which a log directory can be moved: nothing has it.
type Free struct {
	Path, Away string
}

// checkLost reports a fault that no read or write detects: files without a name can be read and
// written as long as the process has them open. So can those in a directory whose disk is not
// mounted; the broker cannot distinguish that from a disk that was replaced.
func checkLost(f *Facts, n *notes) {
	if len(f.Exchanged) > 0 {
		n.addFinding(health.Finding{Severity: health.Note, About: about(f.Exchanged), Stops: true,
			Subject: RoleLogs + " " + strings.Join(f.Exchanged, ", "),
			Problem: "it was empty at this start, and a log directory that the broker had before is not there",
			Works:   "replicas that other brokers have are copied again into it; what no other broker has is a finding of its own",
			Remedy: "if a file system is not mounted, stop the broker, mount it, and start the broker: it then has what it had; " +
				"nothing if a disk was replaced"})
	}
	if list := f.outermost(); len(list) > 0 {
		n.addFinding(f.lost(list))
	}
}

// about returns what a finding about log directories is about, if that is one.
func about(paths []string) *health.About {
	if len(paths) != 1 {
		return nil
	}
	return &health.About{Dir: paths[0]}
}

// outermost returns the directories that were removed, without those in another of them.
func (f *Facts) outermost() []Lost {
	return slices.DeleteFunc(slices.Clone(f.Lost), func(l Lost) bool {
		return slices.ContainsFunc(f.Lost, func(other Lost) bool { return strings.HasPrefix(l.Path, other.Path+"/") })
	})
}

// lost is the one finding about directories that were removed: they have the same remedy.
func (f *Facts) lost(list []Lost) health.Finding {
	x := health.Finding{Severity: health.Bad, Subject: list[0].Role + " " + list[0].Path, Stops: true,
		Problem: list[0].Why + " while the broker uses it: ", Works: "until then the broker reads and writes its open files",
		Remedy: f.restore(list) + " (docs/operations.md, A directory that was removed)"}
	if list[0].Role == RoleLogs {
		x.About = &health.About{Dir: list[0].Path}
	}
	if len(list) > 1 {
		x.About = nil
		var why []string
		for _, l := range list {
			why = append(why, l.Role+" "+l.Path+": "+l.Why)
		}
		x.Subject, x.Problem = "directories of the broker", strings.Join(why, "; ")+"; the broker uses them: "
	}
	if !slices.ContainsFunc(list, func(l Lost) bool { return !l.Files }) {
		x.Problem += "if the broker is killed or the machine fails, the records that only these files have, and those that the broker " +
			"acknowledges into them from now on, are lost, and the broker does not start"
		return x
	}
	var what []string
	if slices.ContainsFunc(list, func(l Lost) bool { return l.Role != RoleMetadata }) {
		what = append(what, "the records in it, and those that the broker acknowledges from now on, can be lost when the broker stops")
	}
	if slices.ContainsFunc(list, func(l Lost) bool { return l.Role == RoleMetadata }) {
		text := "topics, configs and group settings that change from now on are lost when the broker stops"
		if f.several() {
			text = "when the broker stops, it loses its copy of the metadata, and its vote until it has copied them again"
		}
		what = append(what, text)
	}
	x.Problem += strings.Join(what, "; ")
	return x
}

// removed reports whether a directory, or one in it, was removed. Without single files of its
// journal a directory works, so its other faults do not follow from that.
func (f *Facts) removed(dir string) bool {
	if dir == "" { // of a log whose directory is not known
		return false
	}
	dir = f.absolute(dir)
	return slices.ContainsFunc(f.Lost, func(l Lost) bool {
		at := f.absolute(l.Path)
		return !l.Files && (at == dir || strings.HasPrefix(at, dir+"/"))
	})
}

// several reports whether other brokers have what this one has.
func (f *Facts) several() bool { return f.Cluster != nil && len(f.Cluster.Brokers) > 1 }

// restore returns the remedy for directories that were removed, which stops the broker. Of several
// brokers, the others have what was in it, and a repair would leave out what they have.
func (f *Facts) restore(list []Lost) string {
	if !slices.ContainsFunc(list, func(l Lost) bool { return !l.Files }) {
		return "restart the broker with an orderly stop (SIGTERM, as `systemctl restart` does), and do not kill it: before it ends, it " +
			"writes the records that only the journal has to the segments, and begins another journal file; if another finding says that " +
			"the directory accepts no records, do first what that says, for example free space"
	}
	if !f.several() {
		all := []string{"mkdir", "-p"}
		for _, l := range list {
			all = append(all, l.Path)
		}
		more := []string{"--backup", f.backup("")}
		if f.Cluster != nil && f.Cluster.Self != 1 { // the replicas of metadata that are built from the logs are this broker's
			more = append([]string{"--node-id", strconv.Itoa(int(f.Cluster.Self))}, more...)
		}
		return "stop producers; as the broker's user run " + health.Command(all...) + "; stop the broker, run " +
			logCommand("repair", f.whole(), more...) + ", then start the broker"
	}
	var away []string // log directories that the broker would not start with: what it wrote last is there
	for _, l := range list {
		logs := f.absolute(l.Path)
		switch l.Role {
		case RoleMetadata:
			continue
		case RoleJournal:
			logs = path.Dir(logs)
			for _, d := range f.Dirs {
				if f.absolute(d.Journal) == f.absolute(l.Path) {
					logs = f.absolute(d.Path)
				}
			}
		}
		if !slices.Contains(away, logs) {
			away = append(away, logs)
		}
	}
	if len(away) == 0 {
		return "stop the broker, then start the broker: it copies from the other brokers what was there"
	}
	var places []string
	for _, l := range list {
		if l.Role != RoleMetadata {
			places = append(places, f.absolute(l.Path))
		}
	}
	moves := ""
	for _, logs := range away {
		moves += "if " + logs + " is there then, run " + health.Command("mv", logs, f.free(logs)) + "; "
	}
	return "stop the broker; look for what was there before: if it was only moved or renamed, move it back to " +
		strings.Join(places, " and ") + ", after moving away what replaced it, and start it, which copies what is missing from the other " +
		"brokers; only if it is gone: " + moves + "start the broker: it copies its replicas from the other brokers; partitions that have no " +
		"other replica are in what was moved, or lost; what was moved takes space until it is deleted, which is safe when `chronikctl cluster " +
		"health` is healthy"
}

// free returns a name for what is left of a log directory. mv moves a directory into one that
// exists, so it is a name that does not exist, as far as that is known.
func (f *Facts) free(logs string) string {
	for _, x := range f.Free {
		if f.absolute(x.Path) == logs {
			return f.absolute(x.Away)
		}
	}
	return logs + ".away"
}

// absolute returns a path for a remedy, whose commands run in another working directory than the
// broker's.
func (f *Facts) absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(f.Settings.WorkingDir, p)
}

// backup returns a new directory for the files that a repair of a log directory changes; if dir is
// empty, for those of all directories. It is in the data directory, where the broker's user, as
// whom a repair must run, can write. A repair does not accept one in a log directory.
func (f *Facts) backup(dir string) string {
	name := path.Join(f.Settings.DataDir, strings.TrimLeft(path.Base(dir)+".before-repair", "."))
	for _, d := range f.Dirs {
		if strings.HasPrefix(name, f.absolute(d.Path)+"/") {
			return f.Settings.DataDir + ".before-repair"
		}
	}
	return name
}
