package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// The table in docs/log.md is the list of kinds, and a test plants damage of every kind.
func TestDocsListEveryKind(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| kind | what it is | the broker at startup | repair | what is lost |\n|---|---|---|---|---|\n")
	for _, k := range inspect.Kinds() {
		repair := k.Repair
		switch {
		case repair == "" && k.Effect == inspect.Heals:
			repair = "not needed"
		case repair == "" && k.Effect == inspect.Aside:
			repair = "none: move it away when its contents are no longer needed"
		case repair == "":
			repair = "none"
		}
		fmt.Fprintf(&b, "| `%s` | %s | *%s*: %s | %s | %s |\n", k.Kind, k.Means, k.Effect, k.Start, repair, k.Costs)
	}
	golden.Part(t, "../../docs/log.md", "kinds", b.String(), "go test ./internal/inspect -run Docs")
	planted := map[inspect.Kind]bool{
		// Other tests plant these.
		inspect.MetadataMissing: true, inspect.MetadataDamaged: true, inspect.MetadataOlder: true, inspect.MetadataTorn: true,
		inspect.MemberDamaged: true, inspect.MemberMissing: true,
		inspect.LogMissing: true, inspect.Unreadable: true,
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
