package certs

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// Files on a disk that does not answer hold up neither a scrape, which asks for the state, nor a
// handshake. A pipe stands for them: reading it waits for the test.
func TestSlowFilesHoldUpNoOther(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	c := leafOf(t, dir, a)
	s, err := Open("clients", c, time.Now, zap.NewNop())
	must.OK(t, err)
	must.OK(t, os.Remove(c.Certificate))
	must.OK(t, syscall.Mkfifo(c.Certificate, 0o600))
	reloaded, asked := make(chan struct{}), make(chan struct{})
	go func() {
		s.Reload(true)
		close(reloaded)
	}()
	w := -1
	for err = syscall.ENXIO; errors.Is(err, syscall.ENXIO); { // no reader yet
		select {
		case <-reloaded:
			t.Fatal("the file was not read")
		default:
			w, err = syscall.Open(c.Certificate, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		}
	}
	must.OK(t, err)
	go func() {
		if _, err := handshake(s, a.CertificatePEM, "localhost"); err != nil || s.Status().Problem != "" {
			t.Errorf("%v, %q", err, s.Status().Problem)
		}
		close(asked)
	}()
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("the state waits for the files")
	}
	_ = syscall.Close(w)
	<-reloaded
	<-asked
	if s.Status().Problem == "" {
		t.Error("an empty file is no problem")
	}
}
