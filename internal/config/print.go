package config

import (
	"io"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
)

// essentials are the settings that most brokers change, in the order in which a new operator
// decides on them. `listeners:` precedes them, as it is not a single value.
var essentials = []string{
	KeyDataDir, "log.dirs", KeyAdminListen, KeyWALProfile, "num.partitions", "auto.create.topics.enable",
	"log.retention.hours", "log.retention.bytes", "message.max.bytes",
}

// Defaults writes a configuration file that contains every setting with its documentation and its
// default, commented out: the essentials first, then the daemon's other settings, then the broker's
// by name.
func Defaults(w io.Writer, broker []Def) error {
	all := slices.Concat(Own(), sorted(broker))
	var b strings.Builder
	b.WriteString("# chronikd's settings and their defaults. Each can also be given as --set name=value\n" +
		"# and as a variable: CHRONIK_NUM_PARTITIONS for num.partitions. Numbers of settings whose names end\n" +
		"# in .ms, .seconds, .minutes, .hours or .bytes may have a unit: 7d, 512MiB.\n\n" +
		heading("Settings that most brokers change") +
		"\n# Where clients connect. A listener after the first needs a name and listen. For clients on other\n" +
		"# machines listen on \":9092\". advertise is the address that clients dial after the first connection;\n" +
		"# empty means the address that the client dialed. `chronikd secure init DIR` writes a configuration\n" +
		"# with TLS and logins; without them everybody who reaches the port may do everything.\n" +
		"# listeners:\n#   - name: default\n#     listen: " + DefaultListen + "\n#     advertise: \"\"\n" +
		"#     security: plaintext\n#     sasl: []\n#     client-certificates: none\n")
	for _, name := range essentials {
		if i := slices.IndexFunc(all, func(d Def) bool { return d.Name == name }); i >= 0 {
			describe(&b, &all[i])
		}
	}
	b.WriteString("\n" + heading("All other settings") +
		"\n# Custom durability profiles, in addition to the built-in ones.\n" +
		"# profiles:\n#   patient:\n#     ack: synced\n#     sync: group\n#     max_wait: 20ms\n#     max_records: 5000\n#     max_bytes: 20MB\n")
	for i := range all {
		if d := &all[i]; !InListeners(d.Name) && !slices.Contains(essentials, d.Name) {
			describe(&b, d)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// heading returns a comment that separates parts of the file.
func heading(text string) string {
	return "# ---- " + text + " " + strings.Repeat("-", 90-len(text)) + "\n"
}

// describe writes one setting: its documentation, its facts and its default.
func describe(b *strings.Builder, d *Def) {
	b.WriteByte('\n')
	for _, line := range text.Wrap(d.Doc, 96) {
		b.WriteString("# " + line + "\n")
	}
	b.WriteString("# (" + strings.Join(d.Facts(), "; ") + ")\n")
	value := ""
	if !d.Unset {
		value = " " + quoted(d.Default)
	}
	b.WriteString("# " + d.Name + ":" + value + "\n")
}

// Facts returns the type and the bounds of a setting and how it can be changed, each a few words
// for people.
func (d *Def) Facts() []string {
	facts := []string{d.Type}
	if d.Bounds != "" {
		facts = append(facts, d.Bounds)
	}
	if d.Unset {
		facts = append(facts, "not set unless you do")
	}
	if d.Live != "" {
		facts = append(facts, "while running: "+d.Live)
	}
	return facts
}

func sorted(defs []Def) []Def {
	return sorts.Sorted(slices.Values(defs), func(a, b Def) int { return strings.Compare(a.Name, b.Name) })
}

// quoted writes a value so that YAML reads the same text from it.
func quoted(v string) string {
	if v == "" || strings.ContainsAny(v, ":#{}[]&*!|>'\"%@`,") || strings.TrimSpace(v) != v {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
	}
	return v
}
