package resolve

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/pkg/durability"
)

// elsewhere maps broker configs that the daemon derives from its own settings to the text that says
// how to set them.
func elsewhere() map[string]string {
	return map[string]string{
		"listeners":                    "is a list; write it in the file as listeners: [{listen: HOST:PORT}], or use listen for the first",
		"advertised.listeners":         "is set as advertise of each entry of `listeners:`, or as advertise for the first",
		configdef.ProduceProfileConfig: "is set as " + config.KeyProduceProfile + " (CHRONIK_PRODUCE_PROFILE)",
		configdef.DurabilityProfile:    "is set as " + config.KeyWALProfile + " (CHRONIK_WAL_PROFILE)",
	}
}

// Registry returns all broker and topic configs, with these durability profiles.
func Registry(profiles configdef.Profiles) *configdef.Registry {
	var produce []string
	for _, p := range configdef.ProduceProfiles() {
		produce = append(produce, p.Name)
	}
	return configdef.New(configdef.Options{Profiles: profiles, ProduceProfiles: produce})
}

// Settings returns the settings under Kafka's names that the file, the environment and --set
// accept.
func Settings(reg *configdef.Registry) []config.Def {
	hidden := elsewhere()
	var defs []config.Def
	for _, d := range reg.Brokers() {
		if _, ok := hidden[d.Name]; ok {
			continue
		}
		live := ""
		if d.Update != configdef.ReadOnly {
			live = config.LiveByClients
		}
		defs = append(
			defs,
			config.Def{Name: d.Name, Default: d.Default, Unset: !d.HasDefault, Type: strings.ToLower(d.Type.String()), Doc: d.Doc,
				Bounds: d.Bounds, Live: live,
				Check: func(v string) error { return plain(d, v, d.Check(v)) }},
		)
	}
	return defs
}

// plain removes from Kafka's error text what the line says already, and replaces the names of Java
// types with what to write.
func plain(d *configdef.Def, value string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if begin, rest, ok := strings.Cut(text, " for configuration "+d.Name+": "); ok && strings.HasPrefix(begin, "Invalid value ") {
		text = rest
	}
	if strings.HasPrefix(text, "Not a number of type ") {
		text = map[configdef.Type]string{
			configdef.Short:  "write a whole number, at most 32767",
			configdef.Int:    "write a whole number, at most 2147483647",
			configdef.Long:   "write a whole number, at most 9223372036854775807",
			configdef.Double: "write a number, with a decimal point if it is not whole",
		}[d.Type]
		if unit, such := config.UnitHint(d.Name); unit != "" {
			text = strings.Replace(text, "number", "number of "+unit, 1) + ", or one with a unit, such as " + such
		}
	}
	return fmt.Errorf("invalid value %q: %s", value, text)
}

// explain returns a function that returns the remedy for a key that is not a setting.
func explain(reg *configdef.Registry) func(string) string {
	return func(key string) string {
		if text := elsewhere()[key]; text != "" {
			return text
		}
		if d := reg.Topic(key); d != nil && d.Supported {
			text := "is a topic's config; set it with chronikctl config set topic NAME"
			if len(d.Synonyms) > 0 {
				text += ", or for all topics as " + d.Synonyms[0].Name
			}
			return text
		}
		if reg.Foreign(key) || reg.Topic(key) != nil {
			return "Kafka has this setting and chronik does not act on it; " + configdef.Remedy(key)
		}
		return ""
	}
}

// Load reads the configuration from all sources and checks it as a whole against the registry that
// the broker will use. It sets in.Broker and in.Explain.
func Load(in config.Input) (*config.Config, error) {
	cfg, err := Read(in)
	if err != nil {
		return nil, err
	}
	if in.Absolute {
		if err := absolute(cfg.Broker); err != nil {
			return nil, sourced(cfg, err)
		}
	}
	if cfg.Broker["log.dirs"] == "" {
		if err := checkDefault(cfg.DataDir); err != nil {
			return nil, sourced(cfg, err)
		}
	}
	all := Static(cfg)
	if err := Registry(cfg.Durability).CheckStatic(all); err != nil {
		return nil, sourced(cfg, err)
	}
	if err := checkPlaces(cfg.DataDir, all); err != nil {
		return nil, sourced(cfg, err)
	}
	if err := checkCluster(cfg, all); err != nil {
		return nil, sourced(cfg, err)
	}
	return cfg, nil
}

// Read is Load without the checks of settings that have to go together.
func Read(in config.Input) (*config.Config, error) {
	builtin, err := durability.NewSet()
	if err != nil {
		return nil, err
	}
	names := Registry(builtin)
	in.Broker, in.Explain = Settings(names), explain(names)
	return config.Load(in)
}

// sourced adds to an error that names several settings where each of them was set, as each may come
// from a different source.
func sourced(cfg *config.Config, err error) error {
	text := err.Error()
	var set []string
	for _, s := range cfg.Settings {
		if s.Source != config.SourceDefault && slices.Contains(strings.FieldsFunc(text, notInNames), s.Name) {
			set = append(set, fmt.Sprintf("%s = %s (%s)", s.Name, s.Value, s.Source))
		}
	}
	if len(set) == 0 {
		return err
	}
	return fmt.Errorf("%w; set are %s", err, strings.Join(set, ", "))
}

func notInNames(c rune) bool {
	return c != '.' && c != '_' && c != '-' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
}

// Static returns the broker's configs as clients describe them: those that were set under Kafka's
// names, and those that the daemon's own settings determine.
func Static(cfg *config.Config) map[string]string {
	all := make(map[string]string, len(cfg.Broker)+4)
	for name, value := range cfg.Broker {
		all[name] = value
	}
	var bound, advertised []string
	for _, l := range cfg.Listeners {
		bound = append(bound, l.Name+"://"+l.Listen)
		if l.MaxConnections > 0 {
			all[configdef.ListenerMostName(l.Name)] = strconv.Itoa(l.MaxConnections)
		}
		if l.MaxConnectionRate > 0 {
			all[configdef.ListenerRateName(l.Name)] = strconv.Itoa(l.MaxConnectionRate)
		}
		if l.Advertise != "" {
			advertised = append(advertised, l.Name+"://"+l.Advertise)
		}
	}
	all["listeners"] = strings.Join(bound, ",")
	if len(advertised) > 0 {
		all["advertised.listeners"] = strings.Join(advertised, ",")
	}
	if all["log.dirs"] == "" {
		all["log.dirs"] = path.Join(cfg.DataDir, LogsDir)
	}
	if seeds := all["cluster.seeds"]; seeds != "" && all["default.replication.factor"] == "" {
		all["default.replication.factor"] = strconv.Itoa(min(3, 1+strings.Count(seeds, ",")))
	}
	// A default is left out, so that it is not described as a value that an operator set.
	for _, s := range cfg.Settings {
		switch {
		case s.Source == config.SourceDefault:
		case s.Name == config.KeyProduceProfile:
			all[configdef.ProduceProfileConfig] = cfg.Produce.Name
		case s.Name == config.KeyWALProfile:
			all[configdef.DurabilityProfile] = cfg.WALProfile
		}
	}
	return all
}
