package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/controller"
)

// A broker logger is a resource whose configs are loggers, and their values the levels (KIP-412).
// chronik has one level, that of rootLogger, which /loglevel of the admin port changes too. A
// change lasts until the broker stops.
const rootLogger = "root"

// logLevels are the levels that a client may set, by Kafka's names, in Kafka's order. TRACE is
// missing: nothing is logged below DEBUG, and TRACE would be described as another level.
func logLevels() []namedLevel {
	return []namedLevel{
		{"DEBUG", zapcore.DebugLevel}, {"ERROR", zapcore.ErrorLevel}, {"FATAL", zapcore.FatalLevel},
		{"INFO", zapcore.InfoLevel}, {"WARN", zapcore.WarnLevel},
	}
}

type namedLevel struct {
	name  string
	level zapcore.Level
}

const logLevelNames = "DEBUG, ERROR, FATAL, INFO, WARN"

// levelName returns Kafka's name of a level; those between ERROR and FATAL, which only /loglevel
// can set, are shown as FATAL.
func levelName(l zapcore.Level) string {
	for _, known := range logLevels() {
		if known.level == l {
			return known.name
		}
	}
	return "FATAL"
}

// loggersOf describes the loggers of this broker.
func (b *Handler) loggersOf(req *kmsg.DescribeConfigsRequest, res *wanted) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	if res.name == "" {
		return nil, protocolErrorf(kerr.InvalidRequest, "Broker id must not be empty")
	}
	id, err := strconv.ParseInt(res.name, 10, 32)
	if err != nil {
		return nil, protocolErrorf(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", res.name)
	}
	if id != int64(b.opt.Self) {
		return nil, protocolErrorf(kerr.InvalidRequest, "Unexpected broker id, expected %d but received %d", b.opt.Self, id)
	}
	if !res.has(rootLogger) {
		return nil, nil
	}
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	level := levelName(b.opt.Level.Level())
	out.Name, out.Value, out.Source = rootLogger, &level, kmsg.ConfigSourceDynamicBrokerLoggerConfig
	if req.IncludeDocumentation {
		doc := "Least severe messages that the broker logs: " + logLevelNames + ". Holds until the broker stops."
		out.Documentation = &doc
	}
	return []kmsg.DescribeConfigsResponseResourceConfig{out}, nil
}

// alterLoggers changes the level. It checks all operations before it applies any; each logger can
// be named only once.
func (b *Handler) alterLoggers(name string, ops []controller.ConfigOp, validateOnly bool) error {
	if err := controller.CheckOps(ops); err != nil {
		return err
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return protocolErrorf(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", name)
	}
	if id != int64(b.opt.Self) {
		return protocolErrorf(kerr.InvalidRequest, "Unexpected node id. Expected %d, but received %d", b.opt.Self, id)
	}
	level := b.opt.Level.Level()
	for i := range ops {
		if level, err = loggerLevel(&ops[i]); err != nil {
			return err
		}
	}
	if !validateOnly {
		b.opt.Level.SetLevel(level)
	}
	return nil
}

// loggerLevel returns the level that an operation sets. Its errors have Kafka's wording.
func loggerLevel(op *controller.ConfigOp) (zapcore.Level, error) {
	switch {
	case op.Op == controller.Append:
		return 0, protocolErrorf(kerr.InvalidRequest, "APPEND operation is not allowed for the BROKER_LOGGER resource")
	case op.Op == controller.Subtract:
		return 0, protocolErrorf(kerr.InvalidRequest, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource")
	case op.Name != rootLogger:
		return 0, protocolErrorf(kerr.InvalidConfig, "Logger %s does not exist! There is one logger, %s.", op.Name, rootLogger)
	case op.Op == controller.Delete:
		return 0, protocolErrorf(kerr.InvalidRequest, "Removing the log level of the %s logger is not allowed", rootLogger)
	}
	for _, known := range logLevels() {
		if known.name == *op.Value {
			return known.level, nil
		}
	}
	return 0, protocolErrorf(kerr.InvalidConfig,
		"Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are %s",
		rootLogger, *op.Value, logLevelNames)
}
