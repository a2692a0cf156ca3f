package tier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// Metadata that were recovered name less than the local log needs, and the store has no list of the
// rest: the error names the command that ends this, and it does.
func TestAGapAfterARecoveryEndsWithATrim(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.lone(1, true)
	w.add(8)
	b.copyAll()
	kv, _, err := w.meta.Get(t.Context(), metadata.TierKey(tp))
	must.OK(t, err)
	w.add(20)
	b.copyAll()
	must.OK(t, b.healthy())
	b.retain()
	local := b.partition().Ends().LocalStart

	kept := w.tier().End
	cluster, _, err := w.meta.Get(t.Context(), metadata.ClusterKey)
	must.OK(t, err)
	x, err := metadata.DecodeCluster(cluster)
	must.OK(t, err)
	x.Generation = metadata.ID{7}
	w.put(metadata.ClusterKey, x.Encode())
	w.put(kv.Key, kv.Value)
	if older := w.tier().End; older >= local || local > kept {
		t.Fatalf("copies up to %d and %d, and a local log from %d on", older, kept, local)
	}
	for _, name := range w.names() {
		if strings.Contains(name, "manifest/") {
			must.OK(t, w.store.Delete(context.Background(), name))
		}
	}
	w.follow()
	for range 2 { // nothing is changed meanwhile
		b.copyAll()
		want := fmt.Sprintf("chronikctl topic trim t --partition 0 --before %d", local)
		if err := b.healthy(); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v", err)
		}
	}
	w.delete(local)
	w.add(20)
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if y := w.tier(); y.Start != local || y.End <= kept {
		t.Errorf("%+v", y)
	}
}
