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
	if v := reflect.ValueOf(c.Cleanup); v.NumField() != 11 {
		t.Errorf("storage.Cleanup has %d fields, this test knows 11", v.NumField())
	}
}
