// Package durability defines what an acknowledgement means.
//
// A Profile answers three questions, and nothing else in a broker may answer
// them: what must be true of a record's bytes on a replica before that replica
// counts (Ack), who calls fdatasync and when (Sync), and how a group of records
// that one fdatasync covers is formed (MaxWait, MaxRecords, MaxBytes, Policy).
// The acks value of a produce request then says which replicas must count.
//
// A profile is data. The built-in ones are returned by Builtin; a program that embeds a broker adds
// its own through NewSet. There is no process-global registry. NewSet refuses an invalid profile,
// and one with the name of another, so that a built-in profile never gets another meaning. The
// package does not know how a profile is kept.
package durability

import "time"

// Ack is the state that a record's bytes must have on a replica before that replica counts towards
// an acknowledgement.
type Ack uint8

const (
	// Synced means that fdatasync has returned for the bytes.
	Synced Ack = iota
	// Written means that the kernel has the bytes: they survive a crash of the process, but not a
	// power loss.
	Written
)

// Sync is who calls fdatasync, and when.
type Sync uint8

const (
	// SyncGroup means that the log directory's journal syncs, once for all groups that wait for it.
	SyncGroup Sync = iota
	// SyncInterval means that the journal begins a sync within Profile.Interval, for all logs at
	// once.
	SyncInterval
	// SyncOS means that no sync is requested: the journal syncs with others, or about as soon as
	// the system would write back.
	SyncOS
)

// Profile is a named combination. The zero value is not valid; see Profile.Validate.
type Profile struct {
	// Name is the profile's name in configurations: [a-z0-9-]{1,64}.
	Name string
	// Doc is one sentence about the purpose of the profile.
	Doc string
	Ack Ack
	// Sync must be SyncGroup if Ack is Synced, and must not be SyncGroup if Ack is Written.
	Sync Sync
	// Interval is how long after the arrival of a record its sync begins at the latest, or after
	// the write that is in progress then. SyncInterval only: 1 ms to 1 min.
	Interval time.Duration
	// MaxWait is the longest time a group waits for more records before its fdatasync starts; 0
	// means that it never waits. SyncGroup only, at most 10 s.
	MaxWait time.Duration
	// MaxRecords closes a group: 1 to 10,000,000. SyncGroup only.
	MaxRecords int
	// MaxBytes closes a group: 1 KiB to 1 GiB. SyncGroup only. Batches of one partition that were
	// committed together, up to 256 KiB or one larger append, are in one group. So a group exceeds
	// MaxRecords and MaxBytes by at most two of them.
	MaxBytes int64
	// Policy, if set, is used instead of MaxRecords and MaxBytes, which may then be 0. Only for
	// SyncGroup with a MaxWait.
	Policy Policy
}

// Policy decides when a group closes. It must be safe for concurrent use and must not block,
// because the journal of a log directory waits for it. It is called for groups, never for single
// records.
type Policy interface {
	// Close is called when an entry joined the group and when the wait that it returned has passed.
	// It returns true to sync the group now, or how long to wait for more; the journal never waits
	// longer than the profile's MaxWait after the group's first entry.
	Close(Group) (now bool, wait time.Duration)
}

// Group describes a group that is being formed.
type Group struct {
	Records int           // records in the group
	Bytes   int64         // bytes of record batches in the group
	Age     time.Duration // since its first entry
	// Absent is the number of connections that produced recently and have no request in the group:
	// when it is 0, no further producer is expected.
	Absent int
	// Idle is the time since the group's newest entry.
	Idle time.Duration
	// Gap is the recent mean time between two entries; 0 if it is unknown.
	Gap time.Duration
}
