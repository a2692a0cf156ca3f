package crashfs

import "testing"

// BenchmarkWriteAndSync measures a journal group: tests run thousands of them.
func BenchmarkWriteAndSync(b *testing.B) {
	f := New(1)
	h, err := f.Create("/journal")
	ok(b, err)
	ok(b, h.Truncate(64<<20))
	p := make([]byte, 4096)
	for i := range p {
		p[i] = byte(i)
	}
	for i := range b.N {
		if _, err := h.WriteAt(p, int64(i%(16<<10))*4096); err != nil {
			b.Fatal(err)
		}
		ok(b, h.Datasync())
	}
}

// BenchmarkPowerLossImage measures one image of a small log directory.
func BenchmarkPowerLossImage(b *testing.B) {
	f := New(1)
	for _, name := range []string{"a", "b", "c", "e", "f", "g", "h", "i"} {
		h, err := f.Create("/" + name)
		ok(b, err)
		for i := range int64(20) {
			if _, err := h.WriteAt(make([]byte, 1000), i*1000); err != nil {
				b.Fatal(err)
			}
			if i == 10 {
				ok(b, h.Datasync())
			}
		}
	}
	for i := range b.N {
		f.PowerLossImage(KeepSectors, uint64(i))
	}
}
