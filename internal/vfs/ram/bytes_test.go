package ram

import (
	"bytes"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// pair is a Bytes and its expected content.
type pair struct {
	b    *Bytes
	want []byte
}

func (p *pair) write(data []byte, off int) {
	p.b.WriteAt(data, int64(off))
	if end := off + len(data); len(data) > 0 && end > len(p.want) {
		p.want = append(p.want, make([]byte, end-len(p.want))...)
	}
	if len(data) > 0 {
		copy(p.want[off:], data)
	}
}

func (p *pair) resize(size int) {
	p.b.Resize(int64(size))
	grown := make([]byte, size)
	copy(grown, p.want)
	p.want = grown
}

func (p *pair) check(t *rapid.T) {
	got := make([]byte, len(p.want)+1)
	if n := p.b.ReadAt(got, 0); n != len(p.want) || int64(n) != p.b.Size() || !bytes.Equal(got[:n], p.want) {
		t.Fatalf("%d bytes of %d, want %d", n, p.b.Size(), len(p.want))
	}
	off := rapid.IntRange(0, len(p.want)).Draw(t, "read")
	if n := p.b.ReadAt(got[:100%len(got)], int64(off)); !bytes.Equal(got[:n], p.want[off:off+n]) {
		t.Fatalf("read at %d differs", off)
	}
}

// Clones share pages, and a write to one clone does not change another.
func TestClonesAreIndependent(t *testing.T) {
	const limit = 5 * pageSize
	rapid.Check(t, func(t *rapid.T) {
		all := []*pair{{b: new(Bytes)}}
		some := func() *pair { return rapid.SampledFrom(all).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				data := bytes.Repeat([]byte{rapid.SampledFrom([]byte{0, 1, 2}).Draw(t, "byte")}, rapid.IntRange(0, 2*pageSize).Draw(t, "n"))
				some().write(data, rapid.IntRange(0, limit).Draw(t, "off"))
			},
			"resize": func(t *rapid.T) { some().resize(rapid.IntRange(0, limit).Draw(t, "size")) },
			"clone": func(*rapid.T) {
				p := some()
				all = append(all, &pair{p.b.Clone(), bytes.Clone(p.want)})
			},
			"share": func(t *rapid.T) {
				// One takes over all pages of the other, as after a sync.
				src, dst := some(), some()
				dst.b.Share(src.b, 0, src.b.Size())
				dst.b.Resize(src.b.Size())
				dst.want = bytes.Clone(src.want)
			},
			"": func(t *rapid.T) {
				for _, p := range all {
					p.check(t)
				}
			},
		})
	})
}

func TestShareTakesWholePages(t *testing.T) {
	var src, dst Bytes
	src.WriteAt(bytes.Repeat([]byte{'s'}, 3*pageSize), 0)
	dst.WriteAt(bytes.Repeat([]byte{'d'}, 3*pageSize), 0)
	dst.Share(&src, pageSize+1, 1)
	got := make([]byte, 3*pageSize)
	dst.ReadAt(got, 0)
	want := append(append(bytes.Repeat([]byte{'d'}, pageSize), bytes.Repeat([]byte{'s'}, pageSize)...),
		bytes.Repeat([]byte{'d'}, pageSize)...)
	if !bytes.Equal(got, want) {
		t.Error("Share replaced other pages")
	}
	src.WriteAt([]byte("x"), pageSize)
	if dst.ReadAt(got[:1], pageSize); got[0] != 's' {
		t.Error("a shared page was written in place")
	}
}

func TestZerosTakeNoMemory(t *testing.T) {
	var b Bytes
	b.WriteAt(make([]byte, 100*pageSize), 10)
	for i, pg := range b.pages {
		if pg != nil {
			t.Errorf("page %d of zeros uses memory", i)
		}
	}
	if b.Size() != 100*pageSize+10 {
		t.Errorf("size %d", b.Size())
	}
}

// With the race detector: different goroutines use the copies.
func TestCopiesMayBeUsedConcurrently(t *testing.T) {
	var b Bytes
	b.WriteAt(bytes.Repeat([]byte{'x'}, 4*pageSize), 0)
	var wg sync.WaitGroup
	for range 4 {
		c := b.Clone()
		wg.Go(func() {
			var durable Bytes
			for i := range int64(200) {
				c.WriteAt([]byte("y"), i*100)
				durable.Share(c, i*100, 1)
				c = c.Clone()
			}
		})
	}
	wg.Wait()
	p := make([]byte, 4*pageSize)
	if b.ReadAt(p, 0); bytes.ContainsRune(p, 'y') {
		t.Error("a write to a copy is seen in the original")
	}
}
