package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInvariantsNameWhatExists checks docs/invariants.md: the files and the tests that it
// names exist, and every invariant that a test is named after has a row.
func TestInvariantsNameWhatExists(t *testing.T) {
	page, err := os.ReadFile("../../docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`(Test\\w+|internal/[\\w/.]+)`").FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		if strings.HasPrefix(name, "Test") {
			if !tests[name] {
				t.Errorf("docs/invariants.md names %s, and there is no such test", name)
			}
		} else if _, err := os.Stat("../../" + name); err != nil {
			t.Errorf("docs/invariants.md names %s: %v", name, err)
		}
	}
	numbered := regexp.MustCompile(`^TestI(\d+)[A-Z]`)
	for name := range tests {
		if m := numbered.FindStringSubmatch(name); len(m) == 2 && !strings.Contains(string(page), "\n| I"+m[1]+" ") {
			t.Errorf("%s is named after invariant I%s, and docs/invariants.md has no such row", name, m[1])
		}
	}
}
