package tier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// copiedTwice lets a broker lead and copy twice, and returns it with what the metadata named
// between.
func (w *world) copiedTwice() (b *broker, older metadata.KV) {
	b = w.brokers[0]
	w.lone(1, true)
	w.add(8)
	b.copyAll()
	older, _, err := w.meta.Get(w.t.Context(), metadata.TierKey(tp))
	must.OK(w.t, err)
	w.add(20)
	b.copyAll()
	return b, older
}

// recovered returns a world whose metadata were recovered: they name less than the store has, and
// less than the local log needs. b leads.
func recovered(t *testing.T) (*world, *broker) {
	w := newWorld(t, "sync", nil)
	b, older := w.copiedTwice()
	must.OK(t, b.healthy())
	b.retain()
	w.backdate(older)
	w.follow()
	if named, local := w.tier().End, b.partition().Ends().LocalStart; named >= local {
		t.Fatalf("copies up to %d, and a local log from %d on", named, local)
	}
	return w, b
}

// backdate replaces what the metadata name by an older value, as if they were recovered.
func (w *world) backdate(older metadata.KV) {
	w.generations++
	kv, _, err := w.meta.Get(w.t.Context(), metadata.ClusterKey)
	must.OK(w.t, err)
	x, err := metadata.DecodeCluster(kv)
	must.OK(w.t, err)
	x.Generation = metadata.ID{7, w.generations}
	w.put(metadata.ClusterKey, x.Encode())
	if older.ModRevision == 0 {
		_, err := w.meta.Txn(w.t.Context(), metadata.Txn{Delete: []string{metadata.TierKey(tp)}})
		must.OK(w.t, err)
		return
	}
	w.put(older.Key, older.Value)
}

// What the store has and recovered metadata do not name is found.
func TestCopiesAreFoundAfterARecovery(t *testing.T) {
	w, b := recovered(t)
	reads := w.store.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "log/", Before: func(faultstore.Call) {}})
	b.copyAll()
	reads.Off()
	if n := reads.Hits(); n > 3 {
		t.Errorf("%d reads of objects that have one leader epoch", n)
	}
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

// collectedList returns a world whose recovered metadata name a list that a collection has deleted.
// The local log of b, which leads, begins at an offset below the end of that list.
func collectedList(t *testing.T, local int64, broken breakrules.Removed[Rule]) (*world, *broker) {
	w := newWorld(t, "sync", without(broken))
	b, older := w.copiedTwice()
	w.collect()()
	b.retainBelow(local)
	w.backdate(older)
	w.follow()
	if x, e := w.tier(), b.partition().Ends(); e.LocalStart != local || x.End <= local {
		t.Fatalf("%+v, %+v", x, e)
	}
	b.retain()
	if e := b.partition().Ends(); e.LocalStart != local {
		t.Fatalf("local retention counts as copied what recovered metadata name: %+v", e)
	}
	return w, b
}

// A list that the metadata name and the store has no longer is replaced, whether or not the local
// log begins below its end.
func TestACollectedListAfterARecovery(t *testing.T) {
	for _, local := range []int64{0, 9} {
		w, b := collectedList(t, local, breakrules.Removed[Rule]{})
		b.copyAll()
		must.OK(t, errors.Join(b.healthy(), b.check()))
		if x := w.tier(); x.Start != 0 || x.End < 60 {
			t.Errorf("a local log from %d on: %+v", local, x)
		}
		b.retain()
		must.OK(t, b.check())
	}
}

// If the store has no other list either, only the local records are left, and the command in the
// error lets copies continue.
func TestACollectedListWithoutAnotherEndsWithATrim(t *testing.T) {
	w, b := collectedList(t, 9, breakrules.Removed[Rule]{})
	for _, name := range w.names() {
		if strings.Contains(name, "manifest/") {
			must.OK(t, w.store.Delete(context.Background(), name))
		}
	}
	b.copyAll()
	if err := b.healthy(); err == nil || !strings.Contains(err.Error(), "chronikctl topic trim t --partition 0 --before 9") {
		t.Fatalf("%v", err)
	}
	w.delete(9)
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
	if x := w.tier(); x.Start != 9 || x.End < 60 {
		t.Errorf("%+v", x)
	}
}

