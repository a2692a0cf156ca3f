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

// recovered returns a world whose metadata were recovered: they name less than the store has, and
// less than the local log needs. b leads.
func recovered(t *testing.T) (w *world, b *broker) {
	w = newWorld(t, "sync", nil)
	b = w.brokers[0]
	w.lone(1, true)
	w.add(8)
	b.copyAll()
	older, _, err := w.meta.Get(t.Context(), metadata.TierKey(tp))
	must.OK(t, err)
	w.add(20)
	b.copyAll()
	must.OK(t, b.healthy())
	b.retain()
	cluster, _, err := w.meta.Get(t.Context(), metadata.ClusterKey)
	must.OK(t, err)
	x, err := metadata.DecodeCluster(cluster)
	must.OK(t, err)
	x.Generation = metadata.ID{7}
	w.put(metadata.ClusterKey, x.Encode())
	w.put(older.Key, older.Value)
	w.follow()
	if named, local := w.tier().End, b.partition().Ends().LocalStart; named >= local {
		t.Fatalf("copies up to %d, and a local log from %d on", named, local)
	}
	return w, b
}

// What the store has and recovered metadata do not name is found.
func TestCopiesAreFoundAfterARecovery(t *testing.T) {
	w, b := recovered(t)
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if x := w.tier(); x.Start != 0 || x.End < b.partition().Ends().LocalStart || len(x.Epochs) != 1 {
		t.Errorf("%+v", x)
	}
}

// If the store has no list of these records, the error names the command that ends this, and it
// does.
func TestAGapAfterARecoveryEndsWithATrim(t *testing.T) {
	w, b := recovered(t)
	for _, name := range w.names() {
		if strings.Contains(name, "manifest/") {
			must.OK(t, w.store.Delete(context.Background(), name))
		}
	}
	local := b.partition().Ends().LocalStart
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
	if y := w.tier(); y.Start != local || y.End <= local {
		t.Errorf("%+v", y)
	}
}

// With remote.log.copy.disable, nothing more is copied, and what is copied stays readable, until
// retention removes it.
func TestCopyDisable(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.lone(1, true)
	w.add(20)
	b.copyAll()
	b.retain()
	x := w.tier()
	w.conf.NoCopies = true
	w.add(20)
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if y := w.tier(); y.End != x.End || y.Start != 0 {
		t.Errorf("%+v, and before it was disabled %+v", y, x)
	}
	w.conf.RetentionBytes = 0
	b.copyAll()
	must.OK(t, b.healthy())
	if y := w.tier(); y.Start != x.End || !y.Empty() {
		t.Errorf("after retention: %+v", y)
	}
	w.gone = x.End
	w.conf.NoCopies, w.conf.RetentionBytes = false, -1
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if y := w.tier(); y.End < x.End+40 {
		t.Errorf("after it was enabled: %+v", y)
	}
}

// With remote.log.delete.on.disable, the records that only the store has are gone, and its objects
// unused. The others stay. A later copy begins with them.
func TestDeleteOnDisable(t *testing.T) {
	w := newWorld(t, "sync", nil)
	b := w.brokers[0]
	w.lone(1, true)
	w.add(20)
	b.copyAll()
	b.retain()
	local := b.partition().Ends().LocalStart
	w.conf.Remote = false
	w.conf.DropRemote = true
	b.copyAll()
	w.gone = local
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if x := w.tier(); x != nil || local == 0 {
		t.Errorf("%+v, and the local log begins at %d", x, local)
	}
	w.collect()()
	if names := w.names(); len(names) > 0 {
		t.Errorf("a collection leaves %d objects", len(names))
	}
	w.conf.Remote, w.conf.DropRemote = true, false
	w.add(20)
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if x := w.tier(); x.Start != local || x.End < local+30 {
		t.Errorf("when it is enabled again: %+v", x)
	}
}
