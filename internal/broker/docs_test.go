package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/golden"
)

// The documentation lists exactly the APIs of the table.
func TestDocsListEveryAPI(t *testing.T) {
	alone, err := Table(0, false)
	must(t, err)
	table, err := Table(0, true)
	must(t, err)
	var b strings.Builder
	b.WriteString("| key | API | versions |\n|---|---|---|\n")
	for _, a := range table.APIs() {
		where := ""
		if _, ok := alone.Lookup(a.Key); !ok {
			where = ", in a cluster"
		}
		fmt.Fprintf(&b, "| %d | %s | %d to %d%s |\n", a.Key, a.Name(), a.Min, a.Max, where)
	}
	golden.Part(t, "../../docs/compatibility.md", "apis", b.String(), "go test ./internal/broker -run Docs")
}
