package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// repair does not create files as root in another user's directory. If a directory cannot be read,
// the error names the user to run as.
func TestOwnersAreNotLockedOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	must.OK(t, os.Mkdir(dir, 0o700))
	o := inspect.Options{Locations: []storage.Location{{Path: dir}}}
	if err := owner(o); err != nil {
		t.Errorf("one's own directory: %v", err)
	}
	if os.Geteuid() != 0 {
		if err := explained("verify", os.ErrPermission); !strings.Contains(err.Error(), "sudo -u") {
			t.Error(err)
		}
		return
	}
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Skip(err)
	}
	if err := owner(o); err == nil || !strings.Contains(err.Error(), "sudo -u '#1234'") {
		t.Errorf("another's directory: %v", err)
	}
}
