package storage

import (
	"sort"
	"testing"
)

// A search from the end finds what a search of all chunks finds, and examines few of the newest.
func TestSearchNearTheEnd(t *testing.T) {
	for n := range 70 {
		chunks := make([]*chunk, n)
		for i := range chunks {
			chunks[i] = &chunk{next: int64(i + 1)}
		}
		for offset := range int64(n + 2) {
			examined := 0
			after := func(c *chunk) bool { examined++; return c.next > offset }
			want := sort.Search(n, func(i int) bool { return chunks[i].next > offset })
			if got := searchNear(chunks, after); got != want {
				t.Fatalf("%d chunks, offset %d: chunk %d instead of %d", n, offset, got, want)
			}
			if most := 2 * (n - want + 2); examined > most {
				t.Fatalf("%d chunks, offset %d: %d chunks were examined, more than %d", n, offset, examined, most)
			}
		}
	}
}
