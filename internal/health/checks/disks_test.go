package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/view"
)

// on returns a log directory on a file system.
func on(kind string, options ...string) Facts {
	m := Mount{Point: "/m", Type: kind, Source: "/dev/sda1", Options: append([]string{"rw", "relatime"}, options...), Device: "8:1"}
	return Facts{Slow: Slow{MountedDirs: []MountedDir{{Role: RoleLogs, Path: "/m/d", Mount: m}}}}
}

func TestFileSystemsWithoutGuarantees(t *testing.T) {
	examine(t, "file_system", []patient{
		{"ext4", on("ext4"), nil}, {"xfs", on("xfs"), nil}, {"unknown", on("newfs"), nil}, {"not told", on(""), nil},
		{"memory", on("tmpfs"), []string{"warn file system /m: it is tmpfs, in memory: nothing of log directory /m/d survives"}},
		{"a container's layer", on("overlay"), []string{"warn file system /m: it is overlay, the container's own layer"}},
		{"nfs", on("nfs4"), []string{"warn file system /m: it is nfs4: whether a record is on a disk"}},
		{"virtiofs", on("virtiofs"), []string{"depends on a server"}},
		{"fuse", on("fuse.sshfs"), []string{"warn file system /m: it is fuse.sshfs, which a program serves"}},
		{"vfat", on("vfat"), []string{"warn file system /m: it is vfat, which has no journal"}},
		{"btrfs", on("btrfs"), []string{"note file system /m: it is btrfs"}},
		{"btrfs, nodatacow", on("btrfs", "nodatacow"), nil},
		{"zfs", on("zfs"), []string{"note file system /m: it is zfs: with sync=disabled"}},
	})
}

// Several directories on one file system cause one finding, which names a directory inside another
// only once.
func TestDirectoriesOfAFileSystemAreReportedTogether(t *testing.T) {
	m := Mount{Point: "/m", Type: "tmpfs"}
	f := Facts{
		Slow: Slow{MountedDirs: []MountedDir{
			{RoleData, "/m/d", m, Disk{}}, {RoleLogs, "/m/d/logs", m, Disk{}}, {RoleLogs, "/m/e", m, Disk{}},
		}},
	}
	found, _ := findingsOf(t, "file_system", f)
	if len(found) != 1 || !strings.Contains(found[0], "nothing of data directory /m/d, log directory /m/e survives") {
		t.Errorf("%q", found)
	}
}

func TestMountOptionsThatChangeWhatASyncDoes(t *testing.T) {
	readOnly := on("ext4")
	readOnly.MountedDirs[0].Mount.Options = []string{"ro", "relatime"}
	examine(t, "mount", []patient{
		{"usual", on("ext4", "noatime", "discard", "data=ordered", "data=writeback"), nil},
		{"read-only", readOnly, []string{"bad file system /m: it is mounted read-only: nothing can be written to log directory /m/d"}},
		{"no barriers", on("ext4", "nobarrier"), []string{"warn file system /m: it is mounted nobarrier"}},
		{"no barriers, otherwise", on("ext4", "barrier=0"), []string{"warn file system /m: it is mounted barrier=0"}},
		{"volatile", on("overlay", "volatile"), []string{"warn file system /m: it is mounted volatile"}},
		{"sync", on("ext4", "sync"), []string{"note file system /m: it is mounted sync"}},
		{"journalled data", on("ext4", "data=journal"), []string{"note file system /m: it is mounted data=journal"}},
		{"strict times", on("xfs", "strictatime"), []string{"note file system /m: it is mounted strictatime"}},
	})
}

