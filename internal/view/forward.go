package view

import "time"

// Forwarding is what a broker passes to another one, on behalf of its clients, since it started.
type Forwarding struct {
	Broker  int32 // the other one
	Tunnels int64 // open connections for clients
	// Passed requests were sent. Of them, Lost have no answer: their tunnel has ended. Refused were
	// not sent: there was no tunnel, or too much waits for the broker.
	Passed, Lost, Refused int64
	// Failing is since when no tunnel could be opened, zero if the last one could; Last is when it
	// was tried last, and Err why it failed.
	Failing, Last time.Time
	Err           string
}
