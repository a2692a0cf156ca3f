package chronikd

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/cli"
)

// newLogger returns a logger that writes to w, and its level, which can be changed while it is in
// use. format is auto, console or json; auto means console if w is a terminal.
func newLogger(w io.Writer, format, level string) (*zap.Logger, zap.AtomicLevel, error) {
	at, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, at, err
	}
	if format == "auto" {
		format = "json"
		if cli.IsTerminal(w) {
			format = "console"
		}
	}
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if format == "console" {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		enc.ConsoleSeparator = "  "
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), at)), at, nil
}
