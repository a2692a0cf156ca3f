// Package load generates load on a broker and reports every outcome to bench/meter: raw connections
// with prebuilt requests, tasks on one shared kgo producer, kgo producers with their defaults, raw
// fetches and kgo consumers.
//
// It promises that an outcome is a success only with error code 0 and a valid offset, that with a
// rate latencies count from the intended send times, and that it sends a raw request once: a failed
// request is not retried. bench.Run is its only caller. It knows neither how results are merged nor
// how they are shown.
package load

import (
	"encoding/binary"
	"time"
)

// StampSize is the size of a Stamp at the start of a value, in bytes.
const StampSize = 28

// Stamp identifies the run, worker and record of a value and its intended send time: big-endian run
// (8 bytes), worker (4), sequence (8), nanoseconds since the start of the run (8).
type Stamp struct {
	Run      uint64
	Worker   uint32
	Sequence uint64
	Sent     time.Duration
}

// Put writes the stamp to the start of value, which must have at least StampSize bytes.
func (s Stamp) Put(value []byte) {
	binary.BigEndian.PutUint64(value, s.Run)
	binary.BigEndian.PutUint32(value[8:], s.Worker)
	binary.BigEndian.PutUint64(value[12:], s.Sequence)
	binary.BigEndian.PutUint64(value[20:], uint64(s.Sent))
}

// ReadStamp reads the stamp of a value; false if the value is too short.
func ReadStamp(value []byte) (Stamp, bool) {
	if len(value) < StampSize {
		return Stamp{}, false
	}
	return Stamp{
		Run: binary.BigEndian.Uint64(value), Worker: binary.BigEndian.Uint32(value[8:]),
		Sequence: binary.BigEndian.Uint64(value[12:]), Sent: time.Duration(binary.BigEndian.Uint64(value[20:])),
	}, true
}
