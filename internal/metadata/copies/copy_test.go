package copies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/errfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/testing/storetest"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const copyDir = "/c"

// kept is a store of an only voter with a copy.
type kept struct {
	*raftstore.Store
	copy *Copy
}

// patiently makes transactions wait for the copy, however busy the machine is.
func patiently(o *Options) { o.Patience = 10 * time.Minute }

// try opens the store in /m, and keeps its copy.
func try(fsys vfs.FS, set ...func(*Options)) (*kept, error) {
	s, err := solestore.Try(raftstore.Options{FS: fsys, Dir: "/m", Log: zap.NewNop(), CompactBytes: 600})
	if err != nil {
		return nil, err
	}
	return copying(s, fsys, set...), nil
}

func copying(s *raftstore.Store, fsys vfs.FS, set ...func(*Options)) *kept {
	o := Options{FS: fsys, Dir: copyDir, View: s.View(), Ended: s.Ended(), Log: zap.NewNop(), CompactBytes: 600}
	for _, f := range set {
		f(&o)
	}
	c := Start(context.Background(), o)
	s.SetCopy(c)
	return &kept{s, c}
}

func open(t testing.TB, fsys vfs.FS, set ...func(*Options)) *kept {
	t.Helper()
	s, err := try(fsys, set...)
	must.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Close closes the store, and waits until the copy has what it shows.
func (k *kept) Close() error {
	err := k.Store.Close()
	<-k.copy.ended
	return err
}

func put(key, value string) metadata.Txn {
	return metadata.Txn{Put: []metadata.KV{{Key: key, Value: []byte(value)}}}
}

func mustTxn(t testing.TB, s *kept, txn metadata.Txn) {
	t.Helper()
	if _, err := s.Txn(context.Background(), txn); err != nil {
		t.Fatal(err)
	}
}

func dump(t testing.TB, s *kept) string {
	t.Helper()
	keys, revision, err := s.Range(context.Background(), "")
	must.OK(t, err)
	return storetest.Text(keys, revision)
}

// checkAfterCrash checks that the acknowledged transactions are in the store, and that the one in
// progress is complete or absent (I6).
func checkAfterCrash(t *testing.T, fsys *crashfs.FS, acknowledged int, want []string) {
	t.Helper()
	s, err := solestore.Try(raftstore.Options{FS: fsys, Dir: "/m", Log: zap.NewNop()})
	if err != nil {
		t.Fatalf("open after the crash, %d acknowledged: %v", acknowledged, err)
	}
	defer s.Close()
	got := dump(t, &kept{Store: s})
	if got != want[acknowledged] && (acknowledged+1 >= len(want) || got != want[acknowledged+1]) {
		t.Fatalf("%d acknowledged, found %s\nwant %s\nor the one after", acknowledged, got, want[acknowledged])
	}
	if err := CheckAgainst(fsys, copyDir, "/m", s.View()); err != nil {
		t.Fatalf("%d acknowledged: %v", acknowledged, err)
	}
}

// copied returns the content of the copy. It reads again if the copier replaces the generation
// meanwhile.
func copied(t testing.TB, fsys vfs.FS) string {
	t.Helper()
	for tries := 0; ; tries++ {
		c, err := Check(fsys, copyDir)
		var gone *Damage
		if errors.As(err, &gone) && gone.Lost && tries < 100 {
			continue
		}
		must.OK(t, err)
		return storetest.Text(c.Keys, c.Revision)
	}
}

// eventually waits for a condition that must become true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

// An acknowledged transaction is in the copy, whatever generation the copy is in, and after the
// store is reopened.
func TestCopyHasAcknowledgedTransactions(t *testing.T) {
	fsys := vfs.Memory()
	for range 3 {
		s := open(t, fsys, patiently)
		for _, txn := range storetest.Script() {
			mustTxn(t, s, txn)
			must.OK(t, s.copy.Behind())
			if got, want := copied(t, fsys), dump(t, s); got != want {
				t.Fatalf("the copy has %s\nwant %s", got, want)
			}
		}
		must.OK(t, s.Close())
	}
}

// copyRun runs the script until the file system dies, opening the store again in the middle. It
// returns how many transactions were acknowledged, and how many of them while the copy was
// complete.
func copyRun(fsys vfs.FS, txns []metadata.Txn) (acknowledged, inCopy int) {
	for _, part := range [][]metadata.Txn{txns[:9], txns[9:]} {
		s, err := try(fsys, patiently)
		if err != nil {
			return acknowledged, inCopy
		}
		for _, t := range part {
			if _, err := s.Txn(context.Background(), t); err != nil || s.copy.Behind() != nil {
				_ = s.Close()
				return acknowledged, inCopy
			}
			acknowledged++
			inCopy = acknowledged
		}
		if s.Close() != nil {
			return acknowledged, inCopy
		}
	}
	return acknowledged, inCopy
}

// Whenever the process or the power fails, the store and the copy have the acknowledged
// transactions, each complete, and the copy has nothing that the store does not have.
func TestCopyAfterACrashAtEverySystemCall(t *testing.T) {
	txns := storetest.Script()
	want := storetest.Expectations(txns)
	whole := crashfs.New(1)
	if n, m := copyRun(whole, txns); n != len(txns) || m != n {
		t.Fatalf("%d of %d transactions without a crash, %d in the copy", n, len(txns), m)
	}
	check := func(call int, image *crashfs.FS, acknowledged, inCopy int) {
		t.Helper()
		checkAfterCrash(t, image.KillImage(1), acknowledged, want)
		c, err := Check(image, copyDir)
		if err != nil {
			t.Fatalf("call %d: the copy: %v", call, err)
		}
		if !c.Used && inCopy > 0 || c.Used && (c.Revision < int64(inCopy) || storetest.Text(c.Keys, c.Revision) != want[c.Revision]) {
			t.Fatalf("call %d: %d transactions were in the copy, it has %s", call, inCopy, storetest.Text(c.Keys, c.Revision))
		}
	}
	for call := range whole.Ops() + 1 {
		for _, die := range []func(*crashfs.FS, int){(*crashfs.FS).CrashAt, (*crashfs.FS).CrashDuring} {
			fsys := crashfs.New(uint64(call))
			die(fsys, call)
			acknowledged, inCopy := copyRun(fsys, txns)
			check(call, fsys.KillImage(1), acknowledged, inCopy)
			for _, m := range crashfs.Modes() {
				check(call, fsys.PowerLossImage(m, uint64(call)), acknowledged, inCopy)
			}
		}
	}
}

// A copy with a failing disk does not prevent transactions. It is reported as behind, and complete
// again when the disk works again.
func TestFailedCopyIsBehind(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	s := open(t, disk, patiently)
	mustTxn(t, s, put("/a", "1"))
	fault := disk.Add(errfs.Rule{Ops: errfs.Write | errfs.Create | errfs.Datasync, Path: copyDir + "/*", Err: syscall.EIO})
	mustTxn(t, s, put("/a", "2"))
	if err := s.copy.Behind(); !errors.Is(err, syscall.EIO) {
		t.Errorf("behind: %v", err)
	}
	mustTxn(t, s, put("/a", "3"))
	fault.Off()
	eventually(t, "the copy is complete again", func() bool { return s.copy.Behind() == nil })
	if got, want := copied(t, disk), dump(t, s); got != want {
		t.Errorf("the copy has %s, want %s", got, want)
	}
}

// A copy with a hanging disk delays one transaction for a bounded time, and later ones not at all.
func TestStuckCopyBlocksNoTransaction(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	s := open(t, disk)
	free := make(chan struct{})
	disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: copyDir + "/*", Before: func(errfs.Call) { <-free }})
	for range 20 {
		mustTxn(t, s, put("/a", "1"))
	}
	if err := s.copy.Behind(); err == nil || !strings.Contains(err.Error(), copyDir) {
		t.Errorf("behind: %v", err)
	}
	close(free)
	eventually(t, "the copy is complete again", func() bool { return s.copy.Behind() == nil })
}

