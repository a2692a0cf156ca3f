// Package errfs makes a file system fail as disks and kernels do.
//
// It wraps any vfs.FS and passes every call through but those that a rule picks:
// they get an error, take long, write only a part, or lose dirty pages as a
// failed fdatasync does. Apart from rules it can be a disk that gets full. It
// promises that without rules and quota it behaves like what it wraps, and that
// a call that it fails has not reached what it wraps, but for Close and the part
// of a short write. It counts the calls by their kind.
//
// Tests of everything that stores bytes call it, over crashfs where they need to
// know what survives. It knows nothing of what is stored.
package errfs

import (
	"io"
	"io/fs"
	"math/bits"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/vfs"
)

// Op is a kind of call, or several of them or'ed together.
type Op uint32

// The kinds of calls: one for each method of vfs.FS and vfs.File, except that
// Write is WriteAt and WriteVecAt, and Remove is Remove and RemoveAll.
const (
	Open Op = 1 << iota
	Create
	Mkdir
	Remove
	Rename
	List
	Stat
	SyncDir
	Lock
	Free
	Read
	Write
	Datasync
	Allocate
	Truncate
	Size
	Close
	ops = iota

	// Any is all kinds.
	Any Op = 1<<ops - 1
)

// String returns the names of the kinds, for error texts.
func (o Op) String() string {
	names := []string{"open", "create", "mkdir", "remove", "rename", "list", "stat", "syncdir", "lock", "free",
		"read", "write", "datasync", "allocate", "truncate", "size", "close"}
	var set []string
	for i, name := range names {
		if o&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return strings.Join(set, "|")
}

// Call is one call as rules see it.
type Call struct {
	Op   Op
	Path string // the file's name as it was opened, or the old name of a rename
	To   string // the new name of a rename
	Off  int64  // Read, Write, Allocate; the size for Truncate
	Len  int64  // Read, Write, Allocate
	N    int    // the how-manieth call since Add that the rule's Ops, Path and When pick, from 1
}

// Drop is what a Datasync that a rule fails does to the file's dirty pages. The
// file system below must know (crashfs does); others keep them dirty.
type Drop uint8

const (
	// KeepDirty does nothing; the next Datasync writes them.
	KeepDirty Drop = iota
	// DropCached makes them count as clean and leaves them readable until power is
	// lost; the next Datasync succeeds without having written them. This is what
	// Linux does.
	DropCached
	// DropEvicted makes them count as clean and go away; reads see what the disk
	// has, as Linux does when it needs the memory.
	DropEvicted
)

// Rule says which calls fail, and how.
type Rule struct {
	// Ops are the kinds of calls; 0 is Any.
	Ops Op
	// Path is a pattern as path.Match takes it, for the whole path or, where it
	// has no slash, for its last element; either name of a rename will do. Empty:
	// every path.
	Path string
	// When, where set, must answer true too. It must not call the FS.
	When func(Call) bool
	// From is the first of these calls that the rule acts on, counted from 1; 0
	// is 1.
	From int
	// Count is how many calls it acts on; 0 is all from From on.
	Count int

	// Before, where set, runs before the call, which waits for it: a test holds a
	// call with it. No lock is held.
	Before func(Call)
	// Delay makes the call wait.
	Delay time.Duration
	// Err is what the call returns, wrapped with operation and path; nil lets it
	// pass.
	Err error
	// Short is how many bytes a Write writes, or a Read reads, before Err.
	Short int
	// Drop is for Datasync.
	Drop Drop
}

// picks reports whether the rule is about c at all.
func (r *Rule) picks(c Call) bool {
	if r.Ops != 0 && r.Ops&c.Op == 0 {
		return false
	}
	if r.Path != "" && !matches(r.Path, c.Path) && (c.To == "" || !matches(r.Path, c.To)) {
		return false
	}
	return r.When == nil || r.When(c)
}

func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	yes, err := path.Match(pattern, path.Clean(name))
	return yes && err == nil
}

// Fault is a rule that was added to an FS. It acts until Off.
type Fault struct {
	fs     *FS
	rule   Rule
	off    bool
	picked int
	hits   int
}

// Off switches the rule off.
func (f *Fault) Off() { f.set(true) }

// On switches the rule on again. Calls while it was off are not counted.
func (f *Fault) On() { f.set(false) }

func (f *Fault) set(off bool) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.off = off
}

// Hits returns how many calls the rule has acted on.
func (f *Fault) Hits() int {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.hits
}

// act counts the call and reports whether the rule acts on it. fs.mu is held.
func (f *Fault) act(c *Call) bool {
	if f.off || !f.rule.picks(*c) {
		return false
	}
	f.picked++
	c.N = f.picked
	from := max(f.rule.From, 1)
	if c.N < from || f.rule.Count > 0 && c.N >= from+f.rule.Count {
		return false
	}
	f.hits++
	return true
}

