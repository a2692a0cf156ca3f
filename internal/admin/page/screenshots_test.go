package page

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// TestScreenshots writes screenshots of the page into the directory in CHRONIK_SCREENSHOTS, with
// the Chromium in CHROMIUM (make screenshots).
func TestScreenshots(t *testing.T) {
	dir, chromium := os.Getenv("CHRONIK_SCREENSHOTS"), os.Getenv("CHROMIUM")
	if dir == "" || chromium == "" {
		t.Skip("CHRONIK_SCREENSHOTS and CHROMIUM are not set; make screenshots sets them")
	}
	must.OK(t, os.MkdirAll(dir, 0o755))
	only := os.Getenv("PAGES") // a regular expression of names; empty means all
	for name, broker := range map[string]func() (*fake, *History){"empty": empty, "load": loaded, "ill": ill} {
		src, h := broker()
		server := httptest.NewServer(framed(handlerOf(t, src, h)))
		paths := map[string]string{"overview": "/"}
		if name != "empty" {
			paths["topics"], paths["topic"], paths["connections"] = "/topics", "/topic?name=payments", "/connections"
			paths["groups"], paths["group"], paths["records"] = "/groups", "/group?id=billing", "/records?topic=payments&partition=0"
		}
		for page, path := range paths {
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []string{"1280", "390"} {
					if width == "390" && scheme == "dark" && page != "overview" {
						continue
					}
					file := strings.Join([]string{name, page, width, scheme}, "-")
					if ok, err := regexp.MatchString(only, file); err != nil || !ok {
						continue
					}
					picture(t, chromium, server.URL, path, filepath.Join(dir, file+".png"), width, scheme)
				}
			}
		}
		server.Close()
	}
}

// The script refreshes the page in place and replaces the links for browsers without it. The policy
// must allow it: otherwise the page would never change.
func TestTheScriptRefreshesThePage(t *testing.T) {
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		t.Skip("CHROMIUM is not set; make screenshots sets it")
	}
	src, h := loaded()
	var asked atomic.Int64
	p := New(&moving{src, &asked}, h)
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", p.Overview())
	for _, r := range p.Routes() {
		mux.Handle("GET "+r.Path, r.Handler)
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	out, err := exec.CommandContext(
		t.Context(),
		chromium,
		"--headless=new",
		"--no-sandbox",
		"--disable-gpu",
		"--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=12000",
		"--dump-dom",
		server.URL+"/",
	).Output()
	must.OK(t, err)
	body := string(out)
	if n := asked.Load(); n < 2 || !strings.Contains(body, moment(now().Add(time.Duration(n)*time.Second))) {
		t.Errorf("%d requests, and the page is\n%s", n, body)
	}
	for _, text := range []string{`data-pause="">Pause</button>`, `class="noscript" href="/?refresh=10" hidden=""`} {
		if !strings.Contains(body, text) {
			t.Errorf("no %s in\n%s", text, body)
		}
	}
}

// moving is a broker whose clock advances by a second at each request.
type moving struct {
	*fake
	asked *atomic.Int64
}

func (m *moving) Status(ctx context.Context) Status {
	b := m.fake.Status(ctx)
	b.Now = now().Add(time.Duration(m.asked.Add(1)) * time.Second)
	return b
}

// framed also serves a page in a frame of 390 pixels, which the policy forbids otherwise.
func framed(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /frame", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(
			[]byte(`<!doctype html><body style="margin:0;background:#888"><iframe src="` + html.EscapeString(r.URL.Query().Get("src")) +
				`" style="border:0;width:390px;height:2600px"></iframe>`),
		)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Security-Policy", strings.ReplaceAll(policy, "'none'", "'self'"))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
	return mux
}

// picture takes a screenshot. Chromium's window is never narrower than about 500 pixels, so a
// narrow page is shown in a frame.
func picture(t *testing.T, chromium, server, path, file, width, scheme string) {
	t.Helper()
	address, size := server+path, width+",1700"
	if width == "390" {
		address, size = server+"/frame?src="+url.QueryEscape(path), "500,2600"
	}
	args := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
		"--screenshot=" + file, "--window-size=" + size}
	if scheme == "dark" {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	if out, err := exec.CommandContext(t.Context(), chromium, append(args, address)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
