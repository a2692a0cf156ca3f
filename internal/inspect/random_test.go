package inspect_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// stopped returns a used directory after a clean stop.
func stopped(t testing.TB, image *crashfs.FS) *crashfs.FS {
	t.Helper()
	fs := image.KillImage(77)
	must.OK(t, open(t, fs).Close())
	return fs
}

// After any flipped bits, lost sectors or cut files, Verify ends and changes nothing, and a repair
// loses nothing that it did not announce. If Verify reports no damage, a start restores everything.
// CHRONIK_INSPECT_RUNS sets the number of runs, which is at least 100.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	runs, _ := strconv.Atoi(os.Getenv("CHRONIK_INSPECT_RUNS"))
	killed := used(t)
	images := []*crashfs.FS{killed, stopped(t, killed)}
	whole := content(t, opened(t, killed.KillImage(9)))
	for seed := range uint64(max(runs, 100)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		fs := images[seed%2].KillImage(seed)
		done, end := harm(t, fs, rng)
		t.Run("seed"+strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			t.Log(strings.Join(done, "; "))
			survives(t, fs, whole, end)
		})
	}
}

// harm does one to three kinds of random damage. end reports whether the end of the journal may be
// lost, which Verify cannot detect.
func harm(t *testing.T, fs *crashfs.FS, rng *rand.Rand) (done []string, end bool) {
	s := &site{TB: t, fs: fs}
	last := s.lastFile()
	for range 1 + rng.IntN(3) {
		files := slices.DeleteFunc(slices.Sorted(maps.Keys(tree(t, fs, root))), func(name string) bool {
			in, err := fs.Stat(name)
			return err != nil || in.Dir || in.Size == 0 || strings.HasSuffix(name, ".lock")
		})
		name := files[rng.IntN(len(files))]
		size := int64(len(read(t, fs, name)))
		below := strings.TrimPrefix(name, root+"/")
		if strings.HasSuffix(name, ".journal") && rng.IntN(4) > 0 {
			size = min(size, 8192+rng.Int64N(40<<10)) // where the frames are
		}
		at := rng.Int64N(size)
		end = end || name == last
		how := rng.IntN(6)
		if strings.HasPrefix(below, storage.CheckpointDir) && strings.HasSuffix(below, ".log") {
			how = 2 // damage at its end looks like a torn write
		}
		switch how {
		case 0:
			s.truncate(below, at)
			done = append(done, "cut "+below+" at "+strconv.FormatInt(at, 10))
		case 1:
			at -= at % 512
			s.write(name, at, make([]byte, min(512, size-at)))
			done = append(done, "zeros in "+below+" at "+strconv.FormatInt(at, 10))
		case 2:
			s.remove(below)
			done = append(done, "removed "+below)
		default:
			s.flip(below, at)
			done = append(done, "flipped "+below+" at "+strconv.FormatInt(at, 10))
		}
	}
	return done, end
}

// lastFile returns the last file of the journal.
func (s *site) lastFile() string {
	files, err := journal.Files(s.fs, root+"/journal", 0)
	s.must(err)
	for i := len(files) - 1; i >= 0; i-- {
		if files[i].Valid {
			return root + "/journal/" + files[i].Name
		}
	}
	return ""
}

// survives verifies, repairs and starts.
func survives(t *testing.T, fs *crashfs.FS, whole map[string]map[int64][]byte, end bool) {
	before := tree(t, fs, root)
	r := verify(t, fs)
	if !maps.Equal(before, tree(t, fs, root)) {
		t.Error("verify has changed something")
	}
	// Records of a torn write may be lost.
	var allowed []inspect.Loss
	for _, f := range r.Findings {
		t.Logf("%s (%s) %s at %d %s: %s; lost %v", f.Kind, f.Effect, f.File, f.Position, f.Topic, f.Detail, f.Lost)
	}
	torn := slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool { return f.Kind == inspect.JournalTorn })
	for _, p := range r.Partitions {
		if torn || end {
			allowed = append(allowed, inspect.Loss{Topic: p.Topic, Partition: p.Partition, From: p.End, To: inspect.Unknown})
		}
	}
	if r.Clean() {
		came(t, fs.KillImage(1), whole, allowed)
	}
	x := begin(t, fs)
	plan := x.Plan()
	if len(plan.Left) > 0 {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	for _, a := range plan.Acts {
		t.Logf("act: %s %s, loses %v", a.What, a.Topic, a.Loses)
	}
	must.OK(t, x.Do(context.Background(), "/backup"))
	for _, f := range x.Inspection().Findings {
		if !f.Healing() {
			t.Errorf("left: %s (%s) %s: %s", f.Kind, f.Effect, f.File, f.Detail)
		}
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	came(t, fs, whole, slices.Concat(allowed, plan.Loses()))
}
