package lint

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// stepRows returns the steps that a table with the header "| `step` |" or "| step |" has in its
// first column.
func stepRows(page string) (steps []string) {
	table := regexp.MustCompile("(?s)\n\\| `?step`? \\|.*?\n\n").FindString(page)
	for row := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for i, name := range strings.Split(cell, "`") {
			if i%2 == 1 && name != "step" {
				steps = append(steps, name)
			}
		}
	}
	return steps
}

// The pages have every step at which a request waits: admin.md in the order of the code.
func TestPagesHaveEveryStepOfAWait(t *testing.T) {
	code, err := os.ReadFile("../../view/wait.go")
	must.OK(t, err)
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\tStep\w+ +Step = "(\w+)"`).FindAllStringSubmatch(string(code), -1) {
		want = append(want, m[1])
	}
	all := pages(t)
	if got := stepRows(all["docs/admin.md"]); len(want) < 15 || !slices.Equal(got, want) {
		t.Errorf("docs/admin.md has the steps %v, the code has %v", got, want)
	}
	got := stepRows(all["docs/operations.md"])
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/operations.md has the steps %v, the code has %v", got, want)
	}
}
