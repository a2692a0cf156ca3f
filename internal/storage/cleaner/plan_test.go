package cleaner

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func at(v int64) func() (int64, error) { return func() (int64, error) { return v, nil } }

// four returns segments of 100 bytes and 10 offsets, starting at 0.
func four() []Segment {
	var list []Segment
	for i := range int64(4) {
		list = append(list, Segment{Base: 10 * i, Next: 10 * (i + 1), Bytes: 100, Entries: 1, First: at(1000 + 100*i),
			Latest: at(1090 + 100*i)})
	}
	return list
}

func TestMeasure(t *testing.T) {
	for name, c := range map[string]struct {
		from, limit, now int64
		when             Compaction
		dirty, until     int64
		ratio            float64
		due              bool
	}{
		"all of it": {limit: 40, dirty: 400, until: 40, ratio: 1, due: true},
		"a part": {from: 20, limit: 40, when: Compaction{MinDirty: 0.4}, dirty: 200, until: 40,
			ratio: 0.5, due: true},
		"not more than the ratio":      {from: 20, limit: 40, when: Compaction{MinDirty: 0.5}, dirty: 200, until: 40, ratio: 0.5},
		"a segment counts from inside": {from: 25, limit: 40, dirty: 200, until: 40, ratio: 0.5, due: true},
		"nothing above the limit":      {from: 10, limit: 29, dirty: 100, until: 20, ratio: 0.5, due: true},
		"nothing dirty":                {from: 40, limit: 40, until: 40},
		"nothing that may be touched":  {from: 30, limit: 39, until: 30},
		"a ratio of 0 needs something": {from: 40, limit: 40, when: Compaction{MinDirty: 0}, until: 40},
		"the least lag": {limit: 40, now: 2000, when: Compaction{MinLag: 800}, dirty: 200, until: 20,
			ratio: 1, due: true},
		"the least lag of nothing": {limit: 40, now: 1100, when: Compaction{MinLag: 100}},
		"the largest lag, not yet": {from: 20, limit: 40, now: 1700, when: Compaction{MinDirty: 0.9, MaxLag: 500},
			dirty: 200, until: 40, ratio: 0.5},
		"the largest lag": {from: 20, limit: 40, now: 1701, when: Compaction{MinDirty: 0.9, MaxLag: 500},
			dirty: 200, until: 40, ratio: 0.5, due: true},
		"the largest lag doesn't make it ready": {from: 20, limit: 20, now: 9999, when: Compaction{MaxLag: 500}, until: 20},
		"a lag without end": {from: 20, limit: 40, now: 1 << 50,
			when: Compaction{MinDirty: 0.9, MaxLag: math.MaxInt64}, dirty: 200, until: 40, ratio: 0.5},
	} {
		d, err := Measure(four(), c.from, c.limit, c.now, c.when)
		if err != nil || d.Dirty != c.dirty || d.Until != c.until || d.Ratio() != c.ratio || d.Due() != c.due || d.From != c.from {
			t.Errorf("%s: %+v, ratio %v, due %v, %v", name, d, d.Ratio(), d.Due(), err)
		}
	}
}

func TestMeasureFailsWithItsSegments(t *testing.T) {
	list, bad := four(), errors.New("bad sector")
	list[1].Latest = func() (int64, error) { return 0, bad }
	if _, err := Measure(list, 0, 40, 5000, Compaction{MinLag: 1}); !errors.Is(err, bad) {
		t.Errorf("the least lag: %v", err)
	}
	list[0].First = func() (int64, error) { return 0, bad }
	if _, err := Measure(list, 0, 40, 1000, Compaction{MaxLag: 1}); !errors.Is(err, bad) {
		t.Errorf("the largest lag: %v", err)
	}
	if _, err := Measure(list, 0, 40, 5000, Compaction{}); err != nil {
		t.Errorf("times that nobody needs were asked for: %v", err)
	}
}

// TestGroupFits checks that the groups are the segments in order, that each fits, and that none
// could include the next one.
func TestGroupFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Segment
		next := int64(0)
		for range rapid.IntRange(0, 20).Draw(t, "segments") {
			s := Segment{Base: next, Bytes: rapid.Int64Range(0, 1000).Draw(t, "bytes"), Entries: rapid.IntRange(0, 50).Draw(t, "entries")}
			next += rapid.SampledFrom([]int64{1, 100, 1 << 30, 1 << 31, 1 << 33}).Draw(t, "offsets")
			s.Next = next
			list = append(list, s)
		}
		maxBytes, maxEntries := rapid.Int64Range(1, 2000).Draw(t, "most bytes"), rapid.IntRange(1, 100).Draw(t, "most entries")
		fits := func(g []Segment) bool {
			bytes, entries := int64(0), len(g)-1
			for _, s := range g {
				bytes, entries = bytes+s.Bytes, entries+s.Entries
			}
			return bytes <= maxBytes && entries <= maxEntries && g[len(g)-1].Next-1-g[0].Base <= math.MaxInt32
		}
		rest := list
		for _, g := range Group(list, maxBytes, maxEntries) {
			for i := range g {
				if g[i].Base != rest[i].Base {
					t.Fatal("the segments are not those that were given")
				}
			}
			if rest = rest[len(g):]; len(g) > 1 && !fits(g) {
				t.Fatalf("a group of %d doesn't fit", len(g))
			}
			if len(rest) > 0 && fits(append(g[:len(g):len(g)], rest[0])) {
				t.Fatal("the next segment would have fitted")
			}
		}
		if len(rest) > 0 {
			t.Fatalf("%d segments are in no group", len(rest))
		}
	})
}
