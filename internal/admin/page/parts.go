package page

import (
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

// The parts of which the pages are made. gomponents escapes every text and attribute; addresses are
// made by link, which escapes what a client chose.

// space separates words; newline separates parts between which a browser shows nothing.
var (
	space   = g.Text(" ")
	newline = g.Text("\n")
)

// block writes each part on lines of its own, so that the page can be read and compared.
func block(parts ...g.Node) g.Node {
	all := make(g.Group, 0, 2*len(parts)+1)
	for _, part := range parts {
		if part == nil {
			continue
		}
		all = append(all, newline, part)
	}
	return append(all, newline)
}

// each makes the lines of a list.
func each[T any](list []T, node func(*T) g.Node) g.Node {
	parts := g.Group{}
	for i := range list {
		parts = append(parts, node(&list[i]))
	}
	return block(parts...)
}

// or shows an unknown value as a dash.
func or(known bool, value func() string) g.Node {
	if !known {
		return g.Text(unknown)
	}
	return g.Text(value())
}

// orDash shows a name that a client chose, and a dash if it is empty.
func orDash(s string) g.Node { return or(s != "", func() string { return name(s) }) }

// Cells of a table. The class num is that of numbers, opt that of what narrow screens omit, and
// path that of what may be broken anywhere.

func num(n int64) g.Node          { return h.Td(h.Class("num"), g.Text(text.Number(n))) }
func optNum(n int) g.Node         { return h.Td(h.Class("num opt"), g.Text(strconv.Itoa(n))) }
func numText(s string) g.Node     { return h.Td(h.Class("num"), g.Text(s)) }
func size(n int64) g.Node         { return numText(bytesText(float64(n))) }
func path(nodes ...g.Node) g.Node { return h.Td(h.Class("path"), g.Group(nodes)) }
func opt(s string) g.Node         { return h.Td(h.Class("opt"), g.Text(s)) }

// rowHead is the cell that names its row.
func rowHead(nodes ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(nodes)) }

// head is the head of a table that cannot be sorted. A column is its name, or name|class.
func head(columns ...string) g.Node {
	return h.THead(h.Tr(g.Map(columns, func(column string) g.Node {
		words, class, _ := strings.Cut(column, "|")
		return h.Th(h.Scope("col"), g.If(class != "", h.Class(class)), g.Text(words))
	})))
}

// sortable is the head of a table whose columns have links that sort it.
func sortable(columns []Column) g.Node {
	return h.THead(h.Tr(g.Map(columns, func(c Column) g.Node {
		return h.Th(h.Scope("col"), g.If(c.Class != "", h.Class(c.Class)), g.If(c.Sorted != "none", h.Aria("sort", c.Sorted)),
			h.A(h.Href(c.Link), g.Text(c.Name)))
	})))
}

// A region is a table that scrolls sideways on narrow screens. It is named by the heading with the
// id by, or by label.
type region struct {
	by, label string
	class     string // of the table
	caption   string // what the table shows, for those who do not see it
}

func (r *region) html(head, rows g.Node) g.Node {
	named := h.Aria("labelledby", r.by)
	if r.by == "" {
		named = h.Aria("label", r.label)
	}
	return h.Div(h.Class("scroll"), h.Role("region"), named, h.TabIndex("0"), block(tableOf(r.class, r.caption, head, rows)))
}

func tableOf(class, caption string, head, rows g.Node) g.Node {
	return h.Table(g.If(class != "", h.Class(class)),
		block(h.Caption(h.Class("hidden"), g.Text(caption)), head, h.TBody(rows)))
}

// section is a part of a page with its heading.
func section(id, title string, parts ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id), block(append([]g.Node{h.H2(h.ID(id), g.Text(title))}, parts...)...))
}

// facts are names with their values.
func facts(class string, list ...g.Node) g.Node { return h.Dl(h.Class(class), block(list...)) }

func fact(name string, value ...g.Node) g.Node {
	return h.Div(h.Dt(g.Text(name)), h.Dd(g.Group(value)))
}

func factText(name, value string) g.Node { return fact(name, g.Text(value)) }

func hint(nodes ...g.Node) g.Node { return h.P(h.Class("hint"), g.Group(nodes)) }

func small(s string) g.Node { return h.Small(g.Text(s)) }

func code(s string) g.Node { return h.Code(g.Text(s)) }

func to(address, words string) g.Node { return h.A(h.Href(address), g.Text(words)) }

func tag(class, words string) g.Node {
	return h.Span(h.Class(strings.TrimSpace("tag "+class)), g.Text(words))
}

func severity(s health.Severity) g.Node { return tag(string(s), string(s)) }

func why(problem string) g.Node { return h.Span(h.Class("why"), g.Text(prose(problem))) }

// internal marks an internal topic.
func internal(is bool) g.Node {
	if !is {
		return nil
	}
	return g.Group{space, tag("", "internal")}
}

// head is the title of a list with the form that filters it, which keeps its order and the fields
// more.
func (l *listing[T]) head(action, title, label, placeholder string, more ...g.Node) g.Node {
	form := h.Form(h.Role("search"), h.Action(action), g.Attr("data-filter"), block(
		search(label, "filter", l.Filter, placeholder),
		g.Group{g.If(l.Sort != "", kept("sort", l.Sort)), g.If(l.Order != "", kept("order", l.Order)), g.Group(more)},
		h.Button(h.Type("submit"), g.Text("Filter")),
	))
	return h.Div(h.Class("head"), block(h.H1(g.Text(title)), form))
}

