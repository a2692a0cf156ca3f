package resolve

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/internal/testing/must"
)

const reference = "../../../docs/configuration.md"

// generated compares the part of a document between its markers with want.
func generated(t *testing.T, path, part, want string) {
	t.Helper()
	golden.Part(t, path, part, want, "go test ./internal/config/resolve -run Docs")
}

// The reference is generated from the definitions that the loader checks values with,
// print-defaults prints and DescribeConfigs shows to clients.
func TestDocsListEverySetting(t *testing.T) {
	reg := defaultRegistry(t)
	var b strings.Builder
	b.WriteString("| setting | flag | default | values | while running | clients see it as | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, d := range config.Own() {
		flag := ""
		if slices.Contains(config.Flagged(), d.Name) {
			flag = code("--" + config.FlagName(d.Name))
		}
		row(&b, code(d.Name), flag, code(d.Default), values(d.Type, d.Bounds), orRestart(d.Live), code(d.Broker), d.Doc)
	}
	generated(t, reference, "own settings", b.String())

	b.Reset()
	b.WriteString("| setting | default | values | while running | meaning |\n|---|---|---|---|---|\n")
	derived := topicDefaults(reg)
	for _, d := range Settings(reg) {
		if derived[d.Name] == "" {
			row(&b, code(d.Name), defaultOf(d.Default, d.Unset), values(d.Type, d.Bounds), orRestart(d.Live), d.Doc)
		}
	}
	generated(t, reference, "broker settings", b.String())

	b.Reset()
	b.WriteString("| setting | sets | default | values | while running |\n|---|---|---|---|---|\n")
	for _, d := range Settings(reg) {
		if topic := derived[d.Name]; topic != "" {
			row(&b, code(d.Name), topic, defaultOf(d.Default, d.Unset), values(d.Type, d.Bounds), orRestart(d.Live))
		}
	}
	generated(t, reference, "topic defaults", b.String())
	generated(t, reference, "topic configs", single(reg.Topics()))
	generated(t, reference, "group configs", single(reg.GroupDefs()))
	generated(t, reference, "client-metrics configs", single(reg.SubscriptionDefs()))
}

// Settings of Kafka's that chronik rejects are also listed, so that a search finds them.
func TestDocsListWhatIsRefused(t *testing.T) {
	reg := defaultRegistry(t)
	byRemedy := make(map[string][]string)
	for _, name := range slices.Concat(reg.ForeignBrokers(), reg.ForeignTopics(), reg.ForeignGroups()) {
		if _, renamed := config.AliasOf(name); renamed || config.Known(name) {
			continue
		}
		text := configdef.Remedy(name)
		if !slices.Contains(byRemedy[text], code(name)) { // brokers and topics may have one name for it
			byRemedy[text] = append(byRemedy[text], code(name))
		}
	}
	var b strings.Builder
	b.WriteString("| names | what to do |\n|---|---|\n")
	general := configdef.Remedy("")
	for _, text := range append(slices.DeleteFunc(slices.Sorted(maps.Keys(byRemedy)),
		func(s string) bool { return s == general }), general) {
		row(&b, strings.Join(byRemedy[text], ", "), text)
	}
	generated(t, reference, "refused configs", b.String())
}

// The page about Kafka has those of topics and groups, which clients set.
func TestDocsListMissingConfigs(t *testing.T) {
	reg := defaultRegistry(t)
	var b strings.Builder
	b.WriteString("| of a | config | what to do |\n|---|---|---|\n")
	for _, name := range reg.ForeignTopics() {
		row(&b, "topic", code(name), configdef.Remedy(name))
	}
	for _, name := range reg.ForeignGroups() {
		row(&b, "group", code(name), configdef.Remedy(name))
	}
	generated(t, "../../../docs/compatibility.md", "missing configs", b.String())
}

// Kafka's names that the file takes in place of chronik's.
func TestDocsListKafkasNames(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Kafka's name | sets |\n|---|---|\n")
	for _, kafka := range config.Aliases() {
		name, _ := config.AliasOf(kafka)
		row(&b, code(kafka), name)
	}
	generated(t, reference, "Kafka's names", b.String())
}

