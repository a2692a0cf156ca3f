package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSpeaksHTTP(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte("\x00\x00\x00\x04what"))
			c.Close()
		}
	}()
	for addr, want := range map[string]bool{s.Listener.Addr().String(): true, l.Addr().String(): false, "127.0.0.1:71": false} {
		if got := SpeaksHTTP(t.Context(), new(net.Dialer).DialContext, addr); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
}
