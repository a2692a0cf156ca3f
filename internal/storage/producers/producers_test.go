package producers

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/record"
)

var now = time.UnixMilli(1_700_000_000_000)

// batch makes a batch of n records of a producer.
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
		dup  int64 // base offset of the batch that it repeats
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
		d, dup, err := s.Check(c.b)
		if dup != (c.dup >= 0) || dup && (d.BaseOffset != c.dup || d.LastOffset != c.dup+1) || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %+v, %v, %v", name, d, dup, err)
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	var s State
	s.Add(made(t, 0, 1, 0, math.MaxInt32-1, 2), now)
	if _, _, err := s.Check(made(t, 2, 1, 0, 0, 1)); err != nil {
		t.Errorf("0 after 2^31-1: %v", err)
	}
	s.Clear()
	across := made(t, 0, 1, 0, math.MaxInt32, 3) // 2^31-1, 0, 1
	s.Add(across, now)
	if _, dup, _ := s.Check(across); !dup {
		t.Error("a batch across the wrap is not known again")
	}
	if _, _, err := s.Check(made(t, 3, 1, 0, 2, 1)); err != nil {
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
	if _, _, err := s.Check(made(t, 3, 1, 0, 9, 1)); err != nil {
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
		end := int64(0)
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
				d, got, err := s.Check(b)
				if got != dup || !errors.Is(err, want) || want == nil && err != nil {
					t.Fatalf("dup %v, %v; want %v, %v", got, err, dup, want)
				}
				if dup && !slices.ContainsFunc(m.of(id), func(x record.Batch) bool { return x.BaseOffset() == d.BaseOffset && x.LastOffset() == d.LastOffset }) {
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
				s = c
			},
			"copy": func(t *rapid.T) {
				var c State
				c.CopyFrom(&s)
				s.Add(made(t, end, 9, 0, 0, 1), now) // the copy is its own
				s = c
			},
		})
	})
}

// A snapshot below an offset holds the batches below it only.
func TestAppendBelow(t *testing.T) {
	var s, c State
	for i := range int32(4) {
		s.Add(made(t, int64(i), 1, 0, i, 1), now)
	}
	s.Add(made(t, 4, 2, 0, 0, 1), now)
	if _, err := c.Decode(s.Append(nil, 2)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Check(made(t, 0, 1, 0, 2, 1)); err != nil || c.Len() != 1 {
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
