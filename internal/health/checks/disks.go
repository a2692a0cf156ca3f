package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

func diskChecks() []Check {
	return []Check{
		{Name: "file_system", run: checkFileSystems,
			Doc: "The file systems of the directories. fdatasync does not guarantee durability in memory, in a container's layer, on a network or user-space file system, or on a file system without a journal."},
		{Name: "mount", run: checkMountOptions,
			Doc: "Mount options that change the effect of a write or a sync: read-only, no barriers, volatile, sync."},
		{Name: "shared_disk", run: checkSharedDisk,
			Doc: "Log directories on the same disk: they fail together, which `log.dirs` is meant to avoid."},
		{Name: "sync", run: checkSyncs,
			Doc: "The measured fdatasync latency of each journal, which profile suits it, and whether the latency is too low for a disk that really syncs."},
		{Name: "journal", run: checkJournals,
			Doc: "How full each journal is, and whether its file system can hold its maximum size: at the limit producers wait."},
		{Name: checkOfSpace, run: checkSpace,
			Doc: "Free space compared with the disk guard's threshold, below which records are refused."},
		{Name: "retention", run: checkRetention,
			Doc: "Whether the disk can hold all that `retention.bytes` allows, for logs without a limit by time."},
	}
}

// Thresholds of the checks of disks.
const (
	enoughSyncs = 100                    // that make a median meaningful
	probedSyncs = 20                     // the same for a probe, which writes alone
	instant     = 50 * time.Microsecond  // less than any disk needs to empty its cache
	turning     = time.Millisecond       // a platter turns once in 4 to 11 ms
	quickSync   = 5 * time.Millisecond   // below it, sync costs little
	slowSync    = 20 * time.Millisecond  // above it, producers notice every sync
	rareSync    = 250 * time.Millisecond // as in the alert ChronikSyncSlow
	lonely      = 5                      // records of a group commit that hardly shares its sync

	fullJournal = 0.8      // of its limit
	littleSpace = 20       // a file system is nearly full if less than this part of it is free …
	muchSpace   = 10 << 30 // … and less than this many bytes
)

func checkSyncs(f *Facts, n *notes) {
	for _, d := range f.Dirs {
		l := d.Syncs
		switch {
		case l.Count >= enoughSyncs:
		case d.Probe.Count >= probedSyncs:
			l = d.Probe
		default:
			n.see(fmt.Sprintf("too few fdatasyncs in %s for a verdict (%d); chronikctl cluster health --probe-disk measures its disk",
				d.Journal, l.Count))
			continue
		}
		text := fmt.Sprintf("fdatasync in %s: median %s, 99 %% %s (%d %s)", d.Journal, upTo(l.Median), upTo(l.P99), l.Count, l.Over)
		if l.Records > 0 {
			text += fmt.Sprintf(", %.1f records share one", l.Records)
		}
		n.see(text + "; " + suits(l))
		judgeSlow(d.Path, l, n)
		for _, p := range f.MountedDirs {
			if p.Path == d.Journal {
				judgeQuick(p, l, n)
			}
		}
	}
}

// upTo formats an upper bound of a duration.
func upTo(d time.Duration) string { return "≤ " + d.Round(time.Microsecond).String() }

// suits returns which profile suits a disk.
func suits(l view.Latency) string {
	switch {
	case l.Median <= quickSync:
		return "the profile sync suits it"
	case l.Median <= slowSync:
		return "sync suits producers that send batches, medium suits many producers that send single records"
	default:
		return "high shares each sync among the most records; interval acknowledges before the sync and can lose one interval"
	}
}

func judgeSlow(dir string, l view.Latency, n *notes) {
	if l.Median > slowSync {
		what := fmt.Sprintf("half of its fdatasyncs take longer than %v (%s)", slowSync, l.Over)
		remedy := "put the journal on a faster disk (journal.dirs)"
		if l.Records > 0 && l.Records < lonely {
			what += fmt.Sprintf(", and only %.1f records share one", l.Records)
			remedy += ", or let more records share a sync: a profile that waits (docs/durability.md)"
		}
		n.addDir(health.Warn, dir, what, remedy)
		return
	}
	if l.P99 > rareSync {
		n.addDir(health.Warn, dir,
			fmt.Sprintf(
				"the median of its fdatasyncs is %s, but 1 in 100 takes longer than %v (%s): every record in such a batch waits that long",
				upTo(l.Median),
				rareSync,
				l.Over,
			),
			"other programs write to that disk, or its I/O quota is used up: give the journal its own disk (journal.dirs)")
	}
}

// judgeQuick detects a disk that completes a flush faster than is physically possible.
func judgeQuick(p MountedDir, l view.Latency, n *notes) {
	subject := p.String()
	switch {
	case kind(p.Mount.Type) == "memory":
	case l.Median <= instant && p.Disk.WriteCache == "write back":
		n.add(health.Warn, subject,
			fmt.Sprintf(
				"half of its fdatasyncs return within %v, though disk %s has a cache that loses its content without power: that is too fast for a flush of the cache, and acknowledged records may be nowhere else",
				instant,
				p.Disk.Name,
			),
			"let the disk or its virtual machine honour flushes (no cache=unsafe), or make sure that its cache has a battery")
	case l.Median < turning && p.Disk.Rotational && !virtual(p.Disk.Name):
		n.add(health.Note, subject,
			fmt.Sprintf(
				"half of its fdatasyncs return within %v, and disk %s reports that it rotates: that is faster than a platter turns, so a cache completes them",
				l.Median,
				p.Disk.Name,
			),
			"make sure that the cache of the disk or of its controller has a battery")
	}
}

