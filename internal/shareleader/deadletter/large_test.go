package deadletter

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
)

// one is a world with one record, and a topic of dead letters that takes all.
type one struct {
	world
	record record.Record
	most   int
	got    record.Batch
}

func (o *one) find(string, [16]byte, int32) (Topic, error) { return Topic{Most: o.most}, nil }
func (o *one) name([16]byte) string                        { return "jobs" }
func (o *one) read(_ context.Context, _ *shareleader.Source, _, _ int64, fn func(record.Record) int64) error {
	fn(o.record)
	return nil
}

func (o *one) append(_ context.Context, _ Target, _ int64, b record.Batch) (Last, bool, error) {
	o.got = b
	return none, true, nil
}

// copied returns the copy of the record.
func (o *one) copied(t *testing.T) (r record.Record) {
	t.Helper()
	to := shareleader.LettersTo{Topic: "dlq.jobs", Whole: true, Deliveries: 5}
	list, err := newCopier(o, shareleader.Source{Epochs: oneEpoch}, Broken{}).Copy(t.Context(), to, []window.Letters{{Count: 1}})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := o.got.Each(record.Limits{}, func(x record.Record) error {
		r = x
		r.Key, r.Value = bytes.Clone(x.Key), bytes.Clone(x.Value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

// What the largest valid records have is copied.
func TestTheLargestRecordsAreCopiedWhole(t *testing.T) {
	const most = 1 << 20
	o := &one{most: most, record: record.Record{Key: []byte("key"), Value: make([]byte, most-3)}}
	if r := o.copied(t); len(r.Value) != most-3 || r.Headers.Len() != 8 {
		t.Errorf("the copy has %d bytes and %d headers", len(r.Value), r.Headers.Len())
	}
	o.record.Value = make([]byte, most-2)
	if r := o.copied(t); len(r.Value) != 0 || r.Headers.Len() != 8 {
		t.Errorf("the copy of a record that is too large has %d bytes and %d headers", len(r.Value), r.Headers.Len())
	}
	o.record.Value, o.record.Headers = nil, record.Headers{}
	for range most/2 - 2 {
		o.record.Headers.Add(record.Header{})
	}
	if r := o.copied(t); r.Headers.Len() != most/2+6 {
		t.Errorf("the copy has %d headers", r.Headers.Len())
	}
}

// A compressed batch of a few kilobytes may hold millions of headers.
func TestRecordsOfManyHeadersTakeNoMemory(t *testing.T) {
	o := &one{most: 1 << 20}
	for range 4 << 20 {
		o.record.Headers.Add(record.Header{})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o.copied(t)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d headers take %d bytes", o.record.Headers.Len(), n)
	}
}

// A topic that refuses the batches of clients for their size and time accepts copies.
func TestCopiesAreAccepted(t *testing.T) {
	o := &one{most: 100, record: record.Record{Value: make([]byte, 100)}}
	o.copied(t)
	strict := record.Rules{MaxBatchBytes: 100, TimestampBefore: record.TimestampLimit(0), TimestampAfter: record.TimestampLimit(0)}
	now := time.Now()
	for _, at := range []time.Time{now.Add(-time.Hour), now.Add(time.Hour)} {
		rules := rulesFor(strict)
		if _, err := rules.Accept(o.got, at); err != nil {
			t.Error(err)
		}
		if _, err := strict.Accept(o.got, at); err == nil {
			t.Error("the topic accepts what it should refuse")
		}
	}
}
