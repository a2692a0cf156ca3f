// Package errfs injects the failures of disks and kernels into a file system.
//
// It wraps any vfs.FS and passes every call through, except those that match a rule: they return an
// error, take long, write only a part, or drop dirty pages as a failed fdatasync does. Independent
// of rules it can simulate a full disk. A call that it fails does not reach the wrapped file
// system, except Close, the part of a short write or read, and the pages that a failed sync drops.
// The last Close of a file drops its dirty pages, too. It counts the calls by kind, and panics at
// one that trusts a file after a failed write or sync, see latch. Otherwise it behaves like the
// wrapped file system.
//
// Tests of all code that stores bytes through a vfs.FS use it, over crashfs if they must know what
// survives. It knows nothing of the stored data.
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

// Op is a kind of call, or several kinds combined by or.
type Op uint32

// The kinds of calls: one for each method of vfs.FS and vfs.File and for vfs.Writeback, except that
// Write stands for WriteAt and WriteVecAt, Remove for Remove and RemoveAll, and Stat also for
// Named.
const (
	Open Op = 1 << iota
	Create
	Mkdir
	Remove
	Rename
	List
	Stat
	SetModified
	SyncDir
	Lock
	Free
	Read
	Write
	Writeback
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
	names := []string{"open", "create", "mkdir", "remove", "rename", "list", "stat", "setmodified", "syncdir", "lock", "free",
		"read", "write", "writeback", "datasync", "allocate", "truncate", "size", "close"}
	var set []string
	for i, name := range names {
		if o&(1<<i) != 0 {
			set = append(set, name)
		}
	}
	return strings.Join(set, "|")
}

// Call is a call as rules see it.
type Call struct {
	Op   Op
	Path string // the file's name when it was opened, or the old name of a rename
	To   string // the new name of a rename
	Off  int64  // Read, Write, Writeback, Allocate; the size for Truncate
	Len  int64  // Read, Write, Writeback, Allocate
	N    int    // number of calls since Add that match the rule's Ops, Path and When, including this one
}

// Drop is the effect of a failed write-back on the file's dirty pages. The wrapped file system must
// support it (crashfs does); others keep them dirty.
type Drop uint8

const (
	// KeepDirty does nothing; the next Datasync writes them.
	KeepDirty Drop = iota
	// DropCached marks them as clean and leaves them readable until a power loss; the next Datasync
	// succeeds without writing them. This is what Linux does.
	DropCached
	// DropEvicted marks them as clean and evicts them; reads see the content of the disk. Linux
	// does this if it needs the memory.
	DropEvicted
)

// Rule determines which calls fail, and how.
type Rule struct {
	// Ops are the kinds of calls; 0 means Any.
	Ops Op
	// Path is a pattern of path.Match for the whole path, or, if it has no slash, for the last
	// element; for a rename either name may match. Empty matches every path.
	Path string
	// When, if set, must also return true. It must not call the FS.
	When func(Call) bool
	// From is the number of the first matching call on which the rule acts, from 1; 0 means 1.
	From int
	// Count is the number of calls on which the rule acts; 0 means all from From on.
	Count int

	// Before, if set, runs before the call, which waits for it, so a test can hold up a call. No
	// lock is held.
	Before func(Call)
	// Delay delays the call.
	Delay time.Duration
	// Err is the error of the call, wrapped with operation and path; nil lets the call succeed.
	Err error
	// Short is the number of bytes that a Write writes, or a Read reads, before Err.
	Short int
	// Drop applies to Datasync and Writeback.
	Drop Drop
}

// picks reports whether the rule matches c.
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

// Tally counts the calls that a rule picks, and decides which of them it affects. Its owner guards
// it.
type Tally struct {
	Off    bool // no call counts
	picked int
	hits   int
}

// Next counts a call and returns its number, from 1. It reports whether the rule affects it: count
// calls do, or all if that is 0, beginning with the number from.
func (t *Tally) Next(from, count int) (n int, affects bool) {
	t.picked++
	if from = max(from, 1); t.picked < from || count > 0 && t.picked >= from+count {
		return t.picked, false
	}
	t.hits++
	return t.picked, true
}

// Hits returns the number of calls that the rule affected.
func (t *Tally) Hits() int { return t.hits }

// Fault is a rule that was added to an FS. It is active until Off.
type Fault struct {
	fs    *FS
	rule  Rule
	tally Tally
}

// Off switches the rule off.
func (f *Fault) Off() { f.set(true) }

// On switches the rule on again. Calls made while it was off are not counted.
func (f *Fault) On() { f.set(false) }

func (f *Fault) set(off bool) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.tally.Off = off
}

// Hits returns the number of calls that the rule affected.
func (f *Fault) Hits() int {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.tally.Hits()
}

// act counts the call and reports whether the rule affects it. The caller must hold fs.mu.
func (f *Fault) act(c *Call) bool {
	if f.tally.Off || !f.rule.picks(*c) {
		return false
	}
	var affects bool
	c.N, affects = f.tally.Next(f.rule.From, f.rule.Count)
	return affects
}

// FS is a file system that can fail.
type FS struct {
	under vfs.FS
	full  quota

	mu        sync.Mutex // guards the following fields; not held during calls
	faults    []*Fault
	calls     [ops]int
	latches   map[string]*latch // by the files' names
	unlatched bool              // tests of this package break I5
}

var _ vfs.FS = (*FS)(nil)

// New wraps under.
func New(under vfs.FS) *FS {
	return &FS{under: under, latches: make(map[string]*latch)}
}

// Add activates the rule from the next call on. If several rules match a call, their delays add up
// and the first error counts. A malformed Path matches nothing.
func (f *FS) Add(r Rule) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := &Fault{fs: f, rule: r}
	f.faults = append(f.faults, fault)
	return fault
}

// Clear removes all rules.
func (f *FS) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		fault.tally.Off = true
	}
	f.faults = nil
}

// Calls returns the number of calls of these kinds, including failed ones.
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

// enter must be called first by every call. It returns the rule whose error the call returns, or
// nil.
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

// fails is enter for calls without partial effects.
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
	if op == Create {
		f.latched(func() { f.latches[path.Clean(name)] = newLatch() })
	}
	return f.opened(name, h), nil
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string) error { return f.change(Mkdir, name, f.under.MkdirAll) }

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error { return f.remove(name, f.under.Remove) }

// RemoveAll implements vfs.FS. A rule fails it as a whole.
func (f *FS) RemoveAll(name string) error { return f.remove(name, f.under.RemoveAll) }

func (f *FS) remove(name string, call func(string) error) error {
	err := f.change(Remove, name, call)
	if err == nil {
		f.latched(func() { f.forget(name) })
	}
	return err
}

// SetModified implements vfs.FS.
func (f *FS) SetModified(name string, at time.Time) error {
	return f.change(SetModified, name, func(name string) error { return f.under.SetModified(name, at) })
}

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
	err := f.under.Rename(oldName, newName)
	if err == nil {
		f.renamed(oldName, newName)
	}
	return err
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

// Free implements vfs.FS; under a quota it reports the rest of the quota.
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
