package txn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The partitions of transactions that have not ended count against a budget, which a load may
// exceed. An add beyond it is refused and changes nothing.
func TestOpenTransactionsCountAgainstABudget(t *testing.T) {
	const ids = 8
	each := weight([]Partition{{"a", 0}, {"a", 1}})
	d := newDesk(t, func(c *Config) { c.OpenMemory = coordinator.NewMemoryBudget(4 * ids * each) })
	used := func(want int64) {
		t.Helper()
		if got := d.shard.cfg.OpenMemory.Used(); got != want || d.shard.memory != want {
			t.Errorf("%d bytes are in use, the shard counts %d, want %d", got, d.shard.memory, want)
		}
	}
	two := []AddedPartition{{Partition: Partition{"a", 0}}, {Partition: Partition{"a", 1}}}
	open := func(n int) (Identity, *kerr.Error) {
		id := fmt.Sprint("id", n)
		who := ask[Identity](d, InitProducerID{ID: id, Timeout: 60_000, ProducerID: none, Epoch: none})
		return who, ask[Added](d, Add{ID: id, ProducerID: who.ProducerID, Epoch: who.Epoch, Version: 1, Partitions: two}).Err
	}
	for n := range ids {
		if _, err := open(n); err != nil {
			t.Fatal(err)
		}
	}
	used(ids * each)
	if _, err := open(ids); err != kerr.CoordinatorLoadInProgress {
		t.Errorf("an add beyond the budget: %v", err)
	}
	used(ids * each)
	d.cfg.OpenMemory = coordinator.NewMemoryBudget(each)
	d.reload() // with a smaller budget
	used(ids * each)
	for n := range ids {
		if s := d.shard.ids[fmt.Sprint("id", n)]; s.state != Ongoing || len(s.partitions) != 2 {
			t.Errorf("after the load: %+v", s.value)
		}
	}
	must.OK(t, d.shard.Apply(coordinator.Record{Key: encodeKey("id0")}))
	used((ids - 1) * each)
	d.shard.End()
	if got := d.shard.cfg.OpenMemory.Used(); got != 0 {
		t.Errorf("%d bytes are in use after the end", got)
	}
}

// Transactional ids count against a budget, also after a load. Beyond it, idle ones make room for
// new ones, and while there are none, new ones are refused.
func TestIDsCountAgainstABudget(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.IDMemory = coordinator.NewMemoryBudget(64 << 10) })
	name := func(i int) string { return fmt.Sprintf("%04d", i) + strings.Repeat("x", 1000) }
	open := func(i int) *kerr.Error {
		return ask[Identity](d, InitProducerID{ID: name(i), Timeout: 60_000, ProducerID: none, Epoch: none}).Err
	}
	n := 0
	for ; open(n) == nil; n++ {
		if n > 1000 {
			t.Fatal("ids are never refused")
		}
	}
	if err := open(n); err != kerr.CoordinatorLoadInProgress {
		t.Errorf("an id beyond the budget: %v", err)
	}
	if err := open(0); err != nil {
		t.Errorf("an id that is known: %v", err)
	}
	want := int64(n) * idWeight(name(0))
	if got := d.shard.cfg.IDMemory.Used(); got != want || want > 64<<8 {
		t.Errorf("%d ids use %d bytes, want %d", n, got, want)
	}
	d.reload()
	if got := d.shard.cfg.IDMemory.Used(); got != want {
		t.Errorf("%d bytes after a load, want %d", got, want)
	}
	d.advance(minIdle)
	if err := open(n); err != nil {
		t.Errorf("an id while others are idle: %v", err)
	}
	d.shard.End()
	if got := d.shard.cfg.IDMemory.Used(); got != 0 {
		t.Errorf("%d bytes are in use after the end", got)
	}
}

// A transaction that needs more than the whole budget of its shard would be refused for ever with
// an error after which clients retry. Its producer can abort it, and continue with a smaller one.
func TestATransactionThatNeverFitsIsAborted(t *testing.T) {
	for version := int16(1); version <= 2; version++ {
		for _, before := range []int{0, 1} {
			d := newDesk(t, func(c *Config) {
				c.OpenMemory = coordinator.NewMemoryBudget(4 * weight([]Partition{{"a", 0}, {"a", 1}}))
			})
			d.bring(Empty, version)
			list := []Partition{a(0), a(1), a(2)}
			for i := range before {
				d.add(version, list[i])
			}
			if got := ask[Added](d, d.addOf(version, list...)); got.Err != kerr.TransactionAbortable {
				t.Fatalf("version %d after %d partitions: %v", version, before, got.Err)
			}
			if version == 1 && before == 0 {
				continue // nothing is open, so clients of version 1 have nothing to abort
			}
			pid, epoch := d.state().identity()
			if got := d.end(version, pid, epoch, false); got.Err != nil {
				t.Errorf("version %d: %v", version, got.Err)
			}
			d.answer(nil)
			if got := ask[Added](d, d.addOf(version, list[:2]...)); got.Err != nil {
				t.Errorf("version %d, the next transaction: %v", version, got.Err)
			}
		}
	}
}
