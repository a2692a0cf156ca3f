package network

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMeteredCountsWhatHappened(t *testing.T) {
	n, r := metrics.NewNetwork(nil), metrics.NewRequests(nil)
	f := start(t, func(r *Request) {
		r.Code = int16(r.CorrelationID)
		r.Respond(body("1234567890"))
	}, func(o *Options) { o.Observer = Metered(n, r) })
	c := f.pipe.dial()
	for _, code := range []int32{0, 0, 3, 9999} {
		c.send(t, frame(protocol.KeyProduce, 3, code, nil))
		c.want(t, code)
	}
	if open := testutil.ToFloat64(n.Connections.WithLabelValues("test")); open != 1 {
		t.Errorf("%v open", open)
	}
	c.Close()
	for f.Stats().Connections != 0 {
		time.Sleep(time.Millisecond)
	}
	f.end(t)
	for name, want := range map[string]float64{"NONE": 2, "UNKNOWN_TOPIC_OR_PARTITION": 1, "UNKNOWN_SERVER_ERROR": 1} {
		if got := testutil.ToFloat64(r.Count.WithLabelValues("Produce", name)); got != want {
			t.Errorf("%v answers of %s, want %v", got, name, want)
		}
	}
	if open := testutil.ToFloat64(n.Connections.WithLabelValues("test")); open != 0 {
		t.Errorf("%v open at the end", open)
	}
	if closed := testutil.ToFloat64(n.Closed.WithLabelValues("test", string(ClosedByClient))); closed != 1 {
		t.Errorf("%v closed by their clients", closed)
	}
	if in, out := testutil.ToFloat64(n.BytesIn.WithLabelValues("test")), testutil.ToFloat64(n.BytesOut.WithLabelValues("test")); in != 4*10 || out != 4*18 {
		t.Errorf("%v bytes in, %v out", in, out)
	}
}
