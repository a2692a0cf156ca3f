package contexts

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the settings.
const (
	Brokers          = "brokers"
	Admin            = "admin"
	Timeout          = "timeout"
	Output           = "output"
	TLS              = "tls"
	TLSCA            = "tls-ca"
	TLSCert          = "tls-cert"
	TLSKey           = "tls-key"
	TLSServerName    = "tls-server-name"
	TLSInsecure      = "tls-insecure"
	SASL             = "sasl"
	SASLUser         = "sasl-user"
	SASLPassword     = "sasl-password"
	SASLPasswordFile = "sasl-password-file"
)

// Addresses of a broker that was started on this machine without settings.
const (
	DefaultBrokers = "127.0.0.1:9092"
	DefaultAdmin   = "127.0.0.1:9644"
)

// Bounds of a timeout.
const (
	minTimeout = time.Millisecond
	maxTimeout = 24 * time.Hour
)

// Setting is one that all commands share.
type Setting struct {
	Name    string
	Default string
	Doc     string
	Bool    bool // true or false; the flag alone means true
	Secret  bool // never printed
	check   func(string) error
}

// Kind is what --help calls a setting's value.
func (s Setting) Kind() string {
	switch s.Name {
	case Timeout:
		return "duration"
	case TLSCA, TLSCert, TLSKey, SASLPasswordFile:
		return "file"
	}
	if s.Bool {
		return "bool"
	}
	return "string"
}

// All are the settings, in the order in which they are shown.
func All() []Setting {
	return []Setting{
		{Name: Brokers, Default: DefaultBrokers, Doc: "HOST:PORT of brokers, with commas", check: addresses},
		{Name: Admin, Default: DefaultAdmin, Doc: "HOST:PORT or URL of the admin port, or off", check: adminAddress},
		{Name: Timeout, Default: "30s", Doc: "longest time for a request or an acknowledgement", check: timeout},
		{Name: Output, Default: "table", Doc: "how answers are shown: table, wide, json or yaml", check: format},
		{Name: TLS, Default: "false", Doc: "speak TLS to the brokers; implied by the other tls settings", Bool: true, check: boolean},
		{Name: TLSCA, Doc: "PEM file of the certificate authorities that brokers are held against; without it the system's"},
		{Name: TLSCert, Doc: "PEM file of the client's certificate, with tls-key"},
		{Name: TLSKey, Doc: "PEM file of the client's key, with tls-cert"},
		{Name: TLSServerName, Doc: "name that the brokers' certificates must have, where it is not the dialled one"},
		{Name: TLSInsecure, Default: "false", Doc: "do not check the brokers' certificates: anybody may answer", Bool: true, check: boolean},
		{Name: SASL, Doc: "how to authenticate: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; by default not at all",
			check: oneOf("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")},
		{Name: SASLUser, Doc: "user to authenticate as"},
		{Name: SASLPassword, Doc: "the user's password, or the token of OAUTHBEARER; as a flag it is seen by everybody on this machine", Secret: true},
		{Name: SASLPasswordFile, Doc: "file whose first line is the password"},
	}
}

// Lookup finds a setting by name.
func Lookup(name string) (Setting, bool) {
	all := All()
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return all[i], true
}

// Names are the names of all settings.
func Names() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}

// Check says what is wrong with a value of the setting, and what to write.
func (s Setting) Check(value string) error {
	if s.check == nil {
		return nil
	}
	return s.check(value)
}

// Env is the variable of a setting: CHRONIKCTL_TLS_CA for tls-ca.
func Env(name string) string {
	return "CHRONIKCTL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(allowed, v) {
			return nil
		}
		return fmt.Errorf("%q is none of %s", v, strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" }), ", "))
	}
}

// format is how answers are shown. In kcat -o is an offset.
func format(v string) error {
	err := oneOf("table", "wide", "json", "yaml")(v)
	_, number := strconv.Atoi(v)
	if err != nil && (number == nil || slices.Contains([]string{"earliest", "latest", "beginning", "start", "end"}, v)) {
		return fmt.Errorf("%w; where to start is --from %s", err, v)
	}
	return err
}

func boolean(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return fmt.Errorf("%q is neither true nor false", v)
	}
	return nil
}

func timeout(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < minTimeout || d > maxTimeout {
		return fmt.Errorf("%q is no time between %v and %v; write 500ms, 30s or 2m", v, minTimeout, maxTimeout)
	}
	return nil
}

func addresses(v string) error {
	for _, at := range strings.Split(v, ",") {
		if err := address(strings.TrimSpace(at)); err != nil {
			return err
		}
	}
	return nil
}

// address accepts HOST, for Kafka's port, as well as HOST:PORT.
func address(at string) error {
	host, port, err := net.SplitHostPort(at)
	if err != nil && !strings.Contains(at, ":") {
		host, port, err = at, "9092", nil
	}
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil || host == "" || strings.ContainsAny(host, " /") || n < 1 || n > 65535 {
		return fmt.Errorf("%q is no HOST:PORT; write localhost:9092, or several with commas", at)
	}
	return nil
}

func adminAddress(v string) error {
	bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(v, "http://"), "https://"), "/")
	if v == Off || address(bare) == nil && strings.Contains(bare, ":") {
		return nil
	}
	return fmt.Errorf("%q is no HOST:PORT; write %s, or off", v, DefaultAdmin)
}

// Off is the admin address of a broker that has none.
const Off = "off"
