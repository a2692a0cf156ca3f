package cluster

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// warnings is a core without the messages below warnings. That of zap.IncreaseLevel complains on
// standard error if the core takes only errors, and the level may change later.
type warnings struct{ zapcore.Core }

// Enabled implements zapcore.Core.
func (w warnings) Enabled(l zapcore.Level) bool { return l >= zap.WarnLevel && w.Core.Enabled(l) }

// With implements zapcore.Core.
func (w warnings) With(fields []zapcore.Field) zapcore.Core { return warnings{w.Core.With(fields)} }

// Check implements zapcore.Core.
func (w warnings) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !w.Enabled(e.Level) {
		return c
	}
	return w.Core.Check(e, c)
}
