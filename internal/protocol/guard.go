package protocol

import "fmt"

// The guard exists because of what kmsg's readers do with a request that lies.
// They allocate an array as soon as its count is not larger than the bytes
// left, up to 160 bytes of memory for each byte claimed, and they repeat a loop
// over tagged fields up to four billion times after the bytes have run out. A
// body that the guard let pass is all there, so that neither can happen.

const (
	// freeCost is the decoded size that a request of any length may have.
	freeCost = 4 << 20
	// costPerByte bounds the decoded size of larger ones. Honest requests take
	// two to four bytes of memory for each of theirs; one with a million empty
	// names would take fifty.
	costPerByte = 8
	// MaxCost is the default of API.MaxCost. It bounds what the arrays of a request may take, however many bytes it
	// sends: what is made of an entry, and answered to it, may take a multiple of that.
	// 400,000 topics are within it, and two million partitions.
	MaxCost = 64 << 20
	// tagCost is the memory that one unknown tagged field is counted with, and
	// tagsCost that of the map which holds those of one struct.
	tagCost, tagsCost = 64, 256
	// baseCost is what a request takes without its strings and arrays.
	baseCost = 256
)

type guard struct {
	cursor
	flexible bool
	budget   int // bytes of decoded memory left
}

// checkBody walks body along the shape of its version, and returns what its decoded form
// takes beside it.
func checkBody(v *versionInfo, body []byte) (cost int, err error) {
	bound := costOf(len(body), v.maxCost)
	g := guard{cursor: cursor{src: body}, flexible: v.flexible, budget: bound}
	g.structure(v.body)
	switch {
	case g.bad:
		return 0, ErrMalformed
	case g.budget < 0:
		return 0, fmt.Errorf("%d bytes take more than %d when they are decoded; name less in one request or give the broker more memory: %w", len(body), bound, ErrMalformed)
	}
	return baseCost + bound - g.budget, nil
}

// costOf is the decoded size that a body of so many bytes may have. Its strings
// can't be longer than itself.
func costOf(body, most int) int { return min(freeCost+costPerByte*body, most+body) }

func (g *guard) stop() bool { return g.bad || g.budget < 0 }

func (g *guard) structure(s *structShape) {
	for i := range s.fields {
		g.field(&s.fields[i])
		if g.stop() {
			return
		}
	}
	if s.tags {
		g.tags()
	}
}

func (g *guard) field(f *fieldShape) {
	switch f.kind {
	case kindFixed:
		g.span(f.fixed)
	case kindString:
		g.budget -= len(g.str(g.flexible))
	case kindNullableString:
		g.budget -= 16 + len(g.nullableStr(g.flexible))
	case kindBytes:
		g.bytes()
	case kindNullableBytes:
		g.nullableBytes(g.flexible)
	case kindNullableStruct:
		if null := g.span(1); len(null) == 1 && null[0] != 0xff {
			g.structure(f.elem)
		}
	case kindArray:
		n := g.count(g.flexible, f.elem.minBytes)
		g.budget -= n * f.cost
		for range n {
			if g.stop() {
				return
			}
			g.structure(f.elem)
		}
	}
}

// bytes reads a byte array that may not be null, but null is taken for empty, as
// kmsg does.
func (g *guard) bytes() {
	if n := g.byteLen(g.flexible); n != -1 {
		g.span(n)
	}
}

// tags skips tagged fields. Those that a version knows are decoded by kmsg from
// their own bytes, which bounds them; they are counted like unknown ones.
func (g *guard) tags() {
	fields, bytes := g.skipTags()
	if fields > 0 {
		g.budget -= tagsCost + fields*tagCost + bytes
	}
}
