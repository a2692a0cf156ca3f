// Package slogcore passes the lines of a zap logger to a handler of log/slog, so that a program
// that embeds a broker gets them through the standard library's type.
//
// It owns the translation of levels and fields, and keeps no state. A line has all its fields in
// their order, and is dropped only if the level or the handler does not want it. It must not know
// who logs.
package slogcore

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// core implements zapcore.Core.
type core struct {
	to    slog.Handler
	level zapcore.LevelEnabler
}

// New returns a core that passes the lines that level enables to a handler, which may drop more of
// them: it is asked for each line.
func New(to slog.Handler, level zapcore.LevelEnabler) zapcore.Core { return &core{to, level} }

// Enabled reports whether both the level and the handler want lines of this level.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.level.Enabled(l) && c.to.Enabled(context.Background(), Level(l))
}

// With returns a core that adds fields to each line.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.to.WithAttrs(attrs(fields)), c.level}
}

// Check adds the core to the entry if the line is wanted.
func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write passes one line. The name of the logger becomes the attribute "logger", as in the JSON
// lines of chronikd.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, Level(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrs(fields)...)
	return c.to.Handle(context.Background(), r)
}

// Sync does nothing: a handler of slog has no such method.
func (*core) Sync() error { return nil }

// Level returns the level of slog for one of zap. Those above zap's error, which slog does not
// have, follow it at slog's distance of 4.
func Level(l zapcore.Level) slog.Level {
	const distance = 4
	return slog.Level(l) * distance
}

// attrs translates fields, in their order. A field may have several values, as an error has that
// describes itself at length.
func attrs(fields []zapcore.Field) []slog.Attr {
	all := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for _, key := range slices.Sorted(maps.Keys(values.Fields)) {
			all = append(all, slog.Any(key, values.Fields[key]))
		}
	}
	return all
}
