package admin

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/chronik-io/chronik/internal/view"
)

// defaultConnections is the number of connections in a response unless the request sets a limit.
const defaultConnections = 1_000

// connections serves GET /v1/connections.
func connections(v *View, q url.Values) (any, error) {
	if err := known(q, "limit", "after"); err != nil {
		return nil, err
	}
	var err error
	limit, after := defaultConnections, uint64(0)
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > view.MaxConnections {
			return nil, BadRequest("limit %q is not between 1 and %d", s, view.MaxConnections)
		}
	}
	if s := q.Get("after"); s != "" {
		if after, err = strconv.ParseUint(s, 10, 64); err != nil {
			return nil, BadRequest("after %q is not the id of a connection", s)
		}
	}
	list, more := []view.Connection{}, false
	for _, c := range v.Connections() {
		if c.ID <= after {
			continue
		}
		if more = len(list) == limit; more {
			break
		}
		list = append(list, c)
	}
	return &view.Connections{Broker: v.Node, More: more, List: list}, nil
}

// log serves GET /v1/log.
func (a *jsonAPI) log(w http.ResponseWriter, r *http.Request) {
	if err := known(r.URL.Query()); err != nil {
		answer(w, nil, err)
		return
	}
	lines, dropped := a.o.Tail.Lines()
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Chronik-Dropped-Lines", strconv.FormatInt(dropped, 10))
	_, _ = w.Write(lines) // a client that has gone needs no response
}
