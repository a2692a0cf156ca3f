package slogcore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/slogcore"
)

// logged returns what a text handler of the given level prints, without times.
func logged(at slog.Level, level zapcore.LevelEnabler, write func(*zap.Logger)) string {
	var out bytes.Buffer
	h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: at, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}})
	write(zap.New(slogcore.New(h, level)))
	return out.String()
}

func TestLinesKeepTheirFields(t *testing.T) {
	got := logged(slog.LevelDebug, zap.DebugLevel, func(l *zap.Logger) {
		l = l.Named("storage").With(zap.String("dir", "/data"))
		l.Info("rolled", zap.Int("files", 2), zap.Duration("took", time.Second), zap.Strings("names", []string{"a", "b"}))
		l.Debug("quiet")
		l.Warn("slow", zap.Error(errors.New("no space")), zap.Stringer("who", time.March), zap.Bool("again", true))
		l.Error("lost", zap.Error(nil))
	})
	const want = `level=INFO msg=rolled dir=/data logger=storage files=2 took=1s names="[a b]"
level=DEBUG msg=quiet dir=/data logger=storage
level=WARN msg=slow dir=/data logger=storage error="no space" who=March again=true
level=ERROR msg=lost dir=/data logger=storage
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A line is written only if the broker's level and the program's handler both want it.
func TestBothLevelsCount(t *testing.T) {
	level := zap.NewAtomicLevelAt(zap.WarnLevel)
	if got := logged(slog.LevelDebug, level, func(l *zap.Logger) { l.Info("a"); l.Warn("b") }); got != "level=WARN msg=b\n" {
		t.Errorf("the broker's level: %q", got)
	}
	level.SetLevel(zap.DebugLevel)
	if got := logged(slog.LevelError, level, func(l *zap.Logger) { l.Warn("a"); l.Error("b") }); got != "level=ERROR msg=b\n" {
		t.Errorf("the handler's level: %q", got)
	}
	for from, to := range map[zapcore.Level]slog.Level{zap.DebugLevel: slog.LevelDebug, zap.InfoLevel: slog.LevelInfo,
		zap.WarnLevel: slog.LevelWarn, zap.ErrorLevel: slog.LevelError, zap.DPanicLevel: slog.LevelError + 4} {
		if got := slogcore.Level(from); got != to {
			t.Errorf("%v is %v, not %v", from, got, to)
		}
	}
}
