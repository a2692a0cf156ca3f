package inspect_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/log.md")

const page = "../../docs/log.md"

// The table in docs/log.md is the list of kinds, and every kind has a test that plants it.
func TestDocsListEveryKind(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| kind | what it is | a start | repair | what that loses |\n|---|---|---|---|---|\n")
	for _, k := range inspect.Kinds() {
		repair := k.Repair
		switch {
		case repair == "" && k.Effect == inspect.Heals:
			repair = "not needed"
		case repair == "" && k.Effect == inspect.Aside:
			repair = "none: look at it, and move it away"
		case repair == "":
			repair = "none"
		}
		fmt.Fprintf(&b, "| `%s` | %s | *%s*: %s | %s | %s |\n", k.Kind, k.Means, k.Effect, k.Start, repair, k.Costs)
	}
	begin, end := "<!-- generated: kinds -->\n", "<!-- end: kinds -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no markers", page)
	}
	switch {
	case got == b.String():
	case !*update:
		t.Errorf("%s is not what the code says; run go test ./internal/inspect -run Docs -update", page)
	default:
		if err := os.WriteFile(page, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	planted := map[inspect.Kind]bool{
		// These have tests of their own.
		inspect.MetadataMissing: true, inspect.MetadataDamaged: true, inspect.MetadataTorn: true, inspect.LogMissing: true, inspect.Unreadable: true,
	}
	for _, p := range plants() {
		planted[p.kind] = true
	}
	for _, k := range inspect.Kinds() {
		if !planted[k.Kind] {
			t.Errorf("no test plants %s", k.Kind)
		}
	}
}
