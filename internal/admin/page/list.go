package page

import (
	"net/url"
	"slices"
	"strconv"
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

// sorting is the order that a request selects.
type sorting struct {
	by   string
	down bool
}

// field is a column and its key in the address.
type field struct {
	key, name, class string
	// down means that the first click sorts the largest first.
	down bool
}

// columnsFor returns the columns of a table, with links that sort by each, and the current order. A
// request without a known column gets the order by the column first.
func columnsFor(fields []field, path, first string, q url.Values) ([]Column, sorting) {
	by := q.Get("sort")
	if !slices.ContainsFunc(fields, func(f field) bool { return f.key == by }) {
		by = first
	}
	order := sorting{by: by}
	for _, f := range fields {
		if f.key == by {
			order.down = f.down != (q.Get("order") == "reversed")
		}
	}
	list := make([]Column, len(fields))
	for i, f := range fields {
		c := Column{Name: f.name, Class: f.class, Sorted: "none"}
		reversed := ""
		if f.key == order.by {
			c.Sorted = "ascending"
			if order.down {
				c.Sorted = "descending"
			}
			if order.down == f.down {
				reversed = "reversed"
			}
		}
		c.Link = link(path, q, "sort", f.key, "order", reversed, "page", "")
		list[i] = c
	}
	return list, order
}

// direct applies the direction to a comparison.
func (s sorting) direct(c int) int {
	if s.down {
		return -c
	}
	return c
}
