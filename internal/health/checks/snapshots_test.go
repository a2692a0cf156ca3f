package checks

import (
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/view"
)

func TestSnapshotsThatAreMissed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	facts := func(age time.Duration, service view.Snapshots, newest *view.Snapshot) Facts {
		service.URL, service.IntervalMs = "s3://b", time.Hour.Milliseconds()
		if newest != nil {
			newest.Number, newest.TimeMs = 7, now.Add(-age).UnixMilli()
		}
		s := &Snapshots{Snapshots: service, Newest: newest}
		if newest != nil && newest.Damage != "" {
			s.Damaged, s.Suspect = newest, true
		}
		return Facts{Now: now, Snapshots: s}
	}
	failed := view.Snapshots{Failures: 2, LastError: "bucket is full"}
	retries, uploads := failed, failed
	retries.Running, uploads.Running = &view.RunningSnapshot{}, &view.RunningSnapshot{Number: 8}
	again := uploads
	uploads.Failures = 1
	unasked := func(since time.Duration) Facts {
		x := facts(0, view.Snapshots{}, nil)
		x.Snapshots.Unasked = now.Add(-since)
		return x
	}
	off := facts(time.Hour, failed, nil)
	off.Snapshots.URL = ""
	near := facts(0, view.Snapshots{}, &view.Snapshot{})
	near.MountedDirs = []MountedDir{{Role: RoleData, Path: "/other", Mount: Mount{Device: "8:1"}},
		{Role: RoleLogs, Path: "/logs", Mount: Mount{Device: "8:2"}}}
	far := near
	near.Archive.Mount.Device, far.Archive.Mount.Device = "8:2", "8:3"
	older := facts(0, view.Snapshots{}, &view.Snapshot{})
	older.Snapshots.Damaged = &view.Snapshot{Number: 3, Damage: "object x is missing", VerifiedMs: now.UnixMilli()}
	suspect := older
	both := *older.Snapshots
	both.Suspect = true
	suspect.Snapshots = &both
	examine(t, "snapshots", []patient{
		{"are beside the records", near, []string{"note snapshots: archive.url is on the file system of log directory /logs: who loses that"}},
		{"are on a disk of their own", far, nil},
		{"does not lead the metadata", Facts{Now: now}, nil},
		{"takes none", off, nil},
		{"was asked", unasked(3*time.Hour - time.Second), nil},
		{"is not asked", unasked(3 * time.Hour), []string{"warn snapshots: no broker has asked for its part of a snapshot since " +
			"2026-01-02T00:04:05Z: the one that leads the metadata takes none"}},
		{"takes the first one", facts(0, view.Snapshots{}, nil), nil},
		{"has a good one", facts(3*time.Hour-time.Second, view.Snapshots{}, &view.Snapshot{}), nil},
		{"cannot take any", facts(0, failed, nil), []string{"warn snapshots: there is no snapshot, and none can be taken: bucket is full"}},
		{"failed a few times", facts(time.Hour+missedLeast-time.Second, failed, &view.Snapshot{}),
			[]string{"note snapshots: the last attempt to take a snapshot failed: bucket is full"}},
		{"fails, long before three intervals", facts(time.Hour+missedLeast, failed, &view.Snapshot{}),
			[]string{"warn snapshots: the newest snapshot is of 2026-01-02T01:54:05Z, and one is to be taken every 1h0m0s; " +
				"the last attempt failed: bucket is full"}},
		{"tries again", facts(time.Hour+missedLeast, retries, &view.Snapshot{}),
			[]string{"warn snapshots: the newest snapshot is of 2026-01-02T01:54:05Z, and one is to be taken every 1h0m0s; " +
				"the last attempt failed: bucket is full"}},
		{"failed, and uploads again", facts(3*time.Hour-time.Second, uploads, &view.Snapshot{}),
			[]string{"note snapshots: the last attempt to take a snapshot failed: bucket is full"}},
		{"uploads the first one", facts(0, uploads, nil),
			[]string{"note snapshots: the last attempt to take a snapshot failed: bucket is full"}},
		{"failed twice, and uploads again", facts(0, again, nil),
			[]string{"warn snapshots: there is no snapshot, and none can be taken: bucket is full"}},
		{"uploads for too long", facts(3*time.Hour, uploads, &view.Snapshot{}),
			[]string{"warn snapshots: the newest snapshot is of 2026-01-02T00:04:05Z, and one is to be taken every 1h0m0s; " +
				"the last attempt failed: bucket is full"}},
		{"is late", facts(3*time.Hour, view.Snapshots{}, &view.Snapshot{}),
			[]string{"warn snapshots: the newest snapshot is of 2026-01-02T00:04:05Z, and one is to be taken every 1h0m0s"}},
		{"is late and fails", facts(3*time.Hour, failed, &view.Snapshot{}), []string{"warn snapshots: the newest snapshot is of " +
			"2026-01-02T00:04:05Z, and one is to be taken every 1h0m0s; the last attempt failed: bucket is full"}},
		{"has a damaged one", facts(0, view.Snapshots{}, &view.Snapshot{Damage: "object x is missing", VerifiedMs: now.UnixMilli()}),
			[]string{"warn snapshots: snapshot 7 cannot be restored, as its verification at 2026-01-02T03:04:05Z found: object x is missing"}},
		{"has a damaged one, and a newer one with other objects", older,
			[]string{"warn snapshots: snapshot 3 cannot be restored, as its verification at 2026-01-02T03:04:05Z found: object x is missing"}},
		{"has a damaged one, and a newer one with its objects", suspect, []string{"warn snapshots: snapshot 3 cannot be restored, as its " +
			"verification at 2026-01-02T03:04:05Z found: object x is missing; nor can the newest, 7, if it has the same objects"}},
		{"lacks partitions", facts(0, view.Snapshots{}, &view.Snapshot{Offline: 2}),
			[]string{"warn snapshots: snapshot 7 lacks 2 partitions that no broker could read"}},
	})
}