// lacking returns a broker that leads, whose metadata were recovered, and whose local log begins at
// an offset; and the name of the object with the offset lost, which the store lacks.
func lacking(t *testing.T, local, lost int64) (b *broker, object format.Name) {
	w := newWorld(t, "sync", nil)
	b = w.brokers[0]
	w.lone(1, true)
	w.add(30)
	b.copyAll()
	older, _, err := w.meta.Get(t.Context(), metadata.TierKey(tp))
	must.OK(t, err)
	b.retainBelow(local)
	for _, name := range w.names() {
		n, err := format.Parse(strings.TrimPrefix(name, prefix))
		must.OK(t, err)
		if n.Kind == objects.Log && n.Base <= lost && lost < n.End {
			object = n
			must.OK(t, w.store.Delete(t.Context(), name))
		}
	}
	w.backdate(older)
	w.follow()
	reads := w.store.Add(faultstore.Rule{Ops: faultstore.Get, Name: prefix + "log/", Before: func(faultstore.Call) {}})
	b.copyAll()
	reads.Off()
	must.OK(t, b.healthy())
	if n := reads.Hits(); n > 1 {
		t.Errorf("%d objects are read", n)
	}
	b.retain()
	if x, e := w.tier(), b.partition().Ends(); x.Start != 0 || e.LocalStart <= local || x.End < e.LocalStart {
		t.Fatalf("%+v, %+v", x, e)
	}
	return b, object
}

// An object that only the store had, and has lost, is missing after a recovery as before: all other
// records are read, and copies continue.
func TestAMissingObjectAfterARecovery(t *testing.T) {
	b, lost := lacking(t, 60, 30)
	for at := range int64(90) {
		res, err := b.partition().Read(replica.ReadRequest{Offset: at, MaxBytes: 1, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
		if missing := lost.Base <= at && at < lost.End; missing != errors.Is(err, replica.ErrTier) || !missing && err != nil {
			t.Errorf("a read at %d: %v", at, err)
		}
		res.Release()
	}
}

// What the local log has, too, is copied again.
func TestAMissingObjectIsCopiedAgain(t *testing.T) {
	b, _ := lacking(t, 30, 60)
	must.OK(t, b.check())
}

// otherHistory returns a world in which the store has records of another history up to the start of
// the local log of b, which leads after two unclean elections. older is what the metadata named
// before all copies.
func otherHistory(t *testing.T) (w *world, b *broker, older metadata.KV) {
	w = newWorld(t, "sync", nil)
	b = w.brokers[0]
	w.lone(1, true)
	b.copyAll()
	older, _, err := w.meta.Get(t.Context(), metadata.TierKey(tp))
	must.OK(t, err)
	w.add(2)
	w.fetch(6)
	w.add(14)
	b.copyAll()
	b.retainBelow(24)
	w.lone(2, false)
	w.add(10)
	w.brokers[1].copyAll()
	w.collect()()
	w.lone(1, false)
	if x, e := w.tier(), b.partition().Ends(); x.End != e.LocalStart || len(x.Epochs) != 2 {
		t.Fatalf("%+v, %+v", x, e)
	}
	return w, b, older
}

// A local log that begins where the copies of another history end does not continue them.
func TestCopiesOfAnotherHistory(t *testing.T) {
	w, b, _ := otherHistory(t)
	b.copyAll()
	must.OK(t, b.healthy())
	if e := b.partition().Ends(); e.LogStart != e.LocalStart {
		t.Errorf("%+v, %+v", e, w.tier())
	}
}

// After a recovery they are not found either.
func TestCopiesOfAnotherHistoryAreNotFound(t *testing.T) {
	w, b, older := otherHistory(t)
	w.backdate(older)
	w.follow()
	b.copyAll()
	must.OK(t, b.healthy())
	if e := b.partition().Ends(); e.LogStart != e.LocalStart {
		t.Errorf("%+v, %+v", e, w.tier())
	}
}

// Recovered metadata may name what an unclean election has undone that they do not know. Readers
// get none of it, also after a deletion of records, until the leader has compared.
func TestUndoneRecordsOfRecoveredMetadata(t *testing.T) {
	w := newWorld(t, "sync", nil)
	w.lone(1, true)
	w.add(2)
	w.fetch(6)
	w.add(6)
	w.brokers[0].copyAll()
	older, _, err := w.meta.Get(t.Context(), metadata.TierKey(tp))
	must.OK(t, err)
	w.lone(2, false)
	b := w.brokers[1]
	w.add(20)
	b.copyAll()
	b.retainBelow(15)
	w.backdate(older)
	r := w.record()
	r.Unclean, r.LeaderEpoch = 0, r.LeaderEpoch+1
	w.put(metadata.PartitionKey(tp.Topic, tp.Partition), r.Encode())
	w.follow()
	w.delete(2)
	if x, e := w.tier(), b.partition().Ends(); x.Start != 2 || x.End <= 15 || e.LocalStart != 15 {
		t.Fatalf("%+v, %+v", x, e)
	}
	for at, want := range map[int64]error{5: nil, 6: replica.ErrTier, 14: replica.ErrTier, 15: nil} {
		res, err := b.partition().Read(replica.ReadRequest{Offset: at, MaxBytes: 1, AtLeastOne: true, CurrentEpoch: -1, FetchedEpoch: -1})
		if !errors.Is(err, want) {
			t.Errorf("a read at %d: %v", at, err)
		}
		res.Release()
	}
	b.copyAll()
	must.OK(t, errors.Join(b.healthy(), b.check()))
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