// virtual reports whether a disk belongs to a virtual machine, which reports all disks as rotating.
func virtual(disk string) bool {
	return strings.HasPrefix(disk, "vd") || strings.HasPrefix(disk, "xvd")
}

func checkJournals(f *Facts, n *notes) {
	for _, d := range f.Dirs {
		if d.JournalLimit <= 0 {
			continue
		}
		n.see(fmt.Sprintf("the journal of %s has %s of %s", d.Path, text.Bytes(d.JournalBytes), text.Bytes(d.JournalLimit)))
		if float64(d.JournalBytes) >= fullJournal*float64(d.JournalLimit) {
			n.addDir(health.Warn, d.Path,
				fmt.Sprintf("its journal holds %s of %s: at the limit producers wait until segments are written",
					text.Bytes(d.JournalBytes), text.Bytes(d.JournalLimit)),
				"the disk of the segments is too slow: reduce its load, or use faster disks")
		}
		if total := f.JournalTotals[d.Journal]; total > 0 && total < d.JournalLimit {
			n.addDir(health.Warn, d.Path,
				fmt.Sprintf("its journal may grow to %s, and the file system of %s has %s",
					text.Bytes(d.JournalLimit), d.Journal, text.Bytes(total)),
				"put the journal on a larger file system (journal.dirs)")
		}
	}
}

// othersLead reports whether all that this broker had led has other leaders, so that clients do not
// need it.
func (f *Facts) othersLead() bool {
	c := f.Cluster
	return c != nil && f.Serving && leads(c) && c.Of(c.Self).Leads == 0 && c.Of(c.Self).State == "active" &&
		slices.ContainsFunc(c.Brokers, func(b view.Broker) bool { return b.Leads > 0 }) &&
		!slices.ContainsFunc(c.Leaderless, func(l view.Leaderless) bool { return slices.Contains(l.Brokers, c.Self) })
}

// spaceRemedy returns how to free space on this broker. What also deletes records on others is
// last.
func (f *Facts) spaceRemedy() string {
	const sizes, retention, page = "`chronikctl topic list -o wide` lists the sizes, ",
		"`chronikctl config set topic TOPIC retention.ms=AGE` removes what is older", " (docs/operations.md, A full disk)"
	if c := f.Cluster; c != nil && len(c.Brokers) > 1 {
		return fmt.Sprintf("remove files of other programs, or enlarge the disk; or let others have the replicas: %s"+
			"`chronikctl topic move TOPIC:PARTITIONS BROKERS` moves some, with all brokers that are to have one, `chronikctl broker drain %d` "+
			"all; last, keep fewer records on all brokers: %s from each replica%s", sizes, c.Self, retention, page)
	}
	return "remove files of other programs, enlarge the disk, or keep fewer records: " + sizes + retention + page
}

func checkSpace(f *Facts, n *notes) {
	remedy := f.spaceRemedy()
	for _, d := range f.Dirs {
		subject := "disk of " + d.Path
		if d.SpaceMessage != "" {
			works := "records can be read, topics and records deleted, and offsets committed"
			if d.Refuses == view.RefusesInternal {
				works = "records can be read, and topics and records deleted, but groups whose coordinator is this broker cannot commit offsets"
			}
			severity := health.Bad
			if f.othersLead() {
				severity, works = health.Warn, "other brokers lead all partitions, so clients continue"
			}
			n.addFinding(health.Finding{Severity: severity, Subject: subject, Problem: d.SpaceMessage,
				Works: works + "; writing resumes automatically when enough space is free", Remedy: remedy})
		}
		if !d.Space.Known() {
			continue
		}
		n.see(fmt.Sprintf("%s of %s are free in %s", text.Bytes(d.Free), text.Bytes(d.Total), d.Path))
		switch {
		case d.SpaceMessage != "" || d.Free >= max(2*d.MinFree, min(d.Total/littleSpace, muchSpace)):
		case d.MinFree > 0:
			n.add(health.Warn, subject,
				fmt.Sprintf("%s of %s are free; below %s the broker rejects records of clients",
					text.Bytes(d.Free), text.Bytes(d.Total), text.Bytes(d.MinFree)),
				remedy)
		default:
			n.add(health.Warn, subject,
				fmt.Sprintf("%s of %s are free, and the broker may fill the rest: chronik.disk.min.free.bytes is 0",
					text.Bytes(d.Free), text.Bytes(d.Total)),
				remedy)
		}
	}
}

func checkRetention(f *Facts, n *notes) {
	for _, d := range f.Dirs {
		if room := d.Total - d.MinFree; d.Space.Known() && d.KeptLogs > 0 && d.Kept > room {
			n.addDir(health.Warn, d.Path,
				fmt.Sprintf(
					"%s that only retention.bytes bounds may keep %s, and its file system can hold %s: it fills up before the oldest records are deleted",
					text.Count(d.KeptLogs, "partition"),
					text.Bytes(d.Kept),
					text.Bytes(room),
				),
				"lower retention.bytes, which applies to each partition, set retention.ms too, or enlarge the disk")
		}
	}
}
