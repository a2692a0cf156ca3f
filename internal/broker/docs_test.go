package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

// The documentation lists exactly the APIs of the table.
func TestDocsListEveryAPI(t *testing.T) {
	table, err := Table(0)
	must(t, err)
	var b strings.Builder
	b.WriteString("| key | API | versions |\n|---|---|---|\n")
	for _, a := range table.APIs() {
		fmt.Fprintf(&b, "| %d | %s | %d to %d |\n", a.Key, a.Name(), a.Min, a.Max)
	}
	golden.Part(t, "../../docs/compatibility.md", "apis", b.String(), "go test ./internal/broker -run Docs")
}
