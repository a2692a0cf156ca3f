package ram

import "bytes"

// pageSize is the unit of copying, in bytes.
const pageSize = 4096

// page is 4 KiB of a file. Only the Bytes with the same owner may write it; a page without owner is
// shared and never changes again.
type page struct {
	owner *owner
	data  [pageSize]byte
}

// owner is an identity; its size gives two owners different addresses.
type owner struct{ _ byte }

// Bytes is the content of a file. A page with only zeros uses no memory. The zero value is empty.
// Reads may run concurrently; all other calls, including Clone, need exclusive access.
type Bytes struct {
	pages []*page // nil is a page of zeros
	size  int64
	owner *owner
}

// Size returns the length in bytes.
func (b *Bytes) Size() int64 { return b.size }

// ReadAt copies bytes from off to p and returns their number: fewer than len(p) only at the end.
func (b *Bytes) ReadAt(p []byte, off int64) int {
	if off >= b.size {
		return 0
	}
	p = p[:min(int64(len(p)), b.size-off)]
	for n := 0; n < len(p); {
		pg, at := b.pages[(off+int64(n))/pageSize], int((off+int64(n))%pageSize)
		part := p[n:min(len(p), n+pageSize-at)]
		if pg == nil {
			clear(part)
		} else {
			copy(part, pg.data[at:])
		}
		n += len(part)
	}
	return len(p)
}

// WriteAt copies p to off and extends the content if necessary.
func (b *Bytes) WriteAt(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	b.Resize(max(b.size, off+int64(len(p))))
	for len(p) > 0 {
		i, at := off/pageSize, int(off%pageSize)
		n := min(len(p), pageSize-at)
		if b.pages[i] != nil || !zeros(p[:n]) {
			copy(b.own(i).data[at:], p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// zeros reports whether p is all zeros, by comparing it with itself shifted by one byte.
func zeros(p []byte) bool {
	return p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1])
}

// own returns page i for writing.
func (b *Bytes) own(i int64) *page {
	if b.owner == nil {
		b.owner = new(owner)
	}
	pg := b.pages[i]
	if pg == nil {
		pg = &page{owner: b.owner}
	} else if pg.owner != b.owner {
		pg = &page{owner: b.owner, data: pg.data}
	}
	b.pages[i] = pg
	return pg
}

// Resize truncates the content, or extends it with zeros.
func (b *Bytes) Resize(size int64) {
	count := int((size + pageSize - 1) / pageSize)
	if size < b.size {
		clear(b.pages[count:])
		if at := size % pageSize; at != 0 && b.pages[count-1] != nil {
			clear(b.own(int64(count - 1)).data[at:])
		}
		b.pages = b.pages[:count]
	} else if more := count - len(b.pages); more > 0 {
		b.pages = append(b.pages, make([]*page, more)...)
	}
	b.size = size
}

// Clone returns a copy that shares the pages until either of the two writes them.
func (b *Bytes) Clone() *Bytes {
	b.owner = nil
	return &Bytes{pages: append([]*page(nil), b.pages...), size: b.size}
}

// Share replaces the pages around [off, off+n) by those of src, extending the content if necessary,
// without copying bytes.
func (b *Bytes) Share(src *Bytes, off, n int64) {
	if n <= 0 || off >= src.size {
		return
	}
	last := (min(off+n, src.size) - 1) / pageSize
	b.Resize(max(b.size, min(src.size, (last+1)*pageSize)))
	for i := off / pageSize; i <= last; i++ {
		pg := src.pages[i]
		// A page that src owns is not shared yet, so its owner may be changed; a shared page may be
		// read concurrently.
		if pg != nil && src.owner != nil && pg.owner == src.owner {
			pg.owner = nil
		}
		b.pages[i] = pg
	}
}
