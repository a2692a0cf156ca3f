package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const loggerType = kmsg.ConfigResourceTypeBrokerLogger

// A client sets the level of the whole broker's log, and sees that level, also if it was changed in
// another way.
func TestLogLevelIsAConfigOfTheBrokerLogger(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	wantConfigs(t, w, describing(loggerType, "1"), "root=INFO DYNAMIC_BROKER_LOGGER_CONFIG")
	for _, c := range []struct {
		name string
		want zapcore.Level
	}{{"DEBUG", zap.DebugLevel}, {"WARN", zap.WarnLevel}, {"ERROR", zap.ErrorLevel}, {"FATAL", zap.FatalLevel}, {"INFO", zap.InfoLevel}} {
		mustAlter(t, w, incremental(loggerType, "1", "root", set, c.name))
		if got := n.level.Level(); got != c.want {
			t.Errorf("after %s it logs at %v", c.name, got)
		}
		wantConfigs(t, w, describing(loggerType, "1", "root"), "root="+c.name+" DYNAMIC_BROKER_LOGGER_CONFIG")
	}
	// The admin port accepts two more levels.
	n.level.SetLevel(zap.PanicLevel)
	wantConfigs(t, w, describing(loggerType, "1"), "root=FATAL DYNAMIC_BROKER_LOGGER_CONFIG")
	wantConfigs(t, w, describing(loggerType, "1", "kafka.server.KafkaApis"))
}

func TestOnlyCheckingALevelChangesNothing(t *testing.T) {
	n := newNode(t)
	req := incremental(loggerType, "1", "root", set, "DEBUG")
	req.ValidateOnly = true
	mustAlter(t, n.dial(t), req)
	if got := n.level.Level(); got != zap.InfoLevel {
		t.Errorf("it logs at %v", got)
	}
}

// The messages are those of an Apache Kafka 4.3.1, except for TRACE, which it supports, and for the
// text after the name of an unknown logger.
func TestLevelsOfLoggersAreRefusedAsKafkaDoes(t *testing.T) {
	n := newNode(t)
	w := n.dial(t)
	const allowed = "as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, WARN"
	for _, c := range []struct {
		req  *kmsg.IncrementalAlterConfigsRequest
		want string
	}{
		{incremental(loggerType, "1", "kafka.server.KafkaApis", set, "INFO"),
			"INVALID_CONFIG: Logger kafka.server.KafkaApis does not exist! There is one logger, root."},
		{incremental(loggerType, "1", "root", set, "debug"), "INVALID_CONFIG: Cannot set the log level of root to debug " + allowed},
		{incremental(loggerType, "1", "root", set, "TRACE"), "INVALID_CONFIG: Cannot set the log level of root to TRACE " + allowed},
		{incremental(loggerType, "1", "root", unset, "null"), "INVALID_REQUEST: Removing the log level of the root logger is not allowed"},
		{incremental(loggerType, "1", "root", appendTo, "INFO"),
			"INVALID_REQUEST: APPEND operation is not allowed for the BROKER_LOGGER resource"},
		{incremental(loggerType, "1", "root", kmsg.IncrementalAlterConfigOpSubtract, "INFO"),
			"INVALID_REQUEST: SUBTRACT operation is not allowed for the BROKER_LOGGER resource"},
		{incremental(loggerType, "1", "root", kmsg.IncrementalAlterConfigOp(9), "INFO"), "INVALID_REQUEST: Unknown operations type 9"},
		{incremental(loggerType, "1", "root", set, "null"), "INVALID_REQUEST: Null value not supported for : root"},
		{incremental(loggerType, "1", "root", set, "DEBUG", "root", set, "WARN"), "INVALID_REQUEST: Error due to duplicate config keys"},
		{incremental(loggerType, "1", "root", set, "DEBUG", "other", set, "WARN"),
			"INVALID_CONFIG: Logger other does not exist! There is one logger, root."},
		{incremental(loggerType, "7", "root", set, "DEBUG"), "INVALID_REQUEST: Unexpected node id. Expected 1, but received 7"},
		{incremental(loggerType, "", "root", set, "DEBUG"), "INVALID_REQUEST: Node id must be an integer, but it is: "},
		{incremental(loggerType, "x", "root", set, "DEBUG"), "INVALID_REQUEST: Node id must be an integer, but it is: x"},
		{incremental(loggerType, "1"), "ok"},
	} {
		if got := alter(t, w, c.req); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	if got := n.level.Level(); got != zap.InfoLevel {
		t.Errorf("it logs at %v", got)
	}
}