// The open files of a broker keep a file system from being unmounted, and that of / is always in
// use.
func TestAFileSystemIsUnmountedWithoutTheBroker(t *testing.T) {
	for _, x := range []struct {
		mount Mount
		steps []string
	}{
		{Mount{Point: "/m", Type: "ext4", Source: "/dev/sdb1"},
			[]string{"stop the broker", "`umount /m`", "`fsck /dev/sdb1`", "`mount /m`", "start the broker", "stop the broker",
				"remount,rw"}},
		{Mount{Point: "/m", Type: "xfs", Source: "/dev/sdb1"}, []string{"stop the broker", "`umount /m`", "`xfs_repair /dev/sdb1`"}},
		{Mount{Point: "/", Type: "ext4", Source: "/dev/sda1"}, []string{"restart the machine"}},
	} {
		remedy, at := writable(x.mount), 0
		for _, step := range x.steps {
			i := strings.Index(remedy[at:], step)
			if i < 0 {
				t.Errorf("%s %s: no %q in its place: %s", x.mount.Type, x.mount.Point, step, remedy)
				break
			}
			at += i + len(step)
		}
		if strings.Contains(remedy, "umount") != (x.mount.Point != "/") {
			t.Error(remedy)
		}
	}
}

func TestLogDirectoriesOnOneDisk(t *testing.T) {
	dir := func(role, path, point, device, disk string) MountedDir {
		return MountedDir{role, path, Mount{Point: point, Type: "ext4", Device: device}, Disk{Name: disk}}
	}
	examine(t, "shared_disk", []patient{
		{
			"one directory",
			Facts{
				Slow: Slow{
					MountedDirs: []MountedDir{
						dir(RoleData, "/a", "/", "8:1", "sda"),
						dir(RoleLogs, "/a/logs", "/", "8:1", "sda"),
						dir(RoleJournal, "/a/logs/journal", "/", "8:1", "sda"),
					},
				},
			},
			nil,
		},
		{
			"two disks",
			Facts{Slow: Slow{MountedDirs: []MountedDir{
				dir(RoleLogs, "/a", "/a", "8:1", "sda"), dir(RoleLogs, "/b", "/b", "8:17", "sdb"),
			}}},
			nil,
		},
		{
			"two partitions",
			Facts{Slow: Slow{MountedDirs: []MountedDir{
				dir(RoleLogs, "/a", "/a", "8:1", "sda"), dir(RoleLogs, "/b", "/b", "8:2", "sda"),
			}}},
			[]string{"note log directory /b: it is on the same disk sda as /a"},
		},
		{
			"one file system",
			Facts{Slow: Slow{MountedDirs: []MountedDir{dir(RoleLogs, "/a", "/", "0:30", ""), dir(RoleLogs, "/b", "/", "0:30", "")}}},
			[]string{"note log directory /b: it is on the same file system / as /a"},
		},
		{
			"disks that are not known",
			Facts{Slow: Slow{MountedDirs: []MountedDir{dir(RoleLogs, "/a", "/a", "0:30", ""), dir(RoleLogs, "/b", "/b", "0:31", "")}}},
			nil,
		},
	})
}

