package cleaner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// spec is a part in a table: 10 offsets, some bytes, and its age.
type spec struct {
	bytes int64
	age   time.Duration // of its newest record
	wrote time.Duration // since its last write
	ts    int64         // instead of age, unless 0
	fail  error         // of reading timestamps
}

func partsOf(specs ...spec) []Part {
	parts := make([]Part, len(specs))
	for i, s := range specs {
		ts := now.Add(-s.age).UnixMilli()
		if s.ts != 0 {
			ts = s.ts
		}
		parts[i] = Part{
			Base: int64(10 * i), End: int64(10*i + 10), Bytes: s.bytes, Active: i == len(specs)-1,
			Newest:  func() (int64, error) { return ts, s.fail },
			Written: func() (time.Time, error) { return now.Add(-s.wrote), nil },
		}
	}
	return parts
}

const day, all = 24 * time.Hour, math.MaxInt64

func TestRetain(t *testing.T) {
	none := Policy{Delete: true, Time: -1, Bytes: -1, Ahead: time.Hour}
	week, kilo, both := none, none, none
	week.Time, kilo.Bytes, both.Time, both.Bytes = 7*day, 1000, 7*day, 1000
	local, compact := both, both
	local.Local = true
	compact.Delete = false
	anyTime := week
	anyTime.Ahead = math.MaxInt64
	zero := none
	zero.Bytes = 0
	old, young := spec{bytes: 600, age: 8 * day}, spec{bytes: 600, age: day}
	broken := errors.New("damage")
	for _, c := range []struct {
		name   string
		policy Policy
		bounds Bounds
		parts  []spec
		gone   string
		kept   string
	}{
		{"nothing is set", none, Bounds{High: all}, []spec{old, old}, "", "neither retention.ms nor"},
		{"an empty log", week, Bounds{High: all}, nil, "", ""},
		{"the old ones go", week, Bounds{High: all}, []spec{old, old, young}, "time time",
			"newest record 2026-11-19T12:00:00Z is younger than retention.ms 604800000"},
		{"an older one behind a younger one stays", week, Bounds{High: all}, []spec{young, old, young}, "", "younger"},
		{"all of it is old", week, Bounds{High: all}, []spec{old, old}, "time time", ""},
		{"exactly as old as allowed", week, Bounds{High: all}, []spec{{bytes: 1, age: 7 * day}}, "", "younger"},
		{"above the high watermark", week, Bounds{High: 19}, []spec{old, old, young}, "time", "its end 20 is above the high watermark 19"},
		{"the last part reaches above it", week, Bounds{High: 15}, []spec{old, old}, "time", "above the high watermark 15"},
		{"above the last stable offset", both, Bounds{High: all, Stable: 19}, []spec{old, old, young}, "time",
			"its end 20 is above the last stable offset 19"},
		{"below the start and above the last stable offset", both, Bounds{Start: 20, High: all, Stable: 5}, []spec{old, old, old},
			"start start", "its end 30 is above the last stable offset 5"},
		{"above what is copied", both, Bounds{High: all, Copied: 19}, []spec{old, old, young}, "time",
			"its end 20 is above 19, up to which the object store has the records"},
		{"age on local disks", local, Bounds{High: all}, []spec{old, young, young, young}, "time size",
			"is younger than local.retention.ms 604800000; 600 bytes would remain without it, less than local.retention.bytes 1000"},
		{"size", kilo, Bounds{High: all}, []spec{young, young, young}, "size",
			"600 bytes would remain without it, less than retention.bytes 1000"},
		{"no size at all", zero, Bounds{High: all}, []spec{young, young}, "size size", ""},
		{"size above the high watermark", zero, Bounds{High: 10}, []spec{young, young}, "size", "above the high watermark"},
		{"time, then size", both, Bounds{High: all}, []spec{old, young, young, young}, "time size", "less than retention.bytes"},
		{"size, then time", both, Bounds{High: all}, []spec{young, old, young, young}, "size time",
			"younger than retention.ms 604800000; 600 bytes"},
		{"compacted only", compact, Bounds{High: all}, []spec{old, old}, "", "cleanup.policy does not contain delete"},
		{"compacted, below the start", compact, Bounds{Start: 10, High: all}, []spec{old, old}, "start",
			"cleanup.policy does not contain delete"},
		{"below the start", none, Bounds{Start: 15, High: all}, []spec{young, young}, "start", "neither"},
		{"below the start, above the high watermark", none, Bounds{Start: 10, High: 5}, []spec{young, young}, "start",
			"above the high watermark 5"},
		{"all below the start", none, Bounds{Start: 20, High: 20}, []spec{young, young}, "start start", ""},
		{"an empty active segment", week, Bounds{High: all}, []spec{old, {}}, "time", "the active segment is empty"},
		{"a negative timestamp, written long ago", week, Bounds{High: all}, []spec{{bytes: 1, ts: -1, wrote: 8 * day}}, "time", ""},
		{"a negative timestamp, written lately", week, Bounds{High: all}, []spec{{bytes: 1, ts: -1, wrote: day}}, "",
			"newest timestamp -1 is not believable; last write 2026-11-19T12:00:00Z is younger"},
		{"years ahead, written long ago", week, Bounds{High: all}, []spec{{bytes: 1, age: -1000 * day, wrote: 8 * day}, young},
			"time", "younger"},
		{"years ahead, written lately", week, Bounds{High: all}, []spec{{bytes: 1, age: -1000 * day, wrote: day}}, "",
			"is not believable; last write"},
		{"years ahead, which is allowed", anyTime, Bounds{High: all}, []spec{{bytes: 1, age: -1000 * day, wrote: 8 * day}}, "",
			"newest record 2029"},
		{"the largest timestamp there is", week, Bounds{High: all}, []spec{{bytes: 1, ts: math.MaxInt64, wrote: 8 * day}}, "time", ""},
		{"ahead as far as allowed", week, Bounds{High: all}, []spec{{bytes: 1, age: -time.Hour, wrote: 8 * day}}, "",
			"newest record 2026-11-20T13:00:00Z is younger"},
		{"written in the future of a clock that went back", week, Bounds{High: all}, []spec{{bytes: 1, ts: -1, wrote: -8 * day}},
			"", "younger"},
		{"timestamps that can't be read", week, Bounds{High: all}, []spec{{bytes: 1, fail: broken}}, "", "cannot be read: damage"},
		{"timestamps that can't be read, and size", both, Bounds{High: all}, []spec{{bytes: 600, fail: broken}, young, young},
			"size", "less than retention.bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bounds.Stable == 0 {
				c.bounds.Stable = all // no transaction is open
			}
			if c.bounds.Copied == 0 {
				c.bounds.Copied = math.MaxInt64 // nothing is copied
			}
			v := Retain(now, c.policy, c.bounds, partsOf(c.parts...))
			var gone []string
			for i, r := range v.Gone {
				gone = append(gone, string(r.Reason))
				if r.Base != int64(10*i) || r.Why == "" {
					t.Errorf("removal %d is of the part at %d because %q", i, r.Base, r.Why)
				}
			}
			if got := strings.Join(gone, " "); got != c.gone || !strings.Contains(v.Kept(), c.kept) || (v.Kept() == "") != (c.kept == "") {
				t.Errorf("gone: %q, want %q; kept because %q, want %q", got, c.gone, v.Kept(), c.kept)
			}
			if want := max(c.bounds.Start, int64(10*len(gone))); v.Start(c.bounds.Start) != want {
				t.Errorf("start %d, want %d", v.Start(c.bounds.Start), want)
			}
		})
	}
}

