package storage

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/vfs"
)

// used returns a disk with a log directory after a loss of power.
func used(t *testing.T) *crashfs.FS {
	t.Helper()
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	put(t, makeLogs(t, d, 1, "sync")[0], 3, 100)
	return disk.PowerLossImage(crashfs.KeepAll, 1)
}

// A command names the journal of a directory only if it is in another place.
func TestWhichJournalIsApart(t *testing.T) {
	for loc, want := range map[Location]bool{
		{Path: "/d"}: false, {Path: "/d/", Journal: "/d/journal"}: false, {Path: "d", Journal: "d//journal/"}: false,
		{Path: "/d", Journal: "/j"}: true, {Path: "/d", Journal: "/d"}: true,
	} {
		if loc.JournalApart() != want {
			t.Errorf("%+v: %v", loc, !want)
		}
	}
}

// copyTree copies the files of a directory, without its subdirectories.
func copyTree(t *testing.T, from vfs.FS, a string, to vfs.FS, b string) {
	t.Helper()
	must(t, to.MkdirAll(b))
	infos, err := from.List(a)
	must(t, err)
	for _, in := range infos {
		if in.Dir {
			copyTree(t, from, path.Join(a, in.Name), to, path.Join(b, in.Name))
		} else {
			_ = to.Remove(path.Join(b, in.Name))
			writeFile(t, to, path.Join(b, in.Name), readFile(t, from, path.Join(a, in.Name)))
		}
	}
}

func readFile(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	must(t, err)
	return b
}

func writeFile(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Close()
	}
	must(t, err)
}

// refused opens a directory that must not be used, and checks the error for its cause.
func refused(t *testing.T, fsys vfs.FS, is error, says ...string) {
	t.Helper()
	d, err := openDir(fsys, "sync")
	if err == nil {
		_ = d.Close()
		t.Fatal("the directory was opened")
	}
	if !errors.Is(err, is) {
		t.Errorf("%v does not match %v", err, is)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

func TestEmptyJournalIsRefused(t *testing.T) {
	disk := used(t)
	must(t, disk.RemoveAll("/d/journal"))
	refused(t, disk, ErrForeign, "/d/journal", "journal.dirs")
}

// Where other brokers have replicas, log repair refuses: the error must advise something else. Only
// for partitions without another replica it advises a repair, before the empty directory that would
// lose them.
func TestRefusalAdvisesNoRepairOfReplicas(t *testing.T) {
	disk := used(t)
	must(t, disk.RemoveAll("/d/journal"))
	for _, replicated := range []bool{false, true} {
		_, err := openUnled(disk, "sync", func(o *Options) { o.Replicated = replicated })
		if !errors.Is(err, ErrForeign) {
			t.Fatalf("%v, want ErrForeign", err)
		}
		text := err.Error()
		last := strings.Index(text, "the only replica of a partition, `chronikctl log repair --dir /d --journal /d/journal --last-copy ")
		away := strings.Index(text, "only if all partitions have other replicas, `mv /d /d.away`")
		if replicated != (last > 0) || replicated != (away > last) || strings.Contains(text, " --last-copy") != replicated {
			t.Errorf("replicated %v: %s", replicated, text)
		}
	}
}

func TestForeignJournalIsRefused(t *testing.T) {
	disk, other := used(t), used(t)
	must(t, disk.RemoveAll("/d/journal"))
	copyTree(t, other, "/d/journal", disk, "/d/journal")
	refused(t, disk, ErrForeign, "/d/journal", "belongs to log directory")
}

func TestForeignJournalOfANewDirectoryIsRefused(t *testing.T) {
	disk := crashfs.New(1)
	copyTree(t, used(t), "/d/journal", disk, "/d/journal")
	refused(t, disk, ErrForeign, "is new")
}

// An older copy of the journal does not match the checkpoint.
func TestOlderJournalIsRefused(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 2, 100)
	before := disk.KillImage(1)
	put(t, l, 2, 100)
	must(t, d.checkpoint(nil))
	image := disk.KillImage(1)
	must(t, image.RemoveAll("/d/journal"))
	copyTree(t, before, "/d/journal", image, "/d/journal")
	refused(t, image, journal.ErrDamaged, "older copy")
}

func TestLostCheckpointIsRefused(t *testing.T) {
	disk := used(t)
	must(t, disk.RemoveAll("/d/checkpoint"))
	refused(t, disk, statelog.ErrDamaged, "checkpoint.copy")
	must(t, disk.RemoveAll("/d/checkpoint.copy"))
	refused(t, disk, ErrForeign, "no checkpoint")
}

// Kafka no longer starts in a directory that holds files of another program.
func TestADirectoryOfAnotherProgramIsLeftAsItIs(t *testing.T) {
	for _, stranger := range []string{"/d/meta.properties", "/d/orders-0/partition.metadata"} {
		disk := crashfs.New(1)
		must(t, disk.MkdirAll(path.Dir(stranger)))
		writeFile(t, disk, stranger, []byte("version=1"))
		refused(t, disk, ErrForeign, "was written by another program")
		infos, err := disk.List("/d")
		if err != nil || len(infos) != 1 {
			t.Errorf("beside %s there are %v, %v", stranger, infos, err)
		}
	}
}

// A directory whose files cannot be read may be another program's: no first start writes to it. A
// file system's own directory may deny everything.
func TestADirectoryThatMayBeAnotherProgramsIsLeftAsItIs(t *testing.T) {
	disk := crashfs.New(1)
	must(t, disk.MkdirAll("/d/lost+found"))
	must(t, disk.MkdirAll("/d/orders-0"))
	faulty := errfs.New(disk)
	faulty.Add(errfs.Rule{Path: "/d/lost+found/*", Err: fs.ErrPermission})
	fault := faulty.Add(errfs.Rule{Path: "/d/orders-0/*", Err: syscall.EIO})
	refused(t, faulty, syscall.EIO, "/d/orders-0/partition.metadata")
	if infos, err := disk.List("/d"); err != nil || len(infos) != 2 {
		t.Errorf("the start has written %v, %v", infos, err)
	}
	fault.Off()
	d, err := openDir(faulty, "sync")
	must(t, err)
	must(t, d.Close())
}

func TestFault06CheckpointOfAnotherDirectoryIsRefused(t *testing.T) {
	disk, other := used(t), used(t)
	must(t, disk.RemoveAll("/d/checkpoint"))
	copyTree(t, other, "/d/checkpoint", disk, "/d/checkpoint")
	refused(t, disk, ErrForeign, "checkpoint")
}

// An older checkpoint names journal files that are gone, or frames that segments hold. Both are
// detected or harmless; nothing acknowledged is lost silently.
func TestFault06StaleCheckpoint(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 2, 100)
	stale := disk.KillImage(2)
	for range 30 {
		put(t, l, 5, 3000)
	}
	eventually(t, "the first journal file was given up and recycled", func() bool {
		put(t, l, 1, 3000)
		signal(d.sweeps)
		_, err := disk.Stat("/d/journal/00000000000000000001.journal")
		return err != nil
	})
	image := disk.KillImage(1)
	must(t, image.RemoveAll("/d/checkpoint"))
	copyTree(t, stale, "/d/checkpoint", image, "/d/checkpoint")
	refused(t, image, journal.ErrDamaged, "missing")
}