func TestSyncsThatAreSlowOrTooQuick(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	took := func(disk Disk, count uint64, median, p99 time.Duration, records float64) Facts {
		return Facts{
			Dirs: []view.Dir{
				{
					Path:    "/d",
					Journal: "/d/journal",
					Syncs:   view.Latency{Count: count, Median: median, P99: p99, Over: "since the start", Records: records},
				},
			},
			Slow: Slow{MountedDirs: []MountedDir{{RoleJournal, "/d/journal", Mount{Type: "ext4", Point: "/"}, disk}}},
		}
	}
	back, through := Disk{Name: "sda", WriteCache: "write back"}, Disk{Name: "sda", WriteCache: "write through"}
	memory := took(back, 1000, 25*us, 25*us, 1)
	memory.MountedDirs[0].Mount.Type = "tmpfs"
	examine(t, "sync", []patient{
		{"good", took(back, 1000, 800*us, 3*ms, 10), nil},
		{"too few", took(back, 99, time.Second, time.Second, 1), nil},
		{
			"slow and lonely",
			took(back, 1000, 51200*us, 102400*us, 1.5),
			[]string{
				"warn log directory /d: half of its fdatasyncs take longer than 20ms (since the start), and only 1.5 records share one",
			},
		},
		{
			"slow",
			took(back, 1000, 51200*us, 102400*us, 80),
			[]string{"warn log directory /d: half of its fdatasyncs take longer than 20ms (since the start)"},
		},
		{
			"a long tail",
			took(back, 1000, 800*us, 409600*us, 80),
			[]string{"warn log directory /d: the median of its fdatasyncs is ≤ 800µs, but 1 in 100 takes longer than 250ms"},
		},
		{
			"too quick for its cache",
			took(back, 1000, 50*us, 100*us, 1),
			[]string{
				"warn journal directory /d/journal: half of its fdatasyncs return within 50µs, though disk sda has a cache that loses its content without power",
			},
		},
		{"just not too quick", took(back, 1000, 100*us, 200*us, 1), nil},
		{"quick without a cache", took(through, 1000, 25*us, 50*us, 1), nil},
		{"quick, not known why", took(Disk{}, 1000, 25*us, 50*us, 1), nil},
		{"quick in memory", memory, nil},
		{
			"quicker than a platter",
			took(Disk{Name: "sda", WriteCache: "write through", Rotational: true}, 1000, 200*us, 10*ms, 1),
			[]string{"note journal directory /d/journal: half of its fdatasyncs return within 200µs, and disk sda reports that it rotates"},
		},
		{"a platter", took(Disk{Name: "sda", Rotational: true}, 1000, 12800*us, 25600*us, 100), nil},
		{"a virtual platter", took(Disk{Name: "vda", Rotational: true}, 1000, 200*us, 10*ms, 1), nil},
	})
	probed := took(back, 3, time.Second, time.Second, 1)
	probed.Dirs[0].Probe = view.Latency{Count: 40, Median: 51 * ms, P99: 60 * ms, Over: "in a probe"}
	busy := took(back, 1000, 800*us, 3*ms, 10)
	busy.Dirs[0].Probe = probed.Dirs[0].Probe
	examine(t, "sync", []patient{
		{
			"a probe, without other measurements",
			probed,
			[]string{"warn log directory /d: half of its fdatasyncs take longer than 20ms (in a probe)"},
		},
		{"latencies under load override a probe", busy, nil},
	})
	for median, want := range map[time.Duration]string{800 * us: "the profile sync suits it",
		12800 * us: "medium suits many producers", 51200 * us: "high shares each sync"} {
		if _, saw := findingsOf(t, "sync", took(back, 1000, median, median, 2)); !strings.Contains(saw, want) {
			t.Errorf("%v: %s", median, saw)
		}
	}
}

func TestJournalsThatAreFull(t *testing.T) {
	examine(t, "journal", []patient{
		{"well", Facts{Dirs: []view.Dir{{Path: "/d", JournalBytes: 79, JournalLimit: 100}}}, nil},
		{
			"full",
			Facts{Dirs: []view.Dir{{Path: "/d", JournalBytes: 80, JournalLimit: 100}}},
			[]string{"warn log directory /d: its journal holds 80 B of 100 B"},
		},
		{
			"larger than its disk",
			Facts{
				Dirs: []view.Dir{{Path: "/d", Journal: "/j", JournalLimit: 1 << 30}},
				Slow: Slow{JournalTotals: map[string]int64{"/j": 512 << 20}},
			},
			[]string{"warn log directory /d: its journal may grow to 1 GiB, and the file system of /j has 512 MiB"},
		},
	})
}

func TestDisksThatFill(t *testing.T) {
	const gb = 1 << 30
	dir := func(free, total, least int64) Facts {
		return Facts{Dirs: []view.Dir{{Path: "/d", Space: view.SpaceOK, Free: free, Total: total, MinFree: least}}}
	}
	examine(t, "space", []patient{
		{"room", dir(10*gb, 100*gb, 5*gb), nil},
		{"room on a large disk", dir(10*gb, 1000*gb, gb), nil},
		{
			"a large disk that is nearly full",
			dir(10*gb-1, 1000*gb, gb),
			[]string{"warn disk of /d: 9.9 GiB of 1000 GiB are free; below 1 GiB the broker rejects records of clients"},
		},
		{
			"near the threshold",
			dir(10*gb-1, 100*gb, 5*gb),
			[]string{"warn disk of /d: 9.9 GiB of 100 GiB are free; below 5 GiB the broker rejects records of clients"},
		},
		{"no disk guard", dir(4*gb, 100*gb, 0), []string{"warn disk of /d: 4 GiB of 100 GiB are free, and the broker may fill the rest"}},
		{"no disk guard, and enough free space", dir(6*gb, 100*gb, 0), nil},
		{"not known", Facts{Dirs: []view.Dir{{Path: "/d", MinFree: gb}}}, nil},
		{"refuses", Facts{Dirs: []view.Dir{{Path: "/d", SpaceMessage: "80 MiB are free"}}}, []string{"bad disk of /d: 80 MiB are free"}},
	})
	keeps := func(kept int64, logs int) Facts {
		f := dir(50*gb, 100*gb, 5*gb)
		f.Dirs[0].Kept, f.Dirs[0].KeptLogs = kept, logs
		return f
	}
	examine(t, "retention", []patient{
		{"fits", keeps(95*gb, 10), nil},
		{
			"does not",
			keeps(96*gb, 10),
			[]string{
				"warn log directory /d: 10 partitions that only retention.bytes bounds may keep 96 GiB, and its file system can hold 95 GiB",
			},
		},
	})
}

