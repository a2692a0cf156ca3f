package txn

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Each end of an open transaction is reported once, with what decided it and how long it was open,
// each marker that is repeated, and its markers when the last one is durable.
func TestEndsAreObserved(t *testing.T) {
	var got []string
	d := newDesk(t, func(c *Config) {
		c.Decided = func(commit bool, reason Reason, open time.Duration) {
			got = append(got, fmt.Sprintf("decided %v %v %v", commit, reason, open))
		}
		c.Refused = func(err *kerr.Error) { got = append(got, "refused "+err.Message) }
		c.Marked = func(commit bool, took time.Duration) { got = append(got, fmt.Sprintf("marked %v %v", commit, took)) }
	})
	want := func(all ...string) {
		t.Helper()
		if !slices.Equal(got, all) {
			t.Errorf("got %q, want %q", got, all)
		}
		got = nil
	}
	x := d.init(none, none)
	a := Partition{"a", 0}
	d.add(2, a)
	d.advance(3 * time.Second)
	d.end(2, x.ProducerID, x.Epoch, true)
	want("decided true client 3s")
	d.answer(kerr.KafkaStorageError)
	want("refused KAFKA_STORAGE_ERROR")
	d.advance(time.Second)
	d.answer(nil)
	want("marked true 1s")
	d.add(2, a)
	d.advance(2 * time.Second)
	d.init(none, none) // another producer
	want("decided false fenced 2s")
	d.answer(nil)
	want("marked false 0s")
	d.add(2, a)
	d.advance(time.Hour)
	d.answer(nil)
	if len(got) != 2 || got[0] != "decided false timeout 1m0s" {
		t.Errorf("got %q", got)
	}
}
