package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// SaslHandshake (key 17), versions 0 and 1: chooses how a client logs in. Package network answers
// it where clients log in; a request that comes here is one that its connection does not take.
// Version 0, after which frames have no header, is always refused. It is listed for librdkafka,
// which otherwise does not log in at all, although it uses version 1 (rd_kafka_feature_map).
func saslHandshakeAPI() api {
	return apiDef[*kmsg.SASLHandshakeRequest]{
		inProportion: true,
		API:          protocol.API{Key: protocol.KeySASLHandshake, Max: 1},
		asks:         asks[*kmsg.SASLHandshakeRequest]{nothing: true},
		handle: answering(func(_ *Handler, r *network.Request, _ *kmsg.SASLHandshakeRequest) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrSASLHandshakeResponse())
			setCode(r, &resp.ErrorCode, kerr.IllegalSaslState)
			return resp
		}),
	}.api()
}

// SaslAuthenticate (key 36), versions 0 to 2: a message of a login; otherwise as SaslHandshake.
func saslAuthenticateAPI() api {
	return apiDef[*kmsg.SASLAuthenticateRequest]{
		inProportion: true,
		API:          protocol.API{Key: protocol.KeySASLAuthenticate, Max: 2},
		asks:         asks[*kmsg.SASLAuthenticateRequest]{nothing: true},
		handle: answering(func(_ *Handler, r *network.Request, _ *kmsg.SASLAuthenticateRequest) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrSASLAuthenticateResponse())
			setCode(r, &resp.ErrorCode, kerr.IllegalSaslState)
			resp.SASLAuthBytes = []byte{}
			resp.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
			return resp
		}),
	}.api()
}
