package archiving

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/access"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

const prefix = "c/"

// quorum is the metadata of a cluster whose brokers use a store.
type quorum struct {
	t *testing.T

	mu     sync.Mutex
	img    *metadata.Image
	record metadata.Cluster
	stored []metadata.KV // but for the mark
	mark   []metadata.KV
	names  error // of the next call of name, after the mark was named
}

func newQuorum(t *testing.T) *quorum {
	t.Helper()
	q := &quorum{t: t, record: metadata.NewCluster(metadata.FormatID([16]byte{1}), [16]byte{2})}
	q.change(func() {})
	return q
}

// change changes the metadata.
func (q *quorum) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.loadLocked()
}

func (q *quorum) loadLocked() {
	kvs := append([]metadata.KV{{Key: metadata.ClusterKey, Value: q.record.Encode(), ModRevision: 1}}, q.stored...)
	img, err := metadata.Load(append(kvs, q.mark...), 9)
	must.OK(q.t, err)
	q.img = img
}

// aSnapshot lets the metadata name a snapshot.
func (q *quorum) aSnapshot() {
	x := metadata.Snapshot{Nonce: metadata.ID{7}}
	q.change(func() {
		q.stored = []metadata.KV{{Key: metadata.SnapshotKey(3), Value: x.Encode(), ModRevision: 4}}
	})
}

func (q *quorum) image() *metadata.Image {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.img
}

func (q *quorum) name(_ context.Context, x metadata.ObjectStore) (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mark) > 0 {
		return 0, &metadata.ConflictError{Revision: 5, Key: metadata.ObjectStoreKey, Found: 5}
	}
	q.mark = []metadata.KV{{Key: metadata.ObjectStoreKey, Value: x.Encode(), ModRevision: 5}}
	q.loadLocked()
	err := q.names
	q.names = nil
	return 5, err
}

// broker returns the store in a directory as a broker uses it.
func (q *quorum) broker(dir string, rules ...faultstore.Rule) marked {
	q.t.Helper()
	conf := &configdef.Archive{URL: "file://" + dir}
	store, err := access.Open(vfs.OS(), conf)
	must.OK(q.t, err)
	if len(rules) > 0 {
		s := faultstore.New(store)
		for _, r := range rules {
			s.Add(r)
		}
		store = s
	}
	return marked{store, &marks{url: conf.URL, prefix: prefix, image: q.image, applied: func(context.Context, int64) error { return nil },
		name: q.name, log: zap.NewNop()}}
}

func put(s objects.Store, name string) error {
	return s.Put(context.Background(), prefix+name, strings.NewReader(name))
}

// files returns the files below a directory, without those of marks.
func files(t *testing.T, dir string) (all []string, marks int) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
		case strings.HasPrefix(path, filepath.Join(dir, prefix, "store")+"/"):
			marks++
		default:
			all = append(all, path)
		}
		return err
	}))
	return all, marks
}

// refuses checks that a directory that is not the store is refused, and that nothing is put there.
func refuses(t *testing.T, s objects.Store, dir string) string {
	t.Helper()
	before, _ := files(t, dir)
	err := put(s, "refused")
	after, _ := files(t, dir)
	if err == nil || !strings.Contains(err.Error(), "its file system is not mounted") || len(after) != len(before) {
		t.Fatalf("%v, with %q", err, after)
	}
	return err.Error()
}

// The broker that puts the first object marks the store, and the others find the mark there. Until
// then, any store is that of the cluster, and may be empty.
func TestTheFirstObjectMarksTheStore(t *testing.T) {
	q, dir := newQuorum(t), t.TempDir()
	a, b := q.broker(dir), q.broker(dir)
	must.OK(t, list(a))
	if _, err := a.Get(t.Context(), prefix+"a", 0, make([]byte, 1)); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("a missing object: %v", err)
	}
	if all, marks := files(t, dir); len(all)+marks != 0 {
		t.Errorf("%q and %d marks before an object was put", all, marks)
	}
	must.OK(t, put(a, "a"))
	must.OK(t, put(b, "b"))
	if all, marks := files(t, dir); len(all) != 2 || marks != 1 {
		t.Errorf("%q and %d marks", all, marks)
	}
}