// Transactions that arrive while the copy's disk is busy share its next fdatasync, as they share
// the store's: otherwise a healthy disk would count as hanging.
func TestCopyGroupsTransactions(t *testing.T) {
	const n = 50
	disk := errfs.New(vfs.Memory())
	s := open(t, disk, patiently)
	free := make(chan struct{})
	syncs := disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: copyDir + "/*", Before: func(errfs.Call) { <-free }})
	errs := make(chan error, n)
	for i := range n {
		go func() {
			_, err := s.Txn(context.Background(), put(fmt.Sprintf("/k%d", i), "v"))
			errs <- err
		}()
	}
	eventually(t, "the transactions are visible", func() bool {
		_, revision, err := s.Get(t.Context(), "/k0")
		return err == nil && revision == n && syncs.Hits() > 0
	})
	close(free)
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if got := syncs.Hits(); got > 2 {
		t.Errorf("%d datasyncs of the copy for %d concurrent transactions", got, n)
	}
	if got, want := copied(t, disk), dump(t, s); got != want || s.copy.Behind() != nil {
		t.Errorf("the copy has %s, want %s; %v", got, want, s.copy.Behind())
	}
}

// A transaction in progress when the store is closed, and acknowledged, is in the copy.
func TestCopyHasTheLastTransaction(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	s := open(t, disk, patiently)
	free, done := make(chan struct{}), make(chan error, 2)
	syncs := disk.Add(errfs.Rule{Ops: errfs.Datasync, Path: "/m/*", Count: 1, Before: func(errfs.Call) { <-free }})
	go func() {
		_, err := s.Txn(context.Background(), put("/a", "1"))
		done <- err
	}()
	eventually(t, "the transaction is written", func() bool { return syncs.Hits() > 0 })
	go func() { done <- s.Close() }()
	select { // the copy must continue; an end would be immediate
	case <-s.copy.ended:
	case <-time.After(20 * time.Millisecond):
	}
	close(free)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if c, err := Check(disk, copyDir); err != nil || c.Revision != 1 {
		t.Errorf("the copy ends at revision %d, %v", c.Revision, err)
	}
}

