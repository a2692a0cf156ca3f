package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds of one answer of GET /v1/connections.
const (
	usualConnections = 1_000
	mostConnections  = 10_000
)

// connectionState is an open connection in GET /v1/connections.
type connectionState struct {
	ID              uint64     `json:"id"`
	Listener        string     `json:"listener"`
	Address         string     `json:"address"`
	ClientID        string     `json:"clientId"`
	Software        string     `json:"software"`
	SoftwareVersion string     `json:"softwareVersion"`
	Principal       string     `json:"principal"`
	Opened          time.Time  `json:"opened"`
	LastRequest     *time.Time `json:"lastRequest"` // nil before the first request
	InFlight        int        `json:"inFlight"`
	ThrottledMs     int64      `json:"throttledMs"`
	Requests        int64      `json:"requests"`
	BytesIn         int64      `json:"bytesIn"`
	BytesOut        int64      `json:"bytesOut"`
	RecordsIn       int64      `json:"recordsIn"`
}

// connections is GET /v1/connections.
func connections(v *View, q url.Values) (any, error) {
	if err := known(q, "limit", "after"); err != nil {
		return nil, err
	}
	var err error
	limit, after := usualConnections, uint64(0)
	if s := q.Get("limit"); s != "" {
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > mostConnections {
			return nil, BadRequest("limit %q is not between 1 and %d", s, mostConnections)
		}
	}
	if s := q.Get("after"); s != "" {
		if after, err = strconv.ParseUint(s, 10, 64); err != nil {
			return nil, BadRequest("after %q is not the id of a connection", s)
		}
	}
	list, more, now := []connectionState{}, false, time.Now()
	for _, c := range v.Server.Connections() {
		if c.ID <= after {
			continue
		}
		if more = len(list) == limit; more {
			break
		}
		s := connectionState{ID: c.ID, Listener: c.Listener, Address: c.Peer.String(), ClientID: c.ClientID, Software: c.Software.Name,
			SoftwareVersion: c.Software.Version, Principal: c.Principal, Opened: c.Opened.UTC(), InFlight: c.InFlight,
			ThrottledMs: max(c.ThrottledUntil.Sub(now).Milliseconds(), 0), Requests: c.Requests, BytesIn: c.BytesIn, BytesOut: c.BytesOut, RecordsIn: c.RecordsIn}
		if c.Requests > 0 {
			at := c.LastRequest.UTC()
			s.LastRequest = &at
		}
		list = append(list, s)
	}
	return map[string]any{"broker": v.Node, "more": more, "connections": list}, nil
}

// log is GET /v1/log.
func (a *api) log(w http.ResponseWriter, r *http.Request) {
	if err := known(r.URL.Query()); err != nil {
		answer(w, nil, err)
		return
	}
	lines, dropped := a.o.Tail.Lines()
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Chronik-Dropped-Lines", strconv.FormatInt(dropped, 10))
	_, _ = w.Write(lines) // a client that went away needs no answer
}
