package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// SaslHandshake (key 17), version 1: chooses how a client logs in. Package network answers it where
// clients log in; a request that comes here is one that its connection does not take. Version 0,
// after which frames have no header, is not supported.
func saslHandshakeAPI() api {
	return apiDef[*kmsg.SASLHandshakeRequest]{
		API: protocol.API{Key: protocol.KeySASLHandshake, Min: 1, Max: 1},
		handle: answering(func(_ *Broker, r *network.Request, _ *kmsg.SASLHandshakeRequest) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrSASLHandshakeResponse())
			setCode(r, &resp.ErrorCode, kerr.IllegalSaslState)
			return resp
		}),
	}.api()
}

// SaslAuthenticate (key 36), versions 0 to 2: a message of a login; otherwise as SaslHandshake.
func saslAuthenticateAPI() api {
	return apiDef[*kmsg.SASLAuthenticateRequest]{
		API: protocol.API{Key: protocol.KeySASLAuthenticate, Max: 2},
		handle: answering(func(_ *Broker, r *network.Request, _ *kmsg.SASLAuthenticateRequest) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrSASLAuthenticateResponse())
			setCode(r, &resp.ErrorCode, kerr.IllegalSaslState)
			resp.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
			resp.SASLAuthBytes = []byte{}
			return resp
		}),
	}.api()
}
