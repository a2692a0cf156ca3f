package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What counts is who can read the file when it is read, not who could a moment before: a pipe lets
// the test change that in between.
func TestTheModeIsThatOfTheFileThatIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, _, err := ReadSecret(path)
		done <- err
	}()
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("a pipe of its own: %v", err)
	}
	go func() {
		_, _, err := ReadSecret(path)
		done <- err
	}()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if w, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}
