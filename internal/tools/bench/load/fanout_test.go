package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// stampedAt returns a batch of n records of a run at an offset, sent a millisecond before now.
func stampedAt(t *testing.T, run uint64, offset int64, n int, now time.Duration) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{BaseOffset: offset})
	for range n {
		value := make([]byte, StampSize)
		Stamp{Run: run, Sent: now - time.Millisecond}.Put(value)
		b.Append(1, nil, value, nil)
	}
	out, err := b.Build()
	must.OK(t, err)
	return out
}

// A consumer continues after the last record that it received and counts only records of its run.
// It retries after an error response, and reconnects after a lost connection or a malformed
// response.
func TestFanOutConsumersContinueWhereTheyWere(t *testing.T) {
	const run, bad = 7, "answer: malformed"
	w := window()
	var asked []int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := startFake(t, 1, func(n int, req kmsg.Request) reply {
		_, offset := place(req)
		asked = append(asked, offset)
		switch n {
		case 1:
			return reply{records: stampedAt(t, run, 20, 3, w.Now()), mark: 23}
		case 2:
			return reply{code: 56}
		case 3:
			return reply{quit: true}
		case 4:
			return reply{records: stampedAt(t, run, 23, 1, w.Now())[:70], mark: 24} // cut short: no record of it
		case 5:
			return reply{
				records: []byte("this is no batch of records at all, though it is long enough to hold the header of one"),
				mark:    24,
			}
		case 6:
			return reply{records: append(stampedAt(t, run+1, 23, 1, w.Now()), stampedAt(t, run, 24, 2, w.Now())...), mark: 26}
		}
		if n == 7 {
			w.Cut()
			cancel()
		}
		return reply{silent: true}
	})
	o := f.options()
	o.Consumers, o.Run = 1, run
	m := meter.New(w)
	g, err := NewFanout(ctx, o, m)
	must.OK(t, err)
	defer g.Close()
	w.Begin()
	must.OK(t, g.Run(ctx))
	got := m.Totals()
	if got.Records != 5 || g.Received() != 5 || got.Latency.TotalCount() != 5 || got.Latency.Min() < 900 || g.Copies() != 1 {
		t.Errorf(
			"%d records, %d received, %d samples, at least %d µs",
			got.Records,
			g.Received(),
			got.Latency.TotalCount(),
			got.Latency.Min(),
		)
	}
	if got.Failures["KAFKA_STORAGE_ERROR"] != 1 || got.Failures["connection: closed by the broker"] != 1 || got.Failures[bad] != 1 ||
		len(got.Failures) != 3 {
		t.Errorf("failures: %v", got.Failures)
	}
	for i, want := range []int64{20, 23, 23, 23, 23, 23, 26} {
		if i >= len(asked) || asked[i] != want {
			t.Fatalf("offsets asked for: %v", asked)
		}
	}
}

func TestFanOutHasOnePartition(t *testing.T) {
	f := startFake(t, 2, func(int, kmsg.Request) reply { return reply{} })
	o := f.options()
	o.Consumers = 2
	if _, err := NewFanout(t.Context(), o, meter.New(window())); !errors.Is(err, ErrPartitions) {
		t.Errorf("%v", err)
	}
}
