package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/chronik-io/chronik/pkg/durability"
)

// separator parts the levels of a key inside koanf. Kafka's names contain dots
// and are one level; no name contains this.
const separator = "\x00"

// Input is everything that a configuration is read from.
type Input struct {
	// Broker describes the settings under Kafka's names.
	Broker []Def
	// Profiles are durability profiles of the program, beside the file's own.
	Profiles []durability.Profile
	// Explain, where set, says what to do about a key that is no setting, for
	// names that people know from elsewhere. Empty is nothing.
	Explain func(key string) string
	// File is the path of the YAML file; empty for none. ReadFile reads it.
	File     string
	ReadFile func(path string) ([]byte, error)
	// Environ is os.Environ's list of NAME=value.
	Environ []string
	// Set holds the arguments of --set, in order: name=value.
	Set []string
	// Flags holds the values of the flags that were given, by setting.
	Flags map[string]string
}

// loader is one run of Load.
type loader struct {
	problems
	defs    map[string]Def
	names   []string // of defs, sorted
	explain func(key string) string
	values  *koanf.Koanf
	sources map[string]string
	cfg     Config
}

// Load reads all sources and checks the result. The error has a line for every
// problem, each an *Error. The warnings of the Config are to be logged.
func Load(in Input) (*Config, error) {
	l := &loader{values: koanf.New(separator), sources: make(map[string]string), explain: in.Explain, cfg: Config{File: in.File}}
	if err := l.define(in.Broker); err != nil {
		return nil, err
	}
	l.file(in)
	l.environ(in.Environ)
	l.set(in.Set)
	for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
		l.put("--"+strings.ReplaceAll(name, ".", "-"), name, in.Flags[name])
	}
	l.check()
	if err := l.err(); err != nil {
		return nil, err
	}
	l.settings()
	return &l.cfg, nil
}

// define gathers the names of all settings and their defaults.
func (l *loader) define(broker []Def) error {
	defaults := make(map[string]any)
	l.defs = make(map[string]Def)
	for _, d := range slices.Concat(Own(), broker) {
		if _, twice := l.defs[d.Name]; twice {
			return fmt.Errorf("setting %s is defined twice", d.Name)
		}
		l.defs[d.Name] = d
		defaults[d.Name] = d.Default
	}
	l.names = slices.Sorted(maps.Keys(l.defs))
	return l.values.Load(confmap.Provider(defaults, ""), nil)
}

// put takes one value from one source, over what is there.
func (l *loader) put(source, name, value string) {
	d := l.defs[name]
	if d.Check != nil {
		if err := d.Check(value); err != nil {
			l.add(source, name, problem(name, value, err))
			return
		}
	}
	if err := l.values.Load(confmap.Provider(map[string]any{name: value}, ""), nil); err != nil {
		l.add(source, name, err.Error())
		return
	}
	l.sources[name] = source
}

// problem is what a check said, with the value to write where the one given
// has a unit that the setting's name already says.
func problem(name, value string, err error) string {
	if want, terr := translate(name, value); terr == nil && want != value {
		unit := name[strings.LastIndexByte(name, '.')+1:]
		return fmt.Sprintf("%q is not a plain number of %s, which the name already says; write %s", value, unit, want)
	}
	return err.Error()
}

func (l *loader) value(name string) string { return l.values.String(name) }

func (l *loader) source(name string) string {
	if s, ok := l.sources[name]; ok {
		return s
	}
	return SourceDefault
}

// set takes the arguments of --set.
func (l *loader) set(args []string) {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		switch _, known := l.defs[name]; {
		case name == "":
			l.add("--set", arg, "has no name; write --set name=value")
		case !ok:
			l.add("--set", arg, "has no value; write --set name=value")
		case !known:
			l.add("--set", name, l.unknown(name, l.names))
		default:
			l.put("--set", name, value)
		}
	}
}

// unknown is the problem of a key that is no setting.
func (l *loader) unknown(name string, known []string) string {
	if l.explain != nil {
		if text := l.explain(name); text != "" {
			return text
		}
	}
	return unknown("key", name, known, "`chronikd config print-defaults` lists all of them")
}

// check looks at what only all sources together can tell.
func (l *loader) check() {
	if l.err() != nil {
		return // the values that are there are not the ones that were meant
	}
	l.cfg.DataDir = l.value(KeyDataDir)
	l.cfg.MetricsPartitions = l.value(KeyMetricsEach) == "true"
	l.cfg.LogLevel, l.cfg.LogFormat = l.value(KeyLogLevel), l.value(KeyLogFormat)
	if a := l.value(KeyAdminListen); a != Off {
		l.cfg.AdminListen = a
	}
	for name := range strings.SplitSeq(l.value(KeyAdminHosts), ",") {
		if name = strings.TrimSpace(name); name != "" {
			l.cfg.AdminHosts = append(l.cfg.AdminHosts, name)
		}
	}
	l.cfg.AdminRemote = l.value(KeyAdminRemote) == "true"
	l.listeners()
	l.cfg.WALProfile = l.value(KeyWALProfile)
	if _, err := l.cfg.Durability.Lookup(l.cfg.WALProfile); err != nil {
		l.add(l.source(KeyWALProfile), KeyWALProfile, err.Error())
	}
	preset, err := durability.LookupPreset(l.value(KeyProduceProfile))
	if err != nil {
		l.add(l.source(KeyProduceProfile), KeyProduceProfile, err.Error())
	}
	l.cfg.Produce = preset
	l.cfg.Broker = make(map[string]string)
	own := make(map[string]bool)
	for _, d := range Own() {
		own[d.Name] = true
	}
	for name := range l.sources {
		if !own[name] {
			l.cfg.Broker[name] = l.value(name)
		}
	}
}

func (l *loader) settings() {
	for _, name := range l.names {
		l.cfg.Settings = append(l.cfg.Settings, Setting{Name: name, Value: l.value(name), Source: l.source(name)})
	}
}
