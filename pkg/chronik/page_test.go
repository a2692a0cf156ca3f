package chronik_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// The programs of docs/embedding.md compile, and print what the page says.
func TestProgramsOfThePage(t *testing.T) {
	if testing.Short() || race.Detector { // which does not watch them
		t.Skip("it compiles programs")
	}
	page, err := os.ReadFile("../../docs/embedding.md")
	must.OK(t, err)
	programs := regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n\nIt prints:\n\n```text\n(.*?)```").FindAllSubmatch(page, -1)
	if len(programs) != 2 {
		t.Fatalf("the page has %d programs with their output, not 2", len(programs))
	}
	for _, p := range programs {
		dir := t.TempDir()
		source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
		must.OK(t, os.WriteFile(source, p[1], 0o600))
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		run := exec.CommandContext(t.Context(), binary, filepath.Join(dir, "data"))
		run.Stderr = os.Stderr
		if out, err := run.Output(); err != nil || !bytes.Equal(out, p[2]) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
