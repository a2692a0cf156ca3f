// Package format encodes and decodes Kafka's record formats of __consumer_offsets: keys, and the
// values of classic groups, consumer groups (KIP-848), streams groups (KIP-1071), share groups
// (KIP-932) and committed offsets.
//
// It writes the same bytes as Kafka 4.3, so that Kafka's own tools can read the topic, and reads
// topics that Kafka wrote. Decoding never panics and never allocates more than a small multiple of
// its input. The group coordinator calls it; the package does not know what the values mean.
//
// A key starts with an int16 that names the record's type; strings in it have an int16 length. A
// value starts with an int16, its version. "flexible" values have compact strings and arrays (an
// unsigned varint of length+1, 0 for null) and end every structure with tagged fields.
//
//	type  key                          value                              flexible
//	0, 1  group, topic, partition      OffsetCommit, version 0 to 4       from 4
//	2     group                        ClassicGroup, version 0 to 4        from 4
//	3     group                        Group                              yes
//	4     group                        (written by Kafka before 4.0; ignored)
//	5     group, member                Member                             yes
//	6     group                        TargetEpoch                        yes
//	7     group, member                Target                             yes
//	8     group, member                Current                            yes
//	10    group, member                ShareMember                        yes
//	11    group                        Share                              yes
//	12    group                        TargetEpoch, of a share group      yes
//	13    group, member                Target, of a share group           yes
//	14    group, member                ShareCurrent                       yes
//	15    group                        ShareStates                        yes
//	16    group, regular expression    Regex                              yes
//	17    group                        Streams                            yes
//	18    group                        (written by Kafka before 4.1; ignored)
//	19    group, member                StreamsMember                      yes
//	20    group                        TargetEpoch, of a streams group    yes
//	21    group, member                StreamsTarget                      yes
//	22    group, member                StreamsCurrent                     yes
//	23    group                        Topology                           yes
package format
