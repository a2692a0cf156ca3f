// Package objects stores whole objects under names: in a directory, or in a bucket of an
// S3-compatible store.
//
// It owns the interface that both have in common (Store), the envelope that every object ends with,
// and the repetition of calls that failed (Repeat). An object is created once, under a name that no
// other object ever has, and never changes. So a lost answer is no problem: the same bytes are put
// again under the same name.
//
// The envelope is a trailer, so that an object begins with its content, and a log object with
// record batches that other tools read. All numbers are little endian:
//
//	 0  magic           [8]byte "chronikO"
//	 8  kind            uint8   see Kind
//	 9  version         uint8   of the content, for each kind
//	10  zero            uint16
//	12  content length  uint64  bytes before the trailer
//	20  CRC-32C         uint32  of the content
//	24  CRC-32C         uint32  of the 24 bytes before
//
// The package does not know what an object contains, or which objects belong together.
package objects