// While a broker runs an older version, the store is used without a mark.
func TestAnOlderBrokerKnowsNoMark(t *testing.T) {
	q, dir := newQuorum(t), t.TempDir()
	q.change(func() { q.record.FeatureLevel = metadata.StoreLevel - 1 })
	must.OK(t, put(q.broker(dir), "a"))
	if _, marks := files(t, dir); marks != 0 || len(q.mark) != 0 {
		t.Errorf("%d marks, %d named", marks, len(q.mark))
	}
	q.change(func() { q.record.FeatureLevel = metadata.StoreLevel })
	must.OK(t, put(q.broker(dir), "b"))
	if _, marks := files(t, dir); marks != 1 || len(q.mark) != 1 {
		t.Errorf("%d marks, %d named", marks, len(q.mark))
	}
}

// A directory on which the file system is not mounted is refused, also if it is mounted on no other
// broker, and accepted when it has the mark, which may be empty.
func TestADirectoryThatIsNotTheStoreIsRefused(t *testing.T) {
	q, dir := newQuorum(t), filepath.Join(t.TempDir(), "store")
	must.OK(t, os.Mkdir(dir, 0o700))
	must.OK(t, put(q.broker(dir), "a"))

	must.OK(t, os.Rename(dir, dir+".mounted"))
	must.OK(t, os.Mkdir(dir, 0o700))
	refuses(t, q.broker(dir), dir)
	must.OK(t, os.Remove(dir))
	must.OK(t, os.Rename(dir+".mounted", dir))
	must.OK(t, put(q.broker(dir), "b"))

	other := t.TempDir()
	text := refuses(t, q.broker(other), other)
	_, name, _ := strings.Cut(text, "lacks file://") // what docs/tiered-storage.md says of a lost store
	name, _, _ = strings.Cut(name, ";")
	must.OK(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.OK(t, os.WriteFile(name, nil, 0o600))
	must.OK(t, put(q.broker(other), "b"))
}

// While the file system is not mounted, puts fail, and nothing counts as missing.
func TestAStoreIsUnmountedWhileItIsOpen(t *testing.T) {
	q, dir := newQuorum(t), filepath.Join(t.TempDir(), "store")
	must.OK(t, os.Mkdir(dir, 0o700))
	s := q.broker(dir)
	must.OK(t, put(s, "a"))
	one := make([]byte, 1)
	calls := map[string]func() error{
		"put":  func() error { return put(s, "b") },
		"copy": func() error { return s.Copy(t.Context(), objects.Info{Name: prefix + "a", Size: 1}, prefix+"c") },
		"get":  func() error { _, err := s.Get(t.Context(), prefix+"a", 0, one); return err },
		"list": func() error { return list(s) },
	}
	for what, call := range calls {
		must.OK(t, put(s, "a")) // it has the mark now
		must.OK(t, call())
		must.OK(t, os.Rename(dir, dir+".mounted"))
		must.OK(t, os.Mkdir(dir, 0o700))
		for range 2 {
			if err := call(); err == nil || errors.Is(err, objects.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		must.OK(t, os.RemoveAll(dir))
		must.OK(t, os.Rename(dir+".mounted", dir))
		must.OK(t, call())
	}
	if _, err := s.Get(t.Context(), prefix+"d", 0, one); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("an object that is missing: %v", err)
	}
}

// An object that is put while the file system is being unmounted does not count: it may be in the
// directory below.
func TestAPutBelowTheMountDoesNotCount(t *testing.T) {
	q, dir := newQuorum(t), filepath.Join(t.TempDir(), "store")
	must.OK(t, os.Mkdir(dir, 0o700))
	s := q.broker(dir, faultstore.Rule{Ops: faultstore.Put, Name: prefix + "b", Count: 1, Before: func(faultstore.Call) {
		must.OK(t, os.Rename(dir, dir+".mounted"))
		must.OK(t, os.Mkdir(dir, 0o700))
	}})
	must.OK(t, put(s, "a"))
	err := put(s, "b")
	if all, _ := files(t, dir); err == nil || len(all) != 1 {
		t.Errorf("%v, with %q below the mount", err, all)
	}
}

// Brokers that use their stores for the first time at once agree on one. Only it has a mark.
func TestBrokersMarkOneStoreAtOnce(t *testing.T) {
	for range 20 {
		q, shared, apart := newQuorum(t), t.TempDir(), t.TempDir()
		var group sync.WaitGroup
		fails := make([]error, 3)
		for i, dir := range []string{shared, shared, apart} {
			s := q.broker(dir)
			group.Go(func() { fails[i] = put(s, "a") })
		}
		group.Wait()
		_, here := files(t, shared)
		_, there := files(t, apart)
		if (fails[0] == nil) != (fails[1] == nil) || (fails[0] == nil) == (fails[2] == nil) || here+there != 1 {
			t.Fatalf("%v, %d and %d marks", fails, here, there)
		}
	}
}

// Metadata that were recovered from an older state name the mark that the store has.
func TestRecoveredMetadataFindTheMark(t *testing.T) {
	q, dir := newQuorum(t), t.TempDir()
	must.OK(t, put(q.broker(dir), "a"))
	was := q.image().ObjectStore()
	q.change(func() { q.mark = nil })
	must.OK(t, put(q.broker(dir), "b"))
	if _, marks := files(t, dir); q.image().ObjectStore() != was || marks != 1 {
		t.Errorf("mark %v, and %v before; %d in the store", q.image().ObjectStore(), was, marks)
	}
}

func list(s objects.Store) error {
	return s.List(context.Background(), prefix, func(objects.Info) error { return nil })
}

// Metadata that name objects and no mark, because they are older than marks, do not belong to a
// store without these objects, whatever else it has.
func TestAStoreWithoutTheSnapshotIsAnotherOne(t *testing.T) {
	q, dir, other := newQuorum(t), t.TempDir(), t.TempDir()
	q.change(func() { q.record.FeatureLevel = metadata.StoreLevel - 1 })
	must.OK(t, put(q.broker(dir), "index/00000000000000000003-07000000000000000000000000000000"))
	must.OK(t, put(q.broker(other), "left"))
	q.aSnapshot()
	q.change(func() { q.record.FeatureLevel = metadata.StoreLevel })
	refuses(t, q.broker(other), other)
	if list(q.broker(other)) == nil {
		t.Error("a list of another store is believed")
	}
	must.OK(t, list(q.broker(dir)))
	if _, marks := files(t, dir); marks != 1 {
		t.Errorf("%d marks", marks)
	}
	refuses(t, q.broker(other), other)
}

// Metadata that were recovered and name no object may have named some. So an empty store is not
// theirs before it has a mark, and one with any of the cluster's objects is.
func TestRecoveredMetadataBelieveNoEmptyStore(t *testing.T) {
	q, dir, mounted := newQuorum(t), t.TempDir(), t.TempDir()
	must.OK(t, put(newQuorum(t).broker(mounted), "a"))
	must.OK(t, os.RemoveAll(filepath.Join(mounted, prefix, "store")))
	q.change(func() { q.record.Recovered = 1 })
	if list(q.broker(dir)) == nil {
		t.Error("an empty list is believed")
	}
	refuses(t, q.broker(dir), dir)
	must.OK(t, list(q.broker(mounted)))
	refuses(t, q.broker(dir), dir)
}

// An object that is not found, because the file system is mounted only then, is found afterwards.
func TestAnObjectIsFoundAfterTheMount(t *testing.T) {
	q, dir := newQuorum(t), t.TempDir()
	must.OK(t, put(q.broker(dir), "a"))
	s := q.broker(dir, faultstore.Rule{Ops: faultstore.Get, Name: prefix + "a", Count: 1, Err: objects.ErrNotFound})
	if _, err := s.Get(t.Context(), prefix+"a", 0, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// Whatever fails while a store is marked, nothing is named that is not there, and the next call
// ends what this one began.
func TestAStoreThatCannotBeMarked(t *testing.T) {
	for what, c := range map[string]struct {
		rule  faultstore.Rule
		names error
	}{
		"the list fails":                      {rule: faultstore.Rule{Ops: faultstore.List, Err: faultstore.ErrInjected}},
		"the mark cannot be put":              {rule: faultstore.Rule{Ops: faultstore.Put, Err: faultstore.ErrInjected}},
		"the mark is put, but no answer says": {rule: faultstore.Rule{Ops: faultstore.Put, Lost: faultstore.ErrInjected}},
		"the mark cannot be read":             {rule: faultstore.Rule{Ops: faultstore.Get, Err: faultstore.ErrInjected}},
		"the metadata do not answer":          {names: context.DeadlineExceeded},
	} {
		q, dir := newQuorum(t), t.TempDir()
		q.names = c.names
		if err := put(q.broker(dir, c.rule, faultstore.Rule{Name: "none"}), "a"); err == nil {
			t.Errorf("%s: no error", what)
		}
		all, marks := files(t, dir)
		if len(all) > 0 || len(q.mark) > marks {
			t.Errorf("%s: %q was put, %d marks, %d named", what, all, marks, len(q.mark))
		}
		must.OK(t, put(q.broker(dir), "a"))
		if all, marks := files(t, dir); len(all) != 1 || marks != 1 {
			t.Errorf("%s: %q and %d marks", what, all, marks)
		}
	}
}
