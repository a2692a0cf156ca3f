// Package config reads chronikd's configuration: defaults, then the YAML file,
// then CHRONIK_* variables, then --set, then flags, each over the one before.
//
// It owns the names, units and bounds of the daemon's own settings and the way
// that any setting is written in each source. Broker settings that have Kafka's
// meaning are not its own: it is given them as a list of Def and checks values
// with what stands there.
//
// It promises that a value which is not understood is an error of one line that
// says where it came from, what is wrong and what to write instead; that an
// unknown key is an error that names the nearest known one; and that loading
// changes nothing on disk. The daemon calls it; it knows no room of the broker.
package config

import (
	"errors"
	"strings"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Names of the daemon's own settings, as the file writes them. The environment
// has CHRONIK_DATA_DIR for data.dir and so on; flags have --data-dir.
const (
	KeyDataDir        = "data.dir"
	KeyListen         = "listen"
	KeyAdvertise      = "advertise"
	KeyAdminListen    = "admin.listen"
	KeyAdminHosts     = "admin.hosts"
	KeyAdminRemote    = "admin.remote"
	KeyWALProfile     = "wal.profile"
	KeyProduceProfile = "produce.profile"
	KeyLogLevel       = "log.level"
	KeyLogFormat      = "log.format"
	KeyMetricsEach    = "metrics.partitions"
)

// Keys of the file that are no single value.
const (
	keyListeners = "listeners"
	keyProfiles  = "profiles"
)

// Config is a configuration that was checked as a whole.
type Config struct {
	// File is the path of the YAML file; empty where there is none.
	File string
	// DataDir holds the metadata file and the first log directory.
	DataDir string
	// Listeners are where clients connect: at least one, names and addresses
	// distinct.
	Listeners []Listener
	// AdminListen is HOST:PORT of metrics, health and profiling, or empty for none.
	AdminListen string
	// AdminHosts are names under which the admin port may be asked, beside those that
	// are always known; AdminRemote says that other machines may do there what changes
	// or costs something.
	AdminHosts  []string
	AdminRemote bool
	// MetricsPartitions says whether /metrics has series for each partition.
	MetricsPartitions bool
	// LogLevel is debug, info, warn or error; LogFormat auto, console or json.
	LogLevel, LogFormat string
	// WALProfile names the durability profile of topics that have none of their
	// own; Durability has it, the built-in ones and the file's own.
	WALProfile string
	Durability *durability.Set
	// Produce bounds what producers may have waiting in the broker.
	Produce durability.ProducePreset
	// Broker holds the settings under Kafka's names that some source sets; what
	// is not in it has its default.
	Broker map[string]string
	// Settings says of every single-valued setting where its value came from,
	// sorted by name.
	Settings []Setting
	// Warnings are lines for the log: nothing that stops a start.
	Warnings []string
}

// Listener is one address that clients connect to.
type Listener struct {
	// Name is how logs and metrics call it: [a-zA-Z0-9_-]{1,32}.
	Name string
	// Listen is HOST:PORT to bind. An empty host is every address, port 0 a
	// free one.
	Listen string
	// Advertise is HOST:PORT that is advertised to clients. Empty means the
	// address that the client dialled.
	Advertise string
}

// Setting is one effective value.
type Setting struct {
	Name, Value string
	// Source is SourceDefault or what Error.Source would say.
	Source string
}

// SourceDefault is the source of a value that nobody set.
const SourceDefault = "default"

// LiveByClients is Def.Live of what any client can change, with chronikctl or with
// Kafka's tools.
const LiveByClients = "chronikctl config set broker"

// Def describes one single-valued setting.
type Def struct {
	Name    string // as Kafka and the file write it: num.partitions
	Default string // as the file would write it
	Unset   bool   // there is no default: Default means nothing
	Type    string // for people: int, long, boolean, string, list
	Bounds  string // for people, with the unit: "1 to 10,000"; may be empty
	Doc     string // what it does, and when to change it
	// Live says how it is changed while the broker runs. Empty: with a restart.
	Live string
	// Broker names the broker config that clients are told it as, where that is
	// not Name; empty for Name, or where clients are not told.
	Broker string
	// Check refuses a value with what is wrong about it. Nil accepts all.
	Check func(value string) error
}

// Error is one value or key that is not understood.
type Error struct {
	// Source is the file's path, a variable's name, --set or a flag's name.
	Source string
	// Key is the setting's name; empty where the source as a whole is unreadable.
	Key string
	// Problem is the cause and, after a semicolon, the remedy.
	Problem string
}

// Error says all three in one line.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{e.Source, e.Key, e.Problem} {
		if p != "" {
			parts = append(parts, strings.ReplaceAll(p, "\n", " "))
		}
	}
	return strings.Join(parts, ": ")
}

// problems gathers errors so that all of them can be told at once.
type problems struct{ errs []error }

func (p *problems) add(source, key, problem string) {
	p.errs = append(p.errs, &Error{Source: source, Key: key, Problem: problem})
}

func (p *problems) err() error { return errors.Join(p.errs...) }
