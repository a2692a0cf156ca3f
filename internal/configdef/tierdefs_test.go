package configdef

import (
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// fields returns the configs of a text such as "a=1 b=2".
func fields(text string) map[string]string {
	set := map[string]string{}
	for _, kv := range strings.Fields(text) {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	return set
}

// Apache Kafka 4.3.1's answers, except that it compares with defaults, too.
func TestConfigsOfOldRecordsAreRefusedAsInKafka(t *testing.T) {
	const (
		compacted = "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
		identical = "When `remote.log.copy.disable` is set to true, the `local.retention.X` and `retention.X` must be set to the " +
			"identical value because there will be no more logs copied to the remote storage."
	)
	for _, c := range []struct{ set, want string }{
		{"remote.storage.enable=true", ""},
		{"remote.storage.enable=true cleanup.policy=", ""},
		{"remote.storage.enable=true cleanup.policy=compact", compacted},
		{"remote.storage.enable=true cleanup.policy=compact,delete", compacted},
		{"remote.storage.enable=false cleanup.policy=compact", ""},
		{"remote.storage.enable=maybe",
			"Invalid value maybe for configuration remote.storage.enable: Expected value to be either true or false"},
		{"local.retention.bytes=-3", "Invalid value -3 for configuration local.retention.bytes: Value must be at least -2"},
		{"local.retention.ms=10 retention.ms=5", ""},
		{"remote.storage.enable=true local.retention.ms=10 retention.ms=5",
			"Invalid value 10 for configuration local.retention.ms: Value must not be more than retention.ms property value: 5"},
		{"remote.storage.enable=true local.retention.bytes=10 retention.bytes=5",
			"Invalid value 10 for configuration local.retention.bytes: Value must not be more than retention.bytes property value: 5"},
		{"remote.storage.enable=true local.retention.ms=-1 retention.ms=5",
			"Invalid value -1 for configuration local.retention.ms: Value must not be -1 as retention.ms value is set as 5."},
		{"remote.storage.enable=true local.retention.bytes=-1 retention.bytes=5",
			"Invalid value -1 for configuration local.retention.bytes: Value must not be -1 as retention.bytes value is set as 5."},
		{"remote.storage.enable=true local.retention.ms=-2 retention.ms=5", ""},
		{"remote.storage.enable=true local.retention.ms=5 retention.ms=5", ""},
		{"remote.storage.enable=true local.retention.ms=9 retention.ms=-1", ""},
		{"remote.storage.enable=true local.retention.ms=-1 retention.ms=-1", ""},
		{"remote.storage.enable=true local.retention.bytes=10", ""},
		{"remote.log.copy.disable=true", ""},
		{"remote.log.copy.disable=true local.retention.ms=5 retention.ms=7", ""},
		{"remote.storage.enable=true remote.log.copy.disable=true", ""},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.ms=-2 retention.ms=7", ""},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.ms=7 retention.ms=7", ""},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.ms=5 retention.ms=7",
			strings.ReplaceAll(identical, "X", "ms")},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.bytes=5 retention.bytes=7",
			strings.ReplaceAll(identical, "X", "bytes")},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.bytes=5",
			strings.ReplaceAll(identical, "X", "bytes")},
	} {
		t.Run(c.set, func(t *testing.T) { wantMsg(t, registry().CheckTopic(fields(c.set)), c.want) })
	}
}

// The local limits are those of all records unless they are set, and never above these.
func TestLocalLimits(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		topic, broker string
		time          time.Duration
		bytes         int64
		remote, drop  bool
	}{
		{topic: "", time: week, bytes: -1},
		{topic: "local.retention.ms=5 local.retention.bytes=6", time: week, bytes: -1},
		{topic: "remote.storage.enable=true", time: week, bytes: -1, remote: true},
		{topic: "remote.storage.enable=true local.retention.ms=5 local.retention.bytes=6",
			time: 5 * time.Millisecond, bytes: 6, remote: true},
		{topic: "remote.storage.enable=true", broker: "log.local.retention.ms=5 log.local.retention.bytes=6",
			time: 5 * time.Millisecond, bytes: 6, remote: true},
		{topic: "remote.storage.enable=true local.retention.ms=-2", broker: "log.local.retention.ms=5",
			time: week, bytes: -1, remote: true},
		{topic: "remote.storage.enable=true local.retention.ms=-1 local.retention.bytes=-1", time: week, bytes: -1, remote: true},
		{topic: "remote.storage.enable=true local.retention.ms=0 local.retention.bytes=0", bytes: 0, remote: true},
		{topic: "remote.storage.enable=true local.retention.ms=9999999999", time: week, bytes: -1, remote: true},
		{topic: "remote.storage.enable=true local.retention.ms=-1", broker: "log.retention.ms=-1", time: -time.Millisecond, bytes: -1,
			remote: true},
		{topic: "remote.storage.enable=true local.retention.bytes=9", broker: "log.retention.bytes=8", time: week, bytes: 8, remote: true},
		{topic: "remote.storage.enable=true remote.log.copy.disable=true local.retention.ms=-2", broker: "log.local.retention.ms=5",
			time: week, bytes: -1, remote: true},
		{topic: "remote.storage.enable=true", broker: "log.cleanup.policy=compact", time: week, bytes: -1},
		{topic: "remote.log.delete.on.disable=true", time: week, bytes: -1, drop: true},
		{topic: "remote.storage.enable=true remote.log.delete.on.disable=true", time: week, bytes: -1, remote: true},
	} {
		t.Run(c.topic+" "+c.broker, func(t *testing.T) {
			x, err := registry().ResolveTopic(Layers{Topic: fields(c.topic), Static: fields(c.broker)})
			must.OK(t, err)
			if x.LocalRetention != c.time || x.LocalRetentionBytes != c.bytes || x.Remote != c.remote || x.DropRemote != c.drop {
				t.Errorf("%v, %d bytes, remote %v, drop %v; want %v, %d, %v, %v", x.LocalRetention, x.LocalRetentionBytes, x.Remote,
					x.DropRemote, c.time, c.bytes, c.remote, c.drop)
			}
		})
	}
}

func TestRemote(t *testing.T) {
	for text, want := range map[string][2]bool{
		"": {}, "remote.storage.enable=true": {true, false}, "remote.storage.enable=TRUE": {true, false},
		"remote.storage.enable=false remote.log.delete.on.disable=true": {false, true},
	} {
		if on, drop := registry().Remote(fields(text)); on != want[0] || drop != want[1] {
			t.Errorf("%s: %v, %v", text, on, drop)
		}
	}
}
