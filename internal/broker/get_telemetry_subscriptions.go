package broker

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/telemetry"
)

// GetTelemetrySubscriptions (key 71), version 0: which metrics the client is asked to push
// (KIP-714). As in Kafka, it needs no right.
func getTelemetrySubscriptionsAPI() api {
	return apiDef[*kmsg.GetTelemetrySubscriptionsRequest]{
		API:  protocol.API{Key: int16(kmsg.GetTelemetrySubscriptions)},
		asks: asks[*kmsg.GetTelemetrySubscriptionsRequest]{nothing: true},
		answerBytes: func(b *Handler, _ *kmsg.GetTelemetrySubscriptionsRequest) int64 {
			return int64(b.image().NumSubscriptions()) * configdef.MaxSubscribed
		},
		handle: answering(telemetrySubscriptions),
	}.api()
}

func telemetrySubscriptions(b *Handler, r *network.Request, req *kmsg.GetTelemetrySubscriptionsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrGetTelemetrySubscriptionsResponse())
	instance, s, err := b.telemetry.Ask(telemetryClient(r, req.ClientInstanceID))
	if err != nil {
		resp.ErrorCode = telemetryCode(err).Code
		r.Code = resp.ErrorCode
		return resp
	}
	resp.ClientInstanceID, resp.SubscriptionID, resp.PushIntervalMillis = instance, s.ID, int32(s.Interval.Milliseconds())
	resp.RequestedMetrics, resp.DeltaTemporality, resp.TelemetryMaxBytes = requestedMetrics(&s), true, b.conf.TelemetryMaxBytes
	for _, c := range []record.Codec{record.Zstd, record.Lz4, record.Gzip, record.Snappy} {
		resp.AcceptedCompressionTypes = append(resp.AcceptedCompressionTypes, int8(c))
	}
	return resp
}

// requestedMetrics returns the metrics of a subscription for the answer. All of them are one empty
// name, with which every metric's name begins: so says KIP-714, and so all clients read it. Kafka
// answers with an asterisk, which franz-go takes for the beginning of a name.
func requestedMetrics(s *telemetry.Subscription) []string {
	if slices.Equal(s.Metrics, []string{configdef.AllMetrics}) {
		return []string{""}
	}
	return s.Metrics
}

// unknownSoftware is Kafka's name and version of the software of a client that sent none with
// ApiVersions; selectors of subscriptions can match it.
const unknownSoftware = "unknown"

// telemetryClient describes the client of a request.
func telemetryClient(r *network.Request, instance [16]byte) telemetry.Client {
	c := telemetry.Client{Instance: instance, ID: r.ClientID, Software: cmp.Or(r.Software.Name, unknownSoftware),
		Version: cmp.Or(r.Software.Version, unknownSoftware), User: r.Session.Principal}
	if tcp, ok := r.Peer.(*net.TCPAddr); ok {
		at := tcp.AddrPort()
		c.Address = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return c
}

// telemetryCode returns Kafka's code of an error.
func telemetryCode(err error) *kerr.Error {
	refused := (*record.Error)(nil)
	switch {
	case errors.Is(err, telemetry.ErrTooEarly):
		return kerr.ThrottlingQuotaExceeded
	case errors.Is(err, telemetry.ErrSubscription):
		return kerr.UnknownSubscriptionID
	case errors.Is(err, telemetry.ErrCodec):
		return kerr.UnsupportedCompressionType
	case errors.Is(err, errTelemetryTooLarge), errors.As(err, &refused) && refused.Kind == record.TooLarge:
		return kerr.TelemetryTooLarge
	case errors.As(err, &refused), errors.Is(err, telemetry.ErrMalformed):
		return kerr.InvalidRecord
	}
	return kerr.InvalidRequest
}
