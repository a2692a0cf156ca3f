package protocol

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A layout describes a request's body in one line, for all its versions. It is a sequence of fields
// separated by spaces, each preceded by the versions that have it: "3+:s" from 3 on, "1-4:s" from 1
// to 4, "s" always. The types are
//
//	1 2 4 8 16  an integer or id of that many bytes
//	s n         a string, a string that may be null
//	g           the name of a group: a string of at most MaxName bytes, otherwise INVALID_GROUP_ID
//	G           one that may be null
//	i j         another name that a client makes last, one that may be null; otherwise INVALID_REQUEST
//	b N         bytes, bytes that may be null
//	[x]         an array of one type, [4] or [s]
//	( … )       an array of structs with these fields
//	?{ … }      a struct that may be null: an int8, -1 for null, in front of it
//
// In a flexible version every struct, and the body itself, ends with tagged
// fields; they are not written here.
type kind uint8

const (
	kindFixed kind = iota
	kindString
	kindNullableString
	kindBytes
	kindNullableBytes
	kindArray // of elem
	kindNullableStruct
)

type structShape struct {
	fields   []fieldShape
	tags     bool // ends with tagged fields
	minBytes int  // the minimum size of an encoding
}

type fieldShape struct {
	kind  kind
	fixed int // bytes, for kindFixed
	// longName is the error for more than MaxName bytes, for strings; nil: they have no such bound.
	longName *kerr.Error
	elem     *structShape
	cost     int // bytes of memory that one decoded element takes, for kindArray
}

// The memory that is counted for one element of an array: an integer, one of a byte (as of the
// acknowledgement of a record in a share group), or a string with what is made of a name. All are
// more than the element itself takes.
const (
	fixedCost  = 32
	byteCost   = 4
	stringCost = 64
)

// structCost is the memory that is counted for one decoded struct of an array. No struct in a kmsg
// request with a layout is larger: a test measures them.
const structCost = 176

type layoutParser struct {
	words    []string
	version  int16
	flexible bool
}

// parseLayout returns the shape of a layout in one version.
func parseLayout(layout string, version int16, flexible bool) (*structShape, error) {
	p := layoutParser{words: strings.Fields(layout), version: version, flexible: flexible}
	s, err := p.structure("")
	if err != nil {
		return nil, err
	}
	if len(p.words) > 0 {
		return nil, fmt.Errorf("%q is left over", p.words[0])
	}
	return s, nil
}

// structure reads fields up to the closing token, which it consumes.
func (p *layoutParser) structure(closing string) (*structShape, error) {
	s := &structShape{tags: p.flexible}
	if s.tags {
		s.minBytes = 1
	}
	for len(p.words) > 0 {
		token := p.words[0]
		p.words = p.words[1:]
		if token == closing {
			return s, nil
		}
		present, what, err := p.present(token)
		if err != nil {
			return nil, err
		}
		f, err := p.field(what)
		if err != nil {
			return nil, err
		}
		if present {
			s.add(f, p.flexible)
		}
	}
	if closing != "" {
		return nil, fmt.Errorf("%q is missing", closing)
	}
	return s, nil
}

func (p *layoutParser) field(what string) (fieldShape, error) {
	switch what {
	case "s":
		return fieldShape{kind: kindString}, nil
	case "n":
		return fieldShape{kind: kindNullableString}, nil
	case "g":
		return fieldShape{kind: kindString, longName: kerr.InvalidGroupID}, nil
	case "G":
		return fieldShape{kind: kindNullableString, longName: kerr.InvalidGroupID}, nil
	case "i":
		return fieldShape{kind: kindString, longName: kerr.InvalidRequest}, nil
	case "j":
		return fieldShape{kind: kindNullableString, longName: kerr.InvalidRequest}, nil
	case "b":
		return fieldShape{kind: kindBytes}, nil
	case "N":
		return fieldShape{kind: kindNullableBytes}, nil
	case "(":
		elem, err := p.structure(")")
		return fieldShape{kind: kindArray, elem: elem, cost: structCost}, err
	case "?{":
		elem, err := p.structure("}")
		return fieldShape{kind: kindNullableStruct, elem: elem}, err
	}
	if inner, ok := strings.CutPrefix(what, "["); ok {
		f, err := p.field(strings.TrimSuffix(inner, "]"))
		if err != nil {
			return f, err
		}
		elem := &structShape{}
		elem.add(f, p.flexible)
		cost := fixedCost
		switch {
		case f.kind != kindFixed:
			cost = stringCost
		case f.fixed == 1:
			cost = byteCost
		}
		return fieldShape{kind: kindArray, elem: elem, cost: cost}, nil
	}
	n, err := strconv.Atoi(what)
	if err != nil || n < 1 || n > 16 {
		return fieldShape{}, fmt.Errorf("unknown type %q", what)
	}
	return fieldShape{kind: kindFixed, fixed: n}, nil
}

// present splits "3+:s" and reports whether the version has the field.
func (p *layoutParser) present(token string) (present bool, what string, err error) {
	versions, what, ok := strings.Cut(token, ":")
	if !ok {
		return true, token, nil
	}
	lo, hi := versions, strconv.Itoa(math.MaxInt16)
	if from, ok := strings.CutSuffix(versions, "+"); ok {
		lo = from
	} else if a, b, ok := strings.Cut(versions, "-"); ok {
		lo, hi = a, b
	} else {
		hi = versions
	}
	first, err1 := strconv.Atoi(lo)
	last, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil {
		return false, "", fmt.Errorf("%q has no versions", token)
	}
	return int(p.version) >= first && int(p.version) <= last, what, nil
}

// add appends a field, merges consecutive fixed ones, and adds to the minimum size.
func (s *structShape) add(f fieldShape, flexible bool) {
	s.minBytes += f.minBytes(flexible)
	if last := len(s.fields) - 1; f.kind == kindFixed && last >= 0 && s.fields[last].kind == kindFixed {
		s.fields[last].fixed += f.fixed
		return
	}
	s.fields = append(s.fields, f)
}

func (f fieldShape) minBytes(flexible bool) int {
	switch f.kind {
	case kindFixed:
		return f.fixed
	case kindString, kindNullableString:
		if !flexible {
			return 2
		}
	case kindBytes, kindNullableBytes, kindArray:
		if !flexible {
			return 4
		}
	}
	return 1
}
