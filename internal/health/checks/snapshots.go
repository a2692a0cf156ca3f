package checks

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// Snapshots is what the broker that leads the metadata knows of the snapshots of its cluster.
type Snapshots struct {
	view.Snapshots
	// Newest is the newest snapshot; nil: there is none.
	Newest *view.Snapshot
}

// missedSnapshots is how many intervals of snapshots may pass without one before it is a finding,
// and missedLeast the least time: uploads may be slow for a while.
const (
	missedSnapshots = 3
	missedLeast     = 10 * time.Minute
)

// checkSnapshots notes what an operator would learn when a snapshot is needed. Only the broker that
// leads the metadata has the facts.
func checkSnapshots(f *Facts, n *notes) {
	s := f.Snapshots
	if s == nil || s.URL == "" {
		return
	}
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	add := func(severity health.Severity, problem, remedy string) {
		n.addFinding(health.Finding{Severity: severity, Subject: "snapshots", Problem: problem, Remedy: remedy,
			Works: "records are accepted and read as before"})
	}
	list := health.Command("chronikctl", "snapshot", "list")
	x := s.Newest
	interval := time.Duration(s.IntervalMs) * time.Millisecond
	late := max(missedSnapshots*interval, missedLeast)
	switch {
	case x == nil && s.Failures > 0:
		add(health.Bad, "there is no snapshot, and none can be taken: "+s.LastError, "mend what the reason says; the broker tries again")
	case x != nil && interval > 0 && f.Now.Sub(time.UnixMilli(x.TimeMs)) >= late:
		problem := fmt.Sprintf("the newest snapshot is of %s, and one is to be taken every %v", at(x.TimeMs), interval)
		if s.Failures > 0 {
			problem += "; the last attempt failed: " + s.LastError
		}
		add(health.Bad, problem, "mend what the reason says; without one, "+list+" shows what is uploaded, which may be too slow for the "+
			"interval")
	case s.Failures > 0:
		add(health.Note, "the last attempt to take a snapshot failed: "+s.LastError, "the broker tries again")
	}
	if x == nil {
		return
	}
	n.see(fmt.Sprintf("snapshot %d of %s", x.Number, at(x.TimeMs)))
	if x.Damage != "" {
		add(health.Bad, fmt.Sprintf("snapshot %d cannot be restored, as its verification at %s found: %s", x.Number, at(x.VerifiedMs),
			x.Damage), "take another one ("+health.Command("chronikctl", "snapshot", "create")+"), verify it, and find out what changes "+
			"objects in the store")
	}
	if x.Offline > 0 {
		add(health.Warn, fmt.Sprintf("snapshot %d lacks %d partitions that no broker could read", x.Number, x.Offline),
			"bring their brokers back, which other findings name; the next snapshot then has them")
	}
}
