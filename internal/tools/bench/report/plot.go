package report

import (
	"fmt"
	"html"
	"strings"
)

// Geometry of a plot, in the units of its view box.
const (
	plotWidth, plotHeight    = 860.0, 300.0
	marginLeft, marginRight  = 70.0, 34.0
	marginTop, marginBottom  = 16.0, 44.0
	mostDots                 = 240 // with more, dots would be too close together
	areaWidth, areaHeight    = plotWidth - marginLeft - marginRight, plotHeight - marginTop - marginBottom
	labelGap, lineOfText     = 8.0, 16.0
	legendWidth, legendStart = 150.0, marginLeft
)

// plot is a drawing of lines over two axes.
type plot struct {
	x, y           scale
	xName, yName   string
	lines          []line
	xUnit, yUnit   string
	caption, empty string
}

// line is a line of a plot. Its colour is that of its index.
type line struct {
	name   string
	points []point
}

// point is a value at x, or over an interval of length width that ends at x: then it is drawn as a
// step with its dot in the middle. text, if set, replaces the numbers in the tooltip.
type point struct {
	x, y  float64
	text  string
	width float64
}

func (p plot) left(x float64) float64 { return marginLeft + p.x.place(x)*areaWidth }
func (p plot) top(y float64) float64  { return marginTop + (1-p.y.place(y))*areaHeight }

// svg draws p as a self-contained element. Colours are classes, so that the page defines those of
// light and dark mode.
func (p plot) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight+lineOfText, html.EscapeString(p.caption))
	p.axes(&b)
	some := false
	for i, l := range p.lines {
		p.line(&b, i, l)
		some = some || len(l.points) > 0
	}
	if !some {
		fmt.Fprintf(&b, `<text class="empty" x="%g" y="%g" text-anchor="middle">%s</text>`,
			marginLeft+areaWidth/2, marginTop+areaHeight/2, html.EscapeString(p.empty))
	}
	p.legend(&b)
	b.WriteString("</svg>")
	return b.String()
}

func (p plot) axes(b *strings.Builder) {
	bottom, right := marginTop+areaHeight, marginLeft+areaWidth
	for _, m := range p.y.marks {
		y := p.top(m.at)
		fmt.Fprintf(
			b,
			`<line class="grid" x1="%g" y1="%.1f" x2="%g" y2="%.1f"/><text class="mark" x="%g" y="%.1f" text-anchor="end" dominant-baseline="middle">%s</text>`,
			marginLeft,
			y,
			right,
			y,
			marginLeft-labelGap,
			y,
			html.EscapeString(m.text),
		)
	}
	for _, m := range p.x.marks {
		x := p.left(m.at)
		fmt.Fprintf(
			b,
			`<line class="grid" x1="%.1f" y1="%g" x2="%.1f" y2="%g"/><text class="mark" x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			x,
			marginTop,
			x,
			bottom,
			x,
			bottom+lineOfText,
			html.EscapeString(m.text),
		)
	}
	fmt.Fprintf(b, `<text class="axis" x="%g" y="%g" text-anchor="end">%s</text>`, right, bottom+2*lineOfText+2, html.EscapeString(p.xName))
	fmt.Fprintf(
		b,
		`<text class="axis" transform="translate(14 %g) rotate(-90)" text-anchor="middle">%s</text>`,
		marginTop+areaHeight/2,
		html.EscapeString(p.yName),
	)
}

func (p plot) line(b *strings.Builder, i int, l line) {
	if len(l.points) == 0 {
		return
	}
	fmt.Fprintf(b, `<polyline class="line c%d" points="`, i)
	for _, at := range l.points {
		if at.width > 0 {
			fmt.Fprintf(b, "%.1f,%.1f ", p.left(at.x-at.width), p.top(at.y))
		}
		fmt.Fprintf(b, "%.1f,%.1f ", p.left(at.x), p.top(at.y))
	}
	b.WriteString(`"/>`)
	if len(l.points) > mostDots {
		return
	}
	class := "dot"
	if len(l.points) == 1 {
		class = "dot one" // which no line shows
	}
	for _, at := range l.points {
		text := at.text
		if text == "" {
			text = fmt.Sprintf("%s%s: %s%s", short(at.x), p.xUnit, short(at.y), p.yUnit)
		}
		fmt.Fprintf(b, `<circle class="%s c%d" cx="%.1f" cy="%.1f" r="4"><title>%s</title></circle>`,
			class, i, p.left(at.x-at.width/2), p.top(at.y), html.EscapeString(l.name+" "+text))
	}
}

func (p plot) legend(b *strings.Builder) {
	if len(p.lines) < 2 {
		return
	}
	y := marginTop + areaHeight + 2*lineOfText
	for i, l := range p.lines {
		x := legendStart + float64(i)*legendWidth
		fmt.Fprintf(
			b,
			`<line class="line c%d" x1="%g" y1="%g" x2="%g" y2="%g"/><text class="mark" x="%g" y="%g" dominant-baseline="middle">%s</text>`,
			i,
			x,
			y,
			x+18,
			y,
			x+24,
			y,
			html.EscapeString(l.name),
		)
	}
}
