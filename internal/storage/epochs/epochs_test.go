package epochs

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestEnd(t *testing.T) {
	var c Cache
	if e, o := c.End(0, 10); e != -1 || o != -1 {
		t.Errorf("nothing is known: %d, %d", e, o)
	}
	c.Assign(2, 0)
	c.Assign(5, 10)
	c.Assign(6, 30)
	for epoch, want := range map[int32][2]int64{-1: {-1, -1}, 0: {0, 0}, 1: {1, 0}, 2: {2, 10}, 3: {2, 10}, 4: {2, 10}, 5: {5, 30},
		6: {6, 42}, 7: {-1, -1}} {
		if e, o := c.End(epoch, 42); int64(e) != want[0] || o != want[1] {
			t.Errorf("End(%d) = %d, %d; want %v", epoch, e, o, want)
		}
	}
}

func TestEndsOfKnownEpochs(t *testing.T) {
	c, err := Of([]Entry{{2, 0}, {5, 10}})
	must.OK(t, err)
	for epoch, want := range map[int32]int64{-1: 0, 1: 0, 2: 10, 3: 0, 5: math.MaxInt64, 6: 0} {
		if end, ok := c.Ends(epoch); end != want || ok != (want > 0) {
			t.Errorf("Ends(%d) = %d, %t; want %d", epoch, end, ok, want)
		}
	}
}

func TestAssign(t *testing.T) {
	var c Cache
	c.Assign(-1, 0)
	c.Assign(3, 5)
	c.Assign(3, 7) // ignored
	c.Assign(2, 8) // older
	c.Assign(4, 9)
	c.Assign(5, 9) // nothing was appended in epoch 4
	if got := c.Entries(); !slices.Equal(got, []Entry{{3, 5}, {5, 9}}) {
		t.Errorf("%v", got)
	}
}

// A log whose records are all deleted is compared with others by the epoch of its last record.
func TestAnEmptiedLogKeepsItsLastEpoch(t *testing.T) {
	var c Cache
	c.Assign(2, 0)
	c.Assign(5, 10)
	c.CutStart(20)
	c.Assign(6, 30) // nothing was appended in it
	c.CutStart(30)
	c.CutEnd(30)
	if got := c.Entries(); !slices.Equal(got, []Entry{{5, 10}}) || c.At(30) != 5 {
		t.Errorf("%v", got)
	}
}

// The cache agrees with a log that remembers every record's epoch.
func TestAgainstEveryRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cache
		start, log := int64(0), []int32{} // log[i] is the epoch of offset start+i
		epoch := int32(0)
		end := func() int64 { return start + int64(len(log)) }
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				c.Assign(epoch, end())
				for range rapid.IntRange(1, 4).Draw(t, "records") {
					log = append(log, epoch)
				}
			},
			"elect": func(t *rapid.T) { epoch += rapid.Int32Range(1, 3).Draw(t, "by") },
			"cut end": func(t *rapid.T) {
				n := rapid.IntRange(0, len(log)).Draw(t, "keep")
				log = log[:n]
				c.CutEnd(end())
				epoch++
			},
			"cut start": func(t *rapid.T) {
				n := rapid.IntRange(0, len(log)).Draw(t, "drop")
				log, start = log[n:], start+int64(n)
				c.CutStart(start)
			},
			"restart": func(t *rapid.T) {
				cut := rapid.Int64Range(start, end()).Draw(t, "end")
				below := c.Below(cut)
				part, err := Of(below.Entries())
				must.OK(t, err)
				before := c.Entries()
				c.CutEnd(cut)
				if !slices.Equal(part.Entries(), c.Entries()) {
					t.Fatalf("%v below %d came back as %v", before, cut, part.Entries())
				}
				log = log[:cut-start]
				epoch++
			},
			"": func(t *rapid.T) {
				for i, e := range log {
					if got := c.At(start + int64(i)); got != e {
						t.Fatalf("offset %d is of epoch %d, the cache says %d: %v", start+int64(i), e, got, c.Entries())
					}
				}
				if len(log) == 0 {
					return
				}
				for asked := log[0]; asked <= log[len(log)-1]; asked++ {
					want, at := int32(-1), start
					for i, e := range log {
						if e <= asked {
							want, at = e, start+int64(i)+1
						}
					}
					if c.Latest() != log[len(log)-1] {
						continue // a newer epoch began and has no records yet
					}
					if got, o := c.End(asked, end()); got != want || o != at {
						t.Fatalf("End(%d) = %d, %d; want %d, %d: %v", asked, got, o, want, at, c.Entries())
					}
				}
			},
		})
	})
}

func TestInvalidEntriesAreRefused(t *testing.T) {
	for _, list := range [][]Entry{{{-1, 0}}, {{0, -1}}, {{2, 5}, {2, 6}}, {{2, 5}, {1, 6}}, {{2, 5}, {3, 4}}} {
		if c, err := Of(list); err == nil || c.Latest() != -1 {
			t.Errorf("%v is taken: %v", list, c)
		}
	}
}

// Logs of several replicas, whose leaders are elected uncleanly. What the caches say that two logs
// have in common is what they have in common.
func TestCommonIsWhereTwoLogsPart(t *testing.T) {
	type replica struct {
		Cache
		start   int64
		records []int // by offset
	}
	rapid.Check(t, func(t *rapid.T) {
		replicas := make([]replica, 3)
		epoch, made := int32(-1), 0
		for range rapid.IntRange(1, 12).Draw(t, "leaders") {
			epoch++
			leader := &replicas[rapid.IntRange(0, 2).Draw(t, "leader")]
			leader.Assign(epoch, int64(len(leader.records)))
			for range rapid.IntRange(0, 4).Draw(t, "records") {
				made++
				leader.records = append(leader.records, made)
			}
			if to := rapid.Int64Range(leader.start, int64(len(leader.records))).Draw(t, "start"); rapid.Bool().Draw(t, "delete") {
				leader.start = to
				leader.CutStart(to)
			}
			for i := range replicas {
				f := &replicas[i]
				if f == leader || rapid.Bool().Draw(t, "stays") {
					continue
				}
				end := rapid.Int64Range(leader.start, int64(len(leader.records))).Draw(t, "follows to")
				f.Cache, f.start, f.records = leader.Below(end), leader.start, slices.Clone(leader.records[:end])
			}
			for i := range replicas {
				of := &replicas[i]
				same := int64(0)
				for same < int64(min(len(of.records), len(leader.records))) && of.records[same] == leader.records[same] {
					same++
				}
				end, ok := leader.Common(&of.Cache)
				start := max(leader.start, of.start)
				end = min(max(end, start), int64(len(of.records)), int64(len(leader.records)))
				if same = max(same, start); (of.Len() > 0 || ok) && start <= end && end != same {
					t.Fatalf("%v from %d and %v from %d have %d in common, %d by their epochs", leader.Entries(), leader.start,
						of.Entries(), of.start, same, end)
				}
			}
		}
	})
}
