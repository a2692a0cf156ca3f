package broker

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/vfs"
)

const clientMetrics = kmsg.ConfigResourceTypeClientMetrics

// subscriptionOf asks which metrics a client is to push.
func subscriptionOf(t *testing.T, w *wire, instance [16]byte) *kmsg.GetTelemetrySubscriptionsResponse {
	t.Helper()
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	req.ClientInstanceID = instance
	return ask[*kmsg.GetTelemetrySubscriptionsResponse](t, w, 0, req)
}

// pushOf pushes metrics and returns the error.
func pushOf(t *testing.T, w *wire, instance [16]byte, subscription int32, codec int8, metrics []byte) error {
	t.Helper()
	req := kmsg.NewPtrPushTelemetryRequest()
	req.ClientInstanceID, req.SubscriptionID, req.CompressionType, req.Metrics = instance, subscription, codec, metrics
	return kerr.ErrorForCode(ask[*kmsg.PushTelemetryResponse](t, w, 0, req).ErrorCode)
}

// A MetricsData with the gauge "org.lag" of 3.
var lagOfThree = []byte("\x0a\x1a\x12\x18\x12\x16\x0a\x07org.lag\x2a\x0b\x0a\x09\x21\x00\x00\x00\x00\x00\x00\x08\x40")

func deflated(t *testing.T, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(p)
	must(t, err)
	must(t, z.Close())
	return b.Bytes()
}

// A subscription is set, listed and described as Kafka's tools do, and survives a restart. Clients
// that it selects are asked for their metrics, which the broker then has.
func TestClientsPushMetrics(t *testing.T) {
	fs := vfs.Memory()
	own := func(o *nodeOptions) { o.fs = fs }
	t.Run("before", func(t *testing.T) {
		n := newNode(t, quick, own)
		w := n.dial(t)
		if got := subscriptionOf(t, w, [16]byte{}); got.ErrorCode != 0 || len(got.RequestedMetrics) > 0 ||
			got.ClientInstanceID == [16]byte{} || got.PushIntervalMillis != 300_000 || got.TelemetryMaxBytes != 1<<20 {
			t.Errorf("%+v", got)
		}
		mustAlter(t, w, incremental(clientMetrics, "s/1", "metrics", set, "org.lag,org.x", "interval.ms", set, "100", "match", set,
			"client_id=.*,client_source_address=127.0.0.1"))
		mustAlter(t, w, incremental(clientMetrics, "gone", "metrics", set, "*"))
		mustAlter(t, w, incremental(clientMetrics, "gone", "metrics", unset, "null"))
	})
	n := newNode(t, quick, own)
	w := n.dial(t)
	wantConfigs(t, w, describing(clientMetrics, "s/1"),
		"interval.ms=100 CLIENT_METRICS_CONFIG {CLIENT_METRICS_CONFIG:interval.ms=100}",
		"match=client_id=.*,client_source_address=127.0.0.1 CLIENT_METRICS_CONFIG {CLIENT_METRICS_CONFIG:match=client_id=.*,client_source_address=127.0.0.1}",
		"metrics=org.lag,org.x CLIENT_METRICS_CONFIG {CLIENT_METRICS_CONFIG:metrics=org.lag,org.x}")
	wantConfigs(t, w, describing(clientMetrics, "gone"), "interval.ms=300000 DEFAULT_CONFIG", "match= DEFAULT_CONFIG",
		"metrics= DEFAULT_CONFIG") // as one that never was
	for version, types := range map[int16][]int8{0: nil, 1: {int8(clientMetrics)}} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		if got := ask[*kmsg.ListConfigResourcesResponse](t, w, version, req).ConfigResources; len(got) != 1 || got[0].Name != "s/1" {
			t.Errorf("version %d: %+v", version, got)
		}
	}
	s := subscriptionOf(t, w, [16]byte{})
	if !slices.Equal(s.RequestedMetrics, []string{"org.lag", "org.x"}) || s.PushIntervalMillis != 100 || !s.DeltaTemporality ||
		len(s.AcceptedCompressionTypes) != 4 {
		t.Errorf("%+v", s)
	}
	must(t, pushOf(t, w, s.ClientInstanceID, s.SubscriptionID, 1, deflated(t, lagOfThree)))
	other := subscriptionOf(t, w, [16]byte{})
	must(t, pushOf(t, w, other.ClientInstanceID, other.SubscriptionID, 4, nil)) // franz-go compresses no metrics to nothing
	v := n.Telemetry().View()
	if len(v.Series) != 1 || v.Series[0].Metric != "org.lag" || v.Series[0].Value != 3 || v.Clients != 2 {
		t.Errorf("%+v", v)
	}
}

