package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInvariantsNameWhatExists checks docs/invariants.md: the files that it names exist, so do the
// tests in the packages that it names, every invariant that a test is named after has one row, and
// the row of each of the invariants I1 to I16 names a test that is named after it.
func TestInvariantsNameWhatExists(t *testing.T) {
	page, err := os.ReadFile("../../../docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool) // by package below internal and name, such as storage.TestI2NoEarlyAck
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			pkg, _ := filepath.Rel("../../../internal", filepath.Dir(path))
			tests[pkg+"."+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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
