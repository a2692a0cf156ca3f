package storage

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// sizes are omitted if the encoding has golden bytes of its own.
var sizes = regexp.MustCompile(`(/d/checkpoint.*|.*\.producers) \d+\+\d+$`)

// calls records the calls to the disk that each step of a test makes.
type calls struct {
	t    *testing.T
	fsys *crashfs.FS
	seen int
	strings.Builder
}

func newCalls(t *testing.T, fsys *crashfs.FS) *calls {
	fsys.SetTrace(true)
	return &calls{t: t, fsys: fsys}
}

// skip discards the calls so far.
func (c *calls) skip() {
	synctest.Wait()
	c.seen = len(c.fsys.Trace())
}

// step records the calls since the last one, when all goroutines are idle.
func (c *calls) step(name string) {
	synctest.Wait()
	fmt.Fprintf(c, "# %s\n", name)
	trace := c.fsys.Trace()
	for _, call := range trace[c.seen:] {
		c.WriteString(sizes.ReplaceAllString(call, "$1") + "\n")
	}
	c.seen = len(trace)
}

func (c *calls) golden(name string) {
	c.t.Helper()
	golden.File(c.t, "testdata/"+name, c.String(), "go test ./internal/storage -run TestCalls")
}

// Durability depends on the order of these calls: a roll, a deletion, and a start after a kill.
func TestCallsOfARollADeletionAndARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		c := newCalls(t, disk)
		d := mustOpen(t, disk, "sync")
		logs := makeLogs(t, d, 2, "sync")
		c.skip()
		put(t, logs[0], 1, 100)
		put(t, logs[0], 1, 100)
		synctest.Wait()
		must(t, logs[0].roll())
		c.step("two records, each in a group of the journal; a roll flushes them")
		put(t, logs[0], 1, 100)
		synctest.Wait() // the journal prepares its next file
		must(t, logs[0].roll())
		c.step("one more, and a second roll")
		must(t, d.Delete(logs[1]))
		c.step("a deletion")
		put(t, logs[0], 1, 100)
		c.skip()
		image := disk.KillImage(1)
		again := newCalls(t, image)
		mustOpen(t, image, "sync")
		again.step("a start after a kill: one record is in the journal only")
		c.WriteString(again.String())
		must(t, d.Close())
		c.step("a clean stop")
		c.golden("calls.txt")
	})
}

// The same for segments that a compaction replaces.
func TestCallsOfASwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := crashfs.New(1)
		c := newCalls(t, disk)
		d, l := compactLog(t, disk, "sync", func(o *Options) { o.Cleaning.Backoff = 1 << 60 })
		set(t, l, 10, "a")
		set(t, l, 5, "b")
		c.skip()
		if !d.compactNext() {
			t.Fatal("nothing was due")
		}
		c.step("a pass: half of the records of a segment have a later value")
		c.golden("swap.txt")
	})
}