// Each of these is refused, and the broker holds nothing of it.
func TestPushesAreRefused(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["telemetry.max.bytes"] = "100000" })
	w := n.dial(t)
	mustAlter(t, w, incremental(clientMetrics, "s", "metrics", set, "*", "interval.ms", set, "100"))
	bomb := deflated(t, make([]byte, 8<<20))
	for name, c := range map[string]struct {
		codec   int8
		metrics []byte
		change  int32
		want    *kerr.Error
	}{
		"another subscription": {0, lagOfThree, 1, kerr.UnknownSubscriptionID},
		"an unknown codec":     {7, lagOfThree, 0, kerr.UnsupportedCompressionType},
		"too large":            {0, make([]byte, 100_001), 0, kerr.TelemetryTooLarge},
		"too large, inflated":  {1, bomb, 0, kerr.TelemetryTooLarge},
		"not compressed":       {4, lagOfThree, 0, kerr.InvalidRecord},
		"no metrics":           {0, []byte("\x0a\xff"), 0, kerr.InvalidRecord},
	} {
		s := subscriptionOf(t, w, [16]byte{})
		if err := pushOf(t, w, s.ClientInstanceID, s.SubscriptionID+c.change, c.codec, c.metrics); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	s := subscriptionOf(t, w, [16]byte{})
	for _, id := range [][16]byte{{}, {15: 1}} {
		if err := pushOf(t, w, id, s.SubscriptionID, 0, lagOfThree); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("a push of the reserved id %x: %v", id, err)
		}
	}
	if v := n.Telemetry().View(); len(v.Series) > 0 {
		t.Errorf("%+v", v)
	}
	if got := subscriptionOf(t, w, s.ClientInstanceID); got.ErrorCode != kerr.ThrottlingQuotaExceeded.Code {
		t.Errorf("asked again at once: %+v", got)
	}
}

// The messages for subscriptions that can't be.
func TestSubscriptionsAreRefused(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	for _, c := range []struct{ name, key, value, want string }{
		{"", "metrics", "a", "INVALID_REQUEST: Subscription name can't be empty"},
		{"s", "nope", "1", "INVALID_CONFIG: Unknown client metrics configuration: nope"},
		{"s", "interval.ms", "99", "INVALID_CONFIG: Invalid value 99 for configuration interval.ms: Value must be at least 100"},
		{"s", "match", "client_id", "INVALID_CONFIG: Illegal client matching pattern: client_id: write NAME=EXPRESSION"},
		{"s", "match", "color=red", "INVALID_CONFIG: Illegal client matching pattern: color=red: the names are client_instance_id, " +
			"client_id, client_software_name, client_software_version, client_source_address, client_source_port"},
		{"s", "match", "client_id=(", "INVALID_CONFIG: Illegal client matching pattern: client_id=(: " +
			"missing closing ): write an expression of RE2"},
		{"s", "match", "client_id=(a?){1000}(b?){1000}",
			"INVALID_CONFIG: Illegal client matching pattern: client_id=(a?){1000}(b?){1000}: " +
				"it would take too long for each client: use shorter expressions, or several subscriptions"},
		{"s", "match", "client_id=" + strings.Repeat("x", 1024),
			"INVALID_CONFIG: Illegal client matching pattern: together they have more than 1024 bytes: use several subscriptions"},
	} {
		if diff := cmp.Diff(c.want, alter(t, w, incremental(clientMetrics, c.name, c.key, set, c.value))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for i := range 100 {
		mustAlter(t, w, incremental(clientMetrics, fmt.Sprint(i), "metrics", set, "a"))
	}
	const full = "INVALID_REQUEST: there are 100"
	if got := alter(t, w, incremental(clientMetrics, "more", "metrics", set, "a")); !strings.HasPrefix(got, full) {
		t.Error(got)
	}
	mustAlter(t, w, incremental(clientMetrics, "7", "metrics", set, "b")) // those that exist can change
	if n.image().NumSubscriptions() != 100 {
		t.Errorf("%d subscriptions", n.image().NumSubscriptions())
	}
}

// All metrics are one empty name, from which KIP-714's clients, franz-go among them, push all.
func TestAllMetricsAreOneEmptyName(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	mustAlter(t, w, incremental(clientMetrics, "s", "metrics", set, "org.a,*"))
	if got := subscriptionOf(t, w, [16]byte{}).RequestedMetrics; !slices.Equal(got, []string{""}) {
		t.Errorf("%q", got)
	}
	// A client that sends no ApiVersions is software of the name "unknown", as in Kafka.
	mustAlter(t, w, incremental(clientMetrics, "s", "match", set, "client_software_name=unknown,client_software_version=unknown"))
	if got := subscriptionOf(t, w, [16]byte{}).RequestedMetrics; len(got) != 1 {
		t.Errorf("%q", got)
	}
}
