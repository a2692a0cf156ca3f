package writer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// collect deletes the objects that the last complete snapshot does not name.
func (w *world) collect() {
	w.t.Helper()
	ctx, named := context.Background(), map[objects.Nonce]bool{}
	if w.base != nil {
		x, err := format.ReadSnapshot(ctx, w.s, prefix, [16]byte{}, *w.base)
		must.OK(w.t, err)
		named[w.base.Nonce] = true
		add := func(parts []format.Part) {
			for i := range parts {
				named[parts[i].Run.Nonce] = true
			}
		}
		for i := range x.Partitions {
			p := &x.Partitions[i]
			if add(p.Parts); p.Manifest == (objects.Nonce{}) {
				continue
			}
			must.OK(w.t, format.EachManifest(ctx, w.s, prefix, p.ID, p.Manifest, func(nonce objects.Nonce, m *format.Manifest) error {
				named[nonce] = true
				add(m.Parts)
				return nil
			}))
		}
	}
	var unused []string
	must.OK(w.t, w.s.List(ctx, prefix, func(in objects.Info) error {
		if n, err := format.Parse(strings.TrimPrefix(in.Name, prefix)); err != nil || !named[n.Nonce] {
			unused = append(unused, in.Name)
		}
		return nil
	}))
	for _, name := range unused {
		must.OK(w.t, w.s.Delete(ctx, name))
	}
	w.collection.Revision++
}

// failing runs a job of which a call of Put fails, the first one being 1; 0: none does.
func (w *world) failing(call int) Progress {
	w.t.Helper()
	if call > 0 {
		defer w.s.Add(faultstore.Rule{Ops: faultstore.Put, From: call, Count: 1, Err: faultstore.ErrInjected}).Off()
	}
	job, _ := w.cut()
	must.OK(w.t, w.w.Begin(job))
	return w.ended(job.Number)
}

// large returns a world with four partitions: the records of the first two become many log objects,
// and those of the others pieces of a pack.
func large(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 4, alternate)
	w.opt.Sizes.StageParts = 2
	w.restart()
	for i, p := range w.parts {
		for n := range []int{40, 30, 1, 1}[i] {
			p.append(fmt.Sprint(n), "v", []int{20 << 10, 20 << 10, 5000, 5000}[i]) // another key each: compaction removes nothing
		}
	}
	return w
}

// The next job puts nothing again that one has put whose snapshot was not named, whichever call has
// failed, but two log objects of each partition and the pack at most.
func TestTheNextJobContinuesOneThatFails(t *testing.T) {
	w := large(t)
	whole := w.failing(0)
	if x := w.failing(0); whole.Err != "" || whole.Bytes < 1400<<10 || x.Bytes != 0 || x.Err != "" { // another broker's has failed
		t.Errorf("%d bytes, %s, then %d, %s", whole.Bytes, whole.Err, x.Bytes, x.Err)
	}
	_, err := w.snapshot(nil)
	must.OK(t, err)
	w.close()
	call := 1
	for ; ; call++ {
		w := large(t)
		first := w.failing(call)
		next, err := w.snapshot(nil)
		must.OK(t, err)
		w.close()
		if first.Err == "" {
			break
		}
		if most := whole.Bytes + 2*(80<<10) + 5<<10; first.Bytes+next.Bytes > most {
			t.Errorf("call %d: %d bytes, then %d, of %d", call, first.Bytes, next.Bytes, whole.Bytes)
		}
		if !strings.Contains(first.Err, faultstore.ErrInjected.Error()) {
			t.Errorf("call %d: %s", call, first.Err)
		}
	}
	if call < 30 {
		t.Errorf("a job has %d calls", call)
	}
}

// deletions are what may delete what a failed job has put, or has used again.
var deletions = map[string]func(w *world){
	"a collection": func(w *world) { w.collect() },
	"a collection, before the metadata were recovered": func(w *world) {
		w.collect()
		w.collection = Collection{Generation: metadata.ID{10}, Revision: w.collection.Revision - 1}
	},
	"a collection of a former version": func(w *world) {
		w.collect()
		w.collection = Collection{}
	},
	"damage to the base": func(w *world) { // a verification has noted it
		w.base = nil
		w.collect()
		w.collection.Revision--
	},
}

// afterwards takes a snapshot after a job has failed, and the store has lost some of its objects.
func afterwards(t *testing.T, rules breakrules.Removed[Rule], deletion func(*world)) error {
	w := large(t)
	defer w.close()
	w.opt.Broken = rules
	w.restart()
	_, err := w.snapshot(nil)
	must.OK(t, err)
	for n := range 30 {
		for _, p := range w.parts {
			p.append(fmt.Sprint("more ", n), "v", 20<<10)
		}
	}
	if x := w.failing(20); x.Err == "" {
		t.Fatal("it has not failed")
	}
	deletion(w)
	_, err = w.snapshot(nil)
	return err
}

func TestWhatMayBeDeletedIsNotContinued(t *testing.T) {
	for what, deletion := range deletions {
		if err := afterwards(t, breakrules.Removed[Rule]{}, deletion); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The estimate of what will be put holds during the upload of a large partition, too.
func TestTheEstimateOfAnUpload(t *testing.T) {
	w := large(t)
	defer w.close()
	var most, least int64
	job, _ := w.cut()
	defer w.s.Add(faultstore.Rule{Ops: faultstore.Put, Before: func(faultstore.Call) {
		x, err := w.w.Progress(job.Number, 0)
		must.OK(t, err)
		if most = max(most, x.TotalBytes); least == 0 || x.TotalBytes < least {
			least = x.TotalBytes
		}
	}}).Off()
	must.OK(t, w.w.Begin(job))
	x := w.ended(job.Number)
	if x.Err != "" || x.TotalBytes != x.Bytes || most > x.Bytes*11/10 || least < x.Bytes*9/10 {
		t.Errorf("%d bytes were put, %d to %d were expected; %s", x.Bytes, least, most, x.Err)
	}
}
