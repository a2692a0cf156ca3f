package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// The page lists the fields of JSON as the commands print them for a broker with a topic, a
// group and a client.
func TestDocsListTheFieldsOfJSON(t *testing.T) {
	b := chronik.StartTest(t, chronik.Options{Admin: "127.0.0.1:0", Settings: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
	home := t.TempDir()
	run := func(line string) string {
		t.Helper()
		var out, errs bytes.Buffer
		code := Main(t.Context(), strings.Fields(line), "v1", Streams{In: strings.NewReader("k:v\n"), Out: &out, Err: &errs,
			Getenv: func(name string) string {
				return map[string]string{"HOME": home, "CHRONIKCTL_BROKERS": b.Addr(), "CHRONIKCTL_ADMIN": b.AdminAddr()}[name]
			}})
		if code != 0 && code != 4 { // a check may find something about this machine
			t.Fatalf("%s: %d %s", line, code, errs.String())
		}
		return out.String()
	}
	run("topic create orders")
	run("produce orders -k : -H h=1")
	run("consume orders --group audit")
	run("produce orders -k : --transactional-id import")
	run("context set here brokers=" + b.Addr())
	var doc strings.Builder
	doc.WriteString("| command | fields |\n|---|---|\n")
	for _, line := range []string{
		"topic list", "topic describe orders", "topic create payments", "topic trim orders --before earliest --dry-run", "group list",
		"group describe audit",
		"group reset audit --to-latest --dry-run", "config get topic orders retention.ms", "consume orders",
		"txn list", "txn describe import", "broker list",
		"broker describe 1", "cluster describe", "cluster health", "api-versions",
		"profile list", "profile explain orders", "context list", "context show", "top --interval 100ms", "version",
	} {
		f := &fields{below: map[string]*fields{}}
		if err := f.gather(json.NewDecoder(strings.NewReader(run(line + " -o json")))); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		fmt.Fprintf(&doc, "| `%s` | %s |\n", line, f)
	}
	golden.Part(t, page, "fields", doc.String(), again)
}

// fields holds the field names of an object in order, with the fields inside them.
type fields struct {
	order []string
	below map[string]*fields
}

// gather adds the fields of the next value. It leaves out names that users choose, such as those
// of configs, and findings, which depend on the machine.
func (f *fields) gather(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	for start == json.Delim('[') && d.More() {
		if err := f.gather(d); err != nil {
			return err
		}
	}
	for start == json.Delim('{') && d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		key := name.(string)
		below := f.below[key]
		if below == nil {
			below = &fields{below: map[string]*fields{}}
			f.below[key] = below
			f.order = append(f.order, key)
		}
		if err := below.gather(d); err != nil {
			return err
		}
		if slices.Contains([]string{"configs", "assignment", "features", "findings"}, key) {
			*below = fields{}
		}
	}
	if start == json.Delim('[') || start == json.Delim('{') {
		_, err = d.Token()
	}
	return err
}

// String returns the names with the fields inside them: `a`, `b` (`c`, `d`).
func (f *fields) String() string {
	var all []string
	for _, name := range f.order {
		text := "`" + name + "`"
		if below := f.below[name].String(); below != "" {
			text += " (" + below + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
