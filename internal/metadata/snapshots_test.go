package metadata

import (
	"slices"
	"testing"
)

// Images have the snapshots in the order of their numbers, and former images do not change.
func TestSnapshotsOfAnImage(t *testing.T) {
	numbers := func(m *Image) (list []int64) {
		for _, s := range m.Snapshots() {
			list = append(list, s.Number)
		}
		return list
	}
	put := func(m *Image, revision int64, events ...Event) *Image {
		next, d, err := m.Apply(Batch{Revision: revision, Events: events})
		if err != nil || !d.Snapshots {
			t.Fatalf("%+v, %v", d, err)
		}
		if again := Diff(m, next); !again.Snapshots {
			t.Error("the difference of the images has no snapshots")
		}
		return next
	}
	value := someSnapshot().Encode()
	one := put(Empty(), 1, Event{Key: SnapshotKey(7), Value: value}, Event{Key: SnapshotKey(3), Value: value})
	two := put(one, 2, Event{Key: SnapshotKey(5), Value: value}, Event{Key: SnapshotKey(3), Deleted: true})
	three := put(two, 3, Event{Key: CollectionKey, Value: Collection{}.Encode()})
	if got := numbers(one); !slices.Equal(got, []int64{3, 7}) {
		t.Errorf("snapshots %v", got)
	}
	if got := numbers(three); !slices.Equal(got, []int64{5, 7}) {
		t.Errorf("snapshots %v", got)
	}
	if s := three.Snapshot(5); s == nil || s.Revision != 2 || three.Snapshot(3) != nil || three.Collection() != 3 || two.Collection() != 0 {
		t.Errorf("snapshot %+v, collection %d", s, three.Collection())
	}
}
