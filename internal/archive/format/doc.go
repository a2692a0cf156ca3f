// Package format has the contents of the objects of an archive, and their names.
//
//	log       batches of one partition, as in a segment, and a footer
//	manifest  which parts of log objects make up the beginning of a partition's log
//	pack      pieces: batches of many partitions that are too few for log objects
//	index     a snapshot: the metadata, and for each partition its manifest and pieces; either
//	          complete, or what changed since another index
//
// Every object ends with the envelope of package objects, which has the version of its content. The
// comments of the functions that encode give the order of the bytes. There, u8 and u32 are numbers
// of 1 and 4 bytes, the least significant first; every other number is an unsigned varint of
// encoding/binary. Bytes and texts follow their length; ids and nonces, of 16 bytes, do not.
//
// The package decodes untrusted bytes: it allocates no more than a message's size, whatever lengths
// the message claims, and what it returns has been checked for contradictions. It encodes,
// decodes and verifies; it does not know when a snapshot is taken, or what the metadata mean.
package format
