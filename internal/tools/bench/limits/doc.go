// Package limits measures the limits of the machine, for comparison with figures of a broker: a
// bare TCP echo and the disk's fdatasync.
//
// It promises that it measures nothing else: the echo server is a separate process, so that its CPU
// time is counted separately from the client's, and the preparation of a file is outside the
// measured time. A failed write or sync ends the measurement with an error and without a figure.
//
// cmd/chronik-bench offers it as `limits`; package compare runs the echo next to brokers. Its
// clients are those of package load; it contacts no broker.
package limits
