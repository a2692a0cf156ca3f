package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// What counts is who can read the file when it is read, not who could a moment before: a pipe lets
// the test change that in between.
func TestTheModeIsThatOfTheFileThatIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(path, 0o600))
	done := make(chan error)
	go func() {
		_, _, err := ReadSecret(path)
		done <- err
	}()
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	must.OK(t, err)
	defer w.Close()
	must.OK(t, w.Close())
	if err := <-done; err != nil {
		t.Fatalf("a pipe of its own: %v", err)
	}
	go func() {
		_, _, err := ReadSecret(path)
		done <- err
	}()
	must.OK(t, os.Chmod(path, 0o666))
	if w, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	must.OK(t, w.Close())
	if err := <-done; err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}
