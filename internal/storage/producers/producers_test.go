package producers

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/record"
)

var now = time.UnixMilli(1_700_000_000_000)

// made returns a batch of n records of a producer.
func made(t interface{ Fatal(...any) }, base, id int64, epoch int16, seq int32, n int) record.Batch {
	b := record.NewBuilder(record.BatchOptions{BaseOffset: base, Producer: &record.Producer{ID: id, Epoch: epoch, Sequence: seq}})
	for range n {
		b.Append(base, nil, []byte("v"), nil)
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheck(t *testing.T) {
	var s State
	for i := range int32(7) { // sequences 0 to 13 at offsets 100 to 113
		s.Add(made(t, 100+int64(2*i), 1, 5, 2*i, 2), now)
	}
	for name, c := range map[string]struct {
		b    record.Batch
		dup  int64 // base offset of the batch that it duplicates
		want error
	}{
		"next":                      {made(t, 0, 1, 5, 14, 3), -1, nil},
		"newest again":              {made(t, 0, 1, 5, 12, 2), 112, nil},
		"oldest remembered again":   {made(t, 0, 1, 5, 4, 2), 104, nil},
		"older than the window":     {made(t, 0, 1, 5, 2, 2), -1, ErrOutOfOrderSequence},
		"same start, other length":  {made(t, 0, 1, 5, 12, 1), -1, ErrOutOfOrderSequence},
		"gap":                       {made(t, 0, 1, 5, 15, 1), -1, ErrOutOfOrderSequence},
		"old epoch":                 {made(t, 0, 1, 4, 14, 1), -1, ErrInvalidProducerEpoch},
		"new epoch":                 {made(t, 0, 1, 6, 0, 1), -1, nil},
		"new epoch, not from 0":     {made(t, 0, 1, 6, 14, 1), -1, ErrOutOfOrderSequence},
		"unknown producer":          {made(t, 0, 2, 0, 77, 1), -1, nil},
		"no producer":               {made(t, 0, -1, -1, -1, 1), -1, nil},
		"duplicate under new epoch": {made(t, 0, 1, 6, 12, 2), -1, ErrOutOfOrderSequence},
	} {
		d, dup, err := s.Check(c.b, Permit{})
		if dup != (c.dup >= 0) || dup && (d.BaseOffset != c.dup || d.LastOffset != c.dup+1) || !errors.Is(err, c.want) ||
			c.want == nil && err != nil {
			t.Errorf("%s: %+v, %v, %v", name, d, dup, err)
		}
	}
}

// A batch with a producer id and without a sequence number, which only a leader at fault sends, is
// not remembered, and does no harm.
func TestABatchWithoutASequenceIsNotRemembered(t *testing.T) {
	var s State
	s.Add(made(t, 0, 1, 0, -1, 1), now)
	if s.Knows(1) || s.Len() != 0 {
		t.Errorf("%d producers", s.Len())
	}
	s.Add(made(t, 1, 1, 0, 0, 1), now)
	if !s.Knows(2) || s.Knows(1) {
		t.Error("the next batch is not remembered")
	}
}

func TestSequenceWraps(t *testing.T) {
	var s State
	s.Add(made(t, 0, 1, 0, math.MaxInt32-1, 2), now)
	if _, _, err := s.Check(made(t, 2, 1, 0, 0, 1), Permit{}); err != nil {
		t.Errorf("0 after 2^31-1: %v", err)
	}
	s = State{}
	across := made(t, 0, 1, 0, math.MaxInt32, 3) // 2^31-1, 0, 1
	s.Add(across, now)
	if _, dup, _ := s.Check(across, Permit{}); !dup {
		t.Error("a batch across the wrap is not known again")
	}
	if _, _, err := s.Check(made(t, 3, 1, 0, 2, 1), Permit{}); err != nil {
		t.Errorf("2 after a batch across the wrap: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	s := State{Expiry: time.Hour}
	s.Add(made(t, 0, 1, 0, 0, 1), now)
	s.Add(made(t, 1, 2, 0, 0, 1), now.Add(30*time.Minute))
	s.Add(made(t, 2, 3, 0, 0, 1), now.Add(80*time.Minute))
	if s.Len() != 2 {
		t.Errorf("%d producers are remembered, want the two of the last hour", s.Len())
	}
	if _, _, err := s.Check(made(t, 3, 1, 0, 9, 1), Permit{}); err != nil {
		t.Errorf("an expired producer goes on: %v", err)
	}
}

// model remembers every batch that was added.
type model []record.Batch

func (m model) of(id int64) (all []record.Batch) {
	for _, b := range m {
		if b.ProducerID() == id {
			if n := len(all); n > 0 && all[n-1].ProducerEpoch() != b.ProducerEpoch() {
				all = nil
			}
			all = append(all, b)
		}
	}
	return all[max(0, len(all)-Window):]
}

func (m model) check(b record.Batch) (dup bool, err error) {
	all := m.of(b.ProducerID())
	if len(all) == 0 {
		return false, nil
	}
	last := all[len(all)-1]
	switch {
	case b.ProducerEpoch() < last.ProducerEpoch():
		return false, ErrInvalidProducerEpoch
	case b.ProducerEpoch() > last.ProducerEpoch():
		if b.BaseSequence() != 0 {
			return false, ErrOutOfOrderSequence
		}
		return false, nil
	}
	for _, x := range all {
		if x.BaseSequence() == b.BaseSequence() && x.LastSequence() == b.LastSequence() {
			return true, nil
		}
	}
	if b.BaseSequence() != record.AddSequence(last.LastSequence(), 1) {
		return false, ErrOutOfOrderSequence
	}
	return false, nil
}

func TestAgainstEveryBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		var m model
		end, durable := int64(0), int64(-1) // -1: MarkDurable was not called yet
		t.Repeat(map[string]func(*rapid.T){
			"produce": func(t *rapid.T) {
				id := rapid.Int64Range(0, 2).Draw(t, "id")
				epoch, seq := int16(0), int32(math.MaxInt32-2)
				if all := m.of(id); len(all) > 0 {
					x := rapid.SampledFrom(all).Draw(t, "after")
					epoch = x.ProducerEpoch() + rapid.Int16Range(-1, 1).Draw(t, "epoch")
					seq = rapid.SampledFrom([]int32{x.BaseSequence(), record.AddSequence(x.LastSequence(), 1), 0, 5}).Draw(t, "seq")
				}
				b := made(t, end, id, max(epoch, 0), seq, rapid.IntRange(1, 3).Draw(t, "records"))
				dup, want := m.check(b)
				d, got, err := s.Check(b, Permit{})
				if got != dup || !errors.Is(err, want) || want == nil && err != nil {
					t.Fatalf("dup %v, %v; want %v, %v", got, err, dup, want)
				}
				if dup && !slices.ContainsFunc(m.of(id),
					func(x record.Batch) bool { return x.BaseOffset() == d.BaseOffset && x.LastOffset() == d.LastOffset }) {
					t.Fatalf("duplicate of %+v, which is not there", d)
				}
				if !dup && err == nil {
					s.Add(b, now)
					m, end = append(m, b), b.LastOffset()+1
				}
			},
			"restart": func(t *rapid.T) {
				var c State
				rest, err := c.Decode(append(s.Append(nil, end), 1, 2))
				if err != nil || len(rest) != 2 {
					t.Fatalf("%d bytes left, %v", len(rest), err)
				}
				if s = c; durable >= 0 {
					durable = end // the decoded state has lost the batches before the window
					s.MarkDurable(end)
				}
			},
			"mark durable": func(t *rapid.T) {
				if durable < 0 {
					durable = end // before the first call every batch counts as durable, and those it pushed out are lost
				} else {
					durable = rapid.Int64Range(durable, end).Draw(t, "below")
				}
				s.MarkDurable(durable)
			},
			"take back": func(t *rapid.T) {
				if durable < 0 {
					t.Skip("everything counts as durable")
				}
				for n := rapid.IntRange(0, 4).Draw(t, "batches"); n > 0 && len(m) > 0 && m[len(m)-1].BaseOffset() >= durable; n-- {
					end = m[len(m)-1].BaseOffset()
					m = m[:len(m)-1]
				}
				s.Cut(end)
			},
		})
	})
}

// A snapshot below an offset has only the batches below it.
func TestAppendBelow(t *testing.T) {
	var s, c State
	for i := range int32(4) {
		s.Add(made(t, int64(i), 1, 0, i, 1), now)
	}
	s.Add(made(t, 4, 2, 0, 0, 1), now)
	if _, err := c.Decode(s.Append(nil, 2)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Check(made(t, 0, 1, 0, 2, 1), Permit{}); err != nil || c.Len() != 1 {
		t.Errorf("%d producers, %v", c.Len(), err)
	}
}

func FuzzDecode(f *testing.F) {
	var s State
	s.Add(made(f, 0, 1, 0, 0, 2), now)
	f.Add(s.Append(nil, 100))
	f.Add([]byte{255, 255, 255, 255, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again State
		rest, err := s.Decode(b)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(b, rest) {
			t.Error("the rest is not the rest")
		}
		if _, err := again.Decode(s.Append(nil, math.MaxInt64)); err != nil {
			t.Errorf("what was read can't be written and read: %v", err)
		}
	})
}

// At the limit the least recently active producer is forgotten, and its next batch is accepted like
// that of an unknown one.
func TestLimitForgetsTheOldest(t *testing.T) {
	s := State{Limit: 3}
	for id := range int64(3) {
		s.Add(made(t, id, id, 0, 0, 1), now)
	}
	s.Add(made(t, 3, 0, 0, 1, 1), now) // 0 is the most recent again
	s.Add(made(t, 4, 7, 0, 0, 1), now)
	if _, known := s.ids[1]; known || s.Len() != 3 {
		t.Errorf("%d producers, the oldest among them: %v", s.Len(), known)
	}
	if _, _, err := s.Check(made(t, 5, 1, 0, 1, 1), Permit{}); err != nil {
		t.Errorf("a producer that was forgotten goes on: %v", err)
	}
	if _, dup, _ := s.Check(made(t, 3, 0, 0, 1, 1), Permit{}); !dup {
		t.Error("an active producer is not known any more")
	}
	few := State{Limit: 2}
	if _, err := few.Decode(s.Append(nil, 100)); err != nil || few.Len() != 2 || few.newest.id != 7 {
		t.Errorf("%d producers were read into a state for 2, %v", few.Len(), err)
	}
}

// A producer's window of durable batches survives any number of batches that are cut.
func TestCutBatchesPushNothingOut(t *testing.T) {
	var s State
	s.MarkDurable(0)
	for i := range int32(20) {
		s.Add(made(t, int64(i), 1, 0, i, 1), now)
	}
	s.MarkDurable(20)
	s.Add(made(t, 20, 1, 1, 0, 1), now) // a new epoch
	for i := range int32(30) {
		s.Add(made(t, int64(21+i), 1, 1, 1+i, 1), now)
	}
	s.Cut(20)
	for i := int32(15); i < 20; i++ {
		if _, dup, err := s.Check(made(t, int64(i), 1, 0, i, 1), Permit{}); !dup {
			t.Errorf("batch %d is not known: %v", i, err)
		}
	}
	s.MarkDurable(21)
	s.Add(made(t, 20, 1, 0, 20, 1), now)
	if n := len(s.ids[1].batches); n > Window+1 {
		t.Errorf("%d batches are kept", n)
	}
}

// A producer that was idle for longer than the expiry is forgotten, wherever it is in the list.
func TestExpireChecksAllProducers(t *testing.T) {
	s := State{Expiry: time.Hour}
	s.Add(made(t, 0, 1, 0, 0, 1), now)
	s.Add(made(t, 1, 2, 0, 0, 1), now.Add(-2*time.Hour))
	s.Expire(now)
	if _, known := s.ids[1]; !known || s.Len() != 1 {
		t.Errorf("%d producers are left", s.Len())
	}
}

// The bytes of an encoded state do not change unnoticed.
func TestEncoding(t *testing.T) {
	var s State
	s.Add(made(t, 5, 258, 3, 7, 2), now)
	s.Add(made(t, 7, 1, 0, 9, 1), now.Add(time.Millisecond))
	const (
		head  = "02000000"
		first = "02010000000000000300" + "0068e5cf8b010000" + "01" + "0700000008000000" + "0600000000000000" + "01000000" +
			"0500000000000000"
		other = "01000000000000000000" + "0168e5cf8b010000" + "01" + "0900000009000000" + "0700000000000000" + "00000000" +
			"0700000000000000"
	)
	if got := hex.EncodeToString(s.Append(nil, 100)); got != head+first+other {
		t.Errorf("encoded as\n%s, want\n%s", got, head+first+other)
	}
	b, _ := hex.DecodeString(head + first + other)
	var c State
	if rest, err := c.Decode(b); err != nil || len(rest) > 0 || !bytes.Equal(c.Append(nil, 100), b) {
		t.Errorf("%d bytes left, %v", len(rest), err)
	}
	for name, text := range map[string]string{
		"a producer twice": head + first + first, "a short batch": head + first + other[:len(other)-2],
		"a count that lies": "03000000" + first + other, "no count": "0200", "nothing": "",
	} {
		b, _ := hex.DecodeString(text)
		c := State{}
		c.Add(made(t, 0, 5, 0, 0, 1), now)
		if _, err := c.Decode(b); err == nil || c.Len() != 0 {
			t.Errorf("%s: %d producers, %v", name, c.Len(), err)
		}
	}
}

// A new producer costs no search through the others.
func BenchmarkAddAtTheLimit(b *testing.B) {
	s := State{Limit: 100_000}
	x := made(b, 0, 1, 0, 0, 1)
	for i := 0; b.Loop(); i++ {
		binary.BigEndian.PutUint64(x[43:], uint64(i)) // the producer's id
		s.Add(x, now)
	}
}
