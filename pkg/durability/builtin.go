package durability

import "time"

// Default is the name of the default profile.
const Default = "sync"

// mb is a megabyte, in bytes.
const mb = 1_000_000

// Builtin returns the profiles that every Set has: sync first, which is the default, then the
// waiting ones by their longest wait, then the two that acknowledge records that are only written.
// The caller owns the slice.
func Builtin() []Profile {
	return []Profile{
		{
			Name: "sync", Doc: "Full durability: a group is what arrived during the last fdatasync; no append waits for others.",
			Ack: Synced, Sync: SyncGroup, MaxRecords: 10_000, MaxBytes: 50 * mb,
		},
		{
			Name: "low", Doc: "Fast disks: waits up to 2 ms for more records.",
			Ack: Synced, Sync: SyncGroup, MaxWait: 2 * time.Millisecond, MaxRecords: 500, MaxBytes: 5 * mb,
		},
		{
			Name: "medium", Doc: "A compromise: waits up to 10 ms for more records.",
			Ack: Synced, Sync: SyncGroup, MaxWait: 10 * time.Millisecond, MaxRecords: 2_000, MaxBytes: 15 * mb,
		},
		{
			Name: "high", Doc: "Many producers on disks whose fdatasync is costly, such as network disks: waits up to 50 ms for more records.",
			Ack: Synced, Sync: SyncGroup, MaxWait: 50 * time.Millisecond, MaxRecords: 10_000, MaxBytes: 50 * mb,
		},
		{
			Name: "ultra", Doc: "As high, for fewer syncs: waits up to 100 ms for more records.",
			Ack: Synced, Sync: SyncGroup, MaxWait: 100 * time.Millisecond, MaxRecords: 20_000, MaxBytes: 100 * mb,
		},
		{
			Name: "interval",
			Doc:  "Bounded loss: acknowledges records that the kernel has; one fdatasync for all topics begins within 50 ms.",
			Ack:  Written, Sync: SyncInterval, Interval: 50 * time.Millisecond,
		},
		{
			Name: "os", Doc: "Kafka's default: acknowledges records that the kernel has and waits for no fdatasync.",
			Ack: Written, Sync: SyncOS,
		},
	}
}