func TestFault08SecondBrokerIsRefused(t *testing.T) {
	disk := crashfs.New(1)
	mustOpen(t, disk, "sync")
	refused(t, disk, ErrLocked, "pid 4711", "/d")
}

// markedClean reports whether a clean stop wrote the checkpoint of a directory.
func markedClean(fsys vfs.FS, dir string) bool {
	s, err := ReadState(fsys, dir)
	return err == nil && s.Clean
}

// The mark of a clean stop no longer counts after a write to the journal.
func TestTheMarkOfACleanStopIsOfAnUntouchedJournal(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	put(t, makeLogs(t, d, 1, "sync")[0], 3, 100)
	d.ckptMu.Lock()
	marked := d.last
	d.ckptMu.Unlock()
	marked.Clean = true
	state := &checkpoint.State{Header: marked}
	if clean, err := StoppedCleanly(disk, d.Location(), state); clean || err != nil {
		t.Errorf("with frames behind the redo pointer: %v, %v", clean, err)
	}
	must(t, d.Close())
	state, err := ReadState(disk, "/d")
	must(t, err)
	if clean, err := StoppedCleanly(disk, d.Location(), state); !clean || err != nil {
		t.Errorf("after a clean stop: %v, %v", clean, err)
	}
}

// A start distinguishes a clean stop from a crash, and the mark of a clean stop counts once.
func TestCleanMark(t *testing.T) {
	disk := crashfs.New(1)
	d := mustOpen(t, disk, "sync")
	l := makeLogs(t, d, 1, "sync")[0]
	put(t, l, 3, 100)
	must(t, d.Close())
	if !markedClean(disk, "/d") {
		t.Error("the checkpoint of a clean stop does not say so")
	}
	d = mustOpen(t, disk, "sync")
	if !d.Clean() {
		t.Error("a clean stop was taken for a crash")
	}
	put(t, d.Logs()[0], 1, 100)
	image := disk.PowerLossImage(crashfs.DropUnsynced, 1)
	if markedClean(image, "/d") {
		t.Error("the mark is still there after the start")
	}
	d = mustOpen(t, image, "sync")
	if d.Clean() {
		t.Error("a crash after a clean stop was taken for one")
	}
	holds(t, d.Logs()[0], 4)
	if d = mustOpen(t, used(t), "sync"); d.Clean() {
		t.Error("a crash was taken for a clean stop")
	}
}

// unclean makes a directory that was stopped cleanly look as after a crash.
func unclean(t testing.TB, fsys vfs.FS, loc Location) {
	t.Helper()
	b, err := OpenForRepair(loc, Options{FS: fsys})
	must(t, err)
	defer b.Close()
	s, err := ReadState(fsys, loc.Path)
	if err == nil {
		err = b.Commit(s)
	}
	must(t, err)
}
