package connections

import (
	"bytes"
	"crypto/tls"
	"os"
	"time"

	"github.com/xdg-go/scram"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// answerTimeout is how long a response may take.
const answerTimeout = 30 * time.Second

// maxConnections is the largest number of connections at once: a client has no more ports.
const maxConnections = 60_000

// Target is the broker, and how a client reaches it.
type Target struct {
	// Broker is a host:port.
	Broker string `json:"bootstrap_servers"`
	// Authorities is a PEM file; empty means without TLS.
	Authorities string `json:"tls_ca,omitempty"`
	// User and PasswordFile log in with SCRAM-SHA-512; without them clients do not log in.
	User         string `json:"user,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`
	// PID is the broker's process on this machine, 0 for none.
	PID int `json:"server_pid,omitempty"`
	// Connections is the number of connections at once.
	Connections int `json:"connections"`
}

// check checks the settings.
func (t *Target) check(x *settings.Checks) {
	x.Brokers("bootstrap-servers", t.Broker)
	if (t.User == "") != (t.PasswordFile == "") {
		x.Add("--user and --password-file: one needs the other; give both, or none to connect without a login")
	}
	x.Between("connections", t.Connections, 1, maxConnections)
}

// opener returns what opens connections to the target.
func (t *Target) opener() (*opener, error) {
	secure, err := bench.Secure(t.Authorities)
	if err != nil {
		return nil, err
	}
	o := &opener{broker: t.Broker, secure: secure}
	if t.User == "" {
		return o, nil
	}
	password, err := os.ReadFile(t.PasswordFile)
	if err != nil {
		return nil, cli.Usage("--password-file: %w; name a file whose only line is the user's password", err)
	}
	// As Kafka and chronik do, it does not normalize the name and the password.
	o.user, err = scram.SHA512.NewClientUnprepped(t.User, string(bytes.TrimSuffix(password, []byte("\n"))), "")
	return o, err
}

// opener opens connections. It is safe for concurrent use.
type opener struct {
	broker string
	secure *tls.Config   // nil without TLS
	user   *scram.Client // nil without a login
}
