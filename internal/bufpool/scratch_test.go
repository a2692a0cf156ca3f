package bufpool

import (
	"bytes"
	"testing"
)

// sizes are those of what fits, of what is held, and of what a scratch is too small for.
var sizes = []int{1, SmallScratch, SmallScratch + 1, 1 << 20, scratchSpace + 1}

// What is held does not change while other scratches are used, and its release is counted.
func TestI15AScratchKeepsWhatItHolds(t *testing.T) {
	var p Pool
	type held struct {
		s     *Scratch
		bytes []byte
	}
	var all []held
	for i, n := range sizes {
		s := p.Scratch()
		b := s.Hold(append(s.Bytes(), bytes.Repeat([]byte{byte(i + 1)}, n)...))
		all = append(all, held{s, b})
		other := p.Scratch()
		other.Release(append(other.Bytes(), make([]byte, n)...))
	}
	for i, n := range sizes {
		if b := all[i].bytes; len(b) != n || bytes.Count(b, []byte{byte(i + 1)}) != n {
			t.Errorf("%d bytes have changed to %d others", n, len(b))
		}
		if out := p.Outstanding(); out != int64(len(all)-i) {
			t.Errorf("%d are outstanding, %d hold bytes", out, len(all)-i)
		}
		all[i].s.Release(all[i].bytes)
	}
	if n := p.Outstanding(); n != 0 {
		t.Errorf("%d were not released", n)
	}
}
