package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/telemetry"
)

var (
	errTelemetryTooLarge = errors.New("the metrics are larger than telemetry.max.bytes")
	errReservedInstance  = errors.New("the client instance id is reserved")
)

// PushTelemetry (key 72), version 0: metrics of the client (KIP-714). As in Kafka, it needs no
// right.
func pushTelemetryAPI() api {
	return apiDef[*kmsg.PushTelemetryRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.PushTelemetry)},
		asks:         asks[*kmsg.PushTelemetryRequest]{nothing: true},
		decode:       decodePushTelemetry,
		overloaded:   kerr.ThrottlingQuotaExceeded,
		handle: handler[*kmsg.PushTelemetryRequest]{run: func(c call, req *kmsg.PushTelemetryRequest) {
			if c.place == nil && req.CompressionType != int8(record.None) && !c.takePlace() {
				return
			}
			c.respond(pushTelemetry(c.b, c.r, req))
		}},
	}.api()
}

// inflatedMetrics bounds what the metrics of a request may inflate to: a multiple of
// telemetry.max.bytes, and no more than metrics of such a compressed size do. Their names repeat,
// so they shrink to a tenth.
func (b *Handler) inflatedMetrics(compressed int) int {
	return min(4*int(b.conf.TelemetryMaxBytes), 64<<10+32*compressed)
}

// decodePushTelemetry also counts what the metrics may inflate to.
func decodePushTelemetry(b *Handler, r *network.Request) (*kmsg.PushTelemetryRequest, int, error) {
	req, cost, err := decode[*kmsg.PushTelemetryRequest](b, r)
	if err == nil && req.CompressionType != int8(record.None) {
		cost += b.inflatedMetrics(min(len(req.Metrics), int(b.conf.TelemetryMaxBytes)))
	}
	return req, cost, err
}

func pushTelemetry(b *Handler, r *network.Request, req *kmsg.PushTelemetryRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrPushTelemetryResponse())
	err := errReservedInstance
	if !reserved(req.ClientInstanceID) {
		err = b.telemetry.Push(telemetryClient(r, req.ClientInstanceID), req.SubscriptionID, req.Terminating, func() ([]byte, error) {
			switch codec := record.Codec(req.CompressionType); {
			case !codec.Known():
				return nil, telemetry.ErrCodec
			case len(req.Metrics) > int(b.conf.TelemetryMaxBytes):
				return nil, errTelemetryTooLarge
			case len(req.Metrics) == 0:
				return nil, nil // no metrics, whatever the codec
			default:
				return record.Inflate(codec, req.Metrics, b.inflatedMetrics(len(req.Metrics)))
			}
		})
	}
	if err != nil {
		resp.ErrorCode = telemetryCode(err).Code
		r.Code = resp.ErrorCode
	}
	return resp
}

// reserved reports whether Kafka reserves an id (Uuid.RESERVED): 0 and 1.
func reserved(id [16]byte) bool {
	return id == [16]byte{} || id == [16]byte{15: 1}
}
