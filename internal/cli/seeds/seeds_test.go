package seeds

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen returns the address of a listener that accepts connections and never answers. It hangs up
// at once if hangsUp is true.
func listen(t *testing.T, hangsUp bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	var held []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if held = append(held, c); hangsUp {
				_ = c.Close()
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range held {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// A seed that hangs does not keep the next one from being asked; each failure is named, and nothing
// continues when the time is over.
func TestEverySeedThatFailsIsNamed(t *testing.T) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	addresses := []string{listen(t, false), listen(t, true)}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	must.OK(t, err)
	defer cl.Close()
	left, failed := Reach(ctx, cl, addresses, patience)
	if len(left) > 0 || len(failed) != 2 || failed[0] == nil || failed[1] == nil {
		t.Fatalf("left %v, failed %v", left, failed)
	}
	text := Join(addresses, failed).Error()
	for _, address := range addresses {
		if !strings.Contains(text, address+": ") {
			t.Errorf("%q does not name %s", text, address)
		}
	}
}
