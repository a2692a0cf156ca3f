package contexts

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/cli"
)

// Names of the settings.
const (
	Brokers          = "brokers"
	Admin            = "admin"
	AdminTokenFile   = "admin-token-file"
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

// Addresses of a broker with default settings on this machine.
const (
	DefaultBrokers = "127.0.0.1:9092"
	DefaultAdmin   = "127.0.0.1:9644"
)

// timeouts returns the bounds of a timeout.
func timeouts() cli.Bounds[time.Duration] { return cli.Between(time.Millisecond, 24*time.Hour) }

// Setting is a setting that all commands share.
type Setting struct {
	Name    string
	Default string
	Doc     string
	Bool    bool // a boolean; the flag without a value means true
	Secret  bool // never printed
	check   func(string) error
}

// Kind returns the placeholder that --help shows for the value.
func (s Setting) Kind() string {
	switch s.Name {
	case Timeout:
		return "duration"
	case TLSCA, TLSCert, TLSKey, SASLPasswordFile, AdminTokenFile:
		return "file"
	}
	if s.Bool {
		return "bool"
	}
	return "string"
}

// All returns the settings in display order.
func All() []Setting {
	return []Setting{
		{Name: Brokers, Default: DefaultBrokers, Doc: "HOST:PORT of brokers, separated by commas", check: addresses},
		{Name: Admin, Default: DefaultAdmin, Doc: "HOST:PORT or URL of the admin port, of several brokers separated by commas, or off",
			check: adminAddress},
		{Name: AdminTokenFile, Doc: "file whose first line is the token of the admin port"},
		{Name: Timeout, Default: "30s", Doc: "longest time for a request or an acknowledgement, " + timeouts().String(), check: timeout},
		{Name: Output, Default: "table", Doc: "output format: table, wide, name, json, yaml or jsonpath=PATH", check: format},
		{Name: TLS, Default: "false", Doc: "use TLS; implied by the other tls settings", Bool: true, check: boolean},
		{Name: TLSCA, Doc: "PEM file of the certificate authorities to trust; default: those of the system"},
		{Name: TLSCert, Doc: "PEM file of the client's certificate; requires tls-key"},
		{Name: TLSKey, Doc: "PEM file of the client's key; requires tls-cert"},
		{Name: TLSServerName, Doc: "name in the brokers' certificates, if it is not their address"},
		{Name: TLSInsecure, Default: "false", Doc: "do not verify the brokers' certificates: insecure", Bool: true, check: boolean},
		{Name: SASL, Doc: "authentication: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; default: none",
			check: oneOf("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")},
		{Name: SASLUser, Doc: "user to authenticate as"},
		{Name: SASLPassword, Doc: "the user's password, or the token of OAUTHBEARER; other users of this machine can see it in a flag",
			Secret: true},
		{Name: SASLPasswordFile, Doc: "file whose first line is the password"},
	}
}

// Lookup returns the setting with this name.
func Lookup(name string) (Setting, bool) {
	all := All()
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return all[i], true
}

// Names returns the names of all settings.
func Names() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}

// Check returns an error with a remedy if a value is invalid.
func (s Setting) Check(value string) error {
	if s.check == nil {
		return nil
	}
	return s.check(value)
}

// Env returns the variable of a setting: CHRONIKCTL_TLS_CA for tls-ca.
func Env(name string) string {
	return "CHRONIKCTL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(allowed, v) {
			return nil
		}
		return fmt.Errorf("%q is none of %s", v,
			strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" }), ", "))
	}
}

// format checks an output format. In kcat -o is an offset, so its error may point to --from.
func format(v string) error {
	if strings.HasPrefix(v, "jsonpath=") {
		return nil // the program that prints knows the paths
	}
	err := oneOf("table", "wide", "name", "json", "yaml", "jsonpath=PATH")(v)
	_, number := strconv.Atoi(v)
	if err != nil && (number == nil || slices.Contains([]string{"earliest", "latest", "beginning", "start", "end"}, v)) {
		return fmt.Errorf("%w; --from %s sets the start", err, v)
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
	if err != nil || !timeouts().Accepts(d) {
		return fmt.Errorf("%q is not a duration from %s; write 500ms, 30s or 2m", v, timeouts())
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

// address accepts HOST:PORT, or HOST with Kafka's default port.
func address(at string) error {
	host, port, err := net.SplitHostPort(at)
	if err != nil && !strings.Contains(at, ":") {
		host, port, err = at, "9092", nil
	}
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil || host == "" || strings.ContainsAny(host, " /") || n < 1 || n > 65535 {
		return fmt.Errorf("%q is not HOST:PORT; write localhost:9092, or several separated by commas", at)
	}
	return nil
}

func adminAddress(v string) error {
	if v == Off {
		return nil
	}
	for _, at := range strings.Split(v, ",") {
		at = strings.TrimSpace(at)
		bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(at, "http://"), "https://"), "/")
		if address(bare) != nil || !strings.Contains(bare, ":") {
			return fmt.Errorf("%q is not HOST:PORT; write %s, several separated by commas, or off", at, DefaultAdmin)
		}
	}
	return nil
}

// Off is the value of Admin for a broker without an admin port.
const Off = "off"
