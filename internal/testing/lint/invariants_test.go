package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
// the row of each of the invariants I1 to I16 names a test that is named after it.
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
	for n := 1; n <= 16; n++ {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| I%d .*\.TestI%d[A-Z]`, n, n))
		if !row.Match(page) {
			t.Errorf("docs/invariants.md: the row of I%d names no test TestI%d…; name the test after the invariant that it tries to break", n, n)
		}
	}
}
