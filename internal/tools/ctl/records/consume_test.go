package records

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

func rec(partition int32, offset int64) *kgo.Record {
	return &kgo.Record{Topic: "t", Partition: partition, Offset: offset, Key: []byte("k"), Value: fmt.Appendf(nil, "v%d", offset),
		Timestamp: time.UnixMilli(1000),
		Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}}
}

func aReader(t *testing.T, o consumeOptions, f output.Format, out *bytes.Buffer) *reader {
	t.Helper()
	o.from, o.protocol, o.isolation = "earliest", classic, readUncommitted
	must.OK(t, o.check(f))
	return newReader(app.New("v", app.Streams{Out: out, Err: io.Discard}), &o, []string{"t"})
}

// A following member waits for its broker, as a reader without a group does. It fails if waiting is
// useless.
func TestAMemberOutlivesItsBroker(t *testing.T) {
	session := func(err error) error { return &kgo.ErrGroupSession{Err: err} }
	for _, c := range []struct {
		err  error
		want bool
	}{
		{session(errors.New("unable to dial: connection refused")), true},
		{session(kerr.CoordinatorNotAvailable), true},
		{session(kerr.GroupAuthorizationFailed), false},
		{session(kerr.InconsistentGroupProtocol), false},
		{errors.New("another"), false},
		{kerr.CoordinatorNotAvailable, false},
	} {
		if got := temporary(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
	var told []string
	r := aReader(t, consumeOptions{group: "g", follow: true}, output.Text, &bytes.Buffer{})
	r.note = func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	down := kgo.NewErrFetch(session(errors.New("refused")))
	for range 3 {
		must.OK(t, r.failure(t.Context(), down))
	}
	if len(told) != 1 || told[0] != "note: unable to join group session: refused; retrying until interrupted" {
		t.Errorf("told %q", told)
	}
	r.follow = false
	if r.failure(t.Context(), down) == nil {
		t.Error("a reader without --follow waits forever")
	}
}

// Without --follow consume prints the records that existed when it started.
func TestOnlyWhatWasThereIsPrinted(t *testing.T) {
	var out bytes.Buffer
	r := aReader(t, consumeOptions{}, output.Text, &out)
	r.left = map[partition]span{{"t", 0}: {0, 2}, {"t", 1}: {0, 1}, {"t", 3}: {0, 5}}
	for _, x := range []*kgo.Record{rec(0, 0), rec(1, 0), rec(1, 1), rec(0, 1), rec(0, 2), rec(2, 0), rec(3, 7)} {
		if full, err := r.record(x); full || err != nil {
			t.Fatal(full, err)
		}
	}
	_ = r.flush()
	if out.String() != "v0\nv0\nv1\n" || len(r.left) != 0 || !r.finished() {
		t.Errorf("printed %q, still waiting for %v", out.String(), r.left)
	}
}

func TestForms(t *testing.T) {
	for want, o := range map[string]consumeOptions{
		"v7\n":               {},
		"3:7\th=1\tk=v7\n":   {separator: "=", headers: true, offsets: true},
		"t/3/7 k 1 1000 h=1": {format: "%t/%p/%o %k %H %d %h{%k=%v}"},
	} {
		var out bytes.Buffer
		r := aReader(t, o, output.Text, &out)
		must.OK(t, r.write(r.out, rec(3, 7)))
		_ = r.flush()
		if out.String() != want {
			t.Errorf("%+v: %q, want %q", o, out.String(), want)
		}
	}
}

func TestCountEndsIt(t *testing.T) {
	var out bytes.Buffer
	r := aReader(t, consumeOptions{follow: true, count: 2}, output.Text, &out)
	full1, _ := r.record(rec(0, 7))
	full2, _ := r.record(rec(0, 8))
	if full1 || !full2 {
		t.Errorf("full %v %v", full1, full2)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestABrokenPipeIsAnError(t *testing.T) {
	r := aReader(t, consumeOptions{follow: true}, output.Text, &bytes.Buffer{})
	r.out = bufio.NewWriterSize(brokenPipe{}, 16)
	var err error
	for i := int64(0); i < 20 && err == nil; i++ {
		_, err = r.record(rec(0, i))
	}
	if err == nil {
		t.Error("no error")
	}
}

// reassign handles assignments and revocations in the order of their callbacks.
func TestAMemberForgetsWhatItLost(t *testing.T) {
	r := aReader(t, consumeOptions{group: "g", follow: true}, output.Text, &bytes.Buffer{})
	r.left = map[partition]span{{"t", 1}: {0, 5}, {"t", 2}: {0, 5}}
	r.assigned(t.Context(), nil, map[string][]int32{"t": {3}})
	r.revoked(t.Context(), nil, map[string][]int32{"t": {2, 3}})
	must.OK(t, r.reassign(t.Context()))
	if _, kept := r.left[partition{"t", 1}]; !kept || len(r.left) != 1 || len(r.newlyAssigned) != 0 || len(r.assignedNow) != 0 {
		t.Errorf("left %v, news %v", r.left, r.newlyAssigned)
	}
}

// batch returns the bytes of a batch with the given number of records.
func batch(base, last int64, records int32) []byte {
	b := kmsg.RecordBatch{FirstOffset: base, Length: 49, Magic: 2, LastOffsetDelta: int32(last - base), NumRecords: records}
	return b.AppendTo(nil)
}

func TestGapsBelowTheEnd(t *testing.T) {
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		batches []byte
		from    int64
		next    int64
		full    bool
	}{
		"nothing":                 {nil, 5, 5, false},
		"an empty batch":          {batch(5, 9, 0), 5, 10, false},
		"empty, then records":     {join(batch(5, 9, 0), batch(12, 13, 1)), 5, 12, true},
		"records":                 {batch(3, 9, 2), 5, 5, true},
		"records before, emptied": {join(batch(0, 4, 2), batch(5, 9, 0)), 5, 10, false},
		"cut at the limit":        {join(batch(5, 9, 0), batch(10, 11, 1)[:40]), 5, 10, true},
	} {
		if next, full := after(c.batches, c.from, nil); next != c.next || full != c.full {
			t.Errorf("%s: %d %v, want %d %v", name, next, full, c.next, c.full)
		}
	}
}

// Records of aborted transactions are no records, until the marker of their producer. Only the
// producer of an aborted transaction is concerned, from the transaction's first offset on.
func TestAbortedRecordsAreGaps(t *testing.T) {
	const data, marker = 1 << 4, 1<<4 | 1<<5
	of := func(pid, base int64, attributes int16) []byte {
		b := kmsg.RecordBatch{FirstOffset: base, Length: 49, Magic: 2, Attributes: attributes, ProducerID: pid, NumRecords: 1}
		return b.AppendTo(nil)
	}
	aborted := []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
	for name, c := range map[string]struct {
		batches [][]byte
		next    int64
		full    bool
	}{
		"aborted":                     {[][]byte{of(1, 2, data), of(1, 3, data)}, 4, false},
		"another producer":            {[][]byte{of(1, 2, data), of(2, 3, data)}, 3, true},
		"its marker":                  {[][]byte{of(1, 2, data), of(1, 3, marker)}, 3, true},
		"after another marker":        {[][]byte{of(1, 2, data), of(2, 3, marker)}, 3, true},
		"an earlier transaction":      {[][]byte{of(1, 1, data), of(1, 2, data)}, 1, true},
		"the same one, from its rest": {[][]byte{of(1, 5, data)}, 6, false},
	} {
		if next, full := after(bytes.Join(c.batches, nil), 0, aborted); next != c.next || full != c.full {
			t.Errorf("%s: %d %v, want %d %v", name, next, full, c.next, c.full)
		}
	}
	// The marker ends it: what the producer writes next is another transaction.
	o := outcomes{left: aborted, open: map[int64]bool{}}
	for i, want := range []bool{true, false, false} {
		b := kmsg.RecordBatch{FirstOffset: int64(2 + i), Attributes: []int16{data, marker, data}[i], ProducerID: 1, NumRecords: 1}
		if o.aborted(&b) != want {
			t.Errorf("batch %d: aborted %v", i, !want)
		}
	}
}

func FuzzAfter(f *testing.F) {
	f.Add(batch(5, 9, 0), int64(5))
	f.Add(bytes.Join([][]byte{batch(0, 4, 2), batch(5, 9, 0)}, nil), int64(5))
	f.Fuzz(func(t *testing.T, batches []byte, from int64) {
		if next, _ := after(batches, from, nil); next < from {
			t.Errorf("went back from %d to %d", from, next)
		}
	})
}
