package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Only an answer without lines says that there are none. A journal that was not read is missing,
// with the reason of journalctl.
func TestAJournalThatIsNotReadIsNotEmpty(t *testing.T) {
	for script, want := range map[string]struct {
		text, err string
		skipped   bool
	}{
		"echo a line":             {text: "a line\n"},
		"echo '-- No entries --'": {err: "has no lines of the unit", skipped: true},
		"true":                    {err: "has no lines of the unit", skipped: true},
		"echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1": {err: "insufficient permissions"},
		"echo a line; exit 3": {text: "a line\n", err: "exit status 3"},
	} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "journalctl"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		t.Setenv("PATH", dir)
		text, err := journal().get(t.Context())
		said := ""
		if err != nil {
			said = err.Error()
		}
		if string(text) != want.text || (err == nil) != (want.err == "") || !strings.Contains(said, want.err) ||
			errors.Is(err, errSkipped) != want.skipped {
			t.Errorf("%s: %q, %v", script, text, err)
		}
	}
}
