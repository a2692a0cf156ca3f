package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// grid is a table that can be sorted by any column.
type grid struct {
	title       string
	columns     []string
	defaultSort int // default sort column
	rows        [][]cell
	empty       string // text for a table without rows
}

// cell is a text, or a number and its text.
type cell struct {
	text   string
	n      float64 // NaN if unknown
	number bool
}

func word(s string) cell { return cell{text: output.Plain(s)} }

// number returns a cell with the text that show returns, or a question mark if v is nil.
func number[T int | int32 | int64 | float64](v *T, show func(float64) string) cell {
	if v == nil {
		return cell{text: "?", n: math.NaN(), number: true}
	}
	return cell{text: show(float64(*v)), n: float64(*v), number: true}
}

// sort sorts the rows by a column: numbers descending, texts ascending, unknown ones last. It is
// stable: equal rows stay sorted by name.
func (g *grid) sort(by int, reversed bool) {
	by = min(by, len(g.columns)-1)
	slices.SortStableFunc(g.rows, func(x, y []cell) int {
		a, b := x[by], y[by]
		order := cmp.Compare(a.text, b.text)
		if a.number {
			if math.IsNaN(a.n) || math.IsNaN(b.n) {
				return cmp.Compare(b2i(math.IsNaN(a.n)), b2i(math.IsNaN(b.n)))
			}
			order = cmp.Compare(b.n, a.n)
		}
		if reversed {
			order = -order
		}
		return order
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numeric reports whether a column holds numbers.
func (g *grid) numeric(column int) bool { return len(g.rows) > 0 && g.rows[0][column].number }

// table returns the grid as a command's answer.
func (g *grid) table() *output.Table {
	t := &output.Table{Title: g.title, Empty: g.empty}
	for i, c := range g.columns {
		if g.numeric(i) {
			c += "#"
		}
		t.Columns = append(t.Columns, c)
	}
	for _, row := range g.rows {
		cells := make([]any, len(row))
		for i, c := range row {
			cells[i] = c.text
		}
		t.Add(cells...)
	}
	return t
}

// lines returns the head and the rows starting at first, in at most height lines and width columns.
// The head marks the sort column.
func (g *grid) lines(width, height, first, by int, reversed bool) (head string, rows []string) {
	shown := g.rows[min(first, len(g.rows)):]
	shown = shown[:min(len(shown), max(height-1, 0))]
	heads := slices.Clone(g.columns)
	switch {
	case len(g.rows) == 0:
	case g.numeric(by) == reversed:
		heads[by] += "↑"
	default:
		heads[by] += "↓"
	}
	widths := make([]int, len(heads))
	for i, h := range heads {
		widths[i] = utf8.RuneCountInString(h)
		for _, row := range shown {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	// Shorten long names before numbers.
	for over := sum(widths) + 2*(len(widths)-1) - width; over > 0; {
		widest := -1
		for i := range widths {
			if !g.numeric(i) && widths[i] > utf8.RuneCountInString(heads[i]) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		over--
	}
	line := func(texts []string) string {
		var b strings.Builder
		for i, s := range texts {
			if i > 0 {
				b.WriteString("  ")
			}
			s = cut(s, widths[i])
			if pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s)); g.numeric(i) {
				b.WriteString(pad + s)
			} else {
				b.WriteString(s + pad)
			}
		}
		return cut(strings.TrimRight(b.String(), " "), width)
	}
	for _, row := range shown {
		texts := make([]string, len(row))
		for i, c := range row {
			texts[i] = c.text
		}
		rows = append(rows, line(texts))
	}
	return line(heads), rows
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// cut shortens a text to width characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}

// Formats of numbers.

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// formatCount formats a count or a rate: 0.4, 12, 5400, 1.25M.
func formatCount(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 10:
		return fmt.Sprintf("%.1f", v)
	case a < 1e4:
		return fmt.Sprintf("%.0f", v)
	case a < 1e6:
		return fmt.Sprintf("%.1fk", v/1e3)
	case a < 1e9:
		return fmt.Sprintf("%.2fM", v/1e6)
	}
	return fmt.Sprintf("%.2fG", v/1e9)
}

// signed is formatCount with a plus sign for growth.
func signed(v float64) string {
	if v > 0 {
		return "+" + formatCount(v)
	}
	return formatCount(v)
}

func size(v float64) string { return text.Bytes(int64(v)) }

func ms(v float64) string { return fmt.Sprintf("%.2f ms", v) }

func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }
