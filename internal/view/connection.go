package view

import "time"

// MaxConnections is the maximum number of connections in one response.
const MaxConnections = 10_000

// Connections is the response of GET /v1/connections.
type Connections struct {
	Broker int32        `json:"broker"` // its id
	More   bool         `json:"more"`   // there are further connections
	List   []Connection `json:"connections"`
}

// Connection is an open connection of a client, with its traffic since it was opened.
type Connection struct {
	ID          uint64     `json:"id"` // unique until the broker stops
	Listener    string     `json:"listener"`
	Address     string     `json:"address"` // empty without an IP address
	ClientID    string     `json:"clientId"`
	Software    string     `json:"software"`
	Version     string     `json:"softwareVersion"`
	Principal   string     `json:"principal"`
	Front       *int32     `json:"front"` // the broker to which the client has connected, nil if that is this one
	Opened      time.Time  `json:"opened"`
	LastRequest *time.Time `json:"lastRequest"` // now if one is in flight, nil before the first
	InFlight    int        `json:"inFlight"`
	ThrottledMs int64      `json:"throttledMs"` // how long the broker will not read from it
	Traffic
}

// Traffic counts what a connection carried since it was opened.
type Traffic struct {
	Requests  int64 `json:"requests"`  // that arrived and were handled
	BytesIn   int64 `json:"bytesIn"`   // of these requests, with their length fields
	BytesOut  int64 `json:"bytesOut"`  // of their answers, written or ready to be written
	RecordsIn int64 `json:"recordsIn"` // that handlers counted
}

// Program returns the client's software with its version, empty if the client does not report it.
func (c *Connection) Program() string {
	if c.Software == "" || c.Version == "" {
		return c.Software
	}
	return c.Software + " " + c.Version
}
