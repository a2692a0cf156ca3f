package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Input holds the sources of a configuration.
type Input struct {
	// Broker describes the settings under Kafka's names.
	Broker []Def
	// Absolute makes relative log directories begin at the present working directory for good: that
	// of the process may change.
	Absolute bool
	// Defaults replace those of the settings, by name.
	Defaults map[string]string
	// Profiles are durability profiles of the program, in addition to those of the file.
	Profiles []durability.Profile
	// Explain, if set, returns what to do about a key that is not a setting, for names that people
	// know from elsewhere; "" if it does not know the key.
	Explain func(key string) string
	// File is the path of the YAML file; empty for none. ReadFile reads it.
	File     string
	ReadFile func(path string) ([]byte, error)
	// Environ is a list of NAME=value, as os.Environ returns it.
	Environ []string
	// Set holds the arguments of --set, in order: name=value.
	Set []string
	// Flags holds the values of the flags that are set, by setting.
	Flags map[string]string
}

// loader is the state of one call of Load.
type loader struct {
	problems
	defs     map[string]Def
	defaults map[string]string // Input.Defaults
	names    []string          // of defs, sorted
	explain  func(key string) string
	values   map[string]string // of all settings
	written  map[string]string // as the source has them, with or without a unit
	kafka    map[string]given  // by Kafka's name, what depends on several sources
	sources  map[string]string
	cfg      Config
}

// Load reads all sources and checks the result. The error has a line for every problem, each an
// *Error. The caller should log the warnings of the Config.
func Load(in Input) (*Config, error) {
	l := &loader{values: make(map[string]string), written: make(map[string]string), sources: make(map[string]string),
		kafka: make(map[string]given), explain: in.Explain, cfg: Config{File: in.File}}
	if err := l.define(in.Broker, in.Defaults); err != nil {
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

// define collects the names of all settings and their defaults.
func (l *loader) define(broker []Def, defaults map[string]string) error {
	l.defs = make(map[string]Def)
	for _, d := range slices.Concat(Own(), broker) {
		if _, twice := l.defs[d.Name]; twice {
			return fmt.Errorf("setting %s is defined twice", d.Name)
		}
		l.defs[d.Name] = d
		l.values[d.Name] = d.Default
	}
	maps.Copy(l.values, defaults)
	l.defaults = defaults
	l.names = slices.Sorted(maps.Keys(l.defs))
	return nil
}

// put sets a value from one source, which overrides those of earlier sources. If the setting's name
// ends in a unit, the value may have another one.
func (l *loader) put(source, name, value string) {
	given := value
	value = plainNumber(name, given)
	if check := l.defs[name].Check; check != nil {
		if err := check(value); err != nil {
			if value != given { // the operator must find the value in the source
				err = fmt.Errorf("%q: %w", given, err)
			}
			l.add(source, name, err.Error())
			return
		}
	}
	l.values[name], l.written[name], l.sources[name] = value, given, source
}

func (l *loader) value(name string) string { return l.values[name] }

func (l *loader) source(name string) string {
	if s, ok := l.sources[name]; ok {
		return s
	}
	return SourceDefault
}

// set reads the arguments of --set.
func (l *loader) set(args []string) {
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		_, known := l.defs[name]
		_, kafka := aliases()[name]
		switch {
		case name == "":
			l.add("--set", arg, "has no name; write --set name=value")
		case !ok:
			l.add("--set", arg, "has no value; write --set name=value")
		case kafka:
			l.alias("--set", name, value)
		case !known:
			l.add("--set", name, l.unknown(name, l.names))
		default:
			l.put("--set", name, value)
		}
	}
}

// unknown returns the problem of a key that is not a setting.
func (l *loader) unknown(name string, known []string) string {
	if rest, ok := strings.CutPrefix(name, "listener.name."); ok {
		listener, config, _ := strings.Cut(rest, ".")
		if field := strings.ReplaceAll(config, ".", "-"); field == fieldMaxConns || field == fieldMaxRate {
			return "is not read; write " + field + " in the entry of `listeners:` whose name is " + listener
		}
		return "is not read; write the setting in the entry of `listeners:` whose name is " + listener
	}
	if l.explain != nil {
		if text := l.explain(name); text != "" {
			return text
		}
	}
	return unknown("key", name, known, "`chronikd config print-defaults` lists all of them")
}

// check checks what depends on more than one source.
func (l *loader) check() {
	if l.err() != nil {
		return // the values are incomplete
	}
	l.cfg.DataDir = l.value(KeyDataDir)
	l.cfg.MetricsPartitions = l.value(KeyMetricsPartitions) == "true"
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
	l.security()
	l.cfg.WALProfile = l.value(KeyWALProfile)
	if _, err := l.cfg.Durability.Lookup(l.cfg.WALProfile); err != nil {
		l.add(l.source(KeyWALProfile), KeyWALProfile, err.Error())
	}
	produce, err := configdef.LookupProduceProfile(l.value(KeyProduceProfile))
	if err != nil {
		l.add(l.source(KeyProduceProfile), KeyProduceProfile, err.Error())
	}
	l.cfg.Produce = produce
	l.cfg.Broker = make(map[string]string)
	own := make(map[string]bool)
	for _, d := range Own() {
		own[d.Name] = true
	}
	for name := range l.defaults {
		if !own[name] {
			l.cfg.Broker[name] = l.value(name)
		}
	}
	for name := range l.sources {
		if !own[name] {
			l.cfg.Broker[name] = l.value(name)
		}
		if why := configdef.Unitless(name, l.written[name]); why != "" { // records would be deleted without a question
			l.add(l.source(name), name, strings.TrimPrefix(why, name+"=")+"; write the one that you mean")
		}
	}
}

func (l *loader) settings() {
	for _, name := range l.names {
		l.cfg.Settings = append(l.cfg.Settings, Setting{Name: name, Value: l.value(name), Source: l.source(name)})
	}
}