// For random logs, retention removes the beginning of a log and nothing above the high watermark.
// It removes a part younger than retention.ms only because of its size, and then keeps at least
// retention.bytes. For the first part that it keeps, no reason to remove it applies.
func TestRetainKeepsWhatThePolicyKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) spec {
			s := spec{bytes: rapid.Int64Range(1, 1000).Draw(t, "bytes"),
				wrote: time.Duration(rapid.Int64Range(-10, 20).Draw(t, "wrote")) * day}
			if s.age = time.Duration(rapid.Int64Range(-30, 30).Draw(t, "age")) * day; rapid.IntRange(0, 9).Draw(t, "sane") == 0 {
				s.ts = rapid.SampledFrom([]int64{-1, math.MinInt64, math.MaxInt64}).Draw(t, "ts")
			}
			return s
		}), 0, 8).Draw(t, "parts")
		p := Policy{
			Delete: rapid.IntRange(0, 9).Draw(t, "delete") > 0, Time: time.Duration(rapid.Int64Range(-1, 20).Draw(t, "time")) * day,
			Bytes: rapid.Int64Range(-1, 4000).Draw(t, "bytes"), Ahead: time.Duration(rapid.Int64Range(0, 40).Draw(t, "ahead")) * day,
		}
		parts := partsOf(specs...)
		b := Bounds{High: rapid.Int64Range(0, 90).Draw(t, "high"), Stable: rapid.SampledFrom([]int64{all, 25}).Draw(t, "stable"),
			Copied: rapid.SampledFrom([]int64{math.MaxInt64, 45, 0}).Draw(t, "copied")}
		b.Start = rapid.Int64Range(0, b.High).Draw(t, "start")
		v := Retain(now, p, b, parts)
		b.High = min(b.High, b.Stable, b.Copied) // all three protect a part in the same way
		must.OK(t, fair(p, b, specs, parts, &v))
	})
}

// fair checks a verdict against the rules, each expressed differently than in the code.
func fair(p Policy, b Bounds, specs []spec, parts []Part, v *Verdict) error {
	n := len(v.Gone)
	left := func(from int) (sum int64) {
		for _, s := range specs[from:] {
			sum += s.bytes
		}
		return sum
	}
	aged := func(i int) bool {
		ts, _ := parts[i].Newest()
		age := now.Sub(time.UnixMilli(ts))
		if ts < 0 || age < -p.Ahead { // the age overflows
			age = specs[i].wrote
		}
		return p.Time >= 0 && age > p.Time
	}
	may := func(i int, r Reason) bool {
		switch r {
		case ByStart:
			return parts[i].End <= b.Start
		case BySize:
			return p.Delete && parts[i].End <= b.High && p.Bytes >= 0 && left(i+1) >= p.Bytes
		default:
			return p.Delete && parts[i].End <= b.High && aged(i)
		}
	}
	for i, r := range v.Gone {
		if r.Base != parts[i].Base || !may(i, r.Reason) {
			return fmt.Errorf("part %d is not the one at %d, or must not go: %s, %s", i, r.Base, r.Reason, r.Why)
		}
	}
	if n < len(parts) && slices.ContainsFunc([]Reason{ByTime, BySize, ByStart}, func(r Reason) bool { return may(n, r) }) {
		return fmt.Errorf("part %d stays: %s", n, v.Kept())
	}
	if (v.Kept() == "") != (n == len(parts)) {
		return fmt.Errorf("%d of %d go, and the next stays because %q", n, len(parts), v.Kept())
	}
	return nil
}
