package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// failing records the failures of a test.
type failing struct {
	testing.TB
	output string
}

func (f *failing) Errorf(format string, args ...any) { f.output += fmt.Sprintf(format, args...) }

func TestDifferencesAreShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	must.OK(t, os.WriteFile(path, []byte("one\n\ntwo\n<!-- generated: a -->\nthree\n<!-- end: a -->\nfour\n"), 0o600))
	for want, check := range map[string]func(testing.TB){
		"":                         func(t testing.TB) { Part(t, path, "a", "three\n", "go test") },
		`part "a" differs from`:    func(t testing.TB) { Part(t, path, "a", "3\n", "go test") },
		`has no part "b" between`:  func(t testing.TB) { Part(t, path, "b", "three\n", "go test") },
		"run go test -update\ntow": func(t testing.TB) { File(t, path, "one\n\ntow", "go test") },
		"holds more than the":      func(t testing.TB) { File(t, path, "one", "go test") },
	} {
		f := &failing{TB: t}
		if check(f); !strings.Contains(f.output, want) || (want == "") != (f.output == "") {
			t.Errorf("%q, want %q", f.output, want)
		}
	}
}

func TestUpdateWritesTheFile(t *testing.T) {
	defer func(was bool) { *update = was }(*update)
	*update = true
	path := filepath.Join(t.TempDir(), "x")
	File(t, path, "<!-- generated: a -->\n1\n<!-- end: a -->\nrest\n", "go test")
	Part(t, path, "a", "2\n", "go test")
	*update = false
	File(t, path, "<!-- generated: a -->\n2\n<!-- end: a -->\nrest\n", "go test")
}
