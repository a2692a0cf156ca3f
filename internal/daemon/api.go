package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
)

// api is the admin port's JSON: what Kafka's protocol doesn't carry. Its shapes
// are promised in docs/admin.md. It changes nothing that anybody keeps.
type api struct{ b *Broker }

// apiError is an answer that is no success.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &apiError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// register adds the paths.
func (a *api) register(mux *http.ServeMux, g *guard) {
	get := func(path string, h http.HandlerFunc) { mux.Handle("GET "+path, g.named(h)) }
	get("/v1/health", func(w http.ResponseWriter, r *http.Request) { answer(w, a.health(), nil) })
	get("/v1/findings", a.findings)
	mux.Handle("POST /v1/findings", g.control(http.HandlerFunc(a.findings)))
	for path, ask := range map[string]func(*rooms, url.Values) (any, error){
		"/v1/logs": a.logs, "/v1/dirs": a.dirs, "/v1/profiles": a.profiles,
	} {
		get(path, func(w http.ResponseWriter, r *http.Request) {
			rooms, err := a.rooms()
			if err != nil {
				answer(w, nil, err)
				return
			}
			v, err := ask(rooms, r.URL.Query())
			answer(w, v, err)
		})
	}
}

// rooms are those of a broker that serves; before and after that they are not
// whole.
func (a *api) rooms() (*rooms, error) {
	if phase := a.b.ready.doingNow(); phase != "" {
		return nil, &apiError{http.StatusServiceUnavailable, "the broker does not serve now: " + phase}
	}
	return a.b.rooms, nil
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
			return badRequest("%q is no parameter here; there are: %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// dirState is a log directory in GET /v1/dirs.
type dirState struct {
	Path             string `json:"path"`
	ID               string `json:"id"`
	Journal          string `json:"journal"`
	Error            string `json:"error"`
	Space            string `json:"space"`
	SpaceMessage     string `json:"spaceMessage"`
	FreeBytes        int64  `json:"freeBytes"`
	TotalBytes       int64  `json:"totalBytes"`
	MinFreeBytes     int64  `json:"minFreeBytes"`
	JournalFreeBytes int64  `json:"journalFreeBytes"`
	JournalBytes     int64  `json:"journalBytes"`
	JournalLimit     int64  `json:"journalLimitBytes"`
	DeferredBytes    int64  `json:"deferredBytes"`
	CachedBytes      int64  `json:"cachedBytes"`
	OpenSegmentFiles int    `json:"openSegmentFiles"`
	Logs             int    `json:"logs"`
	Offline          int    `json:"offline"`
}

// dirs is GET /v1/dirs.
func (a *api) dirs(r *rooms, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	list := []dirState{}
	for _, d := range r.storage.Dirs() {
		s, x := d.LastSpace(), d.Usage()
		state := dirState{
			Path: d.Path(), ID: metadata.FormatID(d.ID()), Journal: d.JournalPath(), Error: errorText(d.Err()),
			Space: s.Level.String(), SpaceMessage: s.Message, MinFreeBytes: s.MinFree,
			JournalBytes: x.JournalBytes, JournalLimit: x.JournalLimit, DeferredBytes: x.DeferredBytes, CachedBytes: x.CachedBytes,
			OpenSegmentFiles: x.OpenFiles,
		}
		free, total, err := d.Space()
		journal, _, journalErr := a.b.fs.Free(d.JournalPath())
		if err != nil || journalErr != nil {
			state.Space = "unknown"
		}
		state.FreeBytes, state.TotalBytes, state.JournalFreeBytes = free, total, int64(min(journal, 1<<62))
		for _, l := range d.Logs() {
			state.Logs++
			if l.Offline() != nil {
				state.Offline++
			}
		}
		list = append(list, state)
	}
	for _, d := range r.storage.Failed() {
		list = append(list, dirState{Path: d.Path, ID: metadata.FormatID(d.ID), Journal: d.Journal, Error: d.Err.Error(), Space: "unknown"})
	}
	return map[string]any{"dirs": list}, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
