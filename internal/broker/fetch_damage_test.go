package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/vfs"
)

// damagedNode returns a node with ten records in each of two topics; the record of a at offset 5 is
// damaged on disk.
func damagedNode(t *testing.T) *node {
	t.Helper()
	fs, size := vfs.Memory(), 0
	t.Run("before", func(t *testing.T) {
		n := newNode(t, func(o *nodeOptions) { o.fs = fs })
		for _, name := range []string{"a", "b"} {
			n.topic(t, name, 1)
			size = n.put(t, name, 10, "only on disk")
		}
	})
	f, err := fs.Open("/data/logs/a-0/00000000000000000000.log")
	must(t, err)
	_, err = f.WriteAt([]byte{0xff}, int64(6*size-2)) // near the end of the sixth batch
	must(t, err)
	must(t, f.Close())
	return newNode(t, func(o *nodeOptions) { o.fs = fs })
}

func corrupt(resp *kmsg.FetchResponse) bool {
	return resp.Topics[0].Partitions[0].ErrorCode == kerr.CorruptMessage.Code
}

// A connection that fetches damaged records again is not answered with the same error at once,
// whatever its max.wait.ms. Fetches of other offsets, or on other connections, are answered at
// once.
func TestDamageIsNotReportedAtFullSpeed(t *testing.T) {
	t.Parallel()
	n := damagedNode(t)
	w := n.dial(t)
	begin := time.Now()
	const answers = 3
	for range answers {
		if !corrupt(ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(5, named("a", [16]byte{})))) {
			t.Fatal("a damaged batch is served")
		}
	}
	if took := time.Since(begin); took < (answers-1)*damageGap {
		t.Errorf("%d answers came within %v", answers, took)
	}
	// The damage is known now, and none of these fetches is held: one that is would not end.
	n.damage.setGap(time.Hour)
	began := n.damage.count()
	for offset, want := range map[int64]string{4: "a-0[0 10: [4]]", 6: "a-0[0 10: [6 7 8 9]]"} {
		if got := show(t, ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(offset, named("a", [16]byte{})))); got != want {
			t.Errorf("offset %d: %s, want %s", offset, got, want)
		}
	}
	if !corrupt(ask[*kmsg.FetchResponse](t, n.dial(t), 12, fetchRequest(5, named("a", [16]byte{})))) {
		t.Error("a damaged batch is served to another connection")
	}
	if now := n.damage.count(); now != began+1 {
		t.Errorf("%d reports are remembered, %d were before another connection asked", now, began)
	}
}

func (d *damageReports) setGap(gap time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gap = gap
}

func (d *damageReports) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.last)
}

// A fetch that is held because of damage ends when another partition has records, and a fetch that
// has records already is not held.
func TestDamageHoldsNoRecords(t *testing.T) {
	n := damagedNode(t)
	n.damage.setGap(time.Hour)
	w := n.dial(t)
	both := func(offset int64) *kmsg.FetchRequest {
		req := waiting(5, 1, named("a", [16]byte{}), named("b", [16]byte{}))
		req.Topics[1].Partitions[0].FetchOffset = offset
		return req
	}
	// Not reported yet: the answer is due at once, although the client would wait.
	if resp := ask[*kmsg.FetchResponse](t, w, 12, both(10)); !corrupt(resp) {
		t.Fatalf("first: %s", show(t, resp))
	}
	if resp := ask[*kmsg.FetchResponse](t, w, 12, both(9)); !corrupt(resp) || len(resp.Topics[1].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("with records: %s", show(t, resp))
	}
	req := both(10)
	n.parked(t, w, 12, req)
	n.put(t, "b", 1, "new")
	if resp := w.fetched(t, req); !corrupt(resp) || len(resp.Topics[1].Partitions[0].RecordBatches) == 0 {
		t.Errorf("held: %s", show(t, resp))
	}
}

// If there are too many reports to remember, each damage counts as reported.
func TestReportsOfDamageAreBounded(t *testing.T) {
	d := damageReports{gap: damageGap}
	now := time.Now()
	for i := range 2 * maxReports {
		d.note(damageReport{connection: uint64(i)}, now)
	}
	if n := d.count(); n != maxReports {
		t.Errorf("%d are remembered", n)
	}
	if wait := d.wait(damageReport{connection: 1 << 40}, now); wait != damageGap {
		t.Errorf("an unknown one waits %v", wait)
	}
	later := now.Add(damageGap)
	if wait := d.wait(damageReport{connection: 1}, later); wait != 0 {
		t.Errorf("an old one waits %v", wait)
	}
	d.note(damageReport{connection: 1 << 40}, later)
	if n := d.count(); n != 1 {
		t.Errorf("%d are remembered after the gap", n)
	}
}
