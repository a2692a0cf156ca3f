package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/health"
)

// damagedDisk names the page about disks that fail.
const damagedDisk = "(docs/operations.md, A damaged disk)"

// checkFileSystems checks the file systems of the directories, each once.
func checkFileSystems(f *Facts, n *notes) {
	for _, on := range mounts(f.MountedDirs) {
		m := on[0].Mount
		holds := names(on)
		n.see(fmt.Sprintf("%s on %s (%s) has %s", m.Type, m.Source, m.Point, holds))
		judgeType(m, "file system "+m.Point, holds, n)
	}
}

// mounts groups places by file system. It leaves out places whose file system is unknown.
func mounts(dirs []MountedDir) [][]MountedDir {
	var all [][]MountedDir
	for _, p := range dirs {
		if p.Mount.Type == "" {
			continue
		}
		i := slices.IndexFunc(all, func(on []MountedDir) bool { return on[0].Mount.Point == p.Mount.Point })
		if i < 0 {
			all, i = append(all, nil), len(all)
		}
		all[i] = append(all[i], p)
	}
	return all
}

// names lists places, except those that lie in another.
func names(on []MountedDir) string {
	var all []string
	for _, p := range on {
		if !slices.ContainsFunc(on, func(q MountedDir) bool { return strings.HasPrefix(p.Path, q.Path+"/") }) {
			all = append(all, p.String())
		}
	}
	return strings.Join(all, ", ")
}

const localDisk = "use a local ext4 or XFS for data.dir, log.dirs and journal.dirs"

func judgeType(m Mount, subject, holds string, n *notes) {
	switch kind(m.Type) {
	case "memory":
		n.add(health.Warn, subject,
			fmt.Sprintf("it is %s, in memory: nothing of %s survives a restart of the machine, whatever the profile promises",
				m.Type, holds),
			localDisk)
	case "container":
		n.add(health.Warn, subject, fmt.Sprintf("it is %s, the container's own layer: %s is deleted with the container", m.Type, holds),
			"mount a volume for it: docker run -v chronik:/var/lib/chronik")
	case "network":
		n.add(health.Warn, subject,
			fmt.Sprintf(
				"it is %s: whether a record is on a disk when fdatasync returns depends on a server, its cache and the network, and the lock that keeps a second broker out may not reach other machines; it holds %s",
				m.Type,
				holds,
			),
			localDisk+"; a block device over the network (iSCSI, a cloud volume) is fine")
	case "user":
		n.add(health.Warn, subject,
			fmt.Sprintf(
				"it is %s, which a program serves: whether a record is on a disk when fdatasync returns depends on that program; it holds %s",
				m.Type,
				holds,
			),
			localDisk)
	case "simple":
		n.add(health.Warn, subject,
			fmt.Sprintf("it is %s, which has no journal of its own: a power failure may damage all of it; it holds %s", m.Type, holds),
			localDisk)
	case "cow":
		if !slices.Contains(m.Options, "nodatacow") {
			n.add(health.Note, subject,
				fmt.Sprintf(
					"it is %s: the journal overwrites the same blocks, and the file system writes them to a new place each time, which slows every fdatasync; it holds %s",
					m.Type,
					holds,
				),
				"chattr +C on the empty journal directory before the first start, or put the journal on ext4 or XFS (journal.dirs)")
		}
	case "zfs":
		n.add(health.Note, subject,
			fmt.Sprintf(
				"it is zfs: with sync=disabled fdatasync does nothing and no profile guarantees durability, and the broker cannot read this property; it holds %s",
				holds,
			),
			"check that zfs get sync shows standard or always")
	}
}

// kind classifies the file systems that a check reports. It returns "" for those that keep the
// guarantee of fdatasync and for unknown ones.
func kind(name string) string {
	if strings.HasPrefix(name, "fuse.") {
		return "user"
	}
	for kind, names := range map[string][]string{
		"memory":    {"tmpfs", "ramfs", "devtmpfs"},
		"container": {"overlay", "aufs"},
		"network": {"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "afs", "lustre", "glusterfs", "vboxsf", "prl_fs",
			"smbfs", "webdav"},
		"user":   {"fuse", "macfuse", "osxfuse"},
		"simple": {"ext2", "vfat", "msdos", "exfat", "minix", "fuseblk"},
		"cow":    {"btrfs", "bcachefs"},
		"zfs":    {"zfs"},
	} {
		if slices.Contains(names, name) {
			return kind
		}
	}
	return ""
}

