package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

//go:embed assets
var assets embed.FS

func assetFiles() []string { return []string{"page.css", "page.js", "icon.svg"} }

// policy is the Content-Security-Policy of every response: nothing from other sites, nothing
// inline, and no page of another site may show this one in a frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Page serves the pages. Routes and Overview return their handlers.
type Page struct {
	src     Source
	history *History
	rates   rates
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

// New returns the page of a source.
func New(src Source, history *History) *Page {
	sum := sha256.New()
	for _, file := range assetFiles() {
		text, err := assets.ReadFile("assets/" + file)
		if err != nil {
			panic(err) // it is a part of the program
		}
		sum.Write(text)
	}
	return &Page{src: src, history: history, version: hex.EncodeToString(sum.Sum(nil)[:6])}
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

// refreshAfter is the interval in seconds at which a browser without JavaScript reloads a page.
const refreshAfter = 10

// failure is an error with the status of its response.
type failure struct {
	status          int
	Problem, Remedy string
}

func (f *failure) Error() string { return f.Problem }

func (f *failure) html(v *layout) g.Node {
	return h.Div(h.Class("empty"), h.H1(g.Text(v.Title)), h.P(g.Text(prose(f.Problem))), g.If(f.Remedy != "", h.P(g.Text(f.Remedy))),
		h.P(to("/", "Overview")))
}

// handle renders a page. body returns its content and its title.
func (p *Page) handle(name string, body func(*http.Request, *Status) (content, string, error)) http.Handler {
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
		shown, title, err := body(r, &v.Status)
		if err != nil {
			v.fail(w, explain(err))
			return
		}
		v.Title = title
		v.render(w, http.StatusOK, shown)
	})
}

// Refused responds to a request that the admin port rejects with a page, if it comes from a
// browser. It reports whether it did.
func (p *Page) Refused(w http.ResponseWriter, r *http.Request, status int, why string) bool {
	if !Wanted(r) {
		return false
	}
	// The page shows nothing else about the broker: the request may come from anywhere.
	v := layout{Status: Status{Now: time.Now()}, Assets: p.version, Bare: true}
	v.fail(w, &failure{status: status, Problem: why})
	return true
}

func (v *layout) fail(w http.ResponseWriter, f *failure) {
	v.Title, v.Live = http.StatusText(f.status), false
	v.render(w, f.status, f)
}

func (v *layout) render(w http.ResponseWriter, status int, body content) {
	var out bytes.Buffer
	if err := v.document(body).Render(&out); err != nil {
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
	if !slices.Contains(assetFiles(), file) {
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
