package daemon

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// A listener on localhost accepts connections on both addresses that clients resolve the name to.
// If another process has one of them, bind fails: clients would find another broker under the same
// name.
func TestLocalhostIsBothLoopbackAddresses(t *testing.T) {
	six, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no ::1: %v", err)
	}
	_, taken, _ := net.SplitHostPort(six.Addr().String())
	cfg := func(port string) *config.Config {
		return &config.Config{Listeners: []config.Listener{{Name: "default", Listen: "localhost:" + port}}}
	}
	if b, err := bind(t.Context(), cfg(taken), &kernel{}, nil); exit.CodeOf(err) != exit.Address || !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), "localhost:"+taken) {
		t.Errorf("%v, %v", b, err)
	}
	must.OK(t, six.Close())
	b, err := bind(t.Context(), cfg(taken), &kernel{}, nil)
	must.OK(t, err)
	defer func() { _ = b.close() }()
	for i, want := range []string{"127.0.0.1:" + taken, "[::1]:" + taken} {
		if got := slices.Concat(b.clients...)[i].Addr().String(); got != want {
			t.Errorf("it listens on %s, want %s", got, want)
		}
		c, err := net.Dial("tcp", want)
		must.OK(t, err)
		_ = c.Close()
	}
}
