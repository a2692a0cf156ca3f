package txnindex

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// The bytes are those of Kafka's AbortedTxn.
func TestEncoding(t *testing.T) {
	const text = "0000" + "0000000000000102" + "0000000000000005" + "0000000000000010" + "0000000000000007"
	e := Entry{Producer: 258, First: 5, Last: 16, Stable: 7}
	if got := hex.EncodeToString(e.Append(nil)); got != text {
		t.Errorf("encoded as %s", got)
	}
	b, _ := hex.DecodeString(text)
	mark := MarkOf([]Entry{e})
	if got, err := Decode(append(b, 1, 2, 3), mark); err != nil || !slices.Equal(got, []Entry{e}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Decode(b, Mark{}); err != nil || len(got) != 0 || mark.Bytes() != Size || (Mark{}).Bytes() != 0 {
		t.Errorf("without entries: %+v, %v", got, err)
	}
	if got, err := Decode(b, Mark{Count: Unknown}); err == nil || (Mark{Count: Unknown}).Bytes() != 0 {
		t.Errorf("with an unknown mark: %+v", got)
	}
	if got, err := Decode(b[:Size-1], mark); err == nil {
		t.Errorf("a short file: %+v", got)
	}
	if got, err := Decode(append(b[:Size-1:Size-1], 8), mark); err == nil {
		t.Errorf("another entry: %+v", got)
	}
	for name, b := range map[string][]byte{
		"a later version":     append([]byte{0, 1}, b[2:]...),
		"entries in disorder": append(slices.Clone(b), b...),
		"a negative producer": append([]byte{0, 0, 255}, b[3:]...),
	} {
		var m Mark
		m.Add(b, len(b)/Size)
		if got, err := Decode(b, m); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := Parse(append(slices.Clone(b), 1, 2)); err == nil || !slices.Equal(got, []Entry{e}) {
		t.Errorf("parsed as %+v, %v", got, err)
	}
}

// history is a log in which transactions begin and end.
type history struct {
	end  int64
	open map[int64]int64 // first offset by producer
	all  []Entry         // aborted
}

func (h *history) abort(id int64) {
	e := Entry{Producer: id, First: h.open[id], Last: h.end, Stable: h.end + 1}
	delete(h.open, id)
	for _, first := range h.open {
		e.Stable = min(e.Stable, first)
	}
	h.all = append(h.all, e)
}

// A search finds every aborted transaction with records in the range, however its entries are
// divided into segments, and ends before it has read all of them.
func TestSearchFindsEveryAbortedTransaction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{open: map[int64]int64{}}
		var segments [][]Entry
		cut := func() {
			n := 0
			for _, s := range segments {
				n += len(s)
			}
			s, err := Decode(Encode(nil, h.all[n:]), MarkOf(h.all[n:]))
			must.OK(t, err)
			segments = append(segments, s)
		}
		for range rapid.IntRange(1, 60).Draw(t, "batches") {
			id := rapid.Int64Range(0, 3).Draw(t, "producer")
			_, open := h.open[id]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				if !open {
					h.open[id] = h.end
				}
			case 3, 4:
				if open {
					h.abort(id)
				}
			default:
				delete(h.open, id) // a commit
				cut()
			}
			h.end++
		}
		cut()
		stable := h.end
		for _, first := range h.open {
			stable = min(stable, first)
		}
		from := rapid.Int64Range(0, stable).Draw(t, "from")
		limit := rapid.Int64Range(from, stable).Draw(t, "limit")
		var want []Entry
		for _, e := range h.all {
			if e.Last >= from && e.First < limit {
				want = append(want, e)
			}
		}
		var got []Entry
		for i, more := 0, true; more && i < len(segments); i++ {
			got, more = Search(got, segments[i], from, limit)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in [%d, %d): %+v, want %+v", from, limit, got, want)
		}
	})
}

// A search reads no entries beyond the first that ends it.
func TestSearchEnds(t *testing.T) {
	entries := []Entry{{1, 0, 1, 2}, {1, 2, 3, 4}, {1, 4, 5, 6}}
	if got, more := Search(nil, entries, 0, 3); len(got) != 2 || more {
		t.Errorf("%+v, more: %v", got, more)
	}
	if got, more := Search(nil, entries, 0, 7); len(got) != 3 || !more {
		t.Errorf("%+v, more: %v", got, more)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Encode(nil, []Entry{{Producer: 1, First: 2, Last: 3, Stable: 4}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := Parse(b)
		again := Encode(nil, entries)
		if !bytes.HasPrefix(b, again) || err == nil && len(again) != len(b) {
			t.Errorf("%d entries are %x, %v", len(entries), again, err)
		}
		var m Mark
		m.Add(b, len(b)/Size)
		if got, e := Decode(b, m); err == nil && (e != nil || !slices.Equal(got, entries)) {
			t.Errorf("%+v, %v", got, e)
		}
	})
}
