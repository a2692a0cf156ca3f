// Package logtail keeps the last lines of a log in memory, up to a limit in bytes, for an operator
// who has no access to the log's destination.
//
// It owns the ring of lines, whose text never takes more than the limit. It is safe for concurrent
// use, and a write never fails. It does not interpret them and does not know its readers.
package logtail

import (
	"bytes"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Tail holds the last lines that were written. The zero value holds none. It is safe for concurrent
// use.
type Tail struct {
	limit int // bytes

	mu      sync.Mutex
	lines   [][]byte // oldest first
	bytes   int      // of all of them
	dropped int64    // lines that were replaced by later ones
}

// New returns a Tail that holds at most limit bytes.
func New(limit int) *Tail { return &Tail{limit: limit} }

// Follow returns a logger that writes to log, and additionally writes each line at or above level
// to the tail as JSON, whether log drops it or not.
func (t *Tail) Follow(log *zap.Logger, level zapcore.LevelEnabler) *zap.Logger {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime, c.EncodeDuration = zapcore.RFC3339NanoTimeEncoder, zapcore.StringDurationEncoder
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, zapcore.NewCore(zapcore.NewJSONEncoder(c), t, level))
	}))
}

// Write adds a copy of line. It cuts a line that is longer than a quarter of the limit. It never
// fails.
func (t *Tail) Write(line []byte) (int, error) {
	n := len(line)
	if most := t.limit / 4; n > most {
		line = append(line[:most:most], '\n')
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, bytes.Clone(line))
	t.bytes += len(line)
	first := 0
	for t.bytes > t.limit {
		t.bytes -= len(t.lines[first])
		t.lines[first] = nil
		first++
	}
	t.lines = t.lines[first:]
	t.dropped += int64(first)
	return n, nil
}

// Sync does nothing; zap's interface requires it.
func (*Tail) Sync() error { return nil }

// Lines returns the text of all held lines, oldest first, and the number of dropped ones.
func (t *Tail) Lines() (text []byte, dropped int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Join(t.lines, nil), t.dropped
}
