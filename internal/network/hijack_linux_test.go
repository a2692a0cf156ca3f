package network

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/protocol"
)

// watched returns how many descriptors a poller watches; one of them is its own.
func watched(t *testing.T, p *poller) int {
	t.Helper()
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.set.fd))
	must(t, err)
	return strings.Count(string(info), "tfd:") - 1
}

// The bytes of a link would otherwise wake the poller for as long as it is open.
func TestPollerForgetsAHijackedConnection(t *testing.T) {
	f, taker := startForBrokers(t, echo, &counts{})
	for _, requests := range []int32{1, 2 * detachAfter} { // attached and detached
		c := dial(t, f.tcp(t))
		for id := range requests {
			c.send(t, frame(protocol.KeyProduce, 3, id, nil))
			c.want(t, id)
		}
		var p *poller
		f.mu.Lock()
		for c := range f.conns {
			p = c.poll.by
		}
		f.mu.Unlock()
		c.send(t, hello())
		nc := <-taker.conns
		if n := watched(t, p); n != 0 {
			t.Errorf("after %d requests: %d descriptors are watched", requests, n)
		}
		nc.Close()
		c.Close()
	}
	f.end(t)
}
