package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Keys that the framing itself must know.
const (
	// KeyProduce is the API key of Produce, whose requests are charged to the
	// produce budget and may overlap on a connection.
	KeyProduce = int16(kmsg.Produce)
	// KeyApiVersions is the API key of ApiVersions, which answers an unknown
	// version and never has a flexible response header (KIP-511).
	KeyApiVersions = int16(kmsg.ApiVersions)
	// KeySASLHandshake and KeySASLAuthenticate are the API keys of a login, which network answers
	// on connections whose clients must log in.
	KeySASLHandshake    = int16(kmsg.SASLHandshake)
	KeySASLAuthenticate = int16(kmsg.SASLAuthenticate)
	// KeyLink is the API key of the request that begins a connection between two brokers. It is
	// chronik's own, has version 0 only, and is never in a Table: network passes it to
	// Options.Link if its listener is for brokers.
	KeyLink = int16(20480)
)

// HeaderPrefix is the number of bytes at the start of every frame that identify it: key, version
// and correlation id.
const HeaderPrefix = 8

// Header is a request header, versions 1 and 2. (Version 0 belongs to ControlledShutdown, which
// this broker does not support.)
type Header struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID aliases the frame; nil is null.
	ClientID []byte
}

// ParsePrefix reads the fixed part of a header. p must have at least HeaderPrefix bytes.
func ParsePrefix(p []byte) Header {
	_ = p[HeaderPrefix-1]
	return Header{
		Key:           int16(binary.BigEndian.Uint16(p)),
		Version:       int16(binary.BigEndian.Uint16(p[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(p[4:])),
	}
}

// ParseHeader reads the header of a frame without its length and returns the
// request's body. A flexible request has header version 2. Tagged fields of the
// header are skipped. The error wraps ErrMalformed.
func ParseHeader(frame []byte, flexible bool) (h Header, body []byte, err error) {
	if len(frame) < HeaderPrefix {
		return Header{}, nil, fmt.Errorf("header of %d bytes: %w", len(frame), ErrMalformed)
	}
	h = ParsePrefix(frame)
	c := cursor{src: frame[HeaderPrefix:]}
	h.ClientID = c.nullableStr(false) // not compact in either version
	if flexible {
		c.skipTags()
	}
	if c.bad {
		return h, nil, fmt.Errorf("header of API %d version %d: %w", h.Key, h.Version, ErrMalformed)
	}
	return h, c.src, nil
}

// MaxResponsePrefix is how many bytes AppendResponsePrefix appends at most.
const MaxResponsePrefix = 9

// AppendResponsePrefix appends a response's frame length and its header to dst: version 1 with no
// tagged fields for a flexible response, otherwise version 0. bodyLen is the number of bytes that
// follow. flexible must be false for ApiVersions, whatever its version.
func AppendResponsePrefix(dst []byte, correlationID int32, flexible bool, bodyLen int) []byte {
	n := 4 + bodyLen
	if flexible {
		n++
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// Response is a response body: every response type of kmsg, or a type that encodes itself with
// ProduceWriter.
type Response interface {
	Key() int16
	GetVersion() int16
	IsFlexible() bool
	// AppendTo appends the body, without header, to dst and returns it.
	AppendTo(dst []byte) []byte
}
