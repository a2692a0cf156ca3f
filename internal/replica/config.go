package replica

import (
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// LogConfig returns the log configuration for a topic's resolved configuration. internal marks a
// topic that the broker itself writes.
func LogConfig(c *configdef.Topic, internal bool) storage.Config {
	return storage.Config{
		Profile: c.Durability,
		Segment: segment.Limits{
			Bytes: int64(c.SegmentBytes), Ms: max(c.SegmentAge.Milliseconds(), 1), JitterMs: c.SegmentJitter.Milliseconds(),
			IndexInterval: int(c.IndexIntervalBytes), IndexBytes: int(c.SegmentIndexBytes),
		},
		Preallocate: c.Preallocate,
		Cleanup: storage.Cleanup{
			Delete: c.Delete, Compact: c.Compact,
			RetentionTime: c.LocalRetention, RetentionBytes: c.LocalRetentionBytes, CopyFirst: c.Remote && !c.NoCopies,
			TimestampAfter: c.TimestampAfter, DeleteDelay: c.FileDeleteDelay,
			MinDirty: c.MinDirty, MinLag: c.MinLag, MaxLag: c.MaxLag, Tombstones: c.DeleteRetention,
			Internal: internal,
		},
	}
}