func search(label, field, value, placeholder string, more ...g.Node) g.Node {
	return h.Label(h.Span(h.Class("hidden"), g.Text(label)), h.Input(h.Type("search"), h.Name(field), h.Value(value),
		h.Placeholder(placeholder), g.Group(more), h.AutoComplete("off"), g.Attr("spellcheck", "false")))
}

// kept is a field of a form that nothing shows.
func kept(field, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(field), h.Value(value))
}

// noneLine is the row of a table in which nothing matches a filter.
func noneLine(columns int, before, filter, after string) g.Node {
	return h.Tr(h.Td(h.ColSpan(strconv.Itoa(columns)), h.Class("none"), g.Text(before+" "), h.B(g.Text(name(filter))), g.Text(after)))
}

func (p *Pager) html() g.Node {
	shown := "None"
	if p.All > 0 {
		shown = strconv.Itoa(p.From) + "–" + strconv.Itoa(p.To) + " of " + strconv.Itoa(p.All)
	}
	turn := func(rel, address, words string) g.Node {
		if address == "" {
			return h.Span(h.Class("off"), g.Text(words))
		}
		return h.A(h.Rel(rel), h.Href(address), g.Text(words))
	}
	return h.Nav(h.Class("pager"), h.Aria("label", "Parts of the list"), block(
		h.Span(g.Text(shown)),
		g.If(p.Earlier+p.Later != "", h.Span(turn("prev", p.Earlier, "Previous"), newline, turn("next", p.Later, "Next"))),
	))
}

// meter is a bar for a value from 0 to 100.
func meter(percent float64) g.Node {
	return h.SVG(h.Class("meter"), g.Attr("viewBox", "0 0 100 1"), g.Attr("preserveAspectRatio", "none"), h.Aria("hidden", "true"),
		g.El("rect", h.Width(strconv.FormatFloat(percent, 'f', -1, 64)), h.Height("1")))
}

// gauge is the cell of a value with its bar, a dash without a limit.
func gauge(used, limit int64, words string) g.Node {
	if limit == 0 {
		return h.Td(h.Class("gauge"), g.Text(unknown))
	}
	return h.Td(h.Class("gauge"), meter(percent(used, limit)), h.Span(g.Text(words)))
}

func (p *Plot) html() g.Node {
	key := func(i int) string { return "key" + strconv.Itoa(i) }
	values, drawn := g.Group{}, g.Group{}
	columns := strconv.Itoa(p.Columns)
	for i := range p.Lines {
		l := &p.Lines[i]
		values = append(values, h.Span(h.Class("value "+key(i)),
			g.Iff(len(p.Lines) > 1, func() g.Node { return g.Group{h.I(g.Text(l.Name)), space} }), h.B(g.Text(l.Now))))
		if i == 0 {
			drawn = append(drawn, g.El("path", h.Class("area"), g.Attr("d", l.Area)))
		}
		drawn = append(drawn, g.El("path", h.Class("line "+key(i)), g.Attr("d", l.Path), h.Data("values", l.Values)))
	}
	return h.Figure(h.Class("plot"), block(
		h.FigCaption(h.Span(h.Class("title"), g.Text(p.Title)), newline, h.Span(h.Class("values"), values)),
		h.Div(h.Class("canvas"), block(
			h.Span(h.Class("top"), g.Text(p.Top)),
			h.SVG(g.Attr("viewBox", "0 0 "+columns+" 100"), g.Attr("preserveAspectRatio", "none"), h.Role("img"),
				h.Aria("label", p.Summary), h.Data("end", strconv.FormatInt(p.End, 10)), h.Data("step", strconv.FormatInt(p.Step, 10)),
				h.Data("columns", columns), block(
					g.El("path", h.Class("grid"), g.Attr("d", "M0 0H"+columns+"M0 50H"+columns)),
					drawn,
					g.El("path", h.Class("base"), g.Attr("d", "M0 100H"+columns)),
				)),
		)),
		h.Div(h.Class("axis"), h.Aria("hidden", "true"), h.Span(g.Textf("%d min ago", p.Minutes)), h.Span(), h.Span(g.Text("now"))),
	))
}

// findingsOf is a list of findings, nil without one.
func findingsOf(list []health.Finding) g.Node {
	if len(list) == 0 {
		return nil
	}
	return h.Ul(h.Class("findings"), each(health.Together(list), func(f *health.Shared) g.Node {
		return h.Li(h.Class("finding "+string(f.Severity)), block(
			h.H3(severity(f.Severity), space, g.Text(name(f.Where()))),
			h.P(h.Class("problem"), g.Text(prose(f.Problem))),
			g.If(f.Works != "", h.P(h.Class("works"), h.B(g.Text("Still works")), space, g.Text(prose(f.Works)))),
			g.If(f.Remedy != "", h.P(h.Class("remedy"), h.B(g.Text("What to do")), space,
				g.Map(commands(f.Remedy), func(p phrase) g.Node {
					if p.Command {
						return code(p.Text)
					}
					return g.Text(p.Text)
				}))),
		))
	}))
}

func (c *Content) html() g.Node {
	null := func(words string) g.Node { return h.Span(h.Class("null"), g.Text(words)) }
	var shown g.Node
	switch {
	case c.Null:
		shown = null("null")
	case c.Hex:
		shown = h.Pre(h.Class("hex"), g.Text(c.Text))
	case c.Text == "":
		shown = null("empty")
	default:
		shown = h.Pre(g.Text(c.Text))
	}
	if c.More == 0 {
		return shown
	}
	return g.Group{shown, space, h.Span(h.Class("more"), g.Text("and "+text.Count(c.More, "byte")+" more"))}
}
