package upload

import (
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// tiny are sizes for many cases.
var tiny = Options{ObjectBytes: 10 << 10, PackBytes: 50 << 10, PieceBytes: 7 << 10, ManifestParts: 3}

// A log was archived, and an election has undone its end. Each call of its next upload fails in
// each way. An upload that has succeeded can be read as the whole log, unless the store has lied:
// then a read fails. What was archived before is untouched. The upload succeeds when it is
// repeated.
func TestEveryCallOfAnUpload(t *testing.T) {
	for c := range faultstore.EveryCall(t) {
		w := newWorldIn(t, c.Store)
		for range 5 {
			w.plain(2, 3<<10)
			w.plain(2, 3<<10)
			must.OK(t, w.snapshot(tiny))
		}
		w.abort(1, 1, 3<<10)
		must.OK(t, w.snapshot(tiny))
		w.plain(3, 500)
		w.cut(w.end() - 4)
		w.plain(3, 9<<10)
		w.plain(1, 500)
		former, had := w.archived, w.at[len(w.at)-1]
		if w.older == 0 || had == 0 {
			t.Fatal("there is no manifest with older parts")
		}

		c.Begin()
		err := w.upload(tiny)
		c.End()
		if err == nil {
			err := w.verify()
			switch {
			case c.Lies && !format.Unusable(err):
				t.Errorf("%s: the archive is read with %v", c.What, err)
			case !c.Lies && err != nil:
				t.Errorf("%s: %v", c.What, err)
			}
		}
		if w.archived = former; c.Lies { // as after a verification
			w.archived = format.Partition{ID: id}
		}
		if err := w.snapshot(tiny); err != nil {
			t.Errorf("%s, and repeated: %v", c.What, err)
		}
		must.OK(t, w.m.Close())
	}
}
