package admin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/admin/page"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// paged returns a port with a page.
func paged(t *testing.T, o *Options) http.Handler {
	t.Helper()
	o.page = page.New(&source{o: *o}, &page.History{})
	return Handler(*o)
}

func browse(h http.Handler, path, host, peer string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
	r.Host, r.RemoteAddr = host, peer
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	h.ServeHTTP(w, r)
	return w
}

const (
	near = "127.0.0.1:5"
	far  = "10.0.0.2:5"
)

// A browser gets the page, every other client the text, as scripts expect.
func TestBrowsersGetThePage(t *testing.T) {
	o, health := options()
	health.is.Phase = "recovering logs"
	h := paged(t, &o)
	if w := browse(h, "/", "localhost:9644", near); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "Not serving: recovering logs") ||
		w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if code, body := request(h, "GET", "/", ""); code != http.StatusOK || !strings.HasPrefix(body, "chronikd: /") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := request(h, "POST", "/topics", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
	for _, path := range []string{"/topics", "/topic?name=a", "/records?topic=a&partition=0", "/groups", "/group?id=a", "/connections"} {
		if w := browse(h, path, "localhost:9644", near); w.Code != http.StatusServiceUnavailable ||
			!strings.Contains(w.Body.String(), "recovering logs") {
			t.Errorf("%s of a broker that is not serving: %d %s", path, w.Code, w.Body)
		}
	}
}

// The text at / has the paths of the table in docs/configuration.md, in any order.
func TestIndexHasTheDocumentedPaths(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	must.OK(t, err)
	_, table, _ := strings.Cut(string(text), "\n| path | content |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for i, path := range strings.Split(cell, "`") {
			if i%2 == 1 && path != "/" {
				documented = append(documented, path)
			}
		}
	}
	slices.Sort(documented)
	o, _ := options()
	for name, h := range map[string]http.Handler{"with pages": paged(t, &o), "without": Handler(o)} {
		_, body := request(h, "GET", "/", "")
		if want := "chronikd: " + strings.Join(documented, " ") + "\n"; body != want {
			t.Errorf("%s\n%s, want\n%s", name, body, want)
		}
	}
}

// The page can be read only under the broker's own names, and records only from its own machine
// unless Access.Remote allows others.
func TestWhoMaySeeThePage(t *testing.T) {
	for _, remote := range []bool{false, true} {
		o, health := options()
		health.is.Phase = "draining"
		o.Access.Remote, o.Access.RemoteSetting = remote, "admin.remote"
		h := paged(t, &o)
		const named, data = http.StatusServiceUnavailable, http.StatusServiceUnavailable
		for _, c := range []struct {
			path, host, peer string
			want             int
		}{
			{"/", "localhost:9644", far, http.StatusOK},
			{"/", "evil.example.com", near, http.StatusForbidden},
			{"/topics", "10.0.0.1:9644", far, named},
			{"/topics", "evil.example.com", near, http.StatusForbidden},
			{"/records?topic=a&partition=0", "localhost:9644", near, data},
			{"/records?topic=a&partition=0", "10.0.0.1:9644", far, map[bool]int{false: http.StatusForbidden, true: data}[remote]},
			{"/records?topic=a&partition=0", "evil.example.com", near, http.StatusForbidden},
		} {
			w := browse(h, c.path, c.host, c.peer)
			if w.Code != c.want || !strings.HasPrefix(w.Body.String(), "<!doctype html>") {
				t.Errorf("%s at %s from %s, remote %v: %d, want %d\n%.200s", c.path, c.host, c.peer, remote, w.Code, c.want, w.Body)
			}
			if c.want == http.StatusForbidden &&
				(strings.Contains(w.Body.String(), "Broker ") || strings.Contains(w.Body.String(), "draining")) {
				t.Errorf("a refusal shows the broker: %s", w.Body)
			}
			if c.want == http.StatusForbidden && c.host != "evil.example.com" && !strings.Contains(w.Body.String(), "admin.remote") {
				t.Errorf("no remedy: %s", w.Body)
			}
		}
	}
}
