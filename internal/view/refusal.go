package view

import (
	"strings"
	"time"
)

// RefusalKind is what kind of thing refuses something to a client, or lets it wait.
type RefusalKind uint8

// The kinds of refusals.
const (
	RefusedConnection RefusalKind = iota // a limit of connections
	RefusedByClient                      // a client that does not accept the broker's certificate
	RefusedHandshake                     // a TLS handshake that failed otherwise, but for the login
	RefusedLogin                         // a login that failed
	RefusedRight                         // a right that the client does not have
	RefusedQuota                         // a quota
	RefusalKinds                         // how many kinds there are
)

// Refused is what was refused to one client by one cause in the last minute.
type Refused struct {
	Kind RefusalKind
	// Cause is the name of a limit, of a mechanism, of a result of handshakes, or of an operation
	// with its resource. Rule is whose limit it is, or the listener; empty if there is only one.
	Cause, Rule string
	Who         Client // the zero value stands for several others
	Count       int
	Longest     time.Duration // the longest wait
	Since       time.Time     // the first refusal after a minute without any
	Detail      string        // the value of a limit, the reason, or the access rule
	Lift        string        // the command that removes the access rule, or the remedy; empty without one
	// Passed is how often the same was not refused to the user since then, at most in the last
	// minute; PassedAll is that of all clients, for all causes of the kind.
	Passed, PassedAll int
}

// Client says who a client is. What is not known is empty.
type Client struct{ User, ClientID, Address string }

// String returns the client as findings show it.
func (c Client) String() string {
	var parts []string
	for _, p := range []struct{ what, name string }{{"", c.User}, {"client id ", c.ClientID}, {"from ", c.Address}} {
		if p.name != "" {
			parts = append(parts, p.what+p.name)
		}
	}
	if len(parts) == 0 {
		return "others"
	}
	return strings.Join(parts, " ")
}