// Each broker config that clients can query is set under its own name or by one of the daemon's
// settings, which says so and states correctly whether it is dynamic.
func TestEveryBrokerConfigHasASetting(t *testing.T) {
	reg := defaultRegistry(t)
	byConfig := make(map[string]config.Def)
	for _, d := range slices.Concat(Settings(reg), config.Own()) {
		name := d.Name
		if d.Broker != "" {
			name = d.Broker
		}
		byConfig[name] = d
	}
	for _, d := range reg.Brokers() {
		s, ok := byConfig[d.Name]
		if !ok {
			t.Errorf("no setting sets %s", d.Name)
		}
		if (s.Live != "") != (d.Update != configdef.ReadOnly) {
			t.Errorf("%s: %q contradicts the config's update mode", s.Name, s.Live)
		}
	}
	for name := range elsewhere() {
		if byConfig[name].Broker != name {
			t.Errorf("%s is set by another setting, and no setting names it", name)
		}
	}
}

// Every definition that limits its values says so: otherwise people would have to find out the
// limits of a number or the kinds of a text.
func TestEveryBoundedConfigSaysItsBounds(t *testing.T) {
	reg := defaultRegistry(t)
	for _, d := range slices.Concat(reg.Brokers(), reg.Topics(), reg.GroupDefs()) {
		if d.Doc == "" {
			t.Errorf("%s has no documentation", d.Name)
		}
		for _, odd := range []string{"-9223372036854775808", "0", "no such value"} {
			if d.Bounds != "" || d.Type == configdef.Boolean {
				break
			}
			if _, numeric := map[configdef.Type]bool{configdef.Int: true, configdef.Short: true, configdef.Long: true,
				configdef.Double: true}[d.Type]; numeric == (odd == "no such value") {
				continue
			}
			if err := d.Check(odd); err != nil && !strings.Contains(err.Error(), "Not a number of type") {
				t.Errorf("%s rejects %s (%v) and does not state its bounds", d.Name, odd, err)
			}
		}
	}
}

func defaultRegistry(t *testing.T) *configdef.Registry {
	t.Helper()
	cfg, err := Load(config.Input{})
	must.OK(t, err)
	return Registry(cfg.Durability)
}

// topicDefaults returns the broker configs that are only the default of a topic config, each with
// that topic config and, if it differs, the unit.
func topicDefaults(reg *configdef.Registry) map[string]string {
	units := map[int64]string{1: "", 60_000: ", in minutes", 3_600_000: ", in hours"}
	all := make(map[string]string)
	for _, d := range reg.Topics() {
		for _, s := range d.Synonyms {
			all[s.Name] = code(d.Name) + units[s.Scale]
		}
	}
	return all
}

// single returns the table of the configs of topics or of groups.
func single(defs []*configdef.Def) string {
	ours := make(map[string]string)
	for _, d := range config.Own() {
		ours[d.Broker] = d.Name
	}
	var b strings.Builder
	b.WriteString("| config | default | values | the broker's default is set by | meaning |\n|---|---|---|---|---|\n")
	for _, d := range defs {
		var by []string
		for _, s := range d.Synonyms {
			name := s.Name
			if own, ok := ours[name]; ok {
				name = own
			}
			by = append(by, code(name))
		}
		row(&b, code(d.Name), code(d.Default), values(strings.ToLower(d.Type.String()), d.Bounds), strings.Join(by, ", "), d.Doc)
	}
	return b.String()
}

func row(b *strings.Builder, cells ...string) {
	for i, c := range cells {
		cells[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(c)
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func defaultOf(value string, unset bool) string {
	if unset {
		return "not set"
	}
	return code(value)
}

func values(typ, bounds string) string {
	if bounds == "" {
		return typ
	}
	if typ == "list" {
		bounds = strings.Replace(bounds, "one of ", "any of ", 1)
	}
	return typ + ": " + bounds
}

func orRestart(live string) string {
	switch live {
	case "":
		return "no"
	case config.LiveByClients:
		return "yes"
	}
	return code(live)
}
