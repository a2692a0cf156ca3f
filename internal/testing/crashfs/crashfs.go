// Package crashfs is a file system in memory that models the effects of a crash.
//
// For every file it keeps the content that reads see (the page cache) separate from the content of
// the disk, and the writes in between in order. It does the same for the entries of directories. An
// image returned by Kill or PowerLoss is one that a Linux file system could show to the next
// process:
//
//   - after Kill, everything written is readable, and nothing more is durable than before: the
//     page cache is not the disk;
//   - after PowerLoss, a file has the content of its last Datasync, and of the later writes the
//     512-byte sectors that the Mode keeps; a name exists if SyncDir of its directory covered it,
//     or if the Mode keeps it. A file without its name is lost, synced or not. A rename is atomic;
//   - in the Garble modes, the disk loses power in the middle of a write, and the sectors being
//     written may contain random bytes. A sector that a Datasync covered and that was not written
//     since is never affected.
//
// The package counts the calls that change something and can stop a workload after any of them. A
// seed determines the behavior, provided that the calls come in the same order.
//
// Tests of all code that stores bytes through a vfs.FS use it. It injects no errors (errfs does)
// and knows nothing of the stored data.
package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/vfs/ram"
)

// ErrCrashed is the error of every call after the crash.
var ErrCrashed = errors.New("crashfs: the process has crashed")

// size is the size that Free reports, that of a disk that never fills up.
const size = 1 << 40

type (
	node = ram.Node[*inode]
	slot = ram.Slot[*inode]
)

// FS is the file system as one process sees it, from its start to its crash.
type FS struct {
	mu      sync.Mutex // guards everything, contents included
	rng     *rand.Rand
	root    *node
	durable names        // the names that survive a power loss
	pending []nameChange // changes of names that no SyncDir has covered
	locks   map[*node]string

	dead     bool
	ops      int
	crashAt  int  // the process dies with this call; -1: it does not
	torn     bool // that call is in progress when the process dies
	syncs    int
	dirSyncs int
	latency  time.Duration
	tracing  bool
	trace    []string
}

var _ vfs.FS = (*FS)(nil)

// New returns an empty file system whose random choices are determined by seed.
func New(seed uint64) *FS {
	root := ram.NewDir[*inode](nil)
	return &FS{rng: newRand(seed), root: root, durable: newNames(), locks: map[*node]string{}, crashAt: -1}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6368726f6e696b)) }

// Ops returns the number of calls that changed something: writes (one per IOV_MAX buffers),
// Datasync, SyncDir, Truncate, Allocate, Create, Rename, Remove, and one for every name that
// MkdirAll creates or RemoveAll removes.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Syncs returns the number of successful calls of Datasync.
func (f *FS) Syncs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncs
}

// DirSyncs returns the number of successful calls of SyncDir.
func (f *FS) DirSyncs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirSyncs
}

// SetSyncLatency makes every Datasync and SyncDir take at least d. Syncs overlap. A Datasync covers
// the writes before it began, a SyncDir the names before it ends.
func (f *FS) SetSyncLatency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latency = d
}

// CrashAt lets n calls succeed that Ops counts, and then makes every call fail with ErrCrashed. It
// crashes at once if Ops is already n; a negative n means never.
func (f *FS) CrashAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt, f.torn = n, false
	f.dead = f.dead || n >= 0 && f.ops >= n
}

// CrashDuring is CrashAt(n), but the n-th call, counted from 1, is in progress when the process
// dies: it fails with ErrCrashed and may or may not have had its effect, a write up to any byte.
func (f *FS) CrashDuring(n int) {
	f.CrashAt(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.torn = true
}

// Crashed reports whether the process is dead.
func (f *FS) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// SetTrace switches the trace on or off.
func (f *FS) SetTrace(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracing = on
}

// Trace returns the calls that Ops counts, since SetTrace, one line each: "write dir/file 512+100",
// "datasync dir/file", "rename a b", "syncdir dir", …
func (f *FS) Trace() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.trace...)
}

// step counts a call that changes something and can fail only because of a crash. happens reports
// whether the call takes effect, err is its result: both may be set if the process dies during the
// call. The caller must hold f.mu.
func (f *FS) step(call string, args ...any) (happens bool, err error) {
	if f.dead {
		return false, ErrCrashed
	}
	f.ops++
	if f.tracing {
		f.trace = append(f.trace, strings.TrimSpace(call+" "+fmt.Sprintln(args...)))
	}
	if f.ops != f.crashAt {
		return true, nil
	}
	f.dead = true
	if f.torn {
		return f.rng.IntN(2) == 0, ErrCrashed
	}
	return true, nil
}

// alive must be called first by every other call. The caller must hold f.mu.
func (f *FS) alive() error {
	if f.dead {
		return ErrCrashed
	}
	return nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(name)
	if err == nil && n.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, ram.PathError("open", name, err)
	}
	return &file{fs: f, name: name, node: n}, nil
}

func (f *FS) find(name string) (*node, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	return f.root.Find(name)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]vfs.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(dir)
	if err == nil && !n.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, ram.PathError("list", dir, err)
	}
	list := make([]vfs.Info, 0, len(n.Entries))
	for _, name := range n.Names() {
		list = append(list, info(name, n.Entries[name]))
	}
	return list, nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(name)
	if err != nil {
		return vfs.Info{}, ram.PathError("stat", name, err)
	}
	return info(path.Base(path.Clean(name)), n), nil
}

// SetModified implements vfs.FS. It survives every crash.
func (f *FS) SetModified(name string, at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(name)
	if err == nil {
		err = f.alive()
	}
	if err == nil && n.IsDir() {
		err = syscall.EISDIR
	}
	if err != nil {
		return ram.PathError("chtimes", name, err)
	}
	n.Data.modified = at
	return nil
}

func info(name string, n *node) vfs.Info {
	if n.IsDir() {
		return vfs.Info{Name: name, Dir: true}
	}
	return vfs.Info{Name: name, Size: n.Data.cache.Size(), Modified: n.Data.modified}
}

// Free implements vfs.FS: the disk is an empty terabyte.
func (f *FS) Free(dir string) (available, total uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(dir); err != nil {
		return 0, 0, ram.PathError("statfs", dir, err)
	}
	return size, size, nil
}

// Lock implements vfs.FS. A crash releases the lock.
func (f *FS) Lock(name, holder string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.lockFile(name)
	if err != nil {
		return nil, ram.PathError("lock", name, err)
	}
	if other, held := f.locks[n]; held {
		return nil, fmt.Errorf("lock %s: %w (%s)", name, vfs.ErrLocked, strings.TrimSpace(other))
	}
	h := &file{fs: f, name: name, node: n}
	if err := h.resize("truncate", change{kind: truncated}, name, 0); err != nil {
		return nil, ram.PathError("lock", name, err)
	}
	if err := h.write([]byte(holder), 0); err != nil {
		return nil, ram.PathError("lock", name, err)
	}
	f.locks[n] = holder
	return &lock{file: h}, nil
}

// lockFile finds or creates the file to lock.
func (f *FS) lockFile(name string) (*node, error) {
	n, err := f.find(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f.create(name)
	}
	if err == nil && n.IsDir() {
		err = syscall.EISDIR
	}
	return n, err
}

// lock is a held lock.
type lock struct{ file *file }

// Close releases the lock.
func (l *lock) Close() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	f := l.file.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.locks, l.file.node)
	return nil
}
