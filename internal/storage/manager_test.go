package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

var ab = []Location{{Path: "/a"}, {Path: "/b"}}

func openManager(fsys vfs.FS, change ...func(*Options)) (*Manager, error) {
	opt := Options{FS: fsys, Holder: "pid 4711", JournalFileSize: 64 << 10, JournalBytes: 256 << 10,
		Config: func(string, ID) Config { return testConfig("sync") }}
	for _, f := range change {
		f(&opt)
	}
	return Open(ab, opt)
}

func mustManage(t testing.TB, fsys vfs.FS, change ...func(*Options)) *Manager {
	t.Helper()
	m, err := openManager(fsys, change...)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// specsOf returns the specs of n partitions of a topic.
func specsOf(topic byte, n int) []Spec {
	list := make([]Spec, n)
	for i := range list {
		list[i] = Spec{ID: ID{Topic: [16]byte{topic}, Partition: int32(i)}, Topic: string(topic), Config: testConfig("sync")}
	}
	return list
}

// filled returns a disk with /a and /b after a clean stop, each with one log of three records.
func filled(t *testing.T) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	m := mustManage(t, disk)
	logs, err := m.Create(specsOf('t', 2))
	must(t, err)
	for _, l := range logs {
		put(t, l, 3, 100)
	}
	must(t, m.Close())
	return disk
}

// in returns the log in a directory.
func in(t *testing.T, m *Manager, dir string) *Log {
	t.Helper()
	for _, l := range m.Logs() {
		if l.Dir().Path() == dir {
			return l
		}
	}
	t.Fatalf("no log is in %s", dir)
	return nil
}

// A directory that cannot be used takes only its own logs offline. The others accept records and
// new logs. The next start finds the directory as it was.
func TestOneBadDirectoryStopsNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, disk *crashfs.FS) // lasts for one start
		rule errfs.Rule
		want error
		id   bool // the directory's identity can be read
	}{
		"its disk does not read": {rule: errfs.Rule{Ops: errfs.Read | errfs.Open | errfs.List | errfs.Stat,
			Path: "/b/*", Err: syscall.EIO}, want: syscall.EIO},
		"its checkpoint is not read": {rule: errfs.Rule{Ops: errfs.Read, Path: "/b/checkpoint/*", Err: syscall.EIO}, want: syscall.EIO,
			id: true},
		"its disk is full": {rule: errfs.Rule{Ops: errfs.Write | errfs.Create, Path: "/b/*", Err: syscall.ENOSPC},
			want: syscall.ENOSPC, id: true},
		"its disk is not mounted": {rule: errfs.Rule{Path: "/b*", Err: syscall.EACCES}, want: syscall.EACCES},
		"its journal is gone": {harm: func(t *testing.T, disk *crashfs.FS) { moved(t, disk, "/b/journal") }, want: ErrForeign,
			id: true},
		"its checkpoint is damaged": {harm: func(t *testing.T, disk *crashfs.FS) {
			change(t, disk, newestSnapshot(t, disk, "/b/checkpoint"), 60, []byte{0xff, 0xff})
		},
			want: statelog.ErrDamaged, id: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filled(t)
			good := disk.KillImage(1)
			var b [16]byte
			m := mustManage(t, good)
			for _, d := range m.Dirs() {
				if d.Path() == "/b" {
					b = d.ID()
				}
			}
			if c.harm != nil {
				c.harm(t, disk)
			}
			errs := errfs.New(disk)
			if c.want != nil && c.harm == nil {
				errs.Add(c.rule)
				deeper := c.rule
				deeper.Path = path.Join(c.rule.Path, "*")
				errs.Add(deeper)
			}
			m = mustManage(t, errs)
			if len(m.Dirs()) != 1 || len(m.Failed()) != 1 || m.Failed()[0].Path != "/b" || !errors.Is(m.Failed()[0], c.want) {
				t.Fatalf("in use %v, failed %v", m.Dirs(), m.Failed())
			}
			if got := m.Failed()[0].ID; c.id && got != b || !c.id && got != [16]byte{} {
				t.Errorf("the failed directory is %x, want %x if it can be read (%v)", got, b, c.id)
			}
			a := in(t, m, "/a")
			logs, err := m.Create(specsOf('u', 3))
			must(t, err)
			for _, l := range logs {
				put(t, l, 1, 10)
				if l.Dir().Path() != "/a" {
					t.Errorf("%s was made in %s", l, l.Dir().Path())
				}
			}
			holds(t, a, 3)
			must(t, m.Close())
			if c.harm != nil {
				return
			}
			m = mustManage(t, disk)
			if len(m.Failed()) > 0 {
				t.Fatal(m.Failed()[0])
			}
			holds(t, in(t, m, "/b"), 3)
		})
	}
}

// moved renames a directory.
func moved(t *testing.T, disk *crashfs.FS, dir string) {
	t.Helper()
	must(t, disk.Rename(dir, dir+".away"))
}

