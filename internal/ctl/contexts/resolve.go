package contexts

import (
	"fmt"
	"strings"
	"time"
)

// EnvContext is the variable that stands for --context.
const EnvContext = "CHRONIKCTL_CONTEXT"

// EnvBrokers is another variable for brokers, which chronikd's environment may
// hold too. Env(Brokers) goes over it.
const EnvBrokers = "CHRONIK_BROKERS"

// Input is where settings are looked for.
type Input struct {
	Flags   map[string]string // of the flags that were given, by setting
	Getenv  func(string) string
	Context string // --context; empty where it was not given
	NoFile  bool   // leave the contexts file out
}

// Value is a setting's value and where it was found.
type Value struct {
	Text   string
	Source string
}

// Settings are all settings of one run. The zero value has none.
type Settings struct {
	values  map[string]Value
	Context string // the context's name; empty for none
}

// Resolve finds every setting. Where something is wrong the error names the
// place.
func Resolve(in Input) (Settings, error) {
	name, said := in.Context, "--context"
	if name == "" {
		name, said = in.Getenv(EnvContext), EnvContext
	}
	file := &File{}
	if !in.NoFile {
		var err error
		if file, err = Load(Path(in.Getenv)); err == nil {
			err = file.CheckCurrent()
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
	for _, x := range All() {
		v := find(x, in, context, name)
		if err := x.Check(v.Text); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", v.Source, err)
		}
		s.values[x.Name] = v
	}
	return s, s.checkConflicts()
}

// find is the rule: flag, variable, context, default.
func find(s Setting, in Input, context map[string]string, name string) Value {
	if v, ok := in.Flags[s.Name]; ok {
		return Value{v, "--" + s.Name}
	}
	variables := []string{Env(s.Name)}
	if s.Name == Brokers {
		variables = append(variables, EnvBrokers)
	}
	for _, env := range variables {
		if v := in.Getenv(env); v != "" {
			return Value{v, env}
		}
	}
	if v, ok := context[s.Name]; ok {
		return Value{v, "context " + name}
	}
	return Value{s.Default, "default"}
}

// checkConflicts looks for settings that contradict each other.
func (s Settings) checkConflicts() error {
	has := func(name string) bool { return s.Get(name) != "" }
	source := func(name string) string { return s.values[name].Source }
	switch {
	case has(TLSCert) != has(TLSKey):
		one, other := TLSCert, TLSKey
		if has(TLSKey) {
			one, other = other, one
		}
		return fmt.Errorf("%s: %s needs %s beside it", source(one), one, other)
	case has(SASL) && !has(SASLPassword) && !has(SASLPasswordFile):
		return fmt.Errorf("%s: sasl %s needs a password: give %s or %s", source(SASL), s.Get(SASL), Env(SASLPassword), SASLPasswordFile)
	case has(SASL) && !has(SASLUser) && s.Get(SASL) != "OAUTHBEARER":
		return fmt.Errorf("%s: sasl %s needs a user: give %s", source(SASL), s.Get(SASL), SASLUser)
	case !has(SASL) && has(SASLUser):
		return fmt.Errorf("%s: %s without sasl: name the mechanism with %s", source(SASLUser), SASLUser, SASL)
	}
	return nil
}

// Get returns the text of a setting.
func (s Settings) Get(name string) string { return s.values[name].Text }

// Source says where a setting was found.
func (s Settings) Source(name string) string { return s.values[name].Source }

// Shown is Get for people: a secret is hidden.
func (s Settings) Shown(name string) string { return Shown(name, s.Get(name)) }

// Shown is a value for people: a secret is hidden.
func Shown(name, value string) string {
	if x, _ := Lookup(name); x.Secret && value != "" {
		return "(hidden)"
	}
	return value
}

// Bool is Get of a setting that is true or false.
func (s Settings) Bool(name string) bool {
	v := s.Get(name)
	return v == "1" || strings.EqualFold(v, "t") || strings.EqualFold(v, "true")
}

// Seeds are the brokers to ask first.
func (s Settings) Seeds() []string {
	var seeds []string
	for _, at := range strings.Split(s.Get(Brokers), ",") {
		seeds = append(seeds, strings.TrimSpace(at))
	}
	return seeds
}

// Timeout is the longest time of one request.
func (s Settings) Timeout() time.Duration {
	d, _ := time.ParseDuration(s.Get(Timeout)) // checked by Resolve
	return d
}