// A copy of another cluster is left alone, a damaged one is renamed and said, and replaced.
func TestExistingCopies(t *testing.T) {
	cluster := func(id string) metadata.Txn {
		return put(metadata.ClusterKey, string(metadata.Cluster{ID: id, FeatureLevel: 1}.Encode()))
	}
	fsys := vfs.Memory()
	if err := Write(fsys, copyDir, []metadata.KV{{Key: metadata.ClusterKey, Value: metadata.Cluster{ID: "theirs"}.Encode(),
		ModRevision: 7}}, 7); err != nil {
		t.Fatal(err)
	}
	before := copied(t, fsys)
	store := solestore.Open(t, raftstore.Options{FS: fsys, Dir: "/m", Log: zap.NewNop()})
	mustTxn(t, &kept{Store: store}, cluster("ours"))
	s := copying(store, fsys, patiently)
	if err := s.copy.Behind(); !errors.Is(err, ErrForeign) {
		t.Errorf("behind: %v", err)
	}
	if err := CheckAgainst(fsys, copyDir, "/m", s.View()); err != nil {
		t.Errorf("a copy of another cluster makes the store old: %v", err)
	}
	if err := s.Close(); err != nil || copied(t, fsys) != before {
		t.Errorf("the copy of another cluster is %s, %v", copied(t, fsys), err)
	}
	must.OK(t, fsys.MkdirAll(copyDir+damagedSuffix+"/of another day"))
	damage(t, fsys)
	core, said := observer.New(zap.WarnLevel)
	s = open(t, fsys, patiently, func(o *Options) { o.Log = zap.New(core) })
	if err := s.copy.Behind(); err != nil || copied(t, fsys) != dump(t, s) {
		t.Errorf("the damaged copy was not replaced: %v", err)
	}
	if _, err := Check(fsys, copyDir+damagedSuffix); !errors.Is(err, ErrDamaged) {
		t.Errorf("the damaged copy was not renamed: %v", err)
	}
	all := said.FilterMessageSnippet("metadata copy is damaged").All()
	if len(all) != 1 || all[0].ContextMap()["dir"] != copyDir || all[0].ContextMap()["error"] == nil {
		t.Errorf("said: %+v", said.All())
	}
}

// damage damages every file of the copy.
func damage(t *testing.T, fsys vfs.FS) {
	t.Helper()
	infos, err := fsys.List(copyDir)
	must.OK(t, err)
	for _, in := range infos {
		f, err := fsys.Open(copyDir + "/" + in.Name)
		if err == nil {
			_, err = f.WriteAt([]byte("damage"), 60)
		}
		must.OK(t, err)
		_ = f.Close()
	}
}

// A damaged copy that cannot be renamed is not removed.
func TestADamagedCopyIsNotRemoved(t *testing.T) {
	disk := errfs.New(vfs.Memory())
	s := open(t, disk, patiently)
	mustTxn(t, s, put("/a", "1"))
	must.OK(t, s.Close())
	damage(t, disk)
	fault := disk.Add(errfs.Rule{Ops: errfs.Rename, Path: copyDir, Err: syscall.EIO})
	s = open(t, disk, patiently)
	if err := s.copy.Behind(); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrDamaged) {
		t.Errorf("behind: %v", err)
	}
	if _, err := Check(disk, copyDir); !errors.Is(err, ErrDamaged) {
		t.Errorf("the damaged copy is gone: %v", err)
	}
	fault.Off()
	eventually(t, "the copy is complete again", func() bool { return s.copy.Behind() == nil })
}

// A store that was restored to an older state is recognized by its copy.
func TestOlderStoreIsRecognized(t *testing.T) {
	fsys := vfs.Memory()
	s := open(t, fsys, patiently)
	mustTxn(t, s, put(metadata.ClusterKey, string(metadata.Cluster{ID: "ours"}.Encode())))
	older, _, err := s.Range(t.Context(), "")
	must.OK(t, err)
	mustTxn(t, s, put("/a", "2"))
	must.OK(t, s.Close())
	must.OK(t, errors.Join(fsys.RemoveAll("/m"), raftstore.Begin(fsys, "/m", [16]byte{1}, older, 1)))
	again := solestore.Open(t, raftstore.Options{FS: fsys, Dir: "/m", Log: zap.NewNop()})
	defer again.Close()
	if err := CheckAgainst(fsys, copyDir, "/m", again.View()); !errors.Is(err, ErrOlder) {
		t.Errorf("an older store: %v", err)
	}
	damage(t, fsys)
	err = CheckAgainst(fsys, copyDir, "/m", again.View())
	if !errors.Is(err, ErrDamaged) || errors.Is(err, ErrOlder) {
		t.Errorf("with a damaged copy: %v", err)
	}
	if err := Write(fsys, copyDir, older, 1); err == nil { // whatever it holds
		t.Error("a copy was written over another")
	}
}
