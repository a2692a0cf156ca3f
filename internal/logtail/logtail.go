// Package logtail keeps the last lines of a log in memory, within a bound of bytes, for
// whoever has to explain what a broker did without access to where its log goes.
//
// It owns the ring of lines. It knows neither what they say nor who asks for them.
package logtail

import (
	"bytes"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Tail is the last lines that were written. The zero value keeps nothing. It may be used by
// several goroutines.
type Tail struct {
	limit int // bytes

	mu      sync.Mutex
	lines   [][]byte // the oldest first
	bytes   int      // of all of them
	dropped int64    // lines that gave way to later ones
}

// New returns a Tail that keeps so many bytes at most.
func New(limit int) *Tail { return &Tail{limit: limit} }

// Follow returns a logger that writes as log does, and each line of the level to the tail, as
// JSON, also where log drops it.
func (t *Tail) Follow(log *zap.Logger, level zapcore.LevelEnabler) *zap.Logger {
	c := zap.NewProductionEncoderConfig()
	c.EncodeTime, c.EncodeDuration = zapcore.RFC3339NanoTimeEncoder, zapcore.StringDurationEncoder
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, zapcore.NewCore(zapcore.NewJSONEncoder(c), t, level))
	}))
}

// Write keeps a line, which it copies. One that is longer than a quarter of the bound is cut.
// It never fails.
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

// Sync has nothing to do: zap's interface wants it.
func (*Tail) Sync() error { return nil }

// Lines returns the text of all kept lines, the oldest first, and how many earlier ones were
// dropped.
func (t *Tail) Lines() (text []byte, dropped int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Join(t.lines, nil), t.dropped
}
