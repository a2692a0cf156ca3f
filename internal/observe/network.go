package observe

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/broker"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/view"
)

// Network is a network.Observer that updates metrics. It resolves the series that change with every
// request only once.
type Network struct {
	net       *metrics.Network
	req       *metrics.Requests
	listeners map[string]listenerSeries // by name; never changes
	apis      []*apiSeries              // by key; nil if the API is not supported
	refused   *refusals.Table
}

type listenerSeries struct {
	in, out prometheus.Counter
	open    prometheus.Gauge
}

// apiSeries holds the series of one API.
type apiSeries struct {
	name    string
	count   *prometheus.CounterVec
	seconds prometheus.Observer
	send    prometheus.Observer
	success prometheus.Counter
	failed  sync.Map // error code (int16) to prometheus.Counter
}

// NewNetwork resolves the series of these listeners and APIs. It counts refused connections and
// logins in refused, too.
func NewNetwork(net *metrics.Network, req *metrics.Requests, listeners []string, table *protocol.Table,
	refused *refusals.Table) *Network {
	o := &Network{net: net, req: req, refused: refused, listeners: make(map[string]listenerSeries, len(listeners))}
	for _, name := range listeners {
		o.listeners[name] = listenerSeries{in: net.BytesIn.WithLabelValues(name), out: net.BytesOut.WithLabelValues(name),
			open: net.Connections.WithLabelValues(name)}
	}
	for _, api := range table.APIs() {
		for len(o.apis) <= int(api.Key) {
			o.apis = append(o.apis, nil)
		}
		name := api.Name()
		o.apis[api.Key] = &apiSeries{
			name:    name,
			count:   req.Count,
			seconds: req.Seconds.WithLabelValues(name),
			send:    req.Send.WithLabelValues(name),
			success: req.Count.WithLabelValues(name, errorName(0)),
		}
	}
	return o
}

// errorName returns the name of a protocol error as Kafka writes it.
func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil && e.Code == code {
		return e.Message
	}
	return fmt.Sprintf("UNKNOWN_CODE_%d", code)
}

// Opened implements network.Observer.
func (o *Network) Opened(l *network.Listener) {
	o.net.Accepted.WithLabelValues(l.Name).Inc()
	o.listeners[l.Name].open.Inc()
	o.refused.Passed(view.RefusedConnection, "")
}

// Closed implements network.Observer.
func (o *Network) Closed(l *network.Listener, why network.CloseReason) {
	o.net.Closed.WithLabelValues(l.Name, string(why)).Inc()
	o.listeners[l.Name].open.Dec()
}

// Refused implements network.Observer.
func (o *Network) Refused(l *network.Listener, ip netip.Addr, why network.RefuseReason) {
	o.net.Refused.WithLabelValues(l.Name, string(why)).Inc()
	limit := ""
	switch why {
	case network.RefusedTotal:
		limit = checks.LimitTotal
	case network.RefusedPerIP:
		limit = checks.LimitPerIP
	case network.RefusedListener:
		limit = configdef.ListenerMostName(l.Name)
	case network.RefusedUnauthenticated:
		limit = checks.LimitUnauthenticated
	case network.RefusedFiles:
		limit = checks.LimitFiles
	case network.RefusedRate, network.RefusedDraining: // its quota counts it; nothing is wrong
		return
	}
	who := refusals.Who{}
	if ip.IsValid() {
		who.Address = origin.Text(ip)
	}
	o.refused.Refused(view.RefusedConnection, limit, "", who, 0, nil)
}

// Answered implements network.Observer.
func (o *Network) Answered(r *network.Request, responseBytes int, took time.Duration) {
	s := o.listeners[r.Listener.Name]
	s.in.Add(float64(r.FrameSize()))
	s.out.Add(float64(responseBytes))
	a := o.api(r.Key)
	if a == nil {
		return // the connection is closed for it, and that is counted
	}
	a.seconds.Observe(took.Seconds())
	a.counter(r.Code).Inc()
}

// Sent implements network.Observer.
func (o *Network) Sent(key int16, took time.Duration) {
	if a := o.api(key); a != nil {
		a.send.Observe(took.Seconds())
	}
}

func (o *Network) api(key int16) *apiSeries {
	if key < 0 || int(key) >= len(o.apis) {
		return nil
	}
	return o.apis[key]
}

// counter returns the series of one error code. Codes are few: each that was ever sent has a
// series.
func (a *apiSeries) counter(code int16) prometheus.Counter {
	if code == 0 {
		return a.success
	}
	if c, ok := a.failed.Load(code); ok {
		return c.(prometheus.Counter)
	}
	c := a.count.WithLabelValues(a.name, errorName(code))
	a.failed.Store(code, c)
	return c
}

