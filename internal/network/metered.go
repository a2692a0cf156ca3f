package network

import (
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metered returns an Observer that counts into metrics. It looks every label up
// once and keeps what it found: by listener, by API, and by API and error, which
// are small closed sets.
func Metered(n *metrics.Network, r *metrics.Requests) Observer {
	return &metered{network: n, requests: r}
}

type metered struct {
	network   *metrics.Network
	requests  *metrics.Requests
	listeners sync.Map // *Listener → *listenerMetrics
	apis      sync.Map // int16 → *apiMetrics
}

type listenerMetrics struct {
	open              prometheus.Gauge
	accepted, in, out prometheus.Counter
}

type apiMetrics struct {
	seconds  prometheus.Observer
	throttle prometheus.Counter
	success  prometheus.Counter
	errors   sync.Map // int16 → prometheus.Counter
}

func (m *metered) Opened(l *Listener) {
	lm := m.listener(l)
	lm.accepted.Inc()
	lm.open.Inc()
}

func (m *metered) Closed(l *Listener, reason CloseReason) {
	m.listener(l).open.Dec()
	m.network.Closed.WithLabelValues(l.Name, string(reason)).Inc()
}

func (m *metered) Refused(l *Listener, reason RefuseReason) {
	m.network.Refused.WithLabelValues(l.Name, string(reason)).Inc()
}

func (m *metered) Answered(r *Request, responseBytes int, took time.Duration) {
	lm, am := m.listener(r.Listener), m.api(r.Key)
	lm.in.Add(float64(r.FrameSize()))
	lm.out.Add(float64(responseBytes))
	am.seconds.Observe(took.Seconds())
	if r.Code == 0 {
		am.success.Inc()
		return
	}
	c, ok := am.errors.Load(r.Code)
	if !ok {
		c, _ = am.errors.LoadOrStore(r.Code, m.requests.Count.WithLabelValues(apiName(r.Key), errorName(r.Code)))
	}
	c.(prometheus.Counter).Inc()
}

func (m *metered) Throttled(key int16, d time.Duration) { m.api(key).throttle.Add(d.Seconds()) }

func (m *metered) BudgetWait(budget string) { m.network.BudgetWaits.WithLabelValues(budget).Inc() }

func (m *metered) listener(l *Listener) *listenerMetrics {
	if v, ok := m.listeners.Load(l); ok {
		return v.(*listenerMetrics)
	}
	v, _ := m.listeners.LoadOrStore(l, &listenerMetrics{
		open:     m.network.Connections.WithLabelValues(l.Name),
		accepted: m.network.Accepted.WithLabelValues(l.Name),
		in:       m.network.BytesIn.WithLabelValues(l.Name),
		out:      m.network.BytesOut.WithLabelValues(l.Name),
	})
	return v.(*listenerMetrics)
}

func (m *metered) api(key int16) *apiMetrics {
	if v, ok := m.apis.Load(key); ok {
		return v.(*apiMetrics)
	}
	name := apiName(key)
	v, _ := m.apis.LoadOrStore(key, &apiMetrics{
		seconds:  m.requests.Seconds.WithLabelValues(name),
		throttle: m.requests.Throttle.WithLabelValues(name),
		success:  m.requests.Count.WithLabelValues(name, errorName(0)),
	})
	return v.(*apiMetrics)
}

func apiName(key int16) string { return kmsg.NameForKey(key) }

// errorName is a protocol error's name as Kafka writes it, NONE for success. A
// code that nobody knows is UNKNOWN_SERVER_ERROR, so that the set is closed.
func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return kerr.UnknownServerError.Message
}
