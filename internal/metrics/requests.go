package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Requests is what the dispatch of requests and the handlers report. The label
// api is the name of an API as Kafka writes it ("Produce"), error a protocol
// error's name ("NONE", "UNKNOWN_TOPIC_OR_PARTITION"); both sets are closed.
type Requests struct {
	// Count counts finished requests, each once. By api and error: the one that
	// the handler reported of those in the answer.
	Count *prometheus.CounterVec
	// Seconds observes from the last byte of a request read to its response
	// given to the connection's writer. By api.
	Seconds *prometheus.HistogramVec
	// Send observes from a response ready to the socket having taken it: the wait for
	// earlier responses of the connection and for the client to read. By api.
	Send *prometheus.HistogramVec
	// Throttle adds up the delays that quotas asked for. By api.
	Throttle *prometheus.CounterVec
}

// NewRequests makes the metrics and registers them; reg may be nil.
func NewRequests(reg prometheus.Registerer) *Requests {
	f := promauto.With(reg)
	return &Requests{
		Count: counter(f, nameRequests, "Requests by API and error; NONE is success.", "api", "error"),
		Seconds: histogram(f, nameRequestSeconds, "From a request read to its response ready.",
			prometheus.ExponentialBuckets(50e-6, 2, 19), "api"),
		Send: histogram(f, nameSendSeconds, "From a response ready to its last byte taken by the socket.",
			prometheus.ExponentialBuckets(10e-6, 4, 12), "api"),
		Throttle: counter(f, nameThrottled, "Seconds of delay that quotas asked clients for.", "api"),
	}
}
