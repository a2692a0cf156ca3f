package tierread

import (
	"context"
	"sort"

	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// Aborted returns the aborted transactions that a reader of committed records in [from, to) must
// know of, in the order of their markers: those whose marker is at or above from, and whose first
// record is below to. A Slice of Read at the offset from ends at its Next. Markers may also be
// above the copy's End. If more is true, the local log may have other such transactions with
// markers from End on, and the caller adds those that the log returns for End and the same slice.
// Slice.Shorten then bounds their number.
//
// The footers of later objects of the copy are read only if they have such a transaction.
func (r *Reader) Aborted(ctx context.Context, c *Copy, from, to int64) (found []txnindex.Entry, more bool, err error) {
	switch {
	case from < c.Start:
		return nil, false, c.outOfRange(from)
	case from >= to:
		return nil, false, nil
	case from >= c.End:
		return nil, true, nil
	}
	l, err := r.parts(ctx, c)
	if err != nil {
		return nil, false, err
	}
	p, err := l.at(ctx, from)
	if err != nil {
		return nil, false, err
	}
	for {
		var ok bool
		p, ok, err = l.find(ctx, p, func(_, aborted int64) bool { return 0 <= aborted && aborted < to })
		if err != nil {
			return nil, false, err
		}
		if !ok {
			return txnindex.Once(found), true, nil
		}
		part := p.part()
		f, err := l.footer(ctx, part)
		if err != nil {
			return nil, false, err
		}
		first := sort.Search(len(f.Aborted), func(i int) bool { return f.Aborted[i].Last >= part.Base })
		last := len(f.Aborted)
		if end := min(part.End, c.End); end < part.Run.End { // an election has undone the rest
			last = sort.Search(last, func(i int) bool { return f.Aborted[i].Last >= end })
		}
		if found, more = txnindex.Search(found, f.Aborted[first:last], from, to); !more {
			return txnindex.Once(found), false, nil
		}
		p.i++
	}
}
