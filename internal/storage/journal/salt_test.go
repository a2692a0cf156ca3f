package journal

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/pkg/durability"
)

// A repair may discard a journal; the new one then assigns LSNs that its recycled old files contain
// as well. Without the salt, a stale frame would be accepted if it is where the next frame is
// expected.
func TestSaltRejectsStaleFrames(t *testing.T) {
	if staleFrames(t, Broken{}) {
		t.Error("stale frames came back")
	}
}

// staleFrames reports whether frames of a discarded journal are read as valid.
func staleFrames(t *testing.T, b Broken) (ghosts bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fsys := memory(t)
		options := func(o *Options) { o.Broken = b }
		j := open(t, fsys, options)
		put := func(n, size int, p *durability.Profile) {
			s, o := newStream(1), newRecorder()
			for i := range n {
				ok(t, j.Submit(nil, entry(s, int64(i), size, p, o)))
				synctest.Wait() // the next file is prepared as well
			}
		}
		put(12, 900, eager) // the frame with LSN n is in the n-th block
		ok(t, j.Close())

		j = open(t, fsys, options) // knows nothing of the old frames
		// Control entries are never written in pieces, which take more room.
		put(4, 18<<10, nil)      // fill the fresh file and the one that was prepared before the discard
		put(1, 5*block-200, nil) // LSN 5 takes five blocks of the recycled first file
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

// Without a check of the bytes after the first invalid frame, damage reads like an ordinary end,
// and acknowledged records behind it are lost silently.
func TestDamageBehindTheFirstInvalidFrame(t *testing.T) {
	if err := scanDamaged(t, Broken{}); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// scanDamaged scans four groups, the second of which is damaged.
func scanDamaged(t *testing.T, b Broken) error {
	t.Helper()
	content, from, starts := groups(t, 4, 300)
	content[starts[1]+frameHeader] ^= 1
	_, err := scan(&reader{fs: fileSystem(t, from.File, content), dir: testDir, id: testID, broken: b}, from, nil)
	return err
}
