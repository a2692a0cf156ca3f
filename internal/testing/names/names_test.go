package names

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNone(t *testing.T) {
	t.Run("with", func(t *testing.T) {
		None(t)
		_, err := net.DefaultResolver.LookupHost(t.Context(), "no.such.host.invalid")
		if failed := new(net.DNSError); !errors.As(err, &failed) || !failed.IsNotFound {
			t.Errorf("a name: %v, want that there is no such host", err)
		}
		if found, err := net.DefaultResolver.LookupHost(t.Context(), "127.0.0.1"); err != nil || len(found) != 1 {
			t.Errorf("an address: %v, %v", found, err)
		}
		var d net.Dialer
		if _, err := d.DialContext(t.Context(), "tcp", "no.such.host.invalid:1"); err == nil {
			t.Error("a connection to a name that no server knows")
		}
	})
	asked := false
	was := net.DefaultResolver
	defer func() { net.DefaultResolver = was }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		asked = true
		return nil, errors.New("no server")
	}}
	t.Run("before", func(t *testing.T) { None(t) })
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "no.such.host.invalid"); err == nil || !asked {
		t.Errorf("the resolver of before is not back: %v", err)
	}
}