// The operations that still work depend on the free space: commits of groups are records of an
// internal topic.
func TestWhatAFullDiskStillDoes(t *testing.T) {
	for refuses, want := range map[view.Refusal]string{
		view.RefusesClients:  ", and offsets committed; ",
		view.RefusesInternal: ", but groups whose coordinator is this broker cannot commit offsets; ",
	} {
		findings, _ := examined(t, Checks(), &Facts{Dirs: []view.Dir{{Path: "/d", SpaceMessage: "little is free", Refuses: refuses}}})
		if len(findings) != 1 || !strings.Contains(findings[0].Works, want) {
			t.Errorf("refuses %d: %+v", refuses, findings)
		}
	}
}

// A full disk of a broker that leads nothing costs clients nothing. Its remedy deletes records of
// other brokers last.
func TestAFullDiskWhoseBrokerLeadsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   health.Severity
	}{
		"others lead":           {func(*Facts) {}, health.Warn},
		"it leads":              {func(f *Facts) { f.Cluster.Brokers[0].Leads = 1 }, health.Bad},
		"no broker leads":       {func(f *Facts) { f.Cluster.Brokers[1].Leads = 0 }, health.Bad},
		"it is fenced":          {func(f *Facts) { f.Cluster.Brokers[0].State = "fenced" }, health.Bad},
		"it starts":             {func(f *Facts) { f.Serving = false }, health.Bad},
		"no metadata leader":    {func(f *Facts) { f.Cluster.Quorum.NoLeader = time.Minute }, health.Bad},
		"a partition waits":     {func(f *Facts) { f.Cluster.Leaderless = []view.Leaderless{{Brokers: []int32{1}}} }, health.Bad},
		"a broker on its own":   {func(f *Facts) { f.Cluster = nil }, health.Bad},
		"the only of a cluster": {func(f *Facts) { f.Cluster.Brokers = f.Cluster.Brokers[:1] }, health.Bad},
	} {
		f := member(func(c *view.Cluster) { c.Self, c.Brokers[1].Leads = 1, 3 })
		f.Dirs = []view.Dir{{Path: "/d", SpaceMessage: "little is free", Refuses: view.RefusesInternal}}
		c.change(&f)
		var n notes
		checkSpace(&f, &n)
		if len(n.findings) != 1 || n.findings[0].Severity != c.want {
			t.Errorf("%s: %+v", name, n.findings)
			continue
		}
		x := n.findings[0]
		if continues := strings.Contains(x.Works, "other brokers lead all partitions"); continues != (c.want == health.Warn) ||
			continues == strings.Contains(x.Works, "cannot commit") {
			t.Errorf("%s: %s", name, x.Works)
		}
		files, moves := strings.Index(x.Remedy, "files of other programs"), strings.Index(x.Remedy, "`chronikctl broker drain 1`")
		retention := strings.Index(x.Remedy, "; last, keep fewer records on all brokers")
		if f.Cluster != nil && len(f.Cluster.Brokers) > 1 && (files != len("remove ") || moves < files || retention < moves) {
			t.Errorf("%s: %s", name, x.Remedy)
		}
	}
}