// FS is a file system that can fail.
type FS struct {
	under vfs.FS
	full  quota

	mu     sync.Mutex // guards what follows; not held during calls
	faults []*Fault
	calls  [ops]int
}

var _ vfs.FS = (*FS)(nil)

// New wraps under.
func New(under vfs.FS) *FS { return &FS{under: under} }

// Add makes the rule act from the next call on. Where several rules act on a
// call, their delays add up and the first error counts. A malformed Path matches
// nothing.
func (f *FS) Add(r Rule) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := &Fault{fs: f, rule: r}
	f.faults = append(f.faults, fault)
	return fault
}

// Clear takes all rules away.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		fault.off = true
	}
	f.faults = nil
}

// Calls returns how many calls of these kinds were made, failed ones included.
func (f *FS) Calls(kinds Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for i, calls := range f.calls {
		if kinds&(1<<i) != 0 {
			n += calls
		}
	}
	return n
}

// enter is what every call goes through first. It returns the rule whose error
// the call gets, or nil.
func (f *FS) enter(c Call) *Rule {
	type action struct {
		rule *Rule
		call Call
	}
	f.mu.Lock()
	f.calls[bits.TrailingZeros32(uint32(c.Op))]++
	var acting []action
	for _, fault := range f.faults {
		if seen := c; fault.act(&seen) {
			acting = append(acting, action{&fault.rule, seen})
			if fault.rule.Err != nil {
				break
			}
		}
	}
	f.mu.Unlock()
	for _, a := range acting {
		if a.rule.Before != nil {
			a.rule.Before(a.call)
		}
		if a.rule.Delay > 0 {
			time.Sleep(a.rule.Delay)
		}
		if a.rule.Err != nil {
			return a.rule
		}
	}
	return nil
}

// fails is enter for calls that a rule can only fail.
func (f *FS) fails(c Call) error {
	if r := f.enter(c); r != nil {
		return failed(c, r.Err)
	}
	return nil
}

func failed(c Call, err error) error {
	return &fs.PathError{Op: c.Op.String(), Path: c.Path, Err: err}
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.open(Open, name, f.under.Open) }

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) { return f.open(Create, name, f.under.Create) }

func (f *FS) open(op Op, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := f.fails(Call{Op: op, Path: name}); err != nil {
		return nil, err
	}
	h, err := open(name)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, under: h}, nil
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string) error { return f.change(Mkdir, name, f.under.MkdirAll) }

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error { return f.change(Remove, name, f.under.Remove) }

// RemoveAll implements vfs.FS. A rule fails it as a whole.
func (f *FS) RemoveAll(name string) error { return f.change(Remove, name, f.under.RemoveAll) }

// SetModified implements vfs.FS. No rule fails it.
func (f *FS) SetModified(name string, at time.Time) error { return f.under.SetModified(name, at) }

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error { return f.change(SyncDir, dir, f.under.SyncDir) }

func (f *FS) change(op Op, name string, call func(string) error) error {
	if err := f.fails(Call{Op: op, Path: name}); err != nil {
		return err
	}
	return call(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	if err := f.fails(Call{Op: Rename, Path: oldName, To: newName}); err != nil {
		return err
	}
	return f.under.Rename(oldName, newName)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]vfs.Info, error) {
	if err := f.fails(Call{Op: List, Path: dir}); err != nil {
		return nil, err
	}
	return f.under.List(dir)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := f.fails(Call{Op: Stat, Path: name}); err != nil {
		return vfs.Info{}, err
	}
	return f.under.Stat(name)
}

// Lock implements vfs.FS.
func (f *FS) Lock(name, holder string) (io.Closer, error) {
	if err := f.fails(Call{Op: Lock, Path: name}); err != nil {
		return nil, err
	}
	return f.under.Lock(name, holder)
}

// Free implements vfs.FS; under a quota it reports what the quota leaves.
func (f *FS) Free(dir string) (available, total uint64, err error) {
	if err := f.fails(Call{Op: Free, Path: dir}); err != nil {
		return 0, 0, err
	}
	if available, total, err = f.under.Free(dir); err != nil {
		return 0, 0, err
	}
	return f.full.free(f.under, dir, available, total)
}

// cut returns the first n bytes of bufs.
func cut(bufs [][]byte, n int) [][]byte {
	for i, p := range bufs {
		if n <= len(p) {
			return append(slices.Clip(bufs[:i]), p[:n])
		}
		n -= len(p)
	}
	return bufs
}
