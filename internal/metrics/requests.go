package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Requests holds the metrics of request dispatch and of the handlers. The label api is the Kafka
// name of an API ("Produce"), error the name of a protocol error ("NONE",
// "UNKNOWN_TOPIC_OR_PARTITION"); both sets are closed.
type Requests struct {
	// Count counts finished requests, each once. By api and error: the error that the handler
	// reported of those in the response.
	Count *prometheus.CounterVec
	// Seconds is the time from reading the last byte of a request until its response is passed to
	// the connection's writer. By api.
	Seconds *prometheus.HistogramVec
	// Send is the time from a ready response until the socket has accepted it: it includes the wait
	// for earlier responses of the connection and for the client to read. By api.
	Send *prometheus.HistogramVec
	// Throttle adds up the delays that the broker asked clients for. By api.
	Throttle *prometheus.CounterVec
}

// NewRequests creates the metrics and registers them; reg may be nil.
func NewRequests(reg prometheus.Registerer) *Requests {
	f := promauto.With(reg)
	return &Requests{
		Count: counter(f, nameRequests, "Requests by API and error; NONE is success.", "api", "error"),
		Seconds: histogram(f, nameRequestSeconds, "Time from reading a request until its response is ready.",
			prometheus.ExponentialBuckets(50e-6, 2, 19), "api"),
		Send: histogram(f, nameSendSeconds, "Time from a ready response until the socket accepted its last byte.",
			prometheus.ExponentialBuckets(10e-6, 4, 12), "api"),
		Throttle: counter(f, nameThrottled, "Seconds that the broker asked clients to wait before their next request.", "api"),
	}
}
