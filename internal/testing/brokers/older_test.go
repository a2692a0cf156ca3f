package brokers

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
)

// snapshot is a copy of the disk of a broker.
type snapshot struct {
	disk   *crashfs.FS
	starts int // of the broker before it
}

// snapshotDisk copies the disk of a broker, which may run, at one moment: docs/operations.md
// promises that this is like a loss of power. It keeps no copy in which a start has drawn a finding
// that no registration has confirmed: the next start reports the same one, so that such a copy is
// not recognized as older than what that start registers.
func (w *world) snapshotDisk(id int32, random *rand.Rand) {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	mode := crashfs.Modes()[random.IntN(len(crashfs.Modes()))]
	image := n.disk.PowerLossImage(mode, random.Uint64())
	c, err := checkpoint.Read(image, path.Join(logDir, storage.CheckpointDir))
	if err == nil && c != nil && c.Finding != (checkpoint.Finding{}) {
		w.note("no snapshot of the disk of broker %d: its registration is not confirmed", id)
		return
	}
	n.old = snapshot{image, n.starts}
	w.note("snapshot of the disk of broker %d, %v", id, mode)
}

// hasSnapshot reports whether there is a snapshot of the disk of a broker that was not put back.
func (w *world) hasSnapshot(id int32) bool {
	n := w.nodes[id]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.old.disk != nil
}

// outdated reports whether a broker that serves has a snapshot that was made before its start. What
// that start registered is what shows that a log directory is older.
func (w *world) outdated(id int32) bool {
	n := w.nodes[id]
	n.mu.Lock()
	old, starts := n.old, n.starts
	n.mu.Unlock()
	return old.disk != nil && old.starts < starts && w.process(id) != nil
}

// oldDisk puts back a snapshot of the disk of a broker or of its log directory. If there is none
// that is older than its last start, it is restarted before, and its disk copied if need be.
func (c *clients) oldDisk(id int32, all bool) {
	w := c.w
	if !w.outdated(id) {
		w.stop(id)
		if !w.hasSnapshot(id) {
			w.snapshotDisk(id, w.random)
		}
		w.start(id)
		_ = until(10*time.Second, func() bool { return w.outdated(id) && c.needs(id) == "" })
	}
	c.putBack(id, all, w.random.IntN(2) == 0)
}

// putBack replaces the log directory of a broker by its outdated copy, or all of its disk, if the
// others have everything. Then an operator removes the metadata directory of the copy: it has
// forgotten votes, so docs/cluster.md forbids to start a broker with it. If killed is true, the
// other brokers end too, and the old logs may be the first ones that are registered. It reports
// whether it replaced something.
func (c *clients) putBack(id int32, all, killed bool) bool {
	w := c.w
	if !w.outdated(id) {
		w.note("not put back: broker %d has not registered since the copy was made", id)
		return false
	}
	if bad := c.needs(id); bad != "" {
		w.note("not put back: %s", bad)
		return false
	}
	w.wiped = true
	w.endSomehow(id)
	for o := range w.size() {
		if killed {
			w.kill(o + 1)
		}
	}
	n := w.nodes[id]
	n.mu.Lock()
	now, old := n.disk, n.old.disk
	n.disk, n.old = old, snapshot{}
	n.mu.Unlock()
	w.note("an older disk of broker %d is put back, all of it: %t", id, all)
	w.remove(old, metadataDir)
	if !all {
		w.put(old, metadataDir, w.metadata(now))
	}
	w.start(id)
	for o := range w.size() {
		if killed {
			w.start(o + 1)
		}
	}
	return true
}

// metadata returns the files of the metadata directory of a disk by name.
func (w *world) metadata(d *crashfs.FS) map[string][]byte {
	files := map[string][]byte{}
	for _, name := range w.files(d, metadataDir) {
		data, err := read(d, name)
		if err != nil {
			w.problem("%s: %v", name, err)
		}
		files[path.Base(name)] = data
	}
	return files
}

// The log directory of one broker after the other is replaced by an older copy, or all of its disk,
// and so that it is among the first ones that start. It copies what it lacks.
func TestAnOldDiskIsPutBack(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint("all ", all), func(t *testing.T) {
			history(t, 47, func(w *world, c *clients) {
				for id := int32(1); id <= w.size(); id++ {
					c.inSync()
					if until(patience, func() bool { w.snapshotDisk(id, w.random); return w.hasSnapshot(id) }) != nil {
						w.problem("there is no snapshot of broker %d", id)
					}
					c.progress(time.Minute)
					w.stop(id)
					w.start(id)
					c.inSync()
					c.progress(time.Minute)
					if until(patience, func() bool { return c.putBack(id, all, true) }) != nil {
						w.problem("nothing was put back")
					}
				}
			})
		})
	}
}

// An operator puts an older metadata directory back, which docs/cluster.md forbids, while the
// metadata leader is another broker and runs. The broker ends and says what to do, and the operator
// empties the directory. A leader that is new may not know what the broker had: then it gets what
// it lacks.
func TestOldMetadataArePutBack(t *testing.T) {
	history(t, 50, func(w *world, c *clients) {
		refused := 0
		for id := int32(1); id <= w.size(); id++ {
			c.inSync()
			files := w.metadata(w.at(id).KillImage(w.random.Uint64()))
			c.progress(time.Minute)
			w.stop(id) // one that leads hands over
			d := w.at(id)
			w.remove(d, metadataDir)
			w.put(d, metadataDir, files)
			begun := w.logged()
			w.start(id)
			said := func() bool { return strings.Contains(w.since(begun), "put back from a copy; empty this directory") }
			if until(10*time.Second, said) == nil {
				refused++
				w.kill(id)
				w.remove(w.at(id), metadataDir)
				w.start(id)
			}
		}
		if refused == 0 {
			w.problem("no broker refuses older metadata")
		}
	})
}
