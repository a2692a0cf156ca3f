package contexts

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// EnvContext is the variable for --context.
const EnvContext = "CHRONIKCTL_CONTEXT"

// EnvBrokers is another variable for brokers, which chronikd's environment may also contain.
// Env(Brokers) has priority over it.
const EnvBrokers = "CHRONIK_BROKERS"

// Input holds the sources of settings.
type Input struct {
	Flags   map[string]string // flags on the command line, by setting
	Getenv  func(string) string
	Context string // --context; empty if not given
	NoFile  bool   // ignore the contexts file
}

// Value is a setting's value and its source.
type Value struct {
	Text   string
	Source string
	rank   int // of the source in the order of find
}

// Settings holds the settings of one run. The zero value has none.
type Settings struct {
	values  map[string]Value
	Context string // the context's name; empty for none
	// NoFile is why there is no contexts file, if nothing else names the brokers either.
	NoFile error
	file   string // the contexts file if it holds a password
}

// Resolve determines every setting. An error names the source of the wrong value.
func Resolve(in Input) (Settings, error) {
	name, said := in.Context, "--context"
	if name == "" {
		name, said = in.Getenv(EnvContext), EnvContext
	}
	file, noFile := &File{}, error(nil)
	if !in.NoFile {
		var err error
		if file, err = Open(in.Getenv); err == nil {
			err = file.CheckCurrent()
		}
		if errors.Is(err, ErrNoPlace) && name == "" {
			file, noFile, err = &File{}, err, nil
		}
		if err != nil {
			return Settings{}, err
		}
	}
	if name == "" {
		name, said = file.Current, "current"
	}
	var context map[string]string
	if name != "" {
		var err error
		if context, err = file.Context(name); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", said, err)
		}
	}
	s := Settings{values: map[string]Value{}, Context: name}
	for _, c := range file.Contexts {
		if c[SASLPassword] != "" {
			s.file = file.Path
		}
	}
	for _, x := range All() {
		v := find(x, in, context, name)
		if err := x.Check(v.Text); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", v.Source, err)
		}
		s.values[x.Name] = v
	}
	if inline, file := s.values[SASLPassword], s.values[SASLPasswordFile]; inline.Text != "" && file.Text != "" &&
		file.rank < inline.rank {
		s.values[SASLPassword] = Value{} // that of a context, for example, to which a flag is the exception
	}
	if s.Source(Brokers) == sourceDefault {
		s.NoFile = noFile
	}
	return s, s.checkConflicts()
}

// sourceDefault is the source of a value that nothing else sets.
const sourceDefault = "default"

// find returns a setting from the first source that has it: flag, variable, context, default.
func find(s Setting, in Input, context map[string]string, name string) Value {
	if v, ok := in.Flags[s.Name]; ok {
		return Value{v, "--" + s.Name, 0}
	}
	variables := []string{Env(s.Name)}
	if s.Name == Brokers {
		variables = append(variables, EnvBrokers)
	}
	for _, env := range variables {
		if v := in.Getenv(env); v != "" {
			return Value{v, env, 1}
		}
	}
	if v, ok := context[s.Name]; ok {
		return Value{v, "context " + name, 2}
	}
	return Value{s.Default, sourceDefault, 3}
}

// checkConflicts returns an error for settings that contradict each other.
func (s Settings) checkConflicts() error {
	has := func(name string) bool { return s.Get(name) != "" }
	source := func(name string) string { return s.values[name].Source }
	switch {
	case has(TLSCert) != has(TLSKey):
		one, other := TLSCert, TLSKey
		if has(TLSKey) {
			one, other = other, one
		}
		return fmt.Errorf("%s: %s requires %s", source(one), one, other)
	case has(SASL) && !has(SASLPassword) && !has(SASLPasswordFile):
		return fmt.Errorf("%s: sasl %s requires a password: give %s or %s", source(SASL), s.Get(SASL), Env(SASLPassword), SASLPasswordFile)
	case has(SASL) && !has(SASLUser) && s.Get(SASL) != "OAUTHBEARER":
		return fmt.Errorf("%s: sasl %s requires a user: give %s", source(SASL), s.Get(SASL), SASLUser)
	case !has(SASL) && has(SASLUser):
		return fmt.Errorf("%s: %s without sasl: give the mechanism with %s", source(SASLUser), SASLUser, SASL)
	}
	return nil
}

// Get returns the text of a setting.
func (s Settings) Get(name string) string { return s.values[name].Text }

// Source returns the source of a setting.
func (s Settings) Source(name string) string { return s.values[name].Source }

// Shown returns the text of a setting, with secrets hidden.
func (s Settings) Shown(name string) string { return Shown(name, s.Get(name)) }

// Shown returns value, or "(hidden)" if the setting is a secret.
func Shown(name, value string) string {
	if x, _ := Lookup(name); x.Secret && value != "" {
		return "(hidden)"
	}
	return value
}

// Bool returns a setting that is true or false.
func (s Settings) Bool(name string) bool {
	v := s.Get(name)
	return v == "1" || strings.EqualFold(v, "t") || strings.EqualFold(v, "true")
}

// Seeds returns the bootstrap brokers.
func (s Settings) Seeds() []string {
	var seeds []string
	for _, at := range strings.Split(s.Get(Brokers), ",") {
		seeds = append(seeds, strings.TrimSpace(at))
	}
	return seeds
}

// Timeout returns the timeout of a request.
func (s Settings) Timeout() time.Duration {
	d, _ := time.ParseDuration(s.Get(Timeout)) // Resolve has checked it
	return d
}
