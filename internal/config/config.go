// Package config reads chronikd's configuration: defaults, then the YAML file, then CHRONIK_*
// variables, then --set, then flags. A later source overrides an earlier one.
//
// It owns the names, units and bounds of the daemon's own settings, and the syntax of all settings
// in each source. It does not own the broker settings with Kafka's names: the caller passes them as
// a list of Def, whose functions check the values.
//
// It promises that a value which it cannot interpret causes an error of one line with the source,
// the cause and what to write instead; that an unknown key causes an error that names the closest
// known key; and that loading changes nothing on disk. The daemon calls it. It knows no component
// of the broker.
package config

import (
	"errors"
	"reflect"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Names of the daemon's own settings, as the file writes them. The variable of data.dir is
// CHRONIK_DATA_DIR, its flag --data-dir.
const (
	KeyDataDir           = "data.dir"
	KeyListen            = "listen"
	KeyAdvertise         = "advertise"
	KeyAdminListen       = "admin.listen"
	KeyAdminHosts        = "admin.hosts"
	KeyAdminRemote       = "admin.remote"
	KeyWALProfile        = "wal.profile"
	KeyProduceProfile    = "produce.profile"
	KeyLogLevel          = "log.level"
	KeyLogFormat         = "log.format"
	KeyMetricsPartitions = "metrics.partitions"
)

// Keys of the file that hold more than a single value.
const (
	keyListeners = "listeners"
	keyProfiles  = "profiles"
)

// Config is a configuration that has been checked as a whole.
type Config struct {
	// File is the path of the YAML file; empty if there is none.
	File string
	// DataDir holds the metadata and the first log directory.
	DataDir string
	// Listeners are the addresses for clients: at least one, with distinct names and addresses.
	Listeners []Listener
	// AdminListen is HOST:PORT of metrics, health and profiling, or empty for none.
	AdminListen string
	// AdminHosts are further names under which the admin port accepts requests, in addition to
	// those that it always accepts. AdminRemote permits requests from other machines that change
	// something or cost much.
	AdminHosts  []string
	AdminRemote bool
	// MetricsPartitions reports whether /metrics has series for each partition.
	MetricsPartitions bool
	// LogLevel is debug, info, warn or error; LogFormat auto, console or json.
	LogLevel, LogFormat string
	// WALProfile names the durability profile of topics without their own. Durability holds it, the
	// built-in profiles and those of the file.
	WALProfile string
	Durability *durability.Set
	// Security holds the settings of logins and rights, AdminSecurity those of the admin port.
	Security      Security
	AdminSecurity AdminSecurity
	// Produce limits the produce requests that may wait in the broker.
	Produce configdef.ProduceProfile
	// Broker holds the settings under Kafka's names that a source sets; the others have their
	// defaults.
	Broker map[string]string
	// Settings lists every single-valued setting with its source, sorted by name.
	Settings []Setting
	// Warnings are lines for the log about problems that do not prevent startup.
	Warnings []string
}

// Listener is one address that clients connect to.
type Listener struct {
	// Name is its name in logs and metrics: [a-zA-Z0-9_-]{1,32}.
	Name string
	// Listen is HOST:PORT to bind. An empty host means every address, port 0 a free port.
	Listen string
	// Advertise is the HOST:PORT that is advertised to clients. Empty means the address that the
	// client dialed.
	Advertise string
	// Forward: its address is that of all brokers, and requests are passed to the one that serves
	// them.
	Forward bool
	// TLS is nil for plain text.
	TLS *TLS
	// SASL lists the mechanisms of logins, in the order in which clients receive them. Empty:
	// clients do not log in.
	SASL []string
	// ClientCertificates is CertificatesNone without TLS.
	ClientCertificates ClientCertificates
	// MaxConnections is how many connections may be open, MaxConnectionRate how many new ones are
	// accepted in a second; 0 means no limit.
	MaxConnections, MaxConnectionRate int

	security, clientCerts string            // as written; empty: the default
	over                  map[string]string // the listener's own keys of `tls:`
}

// Source returns where a setting was set, or SourceDefault.
func (c *Config) Source(name string) string {
	for _, s := range c.Settings {
		if s.Name == name {
			return s.Source
		}
	}
	return SourceDefault
}

// Changed returns the names of the settings whose values differ in next, sorted. Lists of the file
// come last.
func (c *Config) Changed(next *Config) (names []string) {
	for i, s := range next.Settings { // both have all settings, in the same order
		if s.Value != c.Settings[i].Value {
			names = append(names, s.Name)
		}
	}
	if !reflect.DeepEqual(c.Listeners, next.Listeners) {
		names = append(names, keyListeners)
	}
	if !reflect.DeepEqual(c.Durability, next.Durability) {
		names = append(names, keyProfiles)
	}
	return names
}

// Setting is one effective value.
type Setting struct {
	Name, Value string
	// Source is SourceDefault or has the form of Error.Source.
	Source string
}

// SourceDefault is the source of a value that no source sets.
const SourceDefault = "default"

// LiveBySIGHUP is the Def.Live of settings that the broker reads again on SIGHUP.
const LiveBySIGHUP = "SIGHUP"

// LiveByClients is the Def.Live of settings that any client can change, with chronikctl or with
// Kafka's tools.
const LiveByClients = "chronikctl config set broker"

// Def describes one single-valued setting.
type Def struct {
	Name    string // as Kafka and the file write it: num.partitions
	Default string // as the file would write it
	Unset   bool   // there is no default, and Default is ignored
	Type    string // for people: int, long, boolean, string, list
	Bounds  string // for people, with the unit: "1 to 10,000"; may be empty
	Doc     string // its effect, and when to change it
	// Live tells people how to change it while the broker runs. Empty means with a restart.
	Live string
	// Broker names the broker config that clients see it as, if that is not Name. It is empty if
	// that is Name, or if clients do not see it.
	Broker string
	// Check returns an error that describes what is wrong with value. Nil accepts all values.
	Check func(value string) error
}

// Error is about one value or key that is invalid.
type Error struct {
	// Source is the file's path, a variable's name, --set or a flag's name.
	Source string
	// Key is the setting's name; empty if the source as a whole is unreadable.
	Key string
	// Problem is the cause and, after a semicolon, the remedy.
	Problem string
}

// Error returns all three in one line.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{e.Source, e.Key, e.Problem} {
		if p != "" {
			parts = append(parts, strings.ReplaceAll(p, "\n", " "))
		}
	}
	return strings.Join(parts, ": ")
}

// problems collects errors so that all of them can be reported at once.
type problems struct{ errs []error }

func (p *problems) add(source, key, problem string) {
	p.errs = append(p.errs, &Error{Source: source, Key: key, Problem: problem})
}

func (p *problems) err() error { return errors.Join(p.errs...) }
