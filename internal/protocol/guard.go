package protocol

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The guard exists because of how kmsg reads a request that claims more than it contains. kmsg
// allocates an array if its count is not larger than the remaining bytes, up to 160 bytes of memory
// for each byte. It also repeats a loop over tagged fields up to four billion times after the last
// byte. A body that passes the guard is complete, so neither can happen.

const (
	// freeCost is the decoded size that a request of any length may have.
	freeCost = 4 << 20
	// costPerByte bounds the decoded size of larger requests. Honest requests take two to four
	// bytes of memory for each of their bytes; one with a million empty names would take fifty.
	costPerByte = 8
	// MaxCost is the default of API.MaxCost. It bounds the arrays of a request, however many bytes
	// it has, since the objects and answers made of an entry may take several times as much. A
	// request may name 400,000 topics, or two million partitions.
	MaxCost = 64 << 20
	// tagCost is the memory that is counted for one unknown tagged field, tagsCost that for the map
	// of the fields of one struct.
	tagCost, tagsCost = 64, 256
	// baseCost is the memory of a request without its strings and arrays.
	baseCost = 256
)

type guard struct {
	cursor
	flexible bool
	budget   int // bytes of decoded memory left
	// longName is the error of the first name of more than MaxName bytes; nil: there is none.
	longName *kerr.Error
}

// NameError is the error of a request that is complete, but has a name that is longer than MaxName.
// It must be answered with Code.
type NameError struct{ Code *kerr.Error }

func (e *NameError) Error() string {
	return fmt.Sprintf("a name has more than %d bytes: %v", MaxName, e.Code)
}

// checkBody checks body against the shape of its version, and returns how much memory its decoded
// form takes in addition to it, also with a NameError.
func checkBody(v *versionInfo, body []byte) (cost int, err error) {
	bound := costOf(len(body), v.maxCost)
	g := guard{cursor: cursor{src: body}, flexible: v.flexible, budget: bound}
	g.structure(v.body)
	switch {
	case g.bad:
		return 0, ErrMalformed
	case g.budget < 0:
		return 0, fmt.Errorf("decoding %d bytes would take more than %d bytes of memory; "+
			"send fewer entries in one request or give the broker more memory: %w",
			len(body), bound, ErrMalformed)
	}
	if g.longName != nil {
		err = &NameError{g.longName}
	}
	return baseCost + bound - g.budget, err
}

// costOf returns the decoded size that a body of that many bytes may have. Its strings can't be
// longer than itself.
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
		g.name(f, g.str(g.flexible))
	case kindNullableString:
		g.budget -= 16
		g.name(f, g.nullableStr(g.flexible))
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

// name counts a string, and checks the bound of names.
func (g *guard) name(f *fieldShape, s []byte) {
	g.budget -= len(s)
	if len(s) > MaxName && f.longName != nil && g.longName == nil {
		g.longName = f.longName
	}
}

// bytes reads a byte array that may not be null; like kmsg it accepts null as empty.
func (g *guard) bytes() {
	if n := g.byteLen(g.flexible); n != -1 {
		g.span(n)
	}
}

// tags skips tagged fields. kmsg decodes the known ones of a version from their own bytes, which
// bounds them; they are counted like unknown ones.
func (g *guard) tags() {
	fields, bytes := g.skipTags()
	if fields > 0 {
		g.budget -= tagsCost + fields*tagCost + bytes
	}
}