// checkMountOptions detects options that change the effect of a write or a sync.
func checkMountOptions(f *Facts, n *notes) {
	for _, on := range mounts(f.MountedDirs) {
		m := on[0].Mount
		subject := "file system " + m.Point
		has := func(options ...string) string {
			for _, o := range options {
				if slices.Contains(m.Options, o) {
					return o
				}
			}
			return ""
		}
		n.see(m.Point + " is mounted " + strings.Join(m.Options, ","))
		if has("ro") != "" {
			n.addFinding(health.Finding{Severity: health.Bad, Subject: subject, Stops: true,
				Problem: "it is mounted read-only: nothing can be written to " + on[0].String(), Remedy: writable(m)})
		}
		if o := has("nobarrier", "barrier=0"); o != "" {
			n.add(health.Warn, subject,
				"it is mounted "+o+": fdatasync does not flush the disk's cache, so acknowledged records may not survive a power failure",
				"mount it without "+o+", unless the disk's cache has a battery")
		}
		if has("volatile") != "" {
			n.add(health.Warn, subject,
				"it is mounted volatile: syncs have no effect, so acknowledged records may not survive a power failure",
				"mount it without volatile")
		}
		if o := has("sync", "dirsync"); o == "sync" {
			n.add(health.Note, subject,
				"it is mounted sync: every write waits for the disk, whatever the profile, and segments are written slowly",
				"mount it without sync: the broker syncs as the profiles require")
		}
		if has("data=journal") != "" {
			n.add(health.Note, subject,
				"it is mounted data=journal: the file system writes every byte of the journal and of segments twice",
				"mount it without data=journal")
		}
		if has("strictatime") != "" {
			n.add(health.Note, subject,
				"it is mounted strictatime: every read of a segment is a write of its inode, which competes with syncs",
				"mount it noatime or relatime")
		}
	}
}

// writable returns how a file system becomes writable again, which stops the broker. Its open
// files keep the file system from being unmounted; after an error, the kernel refuses to remount
// it.
func writable(m Mount) string {
	const why = "run " + kernelLog + ": the kernel does this after a disk error. "
	if m.Point == "/" {
		return why + "Then restart the machine, which stops the broker and checks the file system before it mounts it " + damagedDisk
	}
	check := []string{"fsck", m.Source}
	if m.Type == "xfs" {
		check[0] = "xfs_repair"
	}
	return why + "Then stop the broker first, which has open files there, run " + health.Command("umount", m.Point) + ", " +
		health.Command(check...) + " and " + health.Command("mount", m.Point) + ", and start the broker. Without such an error, stop the " +
		"broker, run " + health.Command("mount", "-o", "remount,rw", m.Point) + ", and start it " + damagedDisk
}

// checkSharedDisk detects log directories that fail together.
func checkSharedDisk(f *Facts, n *notes) {
	var seen []MountedDir
	for _, p := range f.MountedDirs {
		if p.Role != RoleLogs || p.Mount.Type == "" {
			continue
		}
		for _, q := range seen {
			if p.Mount.Device == q.Mount.Device || p.Disk.Name != "" && p.Disk.Name == q.Disk.Name {
				on := "file system " + p.Mount.Point
				if p.Mount.Device != q.Mount.Device {
					on = "disk " + p.Disk.Name
				}
				n.addDir(health.Note, p.Path,
					fmt.Sprintf("it is on the same %s as %s: they fail together, and the syncs of their journals compete", on, q.Path),
					"use one entry of log.dirs for each disk")
				break
			}
		}
		seen = append(seen, p)
	}
}

// Roles of places.
const (
	RoleData     = "data directory"
	RoleMetadata = "metadata directory"
	RoleLogs     = "log directory"
	RoleJournal  = "journal directory"
	RoleArchive  = "directory of snapshots"
)
