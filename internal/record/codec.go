package record

import "fmt"

// Codec is the compression of a batch, as in the three lowest bits of its attributes. The values 5
// to 7 may occur in a batch and have no meaning: see Known.
type Codec int8

// The codecs of Kafka's format v2 (zstd since KIP-110).
const (
	None Codec = iota
	Gzip
	Snappy
	Lz4
	Zstd
)

// Known reports whether c is one of the five codecs.
func (c Codec) Known() bool { return c >= None && c <= Zstd }

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case Lz4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", int8(c))
}
