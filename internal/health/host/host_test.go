package host

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,discard,errors=remount-ro
30 27 8:17 / /srv/my\040data rw,noatime master:2 propagate_from:3 - xfs /dev/sdb1 rw,attr2,inode64
31 27 0:44 / /srv/gone rw - tmpfs tmpfs rw,size=10k
32 27 0:45 / /srv rw,relatime - btrfs /dev/sdc rw,space_cache=v2
33 27 8:33 / /ro ro,relatime - ext4 /dev/sdc1 rw
35 27 8:49 / /ro ro,relatime - xfs /dev/sdd1 rw
a line that is none
34 27 8:33 / - ext4 x
`

func TestMountsAreReadAsTheKernelWritesThem(t *testing.T) {
	all := parseMounts(mountinfo)
	if len(all) != 7 {
		t.Fatalf("%d mounts: %+v", len(all), all)
	}
	m := all[2]
	if m.Point != "/srv/my data" || m.Type != "xfs" || m.Source != "/dev/sdb1" || m.Device != "8:17" ||
		strings.Join(m.Options, ",") != "rw,noatime,attr2,inode64" {
		t.Errorf("%+v", m)
	}
	if m := all[5]; slices.Contains(m.Options, "rw") || m.Options[0] != "ro" {
		t.Errorf("a mount that is read-only: %+v", m)
	}
}

func TestADirectoryLiesOnTheDeepestMount(t *testing.T) {
	all := parseMounts(mountinfo)
	for _, c := range []struct{ path, device, point string }{
		{"/var/lib/chronik", "254:1", "/"},
		{"/srv/my data/logs", "8:17", "/srv/my data"},
		{"/srv/my data", "8:17", "/srv/my data"},
		{"/srv/my database", "0:45", "/srv"},
		{"/srv/gone/x", "0:45", "/srv"}, // a later mount hides the earlier one below it
		{"/srv/gone/x", "0:44", "/srv/gone"},
		{"/srv/gone/x", "9:9", "/srv/gone"}, // btrfs reports another device for its files than for its mounts
		{"/ro", "8:33", "/ro"},
		{"/srv/my data", "254:1", "/"}, // its own device counts, not the deepest mount point
	} {
		if got := mountOf(all, c.path, c.device); got.Point != c.point {
			t.Errorf("%s of device %s lies on %s, want %s", c.path, c.device, got.Point, c.point)
		}
	}
	if got := mountOf(all, "/ro/x", "9:9"); got.Type != "xfs" {
		t.Errorf("of two at the same place the last one is visible: %+v", got)
	}
	if got := mountOf(nil, "/x", "1:1"); got.Type != "" {
		t.Errorf("%+v", got)
	}
}

// written creates files below dir.
func written(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := path.Join(dir, name)
		must.OK(t, os.MkdirAll(path.Dir(at), 0o755))
		must.OK(t, os.WriteFile(at, []byte(text), 0o600))
	}
}

func TestTheDiskBelowAPartitionIsFound(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, map[string]string{
		"devices/sda/queue/write_cache": "write back\n", "devices/sda/queue/rotational": "1\n", "devices/sda/sda1/partition": "1\n",
		"devices/nvme0n1/queue/write_cache": "write through\n", "devices/nvme0n1/queue/rotational": "0\n", "dev/block/x": "",
	})
	for device, at := range map[string]string{"8:1": "sda/sda1", "8:0": "sda", "259:0": "nvme0n1"} {
		must.OK(t, os.Symlink(path.Join(dir, "devices", at), path.Join(dir, "dev/block", device)))
	}
	m := &Machine{sys: dir}
	for device, want := range map[string]checks.Disk{
		"8:1": {Name: "sda", WriteCache: "write back", Rotational: true}, "8:0": {Name: "sda", WriteCache: "write back", Rotational: true},
		"259:0": {Name: "nvme0n1", WriteCache: "write through"}, "0:30": {},
	} {
		if got := m.disk(device); got != want {
			t.Errorf("%s: %+v, want %+v", device, got, want)
		}
	}
}

func TestTheProcessIsRead(t *testing.T) {
	dir := t.TempDir()
	written(
		t,
		dir,
		map[string]string{
			"self/status": "Name:\tchronikd\nVmRSS:\t   2048 kB\nVmSwap:\t 4 kB\n",
			"self/fd/0":   "",
			"self/fd/1":   "",
			"self/fd/3":   "",
		},
	)
	m := &Machine{proc: dir, limit: func() int { return 77 }, clock: func() (bool, bool) { return true, true }}
	if got := m.Memory(); got.Resident != 2<<20 || got.Swapped != 4<<10 {
		t.Errorf("%+v", got)
	}
	if got := m.Files(); got.Limit != 77 || got.Open != 2 {
		t.Errorf("%+v", got)
	}
	if got := m.Clock(); !got.Known || !got.Synchronized {
		t.Errorf("%+v", got)
	}
}

// The facts about a machine that hides them are unknown, without an error.
func TestAMachineThatHidesEverything(t *testing.T) {
	m := &Machine{proc: "/nowhere", sys: "/nowhere", limit: func() int { return 0 }, clock: func() (bool, bool) { return false, false }}
	if m.Memory() != (checks.Memory{}) || m.Files() != (checks.Files{}) || m.Clock() != (checks.Clock{}) {
		t.Error("a fact is known")
	}
	if p := m.MountedDir("r", t.TempDir()); p.Mount.Type != "" || p.Disk != (checks.Disk{}) {
		t.Errorf("%+v", p)
	}
	for text, want := range map[string]int64{" 12 kB": 12 << 10, "x kB": 0, "-1 kB": 0, "": 0, "12 MB": 0} {
		if got := kilobytes(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// A file system that became read-only is seen without asking it.
func TestARemountIsSeen(t *testing.T) {
	proc := t.TempDir()
	m := &Machine{proc: proc}
	must.OK(t, os.Mkdir(path.Join(proc, "self"), 0o755))
	text := strings.Replace(mountinfo, `my\040data rw,`, `my\040data ro,`, 1)
	must.OK(t, os.WriteFile(path.Join(proc, "self", "mountinfo"), []byte(text), 0o600))
	all := parseMounts(mountinfo)
	before := []checks.MountedDir{{Path: "/srv/my data/logs", Mount: all[2]}, {Path: "/", Mount: all[1]}, {}}
	after := m.Remounted(before)
	readOnly := func(d checks.MountedDir) bool { return slices.Contains(d.Mount.Options, "ro") }
	if !readOnly(after[0]) || readOnly(before[0]) || readOnly(after[1]) {
		t.Errorf("%+v, before %+v", after, before)
	}
}

// A directory that will be created is on the file system of its parent, with links resolved.
func TestAMissingDirectoryIsOnItsParentsFileSystem(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	must.OK(t, os.Mkdir(path.Join(dir, "there"), 0o755))
	must.OK(t, os.Symlink("there", path.Join(dir, "link")))
	for name, want := range map[string]string{"link/a/b": "there", "link": "there", "there": "there", "gone/x": ""} {
		if got, info := resolvePath(path.Join(dir, name)); got != path.Join(dir, want) || info == nil {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func FuzzMounts(f *testing.F) {
	for _, line := range strings.Split(mountinfo, "\n") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range parseMounts(text) {
			if m.Point == "" || m.Type == "" || len(m.Options) == 0 {
				t.Errorf("%q: %+v", text, m)
			}
			if mountOf([]checks.Mount{m}, m.Point, m.Device).Type != m.Type {
				t.Errorf("%q: the mount point is not on the mount", text)
			}
		}
	})
}
