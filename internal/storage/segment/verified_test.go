package segment

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// layout is a file's batches: the positions at which they begin, and the file's size at the end.
type layout []int64

// randomLayout has batches of all sizes, up to several blocks.
func randomLayout(rng *rand.Rand, batches int) (l layout) {
	at := int64(0)
	for range batches {
		l = append(l, at)
		at += 61 + rng.Int64N([]int64{100, 5_000, 3 * verifiedBlock}[rng.IntN(3)])
	}
	return append(l, at)
}

// What the table says was verified is verified, ends with a whole batch, and its offset is right;
// and it has everything, if no other file took its slots. A batch's offset is its number.
func TestVerifiedKnowsWhatWasVerified(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		l, now := randomLayout(rng, 60), time.Duration(0)
		v := &verified{clock: func() time.Duration { return now }}
		n := len(l) - 1
		known := make([]time.Duration, n) // when a batch was verified last
		for i := range known {
			known[i] = -verifiedFor
		}
		for range 60 {
			now += time.Duration(rng.Int64N(int64(verifiedFor) / 20))
			from := rng.IntN(n)
			if to := from + 1 + rng.IntN(n-from); rng.IntN(2) == 0 {
				m := verifying{v: v, content: 7}
				for i := from; i < to; i++ {
					m.batch(l[i], l[i+1]-l[i], int64(i+1))
					known[i] = now
				}
				m.end()
			} else if rng.IntN(8) == 0 {
				v.drop(7, l[from])
				for i := range n {
					if l[i]/verifiedBlock == l[from]/verifiedBlock {
						known[i] = -verifiedFor
					}
				}
			}
			at, most, limit := rng.IntN(n), rng.Int64N(l[n]), rng.Int64N(int64(n))+1
			if rng.IntN(2) == 0 {
				most, limit = math.MaxInt64, math.MaxInt64
			}
			to, next := v.until(7, l[at], most, limit)
			for i := at; i < n && l[i] < to; i++ {
				if now-known[i] >= verifiedFor {
					t.Fatalf("seed %d: batch %d at %d was not verified; [%d, %d) is said to be", seed, i, l[i], l[at], to)
				}
				if l[i+1] > to || int64(i) >= limit || l[i+1] == to && next != int64(i+1) {
					t.Fatalf("seed %d: [%d, %d) ends at offset %d inside of batch %d, or beyond limit %d", seed, l[at], to, next, i, limit)
				}
			}
			if to-l[at] > most {
				t.Fatalf("seed %d: %d bytes, at most %d", seed, to-l[at], most)
			}
			if to == l[at] && most == math.MaxInt64 && now-known[at] < verifiedFor/2 && together(l, known, at) {
				t.Fatalf("seed %d: batch %d at %d is verified, and not known", seed, at, l[at])
			}
			// Another file, and another block of this one, that have the same slots.
			far := l[at] + verifiedBlock*verifiedSlots
			for _, other := range []struct {
				content uint64
				pos     int64
			}{{7 + verifiedSlots, l[at]}, {7, far}} {
				if to, _ := v.until(other.content, other.pos, math.MaxInt64, math.MaxInt64); to != other.pos {
					t.Fatalf("seed %d: something of content %d at %d is known", seed, other.content, other.pos)
				}
			}
		}
	}
}

// together reports whether all batches of the block of a batch were verified together.
func together(l layout, known []time.Duration, at int) bool {
	for i := range known {
		if l[i]/verifiedBlock == l[at]/verifiedBlock && known[i] != known[at] {
			return false
		}
	}
	return true
}

// Readers that begin at different batches use the same stretches.
func TestStretchesOfTwoReadersMeet(t *testing.T) {
	now := time.Duration(0)
	v := &verified{clock: func() time.Duration { return now }}
	const size = 50_000
	read := func(from, to int64) {
		m := verifying{v: v, content: 1}
		for i := from; i < to; i++ {
			m.batch(i*size, size, i+1)
		}
		m.end()
	}
	read(5, 100)
	read(0, 7)
	if to, next := v.until(1, 0, math.MaxInt64, math.MaxInt64); to != 100*size || next != 100 {
		t.Errorf("verified up to %d, offset %d", to, next)
	}
	now = verifiedFor
	if to, _ := v.until(1, 0, math.MaxInt64, math.MaxInt64); to != 0 {
		t.Errorf("verified up to %d after the time", to)
	}
}

// What a few small segments need is a small part of the table.
func TestTheTableGrowsWithWhatItRemembers(t *testing.T) {
	v := &verified{clock: func() time.Duration { return 0 }}
	pages := func() (n int) {
		for _, p := range v.pages {
			if p != nil {
				n++
			}
		}
		return n
	}
	for content := range uint64(3) {
		if to, _ := v.until(content+1, 0, math.MaxInt64, math.MaxInt64); to != 0 {
			t.Errorf("an empty table knows %d bytes", to)
		}
		v.drop(content+1, 0)
		if n := pages(); n != int(content) {
			t.Fatalf("%d pages for %d segments", n, content)
		}
		v.add(content+1, 0, 500, 1)
	}
}