// Throttled implements network.Observer.
func (o *Network) Throttled(key int16, d time.Duration) {
	o.req.Throttle.WithLabelValues(protocol.NameOf(key)).Add(d.Seconds())
}

// BudgetWait implements network.Observer.
func (o *Network) BudgetWait(budget string) { o.net.BudgetWaits.WithLabelValues(budget).Inc() }

// Handshake implements network.Observer.
func (o *Network) Handshake(e *network.HandshakeEvent) {
	o.net.Handshakes.WithLabelValues(e.Listener.Name, e.Result).Inc()
	kind := view.RefusedHandshake
	if e.Result == network.ClientRefused {
		kind = view.RefusedByClient
	}
	switch {
	case e.Err == nil:
		o.refused.Passed(view.RefusedHandshake, "")
		o.refused.Passed(view.RefusedByClient, "")
	case e.Remedy != "" && !e.IsLogin(): // Login counts those
		o.refused.Refused(kind, e.Result, e.Listener.Name, refusals.Who{Address: origin.OfHost(e.Session.Host)}, 0,
			func() (text, lift string) { return e.Err.Error(), e.Remedy })
	}
}

// Login implements network.Observer.
func (o *Network) Login(e *network.LoginEvent) {
	result := "ok"
	switch {
	case e.Err != nil:
		result = "failed"
	case e.Again:
		result = "again"
	}
	o.net.Logins.WithLabelValues(e.Listener.Name, e.Mechanism, result).Inc()
	if e.Err == nil {
		o.refused.Passed(view.RefusedLogin, e.Session.Principal)
		return
	}
	who := refusals.Who{Address: origin.OfHost(e.Session.Host)}
	why := func() (text, lift string) { return strings.TrimSuffix(e.Err.Error(), "; "+e.Remedy), e.Remedy }
	if f := (*login.Failure)(nil); errors.As(e.Err, &f) {
		why = func() (text, lift string) { return f.Reason, "" }
		if f.User != "" {
			who.User = login.PrincipalType + f.User
		}
	}
	o.refused.Refused(view.RefusedLogin, e.Mechanism, e.Listener.Name, who, 0, why)
}

// Logout implements network.Observer.
func (o *Network) Logout(*network.LogoutEvent) {}

// Logins reads the connections that have not logged in for a scrape.
func Logins(s *network.Server) func() metrics.Logins {
	return func() metrics.Logins {
		x := s.Stats()
		return metrics.Logins{Unauthenticated: x.Unauthenticated, Delayed: x.LoginsDelayed}
	}
}

// Places reads the places for work that computes for long for a scrape.
func Places(s *share.Share) func() ([]metrics.Places, int) {
	return func() (all []metrics.Places, n int) {
		classes, n := s.Stats()
		for _, x := range classes {
			all = append(all, metrics.Places{Class: x.Class.String(), Waiting: x.Waiting, Seconds: x.Used.Seconds()})
		}
		return all, n
	}
}

// Budgets reads the byte budgets for a scrape: those of requests and answers, and those of the
// coordinators of groups, transactions and share groups.
func Budgets(s *network.Server, b *broker.Handler, members, transactions, states *coordinator.MemoryBudget) func() []view.Budget {
	return func() []view.Budget {
		x, answers, parked, shares := s.Stats(), b.Answers(), b.Parked(), b.ShareMemory()
		return []view.Budget{
			{Name: "produce", Used: x.Produce.Used, Limit: x.Produce.Size},
			{Name: "produce_arriving", Used: x.ProduceArriving.Used, Limit: x.ProduceArriving.Size},
			{Name: "other", Used: x.Other.Used, Limit: x.Other.Size},
			{Name: "other_arriving", Used: x.OtherArriving.Used, Limit: x.OtherArriving.Size},
			{Name: "login", Used: x.Login.Used + x.LoginArriving.Used, Limit: x.Login.Size},
			{Name: "read_buffers", Used: x.Reads.Used, Limit: x.Reads.Size},
			{Name: "unread_answers", Used: x.Unwritten, Limit: x.UnwrittenLimit},
			{Name: "answers", Used: answers.Used, Limit: answers.Size},
			{Name: "parked", Used: parked.Used, Limit: parked.Size},
			{Name: "members", Used: members.Used(), Limit: members.Size()},
			{Name: "transactions", Used: transactions.Used(), Limit: transactions.Size()},
			{Name: "share_states", Used: states.Used(), Limit: states.Size()},
			{Name: "shares", Used: shares.Used(), Limit: shares.Size()},
		}
	}
}
