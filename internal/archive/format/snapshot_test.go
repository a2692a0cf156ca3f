package format

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// write encodes and writes an index, and returns its reference.
func write(t test, s objects.Store, x *Index) Previous {
	t.Helper()
	sealed, err := x.Encode()
	must.OK(t, err)
	name := Name{Kind: objects.Index, Number: x.Number, Nonce: objects.NewNonce()}
	must.OK(t, objects.Write(context.Background(), s, prefix+name.String(), objects.Index, sealed))
	return Previous{x.Number, name.Nonce}
}

// Each snapshot of a chain is read as it was, whichever of them are complete.
func TestASnapshotIsReadThroughItsChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, ctx := store(t), context.Background()
		var last *Index
		var at Previous
		for number := int64(1); number <= 5; number++ {
			x := drawIndex(t, number)
			if last == nil || rapid.IntRange(0, 3).Draw(t, "complete") == 0 {
				at = write(t, s, x)
			} else {
				at = write(t, s, last.Changes(x, at.Nonce))
			}
			last = x
			got, err := ReadSnapshot(ctx, s, prefix, x.Cluster, at)
			must.OK(t, err)
			if d := same(x, got); d != "" {
				t.Fatal(d)
			}
		}
		if _, err := ReadSnapshot(ctx, s, prefix, [16]byte{9}, at); !errors.Is(err, objects.ErrDamaged) {
			t.Fatalf("the snapshot of another cluster: %v", err)
		}
	})
}

// An index that is missing, another's, or one of too many is an error.
func TestABrokenChainIsFound(t *testing.T) {
	s, ctx := store(t), context.Background()
	first := &Index{Number: 1}
	at := write(t, s, first)
	wrong := Name{Kind: objects.Index, Number: 2, Nonce: at.Nonce}
	right := Name{Kind: objects.Index, Number: 1, Nonce: at.Nonce}
	must.OK(t, s.Copy(ctx, objects.Info{Name: prefix + right.String()}, prefix+wrong.String()))
	if _, err := ReadSnapshot(ctx, s, prefix, first.Cluster, Previous{2, at.Nonce}); !errors.Is(err, objects.ErrDamaged) {
		t.Errorf("an index under the name of another: %v", err)
	}
	for number := int64(2); number <= 2+MaxChanges; number++ {
		before := at
		at = write(t, s, &Index{Number: number, Previous: &before})
		_, err := ReadSnapshot(ctx, s, prefix, first.Cluster, at)
		if allowed := number <= 1+MaxChanges; allowed && err != nil || !allowed && !errors.Is(err, ErrContradiction) {
			t.Errorf("%d indexes with changes: %v", number-1, err)
		}
	}
	must.OK(t, s.Delete(ctx, prefix+right.String()))
	if _, err := ReadSnapshot(ctx, s, prefix, first.Cluster, Previous{2, objects.NewNonce()}); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("a missing index: %v", err)
	}
}

func TestAManifestIsThatOfItsPartition(t *testing.T) {
	s, ctx := store(t), context.Background()
	m := &Manifest{ID: orders, Base: 100, End: 200, Parts: []Part{Whole(run(1, 100, 200), 7)}}
	sealed, err := m.Encode()
	must.OK(t, err)
	other := ID{Topic: orders.Topic, Partition: 9}
	for _, id := range []ID{orders, other} {
		name := Name{Kind: objects.Manifest, Partition: id, Nonce: nonce(1)}
		must.OK(t, objects.Write(ctx, s, prefix+name.String(), objects.Manifest, sealed))
	}
	got, err := ReadManifest(ctx, s, prefix, orders, nonce(1))
	must.OK(t, err)
	if d := same(m, got); d != "" {
		t.Error(d)
	}
	if _, err := ReadManifest(ctx, s, prefix, other, nonce(1)); !errors.Is(err, objects.ErrDamaged) {
		t.Errorf("the manifest of another partition: %v", err)
	}
}
