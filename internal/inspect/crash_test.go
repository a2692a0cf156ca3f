package inspect_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// crashed lists damage whose repair is killed at every call. Together these repairs have every act.
var crashed = []string{"identity gone", "checkpoint and identity gone", "snapshot of the checkpoint flipped",
	"log of the checkpoint gone", "half replaced", "journal gone", "foreign file in the middle", "frame flipped", "older copy",
	"kept frames flipped", "offline with kept frames", "partition gone", "first segment gone", "last segment short", "segment emptied",
	"bit in the middle", "leader epoch", "swap under way, and a bit"}

// A repair that is killed or loses power at any call to the disk leaves a directory that a start or
// another repair can handle, and loses nothing that the first repair did not announce.
func TestRepairKilledAtEachCall(t *testing.T) {
	t.Parallel()
	image := used(t)
	whole := content(t, opened(t, image.KillImage(9)))
	all := append(plants(), plant{name: "swap under way, and a bit", do: func(s *site) {
		s.must(s.fs.Rename(root+"/a-0/00000000000000000038.log", s.at("a-0/00000000000000000038.log.swap")))
		s.edit("a", func(_ *checkpoint.State, l *checkpoint.Log) { l.Swapping, l.Swap = true, 38 })
		s.flip(first, 100)
	}})
	for shift, name := range crashed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := all[slices.IndexFunc(all, func(p plant) bool { return p.name == name })]
			damaged := image.KillImage(3)
			p.do(&site{TB: t, fs: damaged})
			durable(t, damaged, root) // from here on the repair causes all losses
			announced, calls := through(t, damaged.KillImage(4))
			if len(calls) == 0 {
				t.Fatal("the repair changes nothing")
			}
			seen := map[[32]byte]bool{} // an earlier call left the same
			for _, n := range calls {
				for i, how := range []string{"kill", "power"} {
					if len(calls) > 6 && (n+shift)%6 != 3*i && os.Getenv("CHRONIK_INSPECT_RUNS") == "" {
						continue // every third call of this damage; make crash tries all
					}
					fs := damaged.KillImage(5)
					again := interrupted(t, fs, n, how)
					sum := sumOf(t, again)
					if seen[sum] {
						continue
					}
					seen[sum] = true
					if !t.Run(fmt.Sprintf("%s at %d", how, n), func(t *testing.T) { recovers(t, again, whole, announced) }) {
						return
					}
				}
			}
		})
	}
}

// sumOf returns a checksum of all names and files of the directory, without the backup, which
// nothing reads.
func sumOf(t *testing.T, fs *crashfs.FS) [32]byte {
	t.Helper()
	all, sum := tree(t, fs, root), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := all[name]
		_, _ = sum.Write(append([]byte(name+"\x00"), one[:]...)) // a hash never fails
	}
	return [32]byte(sum.Sum(nil))
}

// durable syncs everything below a directory.
func durable(t *testing.T, fs *crashfs.FS, dir string) {
	t.Helper()
	infos, err := fs.List(dir)
	must.OK(t, err)
	for _, in := range infos {
		name := dir + "/" + in.Name
		if in.Dir {
			durable(t, fs, name)
			continue
		}
		f, err := fs.Open(name)
		must.OK(t, err)
		must.OK(t, errors.Join(f.Datasync(), f.Close()))
	}
	must.OK(t, errors.Join(fs.SyncDir(dir), fs.SyncDir("/")))
}

// through repairs the directory. It returns the announced losses, and the calls before which
// another repair is interrupted: all calls except most of the writes of copies and frames, which
// are alike.
func through(t *testing.T, fs *crashfs.FS) (announced []inspect.Loss, calls []int) {
	t.Helper()
	r := begin(t, fs)
	defer func() { _ = r.Close() }()
	announced = r.Plan().Loses()
	fs.SetTrace(true)
	must.OK(t, r.Do(context.Background(), "/backup"))
	for n, call := range fs.Trace() {
		alike := strings.Contains(call, "/backup") || strings.HasPrefix(call, "write ") &&
			(strings.Contains(call, ".frames") || strings.Contains(call, ".journal"))
		if !alike || n%37 == 0 {
			calls = append(calls, n)
		}
	}
	return announced, calls
}

// interrupted runs a repair until a call, and returns the state left then.
func interrupted(t *testing.T, fs *crashfs.FS, n int, how string) *crashfs.FS {
	t.Helper()
	r := begin(t, fs)
	fs.CrashAt(fs.Ops() + n)
	if err := r.Do(context.Background(), "/backup"); err != nil && !errors.Is(err, crashfs.ErrCrashed) && !fs.Crashed() {
		t.Fatal(err)
	}
	_ = r.Close() // the process has been killed
	if how == "kill" {
		return fs.KillImage(6)
	}
	return fs.PowerLossImage(crashfs.KeepSectors, uint64(n))
}

// recovers repairs the rest and starts. If no finding refuses a start, a start before the repair
// must do no harm either.
func recovers(t *testing.T, fs *crashfs.FS, whole map[string]map[int64][]byte, announced []inspect.Loss) {
	after := fs.KillImage(8)
	if d, err := storage.OpenDir(location, options(after)); err == nil {
		if err := d.Close(); err != nil {
			t.Logf("a start between: %v", err)
		}
		mendsAgain(t, after, whole, announced)
	}
	mendsAgain(t, fs, whole, announced)
}

// mendsAgain repairs again and compares the results.
func mendsAgain(t *testing.T, fs *crashfs.FS, whole map[string]map[int64][]byte, announced []inspect.Loss) {
	t.Helper()
	r := begin(t, fs)
	for _, f := range r.Inspection().Findings {
		if !f.Healing() {
			t.Logf("%s (%s) %s: %s", f.Kind, f.Effect, f.File, f.Detail)
		}
	}
	if len(r.Plan().Acts) > 0 {
		must.OK(t, r.Do(context.Background(), "/backup2"))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	came(t, fs, whole, announced)
}
