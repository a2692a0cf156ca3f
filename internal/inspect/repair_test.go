package inspect_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

func begin(t testing.TB, fsys vfs.FS) *inspect.Repair {
	t.Helper()
	r, err := inspect.Begin(context.Background(), inspect.Options{FS: fsys, Locations: []storage.Location{location}}, "repair")
	must.OK(t, err)
	return r
}

// A repair loses nothing that it did not announce. After it a start brings every partition online,
// and each batch is unchanged or was announced to be lost. Damage that no repair helps against is
// left unchanged.
func TestRepairLosesWhatItAnnounces(t *testing.T) {
	t.Parallel()
	eachPlant(t, func(t *testing.T, p plant, s *site, whole map[string]map[int64][]byte) {
		before := tree(t, s.fs, root)
		r := begin(t, s.fs)
		defer func() { _ = r.Close() }()
		plan := r.Plan()
		for _, a := range plan.Acts {
			t.Logf("act: %s %s-%d %v, loses %v", a.What, a.Topic, a.Partition, a.Files, a.Loses)
		}
		if p.stays {
			if len(plan.Acts) > 0 {
				t.Errorf("%d acts", len(plan.Acts))
			}
			return
		}
		if missing := r.Inspection().Missing(); !covers(plan.Loses(), missing) {
			t.Errorf("the plan announces %v, missing is %v", plan.Loses(), missing)
		}
		must.OK(t, r.Do(context.Background(), "/backup"))
		saved(t, s.fs, before, plan)
		for _, f := range r.Inspection().Findings {
			t.Logf("left: %s (%s) %s: %s", f.Kind, f.Effect, f.File, f.Detail)
			if !f.Healing() {
				t.Errorf("left: %s", f.Kind)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		lossy(t, s.fs, plan.Loses())
		came(t, s.fs, whole, plan.Loses())
	})
}

// lossy checks that the checkpoint marks each log that lost records in the repair, for the cluster.
func lossy(t *testing.T, fsys vfs.FS, losses []inspect.Loss) {
	t.Helper()
	state, err := storage.ReadState(fsys, root)
	must.OK(t, err)
	for i := range state.Logs {
		l := &state.Logs[i]
		lost := slices.ContainsFunc(losses, func(x inspect.Loss) bool { return x.Topic == l.Topic && x.Partition == l.ID.Partition })
		if lost && !l.Deleted && (!l.Lossy || !l.Partial) {
			t.Errorf("%s lost records, and is not marked", l)
		}
	}
}

// covers reports whether all losses are among the announced ones.
func covers(announced, losses []inspect.Loss) bool {
	return !slices.ContainsFunc(losses, func(l inspect.Loss) bool {
		return !slices.ContainsFunc(announced, func(a inspect.Loss) bool {
			return a.Topic == l.Topic && a.Partition == l.Partition && a.From <= l.From &&
				(a.To == inspect.Unknown || l.To != inspect.Unknown && l.To <= a.To)
		})
	})
}

// saved reports whether the backup holds every changed or removed file in its earlier state.
func saved(t *testing.T, fsys vfs.FS, before map[string][32]byte, plan *inspect.Plan) {
	t.Helper()
	after, copies := tree(t, fsys, root), tree(t, fsys, "/backup/files")
	for name, sum := range before {
		if strings.HasSuffix(name, "/.lock") || after[name] == sum {
			continue
		}
		if got, ok := copies["/backup/files"+name]; !ok || got != sum {
			t.Errorf("%s was changed, and is not in the backup", name)
		}
	}
	if len(plan.Acts) == 0 && !maps.Equal(without(before), without(after)) {
		t.Error("a repair without acts has changed something")
	}
}

func without(tree map[string][32]byte) map[string][32]byte {
	delete(tree, root+"/.lock")
	return tree
}

// came starts and compares the logs with the expected content.
func came(t *testing.T, fsys vfs.FS, whole map[string]map[int64][]byte, announced []inspect.Loss) {
	t.Helper()
	d, err := storage.OpenDir(location, options(fsys))
	if err != nil {
		t.Fatalf("a start after the repair: %v", err)
	}
	defer func() { _ = d.Close() }()
	logs := logsOf(d)
	for _, topic := range topics {
		l := logs[topic]
		if l == nil || l.Offline() != nil {
			t.Errorf("%s is gone or offline", topic)
			continue
		}
		var mine []inspect.Loss
		for _, x := range announced {
			if x.Topic == topic {
				mine = append(mine, x)
			}
		}
		is := batches(t, l)
		same(t, topic, whole[topic], is, mine)
		end := l.Ends().LogEnd
		put(t, l, 2)
		if now := batches(t, l); len(now) != len(is)+2 || now[end] == nil {
			t.Errorf("%s does not go on at %d: %d batches after %d", topic, end, len(now), len(is))
		}
	}
}

// If the journal is lost, the records in segments beyond the checkpoint are kept: every byte there
// was acknowledged.
func TestLostJournalKeepsWhatSegmentsHold(t *testing.T) {
	t.Parallel()
	fs := used(t)
	must.OK(t, fs.RemoveAll(root+"/journal"))
	r := begin(t, fs)
	defer func() { _ = r.Close() }()
	i := slices.IndexFunc(r.Plan().Loses(), func(l inspect.Loss) bool { return l.Topic == "flushed" })
	if i < 0 || r.Plan().Loses()[i].From < 300 {
		t.Errorf("%v", r.Plan().Loses())
	}
}

// Batches of another history end the tail of a segment. What is before them is kept.
func TestLostJournalKeepsATailBeforeAnotherHistory(t *testing.T) {
	t.Parallel()
	s := &site{TB: t, fs: used(t)}
	s.remove("journal")
	ends := func() int64 {
		r := begin(t, s.fs)
		defer func() { _ = r.Close() }()
		i := slices.IndexFunc(r.Plan().Loses(), func(l inspect.Loss) bool { return l.Topic == "flushed" })
		return r.Plan().Loses()[i].From
	}
	end := ends()
	infos, err := s.fs.List(root + "/flushed-0")
	s.must(err)
	i := slices.IndexFunc(infos, func(in vfs.Info) bool {
		base, ok := segment.ParseName(in.Name)
		return ok && base < end && in.Size > 0 && !slices.ContainsFunc(infos, func(x vfs.Info) bool {
			later, ok := segment.ParseName(x.Name)
			return ok && later > base && later < end
		})
	})
	name := "flushed-0/" + infos[i].Name
	b, _ := s.batch(name, 0)
	b = slices.Clone(b)
	b.SetBaseOffset(end + 100)
	s.write(s.at(name), infos[i].Size, b)
	if now := ends(); now != end {
		t.Errorf("the log ends at %d, not at %d", now, end)
	}
}

// A rewritten segment gets the modification time of the old one, which retention uses if timestamps
// cannot be trusted.
func TestRepairKeepsTheAge(t *testing.T) {
	t.Parallel()
	s, old := &site{TB: t, fs: used(t)}, time.UnixMilli(1_000_000_000_123)
	s.flip(first, 100)
	must.OK(t, s.fs.SetModified(s.file, old))
	r := begin(t, s.fs)
	defer func() { _ = r.Close() }()
	must.OK(t, r.Do(context.Background(), "/backup"))
	if in, err := s.fs.Stat(s.file); err != nil || !in.Modified.Equal(old) {
		t.Errorf("it counts as written at %v, not %v, %v", in.Modified, old, err)
	}
}

// A segment that a repair empties is removed with its indexes and its producers, and the backup has
// all of them.
func TestRepairRemovesEveryFileOfAnEmptiedSegment(t *testing.T) {
	t.Parallel()
	s := &site{TB: t, fs: used(t)}
	s.truncate(second, 0)
	r := begin(t, s.fs)
	defer func() { _ = r.Close() }()
	before := tree(t, s.fs, root+"/a-0")
	must.OK(t, r.Do(context.Background(), "/backup"))
	after, copies, n := tree(t, s.fs, root+"/a-0"), tree(t, s.fs, "/backup/files"), 0
	for name, sum := range before {
		if !strings.HasPrefix(name, strings.TrimSuffix(s.file, segment.LogSuffix)) {
			continue
		}
		if n++; copies["/backup/files"+name] != sum {
			t.Errorf("%s is not in the backup", name)
		}
		if _, left := after[name]; left {
			t.Errorf("%s is still there", name)
		}
	}
	if n != 4 {
		t.Errorf("the segment had %d files", n)
	}
}

// Following the instructions in a manifest restores the state before the repair, although the
// repair wrote newer checkpoints. Quarantine files and the file of the new journal may stay:
// nothing names them then.
func TestTheWayBackUndoesARepair(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"checkpoint gone", "snapshot of the checkpoint flipped", "bit in the middle", "partition gone",
		"copy of the checkpoint gone", "frame flipped", "journal gone", "kept frames flipped"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, all := &site{TB: t, fs: used(t)}, plants()
			p := all[slices.IndexFunc(all, func(p plant) bool { return p.name == name })]
			p.do(s)
			s.flip("b-0/00000000000000000000.log", 100) // so that each has something to repair
			before, r := without(tree(t, s.fs, root)), begin(t, s.fs)
			s.must(r.Do(context.Background(), "/backup"))
			s.must(r.Close())
			back(s, "/backup")
			after := without(tree(t, s.fs, root))
			for name, sum := range before {
				if got, ok := after[name]; !ok || got != sum {
					t.Errorf("%s is not what it was", name)
				}
			}
			for name := range after {
				if _, ok := before[name]; !ok && !strings.Contains(name, "/journal") && !strings.HasSuffix(name, ".frames") {
					t.Errorf("%s is new", name)
				}
			}
			if !slices.ContainsFunc(verify(t, s.fs).Findings, func(f inspect.Finding) bool { return f.Kind == p.kind }) {
				t.Errorf("verify no longer finds %s", p.kind)
			}
		})
	}
}

// back follows the instructions in a manifest.
func back(s *site, backup string) {
	var m inspect.Manifest
	s.must(json.Unmarshal(read(s, s.fs, backup+"/manifest.json"), &m))
	for _, f := range m.Files {
		if f.Missing || f.Directory {
			s.must(s.fs.RemoveAll(f.Path))
		}
	}
	for _, f := range m.Files {
		switch {
		case f.Missing:
		case f.Directory:
			s.must(s.fs.MkdirAll(f.Path))
		default:
			s.must(s.fs.RemoveAll(f.Path))
			s.make(strings.TrimPrefix(f.Path, root), read(s, s.fs, backup+"/files"+f.Path))
		}
	}
}
