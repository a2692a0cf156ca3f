package lint

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

const runbooks = "https://github.com/chronik-io/chronik/blob/main/docs/runbooks.md#"

func TestEveryAlertHasItsRunbook(t *testing.T) {
	rules, err := os.ReadFile("../../../deploy/prometheus/rules.yml")
	must.OK(t, err)
	for _, fault := range runbookFaults(string(rules), pages(t)["docs/runbooks.md"]) {
		t.Error(fault)
	}
}

func TestARunbookThatIsMissingIsFound(t *testing.T) {
	const rules = "      - alert: ChronikDown\n        annotations:\n          runbook_url: " + runbooks + "chronikdown\n"
	for _, c := range []struct{ rules, page, fault string }{
		{rules, "## ChronikDown\n\nText.\n", ""},
		{rules, "## ChronikUp\n\nText.\n", "no section ChronikDown"},
		{rules, "## ChronikDown\n\n## ChronikUp\n", "ChronikDown has no text"},
		{rules, "## ChronikDown\n\nText.\n\n## ChronikUp\n\nText.\n", "ChronikUp, which is no alert"},
		{strings.Replace(rules, "chronikdown", "down", 1), "## ChronikDown\n\nText.\n", "ChronikDown: runbook_url is"},
		{strings.Replace(rules, "runbook_url", "url", 1), "## ChronikDown\n\nText.\n", "ChronikDown: runbook_url is"},
	} {
		faults := runbookFaults(c.rules, c.page)
		if (c.fault == "") != (len(faults) == 0) || !strings.Contains(strings.Join(faults, "\n"), c.fault) {
			t.Errorf("faults %q, want one with %q", faults, c.fault)
		}
	}
}

// runbookFaults compares the alerts of Prometheus's rules with the sections of the runbooks' page:
// each alert must have a section with text, to which its runbook_url points, and each section must
// belong to an alert.
func runbookFaults(rules, page string) (faults []string) {
	var alerts []string
	for _, part := range strings.Split(rules, "- alert: ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		alerts = append(alerts, name)
		url := regexp.MustCompile(`(?m)^ +runbook_url: (.*)$`).FindStringSubmatch(rest)
		if want := runbooks + strings.ToLower(name); len(url) == 0 || url[1] != want {
			faults = append(faults, name+": runbook_url is not "+want)
		}
		if !strings.Contains("\n"+page, "\n## "+name+"\n") {
			faults = append(faults, "docs/runbooks.md has no section "+name)
		}
	}
	for _, section := range strings.Split("\n"+page, "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		if !slices.Contains(alerts, name) {
			faults = append(faults, "docs/runbooks.md has the section "+name+", which is no alert")
		}
		if strings.TrimSpace(text) == "" {
			faults = append(faults, "docs/runbooks.md: "+name+" has no text")
		}
	}
	return faults
}
