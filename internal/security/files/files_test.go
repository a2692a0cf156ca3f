package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), mode))
	must.OK(t, os.Chmod(path, mode))
	return path
}

func TestASecretThatOthersCanReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	opened, err := os.Open(dir)
	must.OK(t, err)
	defer opened.Close()
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o666: false} {
		_, _, err := ReadSecret(write(t, filepath.Join(dir, "s"), "x", mode))
		if inMemory(opened) && os.Getuid() == 0 && mode&0o022 == 0 {
			ok = true // the test's directory is one in which containers put secrets
		}
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestASystemdCredentialComesFirst(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(EnvCredentials, dir)
	t.Chdir(t.TempDir())
	write(t, "token", "here", 0o600)
	if b, _, err := ReadSecret("token"); err != nil || string(b) != "here" {
		t.Errorf("without a credential: %q, %v", b, err)
	}
	write(t, filepath.Join(dir, "token"), "systemd", 0o400)
	if b, _, err := ReadSecret("token"); err != nil || string(b) != "systemd" {
		t.Errorf("with a credential: %q, %v", b, err)
	}
	if b, _, err := ReadSecret("./token"); err != nil || string(b) != "here" {
		t.Errorf("a path: %q, %v", b, err)
	}
}

// A link that is switched to another file, as Kubernetes and certbot do, is a change.
func TestStamps(t *testing.T) {
	dir := t.TempDir()
	a, b, link := write(t, filepath.Join(dir, "a"), "x", 0o600), write(t, filepath.Join(dir, "b"), "x", 0o600), filepath.Join(dir, "l")
	must.OK(t, os.Symlink(a, link))
	before := StampOf(link)
	if before == (Stamp{}) || before != StampOf(a) || before != StampOf(link) {
		t.Errorf("%+v", before)
	}
	must.OK(t, os.Remove(link))
	must.OK(t, os.Symlink(b, link))
	if StampOf(link) == before {
		t.Error("the link leads elsewhere and has the same stamp")
	}
	if StampOf(filepath.Join(dir, "no")) != (Stamp{}) {
		t.Error("a missing file has a stamp")
	}
}

func TestALargeFileIsRefused(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "s"), strings.Repeat("x", MaxSize+1), 0o600)
	if _, _, err := Read(path); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Error(err)
	}
}
