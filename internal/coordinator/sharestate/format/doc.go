// Package format encodes and decodes Kafka's record formats of __share_group_state (KIP-932): the
// state of share partitions, as snapshots and updates.
//
// It writes the same bytes as Kafka 4.4, so that Kafka's own tools can read the topic, and reads
// topics that Kafka wrote. Decoding never panics and never allocates more than a small multiple of
// its input. The share coordinator calls it; the package does not know what the values mean.
//
// A key starts with an int16 that names the record's type. The string in it has an int16 length. A
// value starts with an int16, its version, which is 0. Arrays are compact (an unsigned varint of
// length+1), and every structure ends with tagged fields.
//
//	type  key                         value
//	0     group, topic id, partition  Snapshot: snapshot epoch, state epoch, leader epoch, start,
//	                                  create time, write time, batches; tag 0: complete; tag 10000,
//	                                  which is ours: leader epochs, each with its first offset
//	1     group, topic id, partition  Update: snapshot epoch, leader epoch, start, batches; tag 0:
//	                                  complete
//
// A batch is first offset, last offset, delivery state (int8) and delivery count (int16). A tag
// that this version does not know is skipped. A snapshot's key without a value is a tombstone.
package format
