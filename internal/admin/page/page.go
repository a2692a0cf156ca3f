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
)

//go:embed assets
var assets embed.FS

// Content-Security-Policy of every answer: nothing from elsewhere, nothing inline, and no
// page of another site may show this one in a frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Page serves the pages. It is an http.Handler for none of them: Routes lists them.
type Page struct {
	src     Source
	history *History
	rates   rates
	pages   map[string]*template.Template
	// version is a part of the assets' addresses that changes with them, so that a browser
	// may keep them.
	version string
}

// Route is a path of the page.
type Route struct {
	Path    string // as http.ServeMux has it, without the method
	Handler http.Handler
	// Data: the answer holds clients' records, and reading them costs. The other paths
	// show names, numbers and states.
	Data bool
}

// New returns the page of a source. The error is a template that does not parse.
func New(src Source, history *History) (*Page, error) {
	p := &Page{src: src, history: history, pages: map[string]*template.Template{}}
	for _, name := range []string{"overview", "topics", "topic", "records", "groups", "group", "connections", "failed"} {
		t, err := template.New("layout.html").Funcs(functions()).ParseFS(assets, "assets/layout.html", "assets/parts.html", "assets/"+name+".html")
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

// Routes lists the paths but /, which is Overview's.
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

// Overview is the page at /.
func (p *Page) Overview() http.Handler { return p.handle("overview", p.overview) }

// Wanted reports whether a request comes from a browser: one that names text/html among
// what it accepts. curl, which accepts anything, does not.
func Wanted(r *http.Request) bool {
	return strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html")
}

// view is what the layout shows around a page.
type view struct {
	Broker
	Page, Title string
	Assets      string // version of the assets
	// Refresh is how many seconds a browser without JavaScript waits before it asks again,
	// 0 is never; RefreshLink is this page with the other choice.
	Refresh     int
	RefreshLink string
	// Bare: nothing of the broker is shown.
	Bare bool
	// Live: the script may refresh the page in place.
	Live bool
	Body any
}

// Worst is the severity of the worst finding, empty if all is well; notes do not count.
func (v *view) Worst() health.Severity {
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

// State is the state of the broker in a word or two.
func (v *view) State() string {
	switch n := v.Problems(); {
	case v.Phase != "":
		return v.Phase
	case n > 0:
		return text.Count(n, "problem")
	}
	return "healthy"
}

// Notes counts the findings that are no more than a note.
func (v *view) Notes() int {
	n := 0
	for _, f := range v.Findings {
		if f.Severity == health.Note {
			n++
		}
	}
	return n
}

// Problems counts the others.
func (v *view) Problems() int { return len(v.Findings) - v.Notes() }

// refreshAfter is how often a browser without JavaScript refreshes a page, in seconds.
const refreshAfter = 10

// failure is an answer that is no success.
type failure struct {
	status          int
	Problem, Remedy string
}

func (f *failure) Error() string { return f.Problem }

// handle renders a page. body returns what it shows and its title.
func (p *Page) handle(name string, body func(*http.Request, *Broker) (any, string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := view{Broker: p.src.Broker(r.Context()), Page: name, Assets: p.version, Live: name != "records"}
		again := r.URL.Query()
		if again.Has("refresh") {
			v.Refresh = refreshAfter
			again.Del("refresh")
		} else {
			again.Set("refresh", strconv.Itoa(refreshAfter))
		}
		v.RefreshLink = (&url.URL{Path: r.URL.Path, RawQuery: again.Encode()}).String()
		var err error
		if v.Body, v.Title, err = body(r, &v.Broker); err != nil {
			p.fail(w, &v, explain(err))
			return
		}
		p.render(w, name, http.StatusOK, &v)
	})
}

// Refused answers a request that the admin port does not allow, with a page if it comes from a
// browser. It reports whether it did.
func (p *Page) Refused(w http.ResponseWriter, r *http.Request, status int, why string) bool {
	if !Wanted(r) {
		return false
	}
	// The page shows nothing else of the broker: the request may come from anywhere.
	p.fail(w, &view{Broker: Broker{Now: time.Now()}, Assets: p.version, Bare: true}, &failure{status: status, Problem: why})
	return true
}

func (p *Page) fail(w http.ResponseWriter, v *view, f *failure) {
	v.Body, v.Title, v.Live = f, http.StatusText(f.status), false
	p.render(w, "failed", f.status, v)
}

func (p *Page) render(w http.ResponseWriter, name string, status int, v *view) {
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
	_, _ = w.Write(out.Bytes()) // a client that went away needs no answer
}

// explain turns an error into an answer.
func explain(err error) *failure {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	switch text := err.Error(); {
	case errors.Is(err, ErrNotServing):
		return &failure{http.StatusServiceUnavailable, text, "The overview shows how far it is; this page follows when the broker serves."}
	default:
		return &failure{http.StatusInternalServerError, text, "The broker's log may have more."}
	}
}

// bad is a request that makes no sense.
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

// functions are what templates may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"bytes": func(n int64) string { return bytesText(float64(n)) }, "count": text.Number[int64], "short": shortText, "seconds": secondsText,
		"ago": ago, "moment": moment, "percent": percent, "plural": text.Count[int], "name": name, "prose": prose, "commands": commands, "content": contentOf,
		"span":  func(now, then time.Time) string { return spanText(now.Sub(then)) },
		"clock": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	}
}
