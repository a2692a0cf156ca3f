package tier

import (
	"errors"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// recover lets the metadata be those of an older state, with what they named then.
func (w *world) recover(older *metadata.Tier) {
	kv, _, err := w.meta.Get(w.t.Context(), metadata.ClusterKey)
	must.OK(w.t, err)
	x, err := metadata.DecodeCluster(kv)
	must.OK(w.t, err)
	x.Generation = metadata.NewID()
	w.put(metadata.ClusterKey, x.Encode())
	w.put(metadata.TierKey(tp), older.Encode())
	w.follow()
}

// Old records are copied, and the oldest removed, or the metadata are those of an older state. Each
// call of the store fails in each way. Readers get what was acknowledged, also when the disk has
// dropped what the metadata name, unless the store has lied: then they get errors. The copies
// succeed when they are repeated, by another process if the first one was killed. A collection
// leaves only what is named.
func TestEveryCallOfCopies(t *testing.T) {
	for what, recovered := range map[string]bool{"a round": false, "recovered metadata": true} {
		for c := range faultstore.EveryCall(t) {
			t.Run(what+"/"+c.What, func(t *testing.T) {
				w := newWorldIn(t, c.Store, "sync", nil)
				b := w.brokers[0]
				w.lone(1, true)
				w.add(12)
				b.copyAll()
				older := w.tier()
				w.add(8)
				b.copyAll()
				b.retain()
				w.add(8)
				if recovered {
					w.recover(older)
				} else {
					w.delete(8)
				}

				c.Begin()
				b.copyAll()
				c.End()
				if c.Killed {
					b.c = New(b.c.opt)
				}
				unread := func(err error) bool { return c.Lies && format.Unusable(err) }
				if err := b.check(); err != nil && !unread(err) && !recovered {
					t.Error(err)
				}
				b.retain()
				if err := b.check(); err != nil && !unread(err) && !recovered {
					t.Errorf("after local retention: %v", err)
				}
				if c.Lies {
					return
				}
				b.copyAll()
				b.retain()
				if err := errors.Join(b.healthy(), b.check()); err != nil {
					t.Errorf("repeated: %v", err)
				}
				w.collect()()
				if err := b.check(); err != nil {
					t.Errorf("after a collection: %v", err)
				}
				w.onlyNamed()
			})
		}
	}
}
