package journal

import (
	"errors"
	"testing"
	"testing/synctest"
)

// A journal that was given up begins anew with LSNs that stand in its old files
// (a repair that gives the journal up), and those are recycled: without the salt a stale frame
// that stands where the next one is expected would come back as a ghost.
func TestSaltTellsStaleFrames(t *testing.T) {
	if staleFrames(t, Broken{}) {
		t.Error("stale frames came back")
	}
}

// staleFrames reports whether frames of a journal that was given up come back.
func staleFrames(t *testing.T, b Broken) (ghosts bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fsys := memory(t)
		options := func(o *Options) { o.Broken = b }
		j := open(t, fsys, options)
		put := func(n, size int) {
			s, o := newStream(1), newTold()
			for i := range n {
				ok(t, j.Submit(nil, entry(s, int64(i), size, eager, o)))
				synctest.Wait() // the next file is prepared as well
			}
		}
		put(12, 900) // LSN n stands in the n-th block
		ok(t, j.Close())

		j = open(t, fsys, options) // knows nothing of them
		put(4, 18<<10)             // fill the fresh file and the one that was prepared in the life before
		put(1, 5*block-200)        // LSN 5 takes five blocks of the recycled first file
		at := j.Oldest(5)
		ok(t, j.Close())
		all, ext, err := frames(fsys, at)
		ghosts = len(all) > 1 || errors.Is(err, ErrDamaged)
		if all[0].LSN != 5 || err == nil && ext.Next != LSN(5+len(all)) {
			t.Fatalf("%d frames, %+v, %v", len(all), ext, err)
		}
	})
	return ghosts
}

// Without a look behind the first invalid frame, damage reads like an ordinary
// end, and what was acknowledged behind it is gone without a word.
func TestDamageNeedsTheAlarm(t *testing.T) {
	if err := scanDamaged(t, Broken{}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// scanDamaged scans four groups, of which the second is damaged.
func scanDamaged(t *testing.T, b Broken) error {
	t.Helper()
	content, from, starts := groups(t, 4, 300)
	content[starts[1]+frameHeader] ^= 1
	_, err := scan(&reader{fs: fileSystem(t, from.File, content), dir: testDir, id: testID, broken: b}, from, nil)
	return err
}
