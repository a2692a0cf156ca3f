package config

import (
	"io"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/wrap"
)

// Defaults writes a configuration file in which every setting stands with its
// documentation and its default, commented out.
func Defaults(w io.Writer, broker []Def) error {
	var b strings.Builder
	b.WriteString("# chronikd's settings and their defaults. Every one can also be given as --set name=value\n" +
		"# and as a variable: CHRONIK_NUM_PARTITIONS for num.partitions.\n\n" +
		"# Where clients connect. A listener after the first needs a name and listen.\n" +
		"# listeners:\n#   - name: default\n#     listen: " + DefaultListen + "\n#     advertise: \"\"\n\n" +
		"# Durability profiles of your own, beside the built-in ones.\n" +
		"# profiles:\n#   patient:\n#     ack: synced\n#     sync: group\n#     max_wait: 20ms\n#     max_records: 5000\n#     max_bytes: 20MB\n")
	for _, d := range slices.Concat(Own(), sorted(broker)) {
		if d.Name == KeyListen || d.Name == KeyAdvertise {
			continue
		}
		b.WriteByte('\n')
		for _, line := range wrap.Text(d.Doc, 96) {
			b.WriteString("# " + line + "\n")
		}
		b.WriteString("# (" + strings.Join(d.Facts(), "; ") + ")\n")
		if d.Unset {
			b.WriteString("# " + d.Name + ":\n")
			continue
		}
		b.WriteString("# " + d.Name + ": " + quoted(d.Default) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Facts are the type and the bounds of a setting and how it can be changed, each a
// few words for people.
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
	return slices.SortedFunc(slices.Values(defs), func(a, b Def) int { return strings.Compare(a.Name, b.Name) })
}

// quoted writes a value so that YAML reads it back as the same text.
func quoted(v string) string {
	if v == "" || strings.ContainsAny(v, ":#{}[]&*!|>'\"%@`,") || strings.TrimSpace(v) != v {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
	}
	return v
}
