package checks

import (
	"fmt"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// Snapshots is what a broker knows of the snapshots of its cluster. If it does not lead the
// metadata, it has its own settings and Unasked only.
type Snapshots struct {
	view.Snapshots
	// Unasked is since when no broker has asked this one for its part of a snapshot; zero for the
	// one that leads the metadata.
	Unasked time.Time
	// Newest is the newest snapshot; nil: there is none.
	Newest *view.Snapshot
	// Damaged is the newest of those that a verification has found damaged; nil: there is none.
	Damaged *view.Snapshot
	// Suspect: the newest may have the objects of a damaged one.
	Suspect bool
}

// missedSnapshots is how many intervals of snapshots may pass without one before it is a finding,
// and missedLeast the least time: uploads may be slow for a while. If attempts fail, for example
// because the store is gone, missedLeast after the first one was due is enough, unless a later
// attempt is uploading.
const (
	missedSnapshots = 3
	missedLeast     = 10 * time.Minute
)

// sameDisk returns a directory with data on the file system of the snapshots, empty if none is.
func sameDisk(f *Facts) string {
	for i := range f.MountedDirs {
		if d := &f.MountedDirs[i]; f.Archive.Mount.Device != "" && d.Mount.Device == f.Archive.Mount.Device {
			return d.String()
		}
	}
	return ""
}

// checkSnapshots notes what an operator would learn when a snapshot is needed. No record is missing
// meanwhile, so nothing of it is Bad.
func checkSnapshots(f *Facts, n *notes) {
	s := f.Snapshots
	if s == nil || s.URL == "" {
		return
	}
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	finding := func(severity health.Severity, problem, remedy string) health.Finding {
		return health.Finding{Severity: severity, Subject: "snapshots", Problem: problem, Remedy: remedy,
			Works: "records are accepted and read as before"}
	}
	add := func(severity health.Severity, problem, remedy string) {
		n.addFinding(finding(severity, problem, remedy))
	}
	if with := sameDisk(f); with != "" {
		add(health.Note, fmt.Sprintf("archive.url is on the file system of %s: who loses that disk loses the snapshots, too", with),
			"use a bucket, or a directory on another disk")
	}
	list := health.Command("chronikctl", "snapshot", "list")
	x := s.Newest
	interval := time.Duration(s.IntervalMs) * time.Millisecond
	late := max(missedSnapshots*interval, missedLeast)
	failing := late
	uploads := s.Running != nil && s.Running.Number > 0 // the store has answered, and the cut is taken
	fails := s.Failures > 1 || s.Failures == 1 && !uploads
	if fails {
		failing = min(late, interval+missedLeast)
	}
	switch {
	case !s.Unasked.IsZero() && interval > 0 && f.Now.Sub(s.Unasked) >= late:
		unasked := finding(health.Warn, fmt.Sprintf("no broker has asked for its part of a snapshot since %s: the one that leads the "+
			"metadata takes none", s.Unasked.UTC().Format(time.RFC3339)), "set archive.url and snapshot.interval.ms to the same values on "+
			"all brokers, and restart those that differ; "+list+" shows what the others do")
		unasked.Stops = true
		n.addFinding(unasked)
	case x == nil && fails:
		add(health.Warn, "there is no snapshot, and none can be taken: "+s.LastError, "mend what the reason says; the broker tries again")
	case x != nil && interval > 0 && f.Now.Sub(time.UnixMilli(x.TimeMs)) >= failing:
		problem := fmt.Sprintf("the newest snapshot is of %s, and one is to be taken every %v", at(x.TimeMs), interval)
		if s.Failures > 0 {
			problem += "; the last attempt failed: " + s.LastError
		}
		add(health.Warn, problem, "mend what the reason says; without one, "+list+" shows what is uploaded, which may be too slow for the "+
			"interval")
	case s.Failures > 0:
		add(health.Note, "the last attempt to take a snapshot failed: "+s.LastError, "the broker tries again")
	}
	if x == nil {
		return
	}
	n.see(fmt.Sprintf("snapshot %d of %s", x.Number, at(x.TimeMs)))
	if d := s.Damaged; d != nil {
		others := ""
		if s.Suspect && d.Number != x.Number {
			others = fmt.Sprintf("; nor can the newest, %d, if it has the same objects", x.Number)
		}
		add(health.Warn, fmt.Sprintf("snapshot %d cannot be restored, as its verification at %s found: %s%s", d.Number, at(d.VerifiedMs),
			d.Damage, others), "take another one ("+health.Command("chronikctl", "snapshot", "create")+"), verify it, and find out what "+
			"changes objects in the store; then "+health.Command("chronikctl", "snapshot", "delete", strconv.FormatInt(d.Number, 10)))
	}
	if x.Offline > 0 {
		add(health.Warn, fmt.Sprintf("snapshot %d lacks %s that no broker could read", x.Number, text.Count(x.Offline, "partition")),
			"bring their brokers back, which other findings name; the next snapshot then has them")
	}
}
