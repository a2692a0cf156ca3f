package load

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench/meter"
)

// batchAt returns a batch of n records at an offset.
func batchAt(t *testing.T, offset int64, n int) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{BaseOffset: offset})
	for range n {
		b.Append(1, nil, []byte("value"), nil)
	}
	out, err := b.Build()
	must.OK(t, err)
	return out
}

func runFetch(t *testing.T, o Options, w *meter.Window) meter.Totals {
	t.Helper()
	m := meter.New(w)
	g, err := NewRawFetch(context.Background(), o, m)
	must.OK(t, err)
	defer g.Close()
	w.Begin()
	must.OK(t, g.Run(context.Background()))
	return m.Totals()
}

func place(req kmsg.Request) (partition int32, offset int64) {
	p := req.(*kmsg.FetchRequest).Topics[0].Partitions[0]
	return p.Partition, p.FetchOffset
}

func TestRawFetchReadsToTheEndAndBeginsAgain(t *testing.T) {
	w := window()
	var asked [][2]int64
	f := startFake(t, 2, func(n int, req kmsg.Request) reply {
		p, offset := place(req)
		asked = append(asked, [2]int64{int64(p), offset})
		if n == 9 {
			w.Cut()
		}
		// Three records per fetch, the last one alone: 10, 13, 16, 19.
		return reply{records: batchAt(t, offset, int(min(3, 20-offset))), mark: 20}
	})
	got := runFetch(t, f.options(), w)
	want := [][2]int64{{0, 10}, {0, 13}, {0, 16}, {0, 19}, {1, 10}, {1, 13}, {1, 16}, {1, 19}, {0, 10}}
	for i := range want {
		if asked[i] != want[i] {
			t.Fatalf("asked for %v, want %v", asked, want)
		}
	}
	if got.Records != 20 || got.Requests != 8 || got.Latency.TotalCount() != 8 || got.Unanswered != 1 {
		t.Errorf("%+v, %d in flight", got.Amount, got.Unanswered)
	}
}

func TestRawFetchFailures(t *testing.T) {
	for name, c := range map[string]struct {
		reply reply
		want  string
	}{
		"not the leader":      {reply{code: 6}, "NOT_LEADER_FOR_PARTITION"},
		"offset out of range": {reply{code: 1}, "OFFSET_OUT_OF_RANGE"},
		"storage error":       {reply{code: 56, mark: 20}, "KAFKA_STORAGE_ERROR"},
		"no batch":            {reply{records: make([]byte, 100), mark: 20}, "answer: malformed"},
		"half an answer":      {reply{cut: 30, mark: 20}, "answer: malformed"},
		"no answer":           {reply{quit: true}, "connection: closed by the broker"},
		"another's answer":    {reply{other: true, mark: 20}, "answer: for another request"},
	} {
		t.Run(name, func(t *testing.T) {
			w := window()
			f := startFake(t, 1, func(n int, req kmsg.Request) reply {
				if n == 4 {
					w.Cut()
				}
				if n == 2 {
					return c.reply
				}
				_, offset := place(req)
				return reply{records: batchAt(t, offset, 1), mark: 1000}
			})
			got := runFetch(t, f.options(), w)
			if got.Records != 2 || got.Requests != 2 {
				t.Errorf("%+v, want 2 successes", got.Amount)
			}
			if len(got.Failures) != 1 || got.Failures[c.want] != 1 {
				t.Errorf("failures %v, want %q once", got.Failures, c.want)
			}
		})
	}
}

func TestEmptyPartitionsAreFollowedOnlyWhenIdle(t *testing.T) {
	o := startFake(t, 1, nil).options()
	offsets := Offsets{Start: map[int32]int64{0: 5, 1: 7}, End: map[int32]int64{0: 5, 1: 7}}
	if !offsets.Empty() {
		t.Error("a topic without records is not empty")
	}
	offsets.End[1]++
	if offsets.Empty() {
		t.Error("a topic with a record is empty")
	}
	r := &fetcher{offsets: Offsets{Start: map[int32]int64{}, End: map[int32]int64{}}, link: link{partitions: []int32{0, 1}}}
	if _, ok := r.choose(); ok {
		t.Error("a partition without records was chosen")
	}
	r.idle = true
	if _, ok := r.choose(); !ok {
		t.Error("an idle consumer has nothing to follow")
	}
	if got, err := o.Cluster.Offsets(context.Background()); err != nil || got.Start[0] != 10 || got.End[0] != 20 {
		t.Errorf("%+v, %v", got, err)
	}
}
