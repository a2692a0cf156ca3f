package frame

import (
	"encoding/binary"
	"fmt"
)

// MaxMessage is the most bytes of a request, a response or a message, in all its pieces: the
// largest transaction or snapshot, 64 MiB, and its fields.
const MaxMessage = 65 << 20

// PieceSize is the size of a Piece's fields in bytes.
const PieceSize = 24

// Piece is the start of an RQ, RS or MS frame; at most MaxPiece bytes of the message follow. The
// pieces of a message have the same fields and come in order. Messages of one piece may lie between
// them, and pieces of another kind, but no piece of another message of the same kind.
type Piece struct {
	ID      uint64 // a response has that of its request; 0 for a message without an answer
	Offset  uint32 // of the bytes that follow, in the message
	Total   uint32 // bytes of the message
	Method  uint16 // the method of a request or message, or the code of a failed response
	Timeout uint32 // milliseconds that the sender of a request waits for the response
}

// AppendTo appends the fields to dst:
//
//	id u64 | offset u32 | total u32 | method u16 | zeros 2 | timeout u32
func (p Piece) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.ID)
	dst = binary.BigEndian.AppendUint32(dst, p.Offset)
	dst = binary.BigEndian.AppendUint32(dst, p.Total)
	dst = binary.BigEndian.AppendUint16(dst, p.Method)
	dst = append(dst, 0, 0)
	return binary.BigEndian.AppendUint32(dst, p.Timeout)
}

// ParsePiece reads the payload of an RQ, RS or MS frame with these flags, and checks that fields,
// flags and length agree. The bytes alias p. The error wraps ErrMalformed.
func ParsePiece(p []byte, flags uint8) (f Piece, body []byte, err error) {
	if len(p) < PieceSize {
		return f, nil, short("message", p)
	}
	f = Piece{
		ID: binary.BigEndian.Uint64(p), Offset: binary.BigEndian.Uint32(p[8:]), Total: binary.BigEndian.Uint32(p[12:]),
		Method: binary.BigEndian.Uint16(p[16:]), Timeout: binary.BigEndian.Uint32(p[20:]),
	}
	body = p[PieceSize:]
	end := uint64(f.Offset) + uint64(len(body))
	next, more := flags&FlagNext != 0, flags&FlagMore != 0
	if f.Total > MaxMessage || end > uint64(f.Total) || more != (end < uint64(f.Total)) || next != (f.Offset > 0) ||
		len(body) == 0 && f.Total > 0 || p[18]|p[19] != 0 {
		return f, nil, fmt.Errorf("%w: %d bytes of message %+v with flags %#x", ErrMalformed, len(body), f, flags)
	}
	return f, body, nil
}
