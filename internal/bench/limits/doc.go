// Package limits measures what the machine can do, so that a figure of a broker
// can be held against it: a bare TCP echo and the disk's fdatasync.
//
// It promises that nothing but the thing itself is measured: the echo server is
// a process of its own, so that its CPU is counted apart from the client's, and
// what prepares a file lies outside the measured time. A write or a sync that
// fails ends the measurement with an error and gives no figure.
//
// cmd/chronik-bench offers it as `limits`; package compare runs the echo beside
// brokers. It knows nothing of the Kafka protocol and talks to no broker.
package limits
