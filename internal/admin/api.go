package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// api is the port's JSON. Its shapes are promised in docs/admin.md.
type api struct{ o Options }

// apiError is an answer that is no success.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return e.text }

// BadRequest returns an error that is answered with status 400.
func BadRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// Conflict returns an error that is answered with status 409.
func Conflict(text string) error { return &apiError{http.StatusConflict, text} }

// register adds the paths.
func (a *api) register(mux *http.ServeMux, g *guard) {
	mux.Handle("GET /v1/health", g.named(http.HandlerFunc(a.health)))
	mux.Handle("POST /v1/health", g.control(g.disks, http.HandlerFunc(a.health)))
	mux.Handle("GET /v1/log", g.own(http.HandlerFunc(a.log)))
	for path, ask := range map[string]func(*View, url.Values) (any, error){
		"/v1/logs": logs, "/v1/dirs": dirs, "/v1/profiles": profiles, "/v1/connections": connections,
	} {
		mux.Handle("GET "+path, g.reading(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if phase := a.o.Health.Phase(); phase != "" {
				answer(w, nil, unavailable(phase))
				return
			}
			v, err := ask(a.o.View(), r.URL.Query())
			answer(w, v, err)
		})))
	}
}

func unavailable(phase string) error {
	return &apiError{http.StatusServiceUnavailable, "the broker does not serve now: " + phase}
}

// health is GET /v1/health, and POST, which measures the disks first.
func (a *api) health(w http.ResponseWriter, r *http.Request) {
	err := known(r.URL.Query())
	if err == nil && r.Method == http.MethodPost {
		if phase := a.o.Health.Phase(); phase != "" {
			err = unavailable(phase)
		} else {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(probeTime + writeTime)) // a test's recorder has none
			err = a.o.Probe(r.Context())
		}
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	answer(w, a.o.Health.Report(r.Context()), nil)
}

// answer writes v, or the error.
func answer(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
		if e := (*apiError)(nil); errors.As(err, &e) {
			status = e.status
		}
		v = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}

// known refuses parameters that a path doesn't have: a mistyped one would choose
// more than was meant.
func known(q url.Values, names ...string) error {
	for name := range q {
		if !slices.Contains(names, name) {
			return BadRequest("%q is no parameter here; there are: %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}
