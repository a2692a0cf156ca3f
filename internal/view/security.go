package view

import "time"

// Certificate is when the first certificate of a listener's kind expires.
type Certificate struct {
	Listener string
	Kind     string // "server", or "client-ca" for the authorities of client certificates
	File     string // of the server's certificate
	Expires  time.Time
	Begins   time.Time // when it becomes valid; zero: long ago
}

// Audit is the state of the audit log since the start; the zero value if it is off.
type Audit struct {
	Sink             string // its file, or journald
	Failed           string // why it cannot be written; empty if it can
	Written, Dropped int64  // lines
	Counted          int64  // events without a line of their own
}
