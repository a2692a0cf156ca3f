package page

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// handlerOf serves all paths of a page, whoever asks.
func handlerOf(t *testing.T, src Source, h *History) http.Handler {
	t.Helper()
	p, err := New(src, h)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", p.Overview())
	for _, r := range p.Routes() {
		mux.Handle("GET "+r.Path, r.Handler)
	}
	return mux
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}
