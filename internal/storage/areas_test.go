package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// doc.go names the areas that files belong to.
func TestEveryFileBelongsToAnArea(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	must(t, err)
	_, list, _ := strings.Cut(string(b), "// # Files\n")
	list, _, _ = strings.Cut(list, "// # Failures\n")
	areas := map[string]bool{"doc": true}
	for line := range strings.Lines(list) {
		if row, ok := strings.CutPrefix(line, "//\t"); ok {
			names, _, _ := strings.Cut(row, "  ")
			for _, name := range strings.Fields(names) {
				areas[name] = true
			}
		}
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		area, _, _ := strings.Cut(strings.TrimSuffix(name, ".go"), "_")
		if !areas[area] && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s: doc.go has no area %s", name, area)
		}
	}
}
