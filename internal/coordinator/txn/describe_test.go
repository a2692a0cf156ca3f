package txn

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/view"
)

func TestDescribe(t *testing.T) {
	d := newDesk(t)
	d.bring(Ongoing, 2)
	started := d.now.UnixMilli()
	d.advance(3 * time.Second)
	pid, epoch := d.state().identity()
	got := ask[[]Description](d, Describe{IDs: []string{"none", "x"}})
	want := []Description{
		{ID: "none", Err: kerr.TransactionalIDNotFound},
		{ID: "x", State: Ongoing, ProducerID: pid, Epoch: epoch, TimeoutMs: 60_000, StartMs: started, Partitions: []Partition{a(0), a(1)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	got[1].Partitions[0].Topic = "changed" // the answer outlives the event
	if d.state().partitions[0] != a(0) {
		t.Fatal("the answer shares the shard's partitions")
	}
}

func TestListFilters(t *testing.T) {
	d := newDesk(t)
	d.bring(Ongoing, 1)
	d.advance(10 * time.Second)
	y := ask[Identity](d, InitProducerID{ID: "y-1", Timeout: 1000, ProducerID: none, Epoch: none})
	x := d.state().pid
	for _, c := range []struct {
		name string
		list List
		want []string
	}{
		{"all", List{Longer: -1}, []string{"x", "y-1"}},
		{"state", List{Longer: -1, States: []State{Ongoing, CompleteAbort}}, []string{"x"}},
		{"producer", List{Longer: -1, ProducerIDs: []int64{y.ProducerID}}, []string{"y-1"}},
		{"producer and state", List{Longer: -1, ProducerIDs: []int64{x}, States: []State{Empty}}, nil},
		{"longer than 9 s", List{Longer: 9 * time.Second, States: []State{Ongoing}}, []string{"x"}},
		{"longer than 10 s", List{Longer: 10 * time.Second, States: []State{Ongoing}}, nil},
	} {
		var ids []string
		for _, x := range ask[[]Description](d, c.list) {
			ids = append(ids, x.ID)
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %q, want %q", c.name, ids, c.want)
		}
	}
}

// A transaction whose markers are late is reported with the missing ones, and why.
func TestSurveyNamesMissingMarkers(t *testing.T) {
	d := newDesk(t)
	d.bring(PrepareCommit, 2)
	since := d.now.UnixMilli()
	if f := ask[view.Transactions](d, Survey{}); len(f.Undone) > 0 || f.IDs[PrepareCommit.String()] != 1 {
		t.Fatalf("%+v", f)
	}
	sent := d.sent
	d.sent = nil
	d.handle(0, resultOf(sent[1], kerr.NotEnoughReplicas), false) // the other one is still on its way
	d.advance(UndoneAfter)
	f := ask[view.Transactions](d, Survey{})
	want := []view.Undone{{ID: "x", Commit: true, Since: time.UnixMilli(since), Missing: 2, Partition: "a-1",
		Error: kerr.NotEnoughReplicas.Message}}
	if diff := cmp.Diff(want, f.Undone); diff != "" {
		t.Fatal(diff)
	}
	d.handle(0, resultOf(sent[0], nil), false)
	d.answer(nil)
	if f := ask[view.Transactions](d, Survey{}); len(f.Undone) > 0 || f.IDs[CompleteCommit.String()] != 1 {
		t.Fatalf("%+v", f)
	}
}
