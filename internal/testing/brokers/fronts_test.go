package brokers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/testing/simtcp"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// fronts are further addresses of brokers, each of which leads to its broker unless it is closed.
type fronts struct {
	mu     sync.Mutex
	closed map[string]bool
	open   map[net.Conn]string // the address that each connection was dialed at
}

func newFronts() *fronts { return &fronts{closed: map[string]bool{}, open: map[net.Conn]string{}} }

const frontNet = "10.0.1."

// front returns the further address of a broker.
func front(id int32) string { return fmt.Sprint(frontNet, id) }

// close ends the connections through the front of a broker and refuses others, or accepts them.
func (f *fronts) close(id int32, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed[front(id)] = closed
	for c, at := range f.open {
		if closed && at == front(id) {
			_ = c.Close()
			delete(f.open, c)
		}
	}
}

// fronted is a host that dials fronts, too.
type fronted struct {
	*simtcp.Host
	fronts *fronts
}

// DialContext is like that of a net.Dialer.
func (h fronted) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(address, frontNet) {
		return h.Host.DialContext(ctx, network, address)
	}
	at, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := h.Host.DialContext(ctx, network, net.JoinHostPort("10.0.0."+strings.TrimPrefix(at, frontNet), port))
	if err != nil {
		return nil, err
	}
	h.fronts.mu.Lock()
	defer h.fronts.mu.Unlock()
	if h.fronts.closed[at] {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	h.fronts.open[conn] = at
	return conn, nil
}

// The address that a broker advertises leads nowhere, and that of its seed leads to it: it has a
// session and follows, and no other can follow it. So it leads nothing, although it is the
// preferred leader of partitions, until the address is right.
func TestABrokerThatAdvertisesAWrongAddress(t *testing.T) {
	historyOf(t, 26, kind{apart: true}, wrongAddress)
}

// wrongAddress is that history.
func wrongAddress(w *world, c *clients) {
	c.inSync()
	w.stop(2)
	w.fronts.close(2, true)
	w.start(2)
	if until(patience, func() bool { return w.process(2) != nil }) != nil {
		w.problem("broker 2 does not serve")
	}
	time.Sleep(2 * controller.DefaultSessionTimeout)
	var list []string
	leads := func() bool {
		var err error
		list, err = c.leads(2)
		return err == nil && len(list) > 0
	}
	preferred := func() bool { // not what no other replica can lead
		return leads() && slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(p, topic) })
	}
	if until(30*time.Second, leads) == nil { // longer than until the next election of preferred leaders
		w.problem("broker 2 leads %v although none reaches it", list)
	}
	c.progress(20 * time.Second)
	for _, id := range []int32{1, 3} { // what they know of broker 2 is lost
		w.stop(id)
		w.start(id)
		time.Sleep(10 * time.Second)
		c.progress(20 * time.Second)
	}
	if until(30*time.Second, preferred) == nil {
		w.problem("after restarts broker 2 leads %v although none reaches it", list)
	}
	w.stop(2)
	w.fronts.close(2, false)
	w.start(2)
	if until(patience, leads) != nil {
		w.problem("broker 2 does not lead again")
	}
	c.inSync()
}

// The address of a broker that runs ceases to lead to it. What it leads is led by others, before it
// has removed them from the ISR, and clients continue, also if it is the controller.
func TestABrokerThatIsNoLongerReached(t *testing.T) {
	historyOf(t, 27, kind{apart: true}, func(w *world, c *clients) {
		for id := int32(1); id <= int32(tries.Some(3, 1)); id++ {
			c.inSync()
			w.note("none reaches %d", id)
			w.fronts.close(id, true)
			c.ledByOthers(id)
			c.progress(20 * time.Second)
			time.Sleep(5 * time.Second)
			c.ledByOthers(id)
			w.fronts.close(id, false)
		}
		c.inSync()
	})
}
