// Package protocol owns the step between the bytes of a Kafka connection and the request and
// response types of kmsg. It has the headers, the table of API versions that this broker supports,
// and a guard that makes decoding safe. The two codecs that carry records are written by hand:
// ProduceView and ProduceWriter for Produce, FetchWriter for Fetch.
//
// It promises that a request costs memory in proportion to the bytes that were sent, whatever
// counts it claims, and that hand-written and generated codecs agree: fuzz tests compare them.
//
// network uses it for framing and dispatch, broker's handlers to decode and encode. It must not
// know connections, topics or logs.
package protocol
