// Package frame owns the bytes of a connection between two brokers: the header of a frame, the
// kinds of frames with their bounds, and the payloads of replica streams. It is pure: bytes in,
// values out.
//
// A frame is, big endian:
//
//	magic u16 | version u8 | flags u8 | payload length u32 | CRC-32C u32 | payload
//
// The checksum covers the eight bytes before it and the payload. It detects damage, and a reader
// that has lost its place; it protects from no attacker.
//
// The comment of each AppendTo draws a payload, or an entry of one: u32 and i32 are numbers of 32
// bits without and with a sign, and a number alone is how many bytes a field has.
//
// It promises that a payload costs no memory in proportion to what it claims: the length is checked
// against the bound of its kind before anything is allocated, and a list has no count of its own,
// since its entries have one size.
//
// link sends and receives frames, replica/stream fills and reads the payloads. The package must
// know neither connections nor logs.
package frame