// An error whose cause is not a disk refuses the start with all directories and releases every one
// of them. The next start finds them as after the last stop, clean or not.
func TestWhatIsNotOfADiskRefusesTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, disk *crashfs.FS) (undo func())
		rule    errfs.Rule
		want    error
	}{
		"another process has it": {prepare: func(t *testing.T, disk *crashfs.FS) func() {
			lock, err := disk.Lock("/b/.lock", "pid 7")
			must(t, err)
			return func() { _ = lock.Close() }
		}, want: ErrLocked},
		"a newer version wrote it": {prepare: func(t *testing.T, disk *crashfs.FS) func() {
			name := newestSnapshot(t, disk, "/b/checkpoint")
			old := readFile(t, disk, name)
			head := bytes.Clone(old[:48])
			head[10]++
			binary.LittleEndian.PutUint32(head[44:], crc32.Checksum(head[:44], crc32.MakeTable(crc32.Castagnoli)))
			change(t, disk, name, 0, head)
			return func() { change(t, disk, name, 0, old[:48]) }
		}, want: statelog.ErrNewerFormat},
		"it is no directory":  {rule: errfs.Rule{Ops: errfs.Mkdir, Path: "/b", Err: syscall.ENOTDIR}, want: syscall.ENOTDIR},
		"no descriptors left": {rule: errfs.Rule{Ops: errfs.Open, Path: "/b/checkpoint/*", Err: syscall.EMFILE}, want: syscall.EMFILE},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				disk := filled(t)
				if !clean {
					for _, loc := range ab {
						unclean(t, disk, loc)
					}
				}
				undo := func() {}
				if c.prepare != nil {
					undo = c.prepare(t, disk)
				}
				errs := errfs.New(disk)
				if c.rule.Err != nil {
					errs.Add(c.rule)
				}
				if _, err := openManager(errs); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "/b") {
					t.Fatalf("opened with %v", err)
				}
				undo()
				m := mustManage(t, disk)
				if len(m.Failed()) > 0 {
					t.Fatal(m.Failed()[0])
				}
				if at := in(t, m, "/a").Dir(); at.Clean() != clean {
					t.Errorf("the next start finds a clean stop: %v, want %v", at.Clean(), clean)
				}
				holds(t, in(t, m, "/a"), 3)
				holds(t, in(t, m, "/b"), 3)
			})
		}
	}
}

// If no directory can be used, the start fails and reports each of them with its reason.
func TestAStartWithoutAnyDirectoryIsRefused(t *testing.T) {
	errs := errfs.New(filled(t))
	errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/a/checkpoint/*", Err: syscall.EIO})
	errs.Add(errfs.Rule{Ops: errfs.Read, Path: "/b/checkpoint/*", Err: syscall.EROFS})
	_, err := openManager(errs)
	if !errors.Is(err, syscall.EIO) || !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "/a") ||
		!strings.Contains(err.Error(), "/b") {
		t.Errorf("opened with %v", err)
	}
}

// If two directories hold the same log, the later one in the configuration is left out, and the
// error names both. The earlier one keeps the log.
func TestOneLogInTwoDirectories(t *testing.T) {
	disk := crashfs.New(1)
	for i, loc := range ab {
		d, err := OpenDir(loc, Options{FS: disk, JournalFileSize: 64 << 10, JournalBytes: 256 << 10})
		must(t, err)
		put(t, makeLogs(t, d, 1, "sync")[0], i+1, 10)
		must(t, d.Close())
	}
	leavesOutB(t, disk, 1)
}

// A directory that is a copy of another one is left out in the same way.
func TestACopiedDirectoryIsLeftOut(t *testing.T) {
	disk := crashfs.New(1)
	d, err := OpenDir(ab[0], Options{FS: disk, JournalFileSize: 64 << 10, JournalBytes: 256 << 10})
	must(t, err)
	must(t, d.Close())
	copyTree(t, disk, "/a", disk, "/b")
	leavesOutB(t, disk, 0)
}

func leavesOutB(t *testing.T, disk vfs.FS, records int64) {
	t.Helper()
	m := mustManage(t, disk)
	if len(m.Failed()) != 1 || m.Failed()[0].Path != "/b" {
		t.Fatalf("failed: %v", m.Failed())
	}
	if text := m.Failed()[0].Error(); !strings.Contains(text, "/a") || !strings.Contains(text, "/b") {
		t.Errorf("it says %q", text)
	}
	for _, l := range m.Logs() {
		if l.Dir().Path() != "/a" {
			t.Errorf("%s is in %s", l, l.Dir().Path())
		}
		holds(t, l, records)
	}
}

// newestSnapshot returns the name of the current snapshot of the checkpoint.
func newestSnapshot(t *testing.T, fsys vfs.FS, dir string) (name string) {
	t.Helper()
	infos, err := fsys.List(dir)
	must(t, err)
	for _, in := range infos {
		if strings.HasSuffix(in.Name, ".snapshot") {
			name = max(name, dir+"/"+in.Name)
		}
	}
	return name
}
