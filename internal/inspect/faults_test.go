package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// faulty lists damage during whose repair calls fail. The repairs of the first ones write every
// kind of file; make crash tries the others, too.
var faulty = []string{"journal gone", "frame flipped", "foreign file in the middle", "checkpoint and identity gone", "bit in the middle",
	"offline with kept frames", "checkpoint gone", "half replaced", "partition gone", "kept frames flipped", "segment emptied"}

const faultyAlways = 6

// A call of a repair fails once, and a failed sync leaves nothing of what it was to write. The
// repair is run again until it ends, and then the power fails. A start has every record that the
// first repair did not give up, also what only the system's memory had when the broker was killed.
func TestI5AFaultAtEveryCallOfARepair(t *testing.T) {
	t.Parallel()
	every := os.Getenv("CHRONIK_INSPECT_RUNS") != ""
	image := used(t)
	whole := content(t, opened(t, image.KillImage(9)))
	all, names := plants(), faulty[:faultyAlways]
	if every {
		names = faulty
	}
	kinds := []errfs.Op{errfs.Create, errfs.Write, errfs.Datasync, errfs.Rename, errfs.Remove, errfs.SyncDir, errfs.Mkdir, errfs.Read,
		errfs.Truncate, errfs.Close}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := all[slices.IndexFunc(all, func(p plant) bool { return p.name == name })]
			damaged := image.KillImage(3)
			p.do(&site{TB: t, fs: damaged})
			for _, kind := range kinds {
				calls := repairsAgain(t, damaged.KillImage(4), errfs.Rule{Ops: kind}, whole)
				step := 1
				if kind != errfs.SyncDir && !every {
					step = max(1, calls/3)
				}
				for n := 1; n <= calls; n += step {
					rule := errfs.Rule{Ops: kind, From: n, Count: 1, Err: syscall.EIO, Drop: errfs.DropCached}
					if !t.Run(fmt.Sprintf("%v %d", kind, n), func(t *testing.T) { repairsAgain(t, damaged.KillImage(5), rule, whole) }) {
						break
					}
				}
			}
		})
	}
}

// repairsAgain repairs under the rule until nothing is left to repair, and starts after a loss of
// power. It returns the number of calls in the directory that the rule affected.
func repairsAgain(t *testing.T, disk *crashfs.FS, rule errfs.Rule, whole map[string]map[int64][]byte) int {
	t.Helper()
	rule.When = func(c errfs.Call) bool {
		alike := strings.HasSuffix(c.Path, storage.FramesSuffix) && !strings.HasPrefix(c.Path, root+"/01") // of the other logs
		return !alike && (c.Path == root || strings.HasPrefix(c.Path, root+"/"))
	}
	errs := errfs.New(disk)
	r := begin(t, errs)
	announced, fault := r.Plan().Loses(), errs.Add(rule)
	for try := 1; len(r.Plan().Acts) > 0; try++ {
		err := errors.Join(r.Do(context.Background(), fmt.Sprintf("/backup%d", try)), r.Close())
		if err == nil {
			break
		}
		if t.Log(err); try == 3 {
			t.Fatal("it fails without a fault")
		}
		r = begin(t, errs)
	}
	must.OK(t, r.Close())
	after := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	for _, f := range verify(t, after).Findings {
		if !f.Healing() && (f.Kind != inspect.FramesKept || len(f.Lost) > 0) { // of a repair that failed; the logs have them
			t.Errorf("left: %s (%s) %s: %s", f.Kind, f.Effect, f.File, f.Detail)
		}
	}
	came(t, after, whole, announced)
	return fault.Hits()
}
