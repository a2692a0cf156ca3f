package observe

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/view"
)

func newTestObserver(t testing.TB) (*Network, *metrics.Network, *metrics.Requests) {
	t.Helper()
	table, err := protocol.NewTable(kmsg.RequestForKey, protocol.API{Key: 3, Min: 0, Max: 13}, protocol.API{Key: 18, Min: 0, Max: 4})
	must.OK(t, err)
	n, r := metrics.NewNetwork(prometheus.NewRegistry()), metrics.NewRequests(prometheus.NewRegistry())
	return NewNetwork(n, r, []string{"default", "clients"}, table, nil), n, r
}

func TestRequestsAreCountedByAPIAndError(t *testing.T) {
	o, net, req := newTestObserver(t)
	l := &network.Listener{Name: "default"}
	for code, times := range map[int16]int{0: 3, 3: 2, 35: 1, 9999: 1} {
		for range times {
			o.Answered(&network.Request{Listener: l, Key: 3, Code: code}, 100, time.Millisecond)
		}
	}
	o.Answered(&network.Request{Listener: l, Key: 77}, 1, 0) // not supported: no series
	for name, want := range map[string]float64{"NONE": 3, "UNKNOWN_TOPIC_OR_PARTITION": 2, "UNSUPPORTED_VERSION": 1,
		"UNKNOWN_CODE_9999": 1} {
		if got := testutil.ToFloat64(req.Count.WithLabelValues("Metadata", name)); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := testutil.ToFloat64(net.BytesOut.WithLabelValues("default")); got != 701 {
		t.Errorf("bytes out = %v, want 701", got)
	}
	o.Sent(3, time.Millisecond)
	o.Sent(77, time.Millisecond)
	for _, h := range []*prometheus.HistogramVec{req.Seconds, req.Send} {
		if n := testutil.CollectAndCount(h); n != 2 {
			t.Errorf("%d APIs have latencies, want the 2 of the table", n)
		}
	}
	if got := metrics.Distributions(req.Send)["Metadata"]; got.Count != 1 || got.Sum != 0.001 {
		t.Errorf("sent: %+v", got)
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	o, net, req := newTestObserver(t)
	l := &network.Listener{Name: "default"}
	o.Opened(l)
	o.Opened(l)
	o.Closed(l, network.ClosedIdle)
	o.Refused(l, netip.Addr{}, network.RefusedPerIP)
	o.BudgetWait("produce")
	o.Throttled(3, 1500*time.Millisecond)
	for name, x := range map[string]struct{ got, want float64 }{
		"open":     {testutil.ToFloat64(net.Connections.WithLabelValues("default")), 1},
		"accepted": {testutil.ToFloat64(net.Accepted.WithLabelValues("default")), 2},
		"closed":   {testutil.ToFloat64(net.Closed.WithLabelValues("default", "idle")), 1},
		"refused":  {testutil.ToFloat64(net.Refused.WithLabelValues("default", "per_ip")), 1},
		"waits":    {testutil.ToFloat64(net.BudgetWaits.WithLabelValues("produce")), 1},
		"throttle": {testutil.ToFloat64(req.Throttle.WithLabelValues("Metadata")), 1.5},
	} {
		if x.got != x.want {
			t.Errorf("%s = %v, want %v", name, x.got, x.want)
		}
	}
}

// Counting a request allocates nothing, because it happens for every request.
func TestCountingARequestAllocatesNothing(t *testing.T) {
	o, _, _ := newTestObserver(t)
	r := &network.Request{Listener: &network.Listener{Name: "default"}, Key: 3}
	if n := testing.AllocsPerRun(100, func() { o.Answered(r, 10, time.Microsecond); o.Sent(3, time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Connections and logins that are refused are counted by who is refused: the limit's config, the
// address, and of a login the user that it named, with the reason.
func TestRefusalsAreCountedByClient(t *testing.T) {
	o, _, _ := newTestObserver(t)
	o.refused = refusals.New(time.Now)
	l, ip := &network.Listener{Name: "clients"}, netip.MustParseAddr("10.0.0.1")
	for _, why := range []network.RefuseReason{network.RefusedTotal, network.RefusedPerIP, network.RefusedListener,
		network.RefusedUnauthenticated, network.RefusedFiles, network.RefusedRate, network.RefusedDraining} {
		o.Refused(l, ip, why)
	}
	o.Opened(l)
	s := &network.Session{Principal: "User:eve", Host: "10.0.0.2"}
	o.Login(&network.LoginEvent{Listener: l, Session: s, Mechanism: "PLAIN", Err: &login.Failure{User: "bob", Reason: "wrong"}})
	o.Login(&network.LoginEvent{Listener: l, Session: s, Mechanism: "PLAIN"})
	o.Login(&network.LoginEvent{Listener: l, Session: s, Mechanism: "SSL", Err: errors.New("expired; renew"), Remedy: "renew"})
	for _, result := range []string{"late", "certificate", "protocol", network.ClientRefused, "ok"} {
		e := network.HandshakeEvent{Listener: l, Session: s, Result: result}
		if result != "ok" {
			e.Err = errors.New(result)
		}
		if result != "late" {
			e.Remedy = "trust"
		}
		o.Handshake(&e)
	}
	var limits []string
	for _, x := range o.refused.Last() {
		switch {
		case x.Kind == view.RefusedConnection && x.Who == view.Client{Address: "10.0.0.1"} && x.PassedAll == 1:
			limits = append(limits, x.Cause)
		case x.Kind == view.RefusedLogin && x.Who == view.Client{User: "User:bob", Address: "10.0.0.2"} && x.Rule == "clients" &&
			x.Detail == "wrong" && x.PassedAll == 1:
			limits = append(limits, "login")
		case x.Kind == view.RefusedLogin && x.Cause == "SSL" && x.Detail == "expired" && x.Lift == "renew":
			limits = append(limits, "SSL login")
		case x.Who == view.Client{Address: "10.0.0.2"} && x.Rule == "clients" && x.Lift == "trust" && x.PassedAll == 1 &&
			(x.Kind == view.RefusedByClient) == (x.Cause == network.ClientRefused):
			limits = append(limits, x.Cause)
		default:
			t.Errorf("%+v", x)
		}
	}
	slices.Sort(limits)
	want := []string{
		"SSL login", network.ClientRefused, "listener.name.clients.max.connections", "login", "max.connections", "max.connections.per.ip",
		"max.connections.unauthenticated", "open files", "protocol"}
	if !slices.Equal(limits, want) {
		t.Errorf("refused by %q, want %q", limits, want)
	}
}
