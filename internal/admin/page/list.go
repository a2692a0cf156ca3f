package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
)

// perPage is the maximum number of lines of a table.
const perPage = 100

// Pager is the visible part of a list, with links to the others. The links keep order and filter.
type Pager struct {
	From, To, All int // lines, from 1
	// Earlier and Later are links, empty if there is no such page.
	Earlier, Later string
}

// paged returns the lines of the page that q selects. A number beyond the end selects the last
// page, because lists can become shorter.
func paged[T any](list []T, path string, q url.Values) ([]T, Pager) {
	pages := max(1, (len(list)+perPage-1)/perPage)
	n, err := strconv.Atoi(q.Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, pages)
	from, to := (n-1)*perPage, min(n*perPage, len(list))
	p := Pager{From: from + 1, To: to, All: len(list)}
	if n > 1 {
		p.Earlier = link(path, q, "page", strconv.Itoa(n-1))
	}
	if n < pages {
		p.Later = link(path, q, "page", strconv.Itoa(n+1))
	}
	return list[from:to], p
}

// link returns path with the query q, in which some names have other values.
func link(path string, q url.Values, changes ...string) string {
	next := url.Values{}
	for k, v := range q {
		next[k] = v
	}
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "" {
			next.Del(changes[i])
		} else {
			next.Set(changes[i], changes[i+1])
		}
	}
	return (&url.URL{Path: path, RawQuery: next.Encode()}).String()
}

// Column is a column of a table that can be sorted.
type Column struct {
	Name, Link string
	// Sorted is ascending, descending or none, as in aria-sort.
	Sorted string
	// Class is the class of the cells: num for numbers, opt for cells that narrow screens omit.
	Class string
}

// field is a column of a table with lines of type T, and its key in the address.
type field[T any] struct {
	key, name, class string
	// down means that the first click sorts the largest first.
	down    bool
	compare func(a, b *T) int
}

// by compares lines by a value.
func by[T any, V cmp.Ordered](value func(*T) V) func(a, b *T) int {
	return func(a, b *T) int { return cmp.Compare(value(a), value(b)) }
}

// listing is a list that a request filters and sorts, and of which it sees a page. Sort and Order
// are as in the address, for the form. All counts the lines before the filter.
type listing[T any] struct {
	Columns             []Column
	List                []T
	Pager               Pager
	Filter, Sort, Order string
	All                 int
}

// filtered returns the lines whose text contains the filter of a request.
func filtered[T any](all []T, q url.Values, text func(*T) string) listing[T] {
	l := listing[T]{Filter: q.Get("filter"), Sort: q.Get("sort"), Order: q.Get("order"), All: len(all)}
	filter := strings.ToLower(l.Filter)
	l.List = slices.DeleteFunc(all, func(x T) bool { return !strings.Contains(strings.ToLower(text(&x)), filter) })
	return l
}

// show sorts the lines by the column that a request selects, or else by the column first, and keeps
// those of its page. The columns have links that sort by each. same orders lines that the column
// does not distinguish.
func (l *listing[T]) show(path, first string, q url.Values, fields []field[T], same func(a, b *T) int) {
	at := slices.IndexFunc(fields, func(f field[T]) bool { return f.key == l.Sort })
	if at < 0 {
		at = slices.IndexFunc(fields, func(f field[T]) bool { return f.key == first })
	}
	for i, f := range fields {
		c, reversed := Column{Name: f.name, Class: f.class, Sorted: "none"}, ""
		if i == at {
			down := f.down != (l.Order == "reversed")
			if c.Sorted = "ascending"; down {
				c.Sorted = "descending"
			}
			if down == f.down {
				reversed = "reversed"
			}
			sorts.Sort(l.List, func(a, b T) int {
				n := f.compare(&a, &b)
				if down {
					n = -n
				}
				return cmp.Or(n, same(&a, &b))
			})
		}
		c.Link = link(path, q, "sort", f.key, "order", reversed, "page", "")
		l.Columns = append(l.Columns, c)
	}
	l.List, l.Pager = paged(l.List, path, q)
}
