package replica

import (
	"reflect"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/pkg/durability"
)

// Each config of a topic reaches the log's configuration, in the right field.
func TestEveryConfigOfATopicReachesItsLogs(t *testing.T) {
	profiles, err := durability.NewSet()
	must(t, err)
	resolved, err := configdef.New(configdef.Options{Profiles: profiles}).ResolveTopic(configdef.Layers{Topic: map[string]string{
		"cleanup.policy": "compact,delete", "retention.ms": "11", "retention.bytes": "12", "message.timestamp.after.max.ms": "13",
		"file.delete.delay.ms": "14", "min.cleanable.dirty.ratio": "0.15", "min.compaction.lag.ms": "16", "max.compaction.lag.ms": "17",
		"delete.retention.ms": "18", "segment.bytes": "1900000", "segment.ms": "20", "segment.jitter.ms": "21",
		"index.interval.bytes": "22", "segment.index.bytes": "23", "preallocate": "true",
	}})
	must(t, err)
	c := LogConfig(&resolved, true)
	want := storage.Cleanup{
		Delete: true, Compact: true, RetentionTime: 11 * time.Millisecond, RetentionBytes: 12, TimestampAfter: 13 * time.Millisecond,
		DeleteDelay: 14 * time.Millisecond, MinDirty: 0.15, MinLag: 16 * time.Millisecond, MaxLag: 17 * time.Millisecond,
		Tombstones: 18 * time.Millisecond, Internal: true,
	}
	if c.Cleanup != want {
		t.Errorf("got  %+v\nwant %+v", c.Cleanup, want)
	}
	if s := c.Segment; s.Bytes != 1_900_000 || s.Ms != 20 || s.JitterMs != 21 || s.IndexInterval != 22 || s.IndexBytes != 23 ||
		!c.Preallocate {
		t.Errorf("%+v", c)
	}
	if v := reflect.ValueOf(c.Cleanup); v.NumField() != 12 {
		t.Errorf("storage.Cleanup has %d fields, this test knows 12", v.NumField())
	}
}

// With remote.storage.enable, local.retention.ms and .bytes count on the disks, and records that
// are not copied stay. Without it, or without copies, retention.ms and .bytes count.
func TestLocalRetentionReachesTheLogs(t *testing.T) {
	profiles, err := durability.NewSet()
	must(t, err)
	reg := configdef.New(configdef.Options{Profiles: profiles})
	for _, c := range []struct {
		set         map[string]string
		time, bytes int64
		remote      bool
	}{
		{map[string]string{}, 11, 12, false},
		{map[string]string{"remote.storage.enable": "true"}, 11, 12, true},
		{map[string]string{"local.retention.ms": "3", "local.retention.bytes": "4"}, 11, 12, false},
		{map[string]string{"local.retention.ms": "3", "local.retention.bytes": "4", "remote.storage.enable": "true"}, 3, 4, true},
		{map[string]string{"remote.log.copy.disable": "true", "remote.storage.enable": "true"}, 11, 12, false},
	} {
		c.set["retention.ms"], c.set["retention.bytes"] = "11", "12"
		resolved, err := reg.ResolveTopic(configdef.Layers{Topic: c.set})
		must(t, err)
		got := LogConfig(&resolved, false).Cleanup
		if got.RetentionTime != time.Duration(c.time)*time.Millisecond || got.RetentionBytes != c.bytes || got.CopyFirst != c.remote {
			t.Errorf("%v: %v, %d bytes, remote %v", c.set, got.RetentionTime, got.RetentionBytes, got.CopyFirst)
		}
	}
}
