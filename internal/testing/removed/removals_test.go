//go:build removals

package removed

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Without its rule, each test fails.
func TestWithoutEachRule(t *testing.T) {
	all := slices.Clone(rules)
	for _, i := range invariants {
		all = append(all, i.rule)
	}
	for _, r := range all {
		t.Run(r.without, func(t *testing.T) {
			_, text := r.text(t)
			path, err := filepath.Abs("../../" + r.file)
			must.OK(t, err)
			changed, overlay := filepath.Join(t.TempDir(), "changed.go"), filepath.Join(t.TempDir(), "overlay.json")
			list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
			must.OK(t, err)
			for name, content := range map[string]string{changed: text, overlay: string(list)} {
				must.OK(t, os.WriteFile(name, []byte(content), 0o600))
			}
			dir, name := r.from()
			out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=5m", "-overlay", overlay, "-run", "^"+name+"$",
				"github.com/chronik-io/chronik/internal/"+dir).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+name) && !strings.Contains(string(out), "panic: ") {
				t.Errorf("%s does not fail: %v\n%s", r.test, err, out)
			}
		})
	}
}
