package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// testsOf returns all tests of the tree, by package below internal and name, such as
// storage.TestI2NoEarlyAck, with the names of the faults that a schedule causes.
func testsOf(t *testing.T) (tests map[string]bool, scheduled []string) {
	t.Helper()
	tests = make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	entry := regexp.MustCompile(`(?m)^\t\{name: "(\d+ [^"]+)", `)
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		pkg, _ := filepath.Rel("../../../internal", filepath.Dir(path))
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[pkg+"."+string(m[1])] = true
		}
		for _, m := range entry.FindAllSubmatch(text, -1) {
			scheduled = append(scheduled, string(m[1]))
		}
		return err
	})
	must.OK(t, err)
	return tests, scheduled
}

// TestFaultsAreListed checks that the list of faults in docs/invariants.md has every number that
// names of tests and of scheduled faults begin with, and no other.
func TestFaultsAreListed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/invariants.md")
	must.OK(t, err)
	listed, tried := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| `).FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = true
	}
	use := func(number, name string) {
		if tried[number] = true; !listed[number] {
			t.Errorf("%s tries fault %s, which the list of docs/invariants.md lacks", name, number)
		}
	}
	tests, scheduled := testsOf(t)
	numbered := regexp.MustCompile(`\.TestFault0*(\d+)`)
	for name := range tests {
		if m := numbered.FindStringSubmatch(name); m != nil {
			use(m[1], name)
		}
	}
	for _, name := range scheduled {
		number, _, _ := strings.Cut(name, " ")
		use(number, name)
	}
	for number := range listed {
		if !tried[number] {
			t.Errorf("docs/invariants.md lists fault %s, which no test tries", number)
		}
	}
	if len(listed) < 20 || len(scheduled) < 20 {
		t.Errorf("%d faults are listed and %d scheduled: do the patterns still match?", len(listed), len(scheduled))
	}
}

// TestInvariantsNameWhatExists checks docs/invariants.md: the files that it names exist, so do the
// tests in the packages that it names, every invariant that a test is named after has one row, and
// its row names that test. The first invariants all have such a test; the tests of later ones are
// known by their rows.
func TestInvariantsNameWhatExists(t *testing.T) {
	page, err := os.ReadFile("../../../docs/invariants.md")
	must.OK(t, err)
	tests, _ := testsOf(t)
	for _, m := range regexp.MustCompile("`([^`]*\\bTest\\w+|internal/[\\w/.]+)`").FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		switch {
		case strings.HasPrefix(name, "go test "):
		case strings.HasPrefix(name, "internal/"):
			if _, err := os.Stat("../../../" + name); err != nil {
				t.Errorf("docs/invariants.md names %s: %v", name, err)
			}
		case !tests[name]:
			t.Errorf("docs/invariants.md names %s, and there is no such test; write PACKAGE.TEST, with the path below internal", name)
		}
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]\d+) `).FindAllStringSubmatch(string(page), -1) {
		if rows[m[1]] {
			t.Errorf("docs/invariants.md has two rows for %s", m[1])
		}
		rows[m[1]] = true
	}
	numbered := regexp.MustCompile(`\.TestI(\d+)[A-Z]`)
	for name := range tests {
		if m := numbered.FindStringSubmatch(name); len(m) == 2 && !rows["I"+m[1]] {
			t.Errorf("%s is named after invariant I%s, and docs/invariants.md has no such row", name, m[1])
		}
	}
	for name := range rows {
		if !regexp.MustCompile(`(?m)^\| ` + name + ` .*\.Test`).Match(page) {
			t.Errorf("docs/invariants.md: the row of %s names no test", name)
		}
	}
	const named = 16 // the invariants that have a test of their name
	for n := 1; n <= named; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| I%d .*\.TestI%d[A-Z]`, n, n))
		if !row.Match(page) {
			t.Errorf("docs/invariants.md: the row of I%d names no test TestI%d…; name the test after the invariant that it tries to break", n, n)
		}
	}
}

// wrongRanges returns the ranges of invariants in a text, from the first one on, that do not end
// with the last row of the page of invariants.
func wrongRanges(text, invariants string) (wrong []string) {
	for _, m := range regexp.MustCompile(`\b([IS])1\s+to\s+[IS](\d+)\b`).FindAllStringSubmatch(text, -1) {
		rows := regexp.MustCompile(`(?m)^\| `+m[1]+`\d+ `).FindAllString(invariants, -1)
		if m[2] != strconv.Itoa(len(rows)) {
			wrong = append(wrong, fmt.Sprintf("%q, and the last one is %s%d", m[0], m[1], len(rows)))
		}
	}
	return wrong
}

// Pages name all invariants, or none.
func TestRangesOfInvariantsAreWhole(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, wrong := range wrongRanges(text, all["docs/invariants.md"]) {
			t.Errorf("%s has %s", name, wrong)
		}
	}
}

func TestAWrongRangeIsFound(t *testing.T) {
	const page = "| I1 a | b |\n| I2 c | d |\n| S1 e | f |\n"
	for text, want := range map[string]string{
		"the invariants I1 to I2 and S1 to S1":  "",
		"the invariants I1 to\nI1":              "\"I1 to\\nI1\", and the last one is I2",
		"the invariants I1 to I2, and S1 to S2": "\"S1 to S2\", and the last one is S1",
	} {
		if got := strings.Join(wrongRanges(text, page), "\n"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
