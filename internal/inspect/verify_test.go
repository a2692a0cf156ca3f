package inspect_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Verify reports a directory that a kill left as undamaged, and where the logs end. A start finds
// the same, and nothing is changed.
func TestVerifySaysWhatAStartFinds(t *testing.T) {
	t.Parallel()
	disk := used(t)
	before := tree(t, disk, root)
	r := verify(t, disk)
	for _, f := range r.Findings {
		t.Logf("%s %s %s:%d %s", f.Kind, f.Effect, f.File, f.Position, f.Detail)
		if f.Effect != inspect.Heals {
			t.Errorf("finding %+v", f)
		}
	}
	if after := tree(t, disk, root); !maps.Equal(before, after) {
		t.Error("verify has changed something")
	}
	if len(r.Partitions) != len(topics) {
		t.Errorf("%d partitions, want %d", len(r.Partitions), len(topics))
	}
	d := open(t, disk)
	defer func() { _ = d.Close() }()
	logs := logsOf(d)
	for _, p := range r.Partitions {
		e := logs[p.Topic].Ends()
		t.Logf("%+v", p)
		if p.Start != e.LogStart || p.End != e.LogEnd {
			t.Errorf("%s: verify says [%d, %d), a start [%d, %d)", p.Topic, p.Start, p.End, e.LogStart, e.LogEnd)
		}
	}
}

// Each kind of damage is reported, with its file and partition, and nothing else is. A start does
// what Verify says it does.
func TestPlantedDamageIsNamed(t *testing.T) {
	t.Parallel()
	eachPlant(t, func(t *testing.T, p plant, s *site, whole map[string]map[int64][]byte) {
		before := tree(t, s.fs, root)
		r := verify(t, s.fs)
		if after := tree(t, s.fs, root); !maps.Equal(before, after) {
			t.Error("verify has changed something")
		}
		names(t, r, p, s)
		starts(t, r, s.fs, whole)
	})
}

// names reports whether the report has the damage at its place, and nothing else.
func names(t *testing.T, r *inspect.Inspection, p plant, s *site) {
	t.Helper()
	found := 0
	for _, f := range r.Findings {
		t.Logf("%s (%s) %s at %d %s-%d: %s; lost %v", f.Kind, f.Effect, f.File, f.Position, f.Topic, f.Partition, f.Detail, f.Lost)
		switch {
		case f.Kind == p.kind && f.File == s.file && f.Topic == s.topic:
			found++
		case slices.Contains(p.also, f.Kind):
		default:
			t.Errorf("finding %s at %s of %q", f.Kind, f.File, f.Topic)
		}
		if strings.Contains(f.Repair, ", if ") {
			t.Errorf("%s leaves open what a repair does: %s", f.Kind, f.Repair)
		}
		if f.Effect != inspect.Heals && (f.Repair == "") == (f.Restore == "") {
			t.Errorf("%s says neither what a repair does nor what to do instead, or both: %q, %q", f.Kind, f.Repair, f.Restore)
		}
	}
	if found != 1 {
		t.Errorf("%s at %s of %q was found %d times", p.kind, s.file, s.topic, found)
	}
}

func opened(t *testing.T, fsys vfs.FS) *storage.Dir {
	t.Helper()
	d := open(t, fsys)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// starts compares the result of a start with the report of Verify.
func starts(t *testing.T, r *inspect.Inspection, fsys vfs.FS, whole map[string]map[int64][]byte) {
	t.Helper()
	d, err := storage.OpenDir(location, options(fsys))
	if err != nil {
		if !r.Refused() {
			t.Errorf("a start is refused, and verify doesn't say so: %v", err)
		}
		return
	}
	defer func() { _ = d.Close() }()
	if r.Refused() {
		t.Error("verify says that a start is refused, and it isn't")
	}
	logs := logsOf(d)
	for _, p := range r.Partitions {
		l := logs[p.Topic]
		if off := l.Offline() != nil; off != (p.Effect == inspect.Offline) {
			t.Errorf("%s: verify says %q, a start %v", p.Topic, p.Effect, l.Offline())
		}
		if l.Offline() == nil && p.Effect != inspect.Serves && (l.Ends().LogEnd != p.End || l.Ends().LogStart != p.Start) {
			t.Errorf("%s: verify says [%d, %d), a start %+v", p.Topic, p.Start, p.End, l.Ends())
		}
		if p.Effect == "" || p.Effect == inspect.Heals {
			same(t, p.Topic, whole[p.Topic], batches(t, l), p.Missing)
		}
	}
}

// same reports whether the logs have their earlier content, except for announced losses.
func same(t *testing.T, topic string, was, is map[int64][]byte, missing []inspect.Loss) {
	t.Helper()
	for base, b := range was {
		if bytes.Equal(is[base], b) || slices.ContainsFunc(missing, func(l inspect.Loss) bool {
			return l.From <= base && (is[base] == nil || l.To == inspect.Unknown) &&
				(l.To == inspect.Unknown || record.Batch(b).LastOffset() < l.To)
		}) {
			continue
		}
		t.Errorf("%s: the batch at %d is not what it was: %d bytes instead of %d", topic, base, len(is[base]), len(b))
	}
	for base := range is {
		if was[base] == nil {
			t.Errorf("%s: a batch at %d was never there", topic, base)
		}
	}
}
