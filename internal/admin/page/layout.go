package page

import (
	"fmt"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

// layout is what surrounds the content of a page.
type layout struct {
	Status
	Page, Title string
	Assets      string // version of the assets
	// Refresh is the interval in seconds at which a browser without JavaScript reloads the page, 0
	// for never. RefreshLink is this page with the other choice.
	Refresh     int
	RefreshLink string
	// Bare pages show nothing about the broker.
	Bare bool
	// Live pages may be refreshed in place by the script.
	Live bool
}

// content is the part of a page that the layout surrounds.
type content interface {
	html(v *layout) g.Node
}

// Worst returns the severity of the worst finding, or "" if there is none; notes do not count.
func (v *layout) Worst() health.Severity {
	worst := health.Severity("")
	for _, f := range v.Findings {
		switch f.Severity {
		case health.Bad:
			return health.Bad
		case health.Warn:
			worst = health.Warn
		}
	}
	return worst
}

// State returns the state of the broker in a word or two.
func (v *layout) State() string {
	switch n := v.Problems(); {
	case v.Phase != "":
		return v.Phase
	case n > 0:
		return text.Count(n, "problem")
	}
	return "healthy"
}

// Notes counts the findings of severity note that the page shows.
func (v *layout) Notes() (n int) { n, _ = v.counts(); return n }

// Problems counts the other findings.
func (v *layout) Problems() (n int) { _, n = v.counts(); return n }

func (v *layout) counts() (notes, problems int) {
	for _, f := range health.Together(v.Findings) {
		if f.Severity == health.Note {
			notes++
		} else {
			problems++
		}
	}
	return notes, problems
}

// document returns the whole page.
func (v *layout) document(body content) g.Node {
	title := name(v.Title) + " · chronik"
	if !v.Bare {
		title += fmt.Sprintf(" broker %d", v.ID)
	}
	if n := v.Problems(); n > 0 {
		title = fmt.Sprintf("(%d) %s", n, title)
	}
	asset := func(file string) string { return "/assets/" + file + "?v=" + v.Assets }
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			block(
				h.Meta(h.Charset("utf-8")),
				h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
				h.Meta(h.Name("color-scheme"), h.Content("light dark")),
				g.If(v.Refresh > 0, h.Meta(g.Attr("http-equiv", "refresh"), h.Content(strconv.Itoa(v.Refresh)))),
				h.TitleEl(g.Text(title)),
				h.Link(h.Rel("icon"), h.Href(asset("icon.svg"))),
				h.Link(h.Rel("stylesheet"), h.Href(asset("page.css"))),
				h.Script(h.Src(asset("page.js")), h.Defer()),
			),
		),
		h.Body(g.If(v.Live, g.Attr("data-live")),
			block(
				h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
				h.Header(h.Div(h.Class("bar"),
					h.A(h.Class("brand"), h.Href("/"), g.Text("chronik")), space,
					g.Iff(!v.Bare, v.badge), space,
					v.navigation(),
				)),
				h.Main(h.ID("main"), h.TabIndex("-1"), body.html(v)),
				g.Iff(!v.Bare, v.footer),
			),
		),
	))
}

// badge is the state of the broker at the top of each page.
func (v *layout) badge() g.Node {
	class := "ok"
	switch worst := v.Worst(); {
	case worst != "":
		class = string(worst)
	case v.Phase != "":
		class = "phase"
	}
	return h.A(h.Class("state "+class), h.Href("/"), h.Span(h.Class("dot")), h.Span(g.Textf("Broker %d: %s", v.ID, v.State())))
}

func (v *layout) navigation() g.Node {
	to := func(path, words string, pages ...string) g.Node {
		here := false
		for _, p := range pages {
			here = here || p == v.Page
		}
		return h.A(h.Href(path), g.If(here, h.Aria("current", "page")), g.Text(words))
	}
	return h.Nav(h.Aria("label", "Pages"), block(
		to("/", "Overview", "overview"),
		to("/topics", "Topics", "topics", "topic", "records"),
		to("/groups", "Groups", "groups", "group"),
		to("/connections", "Connections", "connections"),
	))
}

func (v *layout) footer() g.Node {
	refresh := fmt.Sprintf("Refresh every %d s", refreshAfter)
	if v.Refresh > 0 {
		refresh = "Stop refreshing"
	}
	return h.Footer(block(
		h.P(h.Class("asof"), g.Attr("data-asof"), g.Text("As of "), at(v.Now), g.Text(". "),
			h.A(h.Class("noscript"), h.Href(v.RefreshLink), g.Text(refresh)), space,
			h.Button(h.Type("button"), h.Class("live"), g.Attr("data-pause"), g.Attr("hidden"), g.Text("Pause"))),
		h.P(g.Text("chronik "+v.Version+" · "), h.A(h.Href("/metrics"), g.Text("metrics")), g.Text(" · "),
			h.A(h.Href("/v1/health"), g.Text("health as JSON"))),
	))
}

// at shows a time.
func at(t time.Time) g.Node {
	return h.Time(h.DateTime(t.UTC().Format(time.RFC3339Nano)), g.Text(moment(t)))
}
