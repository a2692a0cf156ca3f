package bufpool

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// anonymous returns how many bytes of the process's memory are not those of files.
func anonymous(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("RssAnon:"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// hold returns n scratches that hold size bytes each.
func hold(p *Pool, n, size int) (all []*Scratch) {
	for range n {
		s := p.Scratch()
		b := s.Bytes()
		for range size / 64 {
			b = append(b, make([]byte, 64)...)
		}
		s.Hold(b)
		all = append(all, s)
	}
	return all
}

// What a scratch holds is not on the heap, is the memory of its size, and no longer memory after
// the release.
func TestAScratchHoldsItsSizeApartFromTheHeap(t *testing.T) {
	const n, size = 64, 1 << 20
	var p Pool
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	idle := anonymous(t)
	all := hold(&p, n, size)
	runtime.ReadMemStats(&after)
	if on := after.TotalAlloc - before.TotalAlloc; on > n*size/8 {
		t.Errorf("%d bytes of %d were allocated on the heap", on, n*size)
	}
	if more := anonymous(t) - idle; more < n*size/2 || more > n*size*3/2 {
		t.Errorf("%d bytes are %d bytes of memory", n*size, more)
	}
	for _, s := range all {
		s.Release(nil)
	}
	if more := anonymous(t) - idle; more > n*size/4 {
		t.Errorf("%d bytes are still memory after the release", more)
	}
}

// A scratch that is not released costs memory until the collector finds it, and no longer.
func TestTheCollectorFreesALostScratch(t *testing.T) {
	const n, size = 64, 1 << 20
	idle := anonymous(t)
	hold(new(Pool), n, size)
	for deadline := time.Now().Add(time.Minute); anonymous(t)-idle > n*size/4; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still memory", anonymous(t)-idle)
		}
	}
}
