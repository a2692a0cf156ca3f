package broker

import (
	"errors"
	"net"
	"net/netip"

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
	instance, s, err := b.opt.Telemetry.Ask(telemetryClient(r, req.ClientInstanceID))
	if err != nil {
		resp.ErrorCode = telemetryCode(err).Code
		r.Code = resp.ErrorCode
		return resp
	}
	resp.ClientInstanceID, resp.SubscriptionID, resp.PushIntervalMillis = instance, s.ID, int32(s.Interval.Milliseconds())
	resp.RequestedMetrics, resp.DeltaTemporality, resp.TelemetryMaxBytes = s.Metrics, true, b.conf.TelemetryMaxBytes
	for _, c := range []record.Codec{record.Zstd, record.Lz4, record.Gzip, record.Snappy} {
		resp.AcceptedCompressionTypes = append(resp.AcceptedCompressionTypes, int8(c))
	}
	return resp
}

// telemetryClient describes the client of a request.
func telemetryClient(r *network.Request, instance [16]byte) telemetry.Client {
	c := telemetry.Client{Instance: instance, ID: r.ClientID, Software: r.Software.Name, Version: r.Software.Version,
		User: r.Session.Principal}
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
	case errors.Is(err, errTelemetryCodec):
		return kerr.UnsupportedCompressionType
	case errors.Is(err, errTelemetryTooLarge), errors.As(err, &refused) && refused.Kind == record.TooLarge:
		return kerr.TelemetryTooLarge
	case errors.As(err, &refused), errors.Is(err, telemetry.ErrMalformed):
		return kerr.InvalidRecord
	}
	return kerr.InvalidRequest
}
