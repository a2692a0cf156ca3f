package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

const (
	// defaultWaits is the number of requests in a response unless the request sets a limit.
	defaultWaits = 20
	// defaultTrace and maxTrace bound how long a trace waits for a request that takes long enough.
	defaultTrace, maxTrace = 10 * time.Second, time.Minute
)

// waits serves GET /v1/waits.
func waits(v *View, q url.Values) (any, error) {
	if err := known(q, "limit"); err != nil {
		return nil, err
	}
	limit := defaultWaits
	if s := q.Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > view.MaxWaits {
			return nil, BadRequest("limit %q is not between 1 and %d", s, view.MaxWaits)
		}
	}
	all := v.Waits(limit)
	all.Broker = v.Node
	return &all, nil
}

// trace serves GET /v1/waits/trace. It takes up to maxTrace.
func (a *jsonAPI) trace(w http.ResponseWriter, r *http.Request) {
	t, err := a.traced(w, r)
	answer(w, t, err)
}

func (a *jsonAPI) traced(w http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	if err := known(q, "client", "slowerMs", "forMs"); err != nil {
		return nil, err
	}
	if !q.Has("client") {
		return nil, BadRequest("the parameter client is missing: a client id")
	}
	slower, err := milliseconds(q, "slowerMs", 0, time.Hour)
	if err != nil {
		return nil, err
	}
	most, err := milliseconds(q, "forMs", defaultTrace, maxTrace)
	if err != nil {
		return nil, err
	}
	if phase := a.o.Health.Phase(); phase != "" {
		return nil, unavailable(phase)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(most + writeTime)) // the recorder of a test has none
	ctx, cancel := context.WithTimeout(r.Context(), most)
	defer cancel()
	t, ok := a.o.View().Trace(ctx, q.Get("client"), slower)
	if !ok {
		return nil, &apiError{http.StatusNotFound, "no request of client " + strconv.Quote(view.Cut(q.Get("client"))) +
			" took " + slower.String() + " or longer within " + most.String() + "; " + strconv.Itoa(t.Skipped) + " were faster"}
	}
	return &t, nil
}

// milliseconds returns a parameter that is a number of milliseconds.
func milliseconds(q url.Values, name string, byDefault, most time.Duration) (time.Duration, error) {
	s := q.Get(name)
	if s == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most.Milliseconds() {
		return 0, BadRequest("%s %q is not between 0 and %d", name, s, most.Milliseconds())
	}
	return time.Duration(n) * time.Millisecond, nil
}
