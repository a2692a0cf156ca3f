// Package protocol owns what lies between bytes of a Kafka connection and the
// request and response types of kmsg: headers, the table of the API versions
// that this broker speaks, a guard that makes decoding safe, and the two paths
// that carry records and are therefore written by hand, ProduceView and
// ProduceWriter on the way in, FetchWriter on the way out.
//
// It promises that a request costs memory in proportion to the bytes that were
// sent, whatever counts it claims, and that hand-written and generated codecs
// mean the same: both are fuzzed against each other.
//
// network frames and dispatches with it, broker's handlers decode and encode
// with it. It must not know connections, topics or logs.
package protocol
