package broker

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/compatibility.md")

// The documentation lists the APIs that there are, and says so when it does not.
func TestDocsListEveryAPI(t *testing.T) {
	const path, begin, end = "../../docs/compatibility.md", "<!-- generated: apis -->\n", "<!-- end: apis -->\n"
	table, err := Table()
	must(t, err)
	var b strings.Builder
	b.WriteString("| key | API | versions |\n|---|---|---|\n")
	for _, a := range table.APIs() {
		fmt.Fprintf(&b, "| %d | %s | %d to %d |\n", a.Key, a.Name(), a.Min, a.Max)
	}
	doc, err := os.ReadFile(path)
	must(t, err)
	head, rest, ok := strings.Cut(string(doc), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no generated part", path)
	case got == b.String():
	case *update:
		must(t, os.WriteFile(path, []byte(head+begin+b.String()+end+tail), 0o644))
	default:
		t.Errorf("%s does not list what the code has; run go test ./internal/broker -run Docs -update", path)
	}
}
