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

// jsonAPI serves the port's JSON. docs/admin.md promises its form.
type jsonAPI struct{ o Options }

// apiError is an error with the status of its response.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return e.text }

// BadRequest returns an error whose response has status 400.
func BadRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// Conflict returns an error whose response has status 409.
func Conflict(text string) error { return &apiError{http.StatusConflict, text} }

// register adds the paths to mux.
func (a *jsonAPI) register(mux *paths, g *guard) {
	// Places of its own, because it never hangs: it is asked for when the others do.
	mux.Handle("GET /v1/health", g.bounded(newSlots(maxReads), answerTime, http.HandlerFunc(a.health)))
	mux.Handle("POST /v1/health", g.control(g.disks, http.HandlerFunc(a.health)))
	mux.Handle("GET /v1/log", g.fromThisMachine(g.reading(http.HandlerFunc(a.log))))
	mux.Handle("GET /v1/waits/trace", g.control(g.profiles, http.HandlerFunc(a.trace)))
	lists := newSlots(maxLists)
	for path, x := range map[string]struct {
		of  slots
		ask func(*View, url.Values) (any, error)
	}{
		"/v1/logs": {lists, logs}, "/v1/connections": {lists, connections},
		"/v1/dirs": {g.reads, dirs}, "/v1/profiles": {g.reads, profiles}, "/v1/brokers": {g.reads, brokers},
		"/v1/rights": {g.reads, rights}, "/v1/waits": {g.reads, waits}, "/v1/shares": {lists, shares},
	} {
		mux.Handle("GET "+path, g.bounded(x.of, answerTime, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if phase := a.o.Health.Phase(); phase != "" {
				answer(w, nil, unavailable(phase))
				return
			}
			v, err := x.ask(a.o.View(), r.URL.Query())
			answer(w, v, err)
		})))
	}
}

func unavailable(phase string) error {
	return &apiError{http.StatusServiceUnavailable, "the broker is not serving clients: " + phase}
}

// health serves GET /v1/health, and POST, which measures the disks first.
func (a *jsonAPI) health(w http.ResponseWriter, r *http.Request) {
	err := known(r.URL.Query())
	if err == nil && r.Method == http.MethodPost {
		if phase := a.o.Health.Phase(); phase != "" {
			err = unavailable(phase)
		} else {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(probeTime + writeTime)) // the recorder of a test has none
			err = a.o.Probe(r.Context())
		}
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	answer(w, a.o.Health.Report(r.Context()), nil)
}

// answer writes v, or err if it is not nil.
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
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no response
}

// known rejects parameters that a path does not have: a mistyped parameter would select more than
// was meant.
func known(q url.Values, names ...string) error {
	for name := range q {
		if len(names) == 0 {
			return BadRequest("unknown parameter %q; this path has none", name)
		}
		if !slices.Contains(names, name) {
			return BadRequest("unknown parameter %q; the parameters are: %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}
