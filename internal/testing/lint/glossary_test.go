package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

var (
	glossaryRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`)
	valeSwap    = regexp.MustCompile(`(?m)^  '(.+)': `)
	valeToken   = regexp.MustCompile(`(?m)^  - (.+)$`)
)

// glossaryFaults compares the glossary with the prose rules: each rule matches a word of the
// table of words that are not used, each such word is matched by a rule, and terms are in
// alphabetical order.
func glossaryFaults(page, rules string) (faults []string) {
	terms, words, _ := strings.Cut(page, "\n## Words that are not used\n")
	var names, avoided []string
	for _, row := range glossaryRow.FindAllStringSubmatch(terms, -1) {
		if row[1] != "term" && row[1] != "---" {
			names = append(names, strings.ToLower(row[1]))
		}
	}
	if len(names) == 0 || !slices.IsSorted(names) {
		faults = append(faults, "the terms are missing or not in alphabetical order")
	}
	for _, row := range glossaryRow.FindAllStringSubmatch(words, -1) {
		for i, word := range strings.Split(row[1], "`") {
			if i%2 == 1 {
				avoided = append(avoided, word)
			}
		}
	}
	var patterns []*regexp.Regexp
	for _, m := range append(valeSwap.FindAllStringSubmatch(rules, -1), valeToken.FindAllStringSubmatch(rules, -1)...) {
		p := regexp.MustCompile("(?i)" + m[1])
		patterns = append(patterns, p)
		if !slices.ContainsFunc(avoided, p.MatchString) {
			faults = append(faults, "the glossary lacks the word of the rule "+m[1])
		}
	}
	for _, word := range avoided {
		if !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(word) }) {
			faults = append(faults, "no rule matches "+word)
		}
	}
	return faults
}

func TestGlossaryMatchesTheProseRules(t *testing.T) {
	page, err := os.ReadFile("../../../docs/glossary.md")
	must.OK(t, err)
	paths, err := filepath.Glob("../../../.vale/Chronik/*.yml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no prose rules: %v", err)
	}
	var rules strings.Builder
	for _, path := range paths {
		b, err := os.ReadFile(path)
		must.OK(t, err)
		rules.Write(b)
	}
	for _, fault := range glossaryFaults(string(page), rules.String()) {
		t.Error(fault)
	}
}

func TestGlossaryFaultsAreFound(t *testing.T) {
	const (
		page  = "| term | meaning |\n| append | add |\n| batch | records |\n\n## Words that are not used\n\n| `anew` | again |\n"
		rules = "swap:\n  '\\banew\\b': again\n"
	)
	for _, c := range []struct {
		page, rules string
		faults      int
	}{
		{page, rules, 0},
		{page, rules + "tokens:\n  - rooms\n", 1},
		{strings.Replace(page, "`anew`", "`anew`, `beside`", 1), rules, 1},
		{strings.Replace(page, "| append |", "| zebra |", 1), rules, 1},
		{"", rules, 2},
	} {
		if got := glossaryFaults(c.page, c.rules); len(got) != c.faults {
			t.Errorf("faults %q, want %d", got, c.faults)
		}
	}
}
