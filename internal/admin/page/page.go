package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

//go:embed assets
var assets embed.FS

// policy is the Content-Security-Policy of every response: nothing from other sites, nothing
// inline, and no page of another site may show this one in a frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Page serves the pages. Routes and Overview return their handlers.
type Page struct {
	src     Source
	history *History
	rates   rates
	pages   map[string]*template.Template
	// version is a part of the assets' addresses that changes with their content, so that a browser
	// may cache them.
	version string
}

// Route is a path of the page.
type Route struct {
	Path    string // as in http.ServeMux, without the method
	Handler http.Handler
	// Data reports whether the response contains clients' records, which are expensive to read. The
	// other paths show names, numbers and states.
	Data bool
}

// New returns the page of a source. It fails if a template does not parse.
func New(src Source, history *History) (*Page, error) {
	p := &Page{src: src, history: history, pages: map[string]*template.Template{}}
	for _, name := range []string{"overview", "topics", "topic", "records", "groups", "group", "connections", "failed"} {
		t, err := template.New(
			"layout.html",
		).Funcs(
			functions(),
		).ParseFS(
			assets,
			"assets/layout.html",
			"assets/parts.html",
			"assets/"+name+".html",
		)
		if err != nil {
			return nil, fmt.Errorf("parse the page %s: %w", name, err)
		}
		p.pages[name] = t
	}
	sum := sha256.New()
	for _, name := range []string{"assets/page.css", "assets/page.js", "assets/icon.svg"} {
		text, err := fs.ReadFile(assets, name)
		if err != nil {
			return nil, fmt.Errorf("read the page's files: %w", err)
		}
		sum.Write(text)
	}
	p.version = hex.EncodeToString(sum.Sum(nil)[:6])
	return p, nil
}

// Routes lists all paths except /, which Overview serves.
func (p *Page) Routes() []Route {
	return []Route{
		{Path: "/topics", Handler: p.handle("topics", p.topics)},
		{Path: "/topic", Handler: p.handle("topic", p.topic)},
		{Path: "/records", Handler: p.handle("records", p.records), Data: true},
		{Path: "/groups", Handler: p.handle("groups", p.groups)},
		{Path: "/group", Handler: p.handle("group", p.group)},
		{Path: "/connections", Handler: p.handle("connections", p.connections)},
		{Path: "/assets/{file}", Handler: http.HandlerFunc(asset)},
	}
}

// Overview serves the page at /.
func (p *Page) Overview() http.Handler { return p.handle("overview", p.overview) }

// Wanted reports whether a request comes from a browser: one whose Accept header contains
// text/html. curl, which accepts any type, does not send it.
func Wanted(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}

// layout is the content of the layout around a page.
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
	Body any
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

// Notes counts the findings of severity note.
func (v *layout) Notes() int {
	n := 0
	for _, f := range v.Findings {
		if f.Severity == health.Note {
			n++
		}
	}
	return n
}

// Problems counts the other findings.
func (v *layout) Problems() int { return len(v.Findings) - v.Notes() }

// refreshAfter is the interval in seconds at which a browser without JavaScript reloads a page.
const refreshAfter = 10

// failure is an error with the status of its response.
type failure struct {
	status          int
	Problem, Remedy string
}

func (f *failure) Error() string { return f.Problem }

// handle renders a page. body returns its content and its title.
func (p *Page) handle(name string, body func(*http.Request, *Status) (any, string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := layout{Status: p.src.Status(r.Context()), Page: name, Assets: p.version, Live: name != "records"}
		again := r.URL.Query()
		if again.Has("refresh") {
			v.Refresh = refreshAfter
			again.Del("refresh")
		} else {
			again.Set("refresh", strconv.Itoa(refreshAfter))
		}
		v.RefreshLink = (&url.URL{Path: r.URL.Path, RawQuery: again.Encode()}).String()
		var err error
		if v.Body, v.Title, err = body(r, &v.Status); err != nil {
			p.fail(w, &v, explain(err))
			return
		}
		p.render(w, name, http.StatusOK, &v)
	})
}

// Refused responds to a request that the admin port rejects with a page, if it comes from a
// browser. It reports whether it did.
func (p *Page) Refused(w http.ResponseWriter, r *http.Request, status int, why string) bool {
	if !Wanted(r) {
		return false
	}
	// The page shows nothing else about the broker: the request may come from anywhere.
	p.fail(w, &layout{Status: Status{Now: time.Now()}, Assets: p.version, Bare: true}, &failure{status: status, Problem: why})
	return true
}

func (p *Page) fail(w http.ResponseWriter, v *layout, f *failure) {
	v.Body, v.Title, v.Live = f, http.StatusText(f.status), false
	p.render(w, "failed", f.status, v)
}

func (p *Page) render(w http.ResponseWriter, name string, status int, v *layout) {
	var out bytes.Buffer
	if err := p.pages[name].Execute(&out, v); err != nil {
		http.Error(w, "the page cannot be rendered: "+err.Error(), http.StatusInternalServerError)
		return
	}
	head := w.Header()
	secure(head)
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // a client that has gone needs no response
}

// explain turns an error into a failure with a remedy.
func explain(err error) *failure {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	switch text := err.Error(); {
	case errors.Is(err, ErrNotServing):
		return &failure{
			http.StatusServiceUnavailable,
			text,
			"The overview shows the progress; this page is available when the broker serves clients.",
		}
	default:
		return &failure{http.StatusInternalServerError, text, "The broker's log may have details."}
	}
}

// bad returns an error for a request with invalid parameters.
func bad(format string, args ...any) error {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...), "Go back and follow a link of the page instead."}
}

func secure(head http.Header) {
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
}

// asset serves the style, the script and the icon.
func asset(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	if !slices.Contains([]string{"page.css", "page.js", "icon.svg"}, file) {
		http.NotFound(w, r)
		return
	}
	head := w.Header()
	secure(head)
	if r.URL.RawQuery != "" {
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, assets, "assets/"+file)
}

// functions returns the functions of templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"bytes": func(n int64) string { return bytesText(float64(n)) }, "count": text.Number[int64], "short": shortText,
		"seconds": secondsText, "milliseconds": func(ms float64) string { return secondsText(ms / 1000) },
		"ago": ago, "moment": moment, "percent": percent, "plural": text.Count[int], "name": name, "prose": prose,
		"commands": commands, "content": contentOf,
		"assigned": assignedText,
		"gravity":  func(l view.Log) health.Severity { return severityOf(&l) },
		"span":     func(now, then time.Time) string { return spanText(now.Sub(then)) },
		"clock":    func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	}
}
