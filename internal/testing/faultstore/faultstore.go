// Package faultstore injects the failures of object stores into a store.
//
// It wraps any objects.Store and passes every call through, except those that match a rule: they
// fail, lose their answer, take effect late, hang, return an old list, or keep or return altered
// bytes. It can also simulate a store that is full. Without rules it behaves like the wrapped
// store. It counts the calls by kind. EveryCall lets each call of an operation fail in each way.
// The package knows nothing of what the objects contain.
package faultstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path"
	"strings"
	"sync"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/testing/errfs"
)

// Op is a kind of call, or several kinds combined by or.
type Op uint32

// The kinds of calls.
const (
	Put Op = 1 << iota
	Get
	Copy
	List
	Delete
	ops = iota

	// Any is all kinds.
	Any Op = 1<<ops - 1
)

// Call is a call as rules see it.
type Call struct {
	Op   Op
	Name string // of the object, or the prefix of a list; of a copy, that of the new object
	N    int    // number of calls since Add that match the rule's Ops and Name, including this one
}

// ErrInjected is an error that may go away, as a store's answer 503.
var ErrInjected = errors.New("faultstore: the store is busy")

// Rule determines which calls fail, and how. Only one of the effects should be set.
type Rule struct {
	// Ops are the kinds of calls; 0 means Any.
	Ops Op
	// Name is a pattern of path.Match for the whole name, or a beginning that ends in a slash.
	// Empty matches every name.
	Name string
	// From is the number of the first matching call on which the rule acts, from 1; 0 means 1.
	From int
	// Count is the number of calls on which the rule acts; 0 means all from From on.
	Count int
	// After, if set, is another rule of the store: this one acts when that has affected a call.
	After *Fault

	// Before, if set, runs before the call, which waits for it.
	Before func(Call)
	// Err is the error of the call, which then has no effect.
	Err error
	// Lost lets the call take effect, and returns this error.
	Lost error
	// Hang lets the call have no effect, and return when its context ends.
	Hang bool
	// Late is Hang for a Put, a Copy or a Delete that takes effect when Release is called.
	Late bool
	// Alter, if set, changes what a Get returns: it returns the bytes that the caller receives. If
	// they are fewer, the object seems to end there. Of a Put, it returns the bytes that the store
	// keeps, and the caller sees no error.
	Alter func(Call, []byte) []byte
	// Stale lets a List return what it would have returned at the last call of Remember.
	Stale bool
	// Lacks, if set, reports which objects a List leaves out.
	Lacks func(objects.Info) bool
	// Stop ends a List with ErrInjected after this many names; 0 does not.
	Stop int
}

func (r *Rule) picks(c Call) bool {
	if r.Ops != 0 && r.Ops&c.Op == 0 {
		return false
	}
	if r.Name == "" || strings.HasSuffix(r.Name, "/") && strings.HasPrefix(c.Name, r.Name) {
		return true
	}
	yes, err := path.Match(r.Name, c.Name)
	return yes && err == nil
}

// Fault is a rule that was added to a Store. It is active until Off.
type Fault struct {
	s     *Store
	rule  Rule
	tally errfs.Tally
}

// Off switches the rule off.
func (f *Fault) Off() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.tally.Off = true
}

// Hits returns the number of calls that the rule affected.
func (f *Fault) Hits() int {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.tally.Hits()
}

// act counts the call and reports whether the rule affects it. The caller must hold s.mu.
func (f *Fault) act(c *Call) bool {
	if f.tally.Off || !f.rule.picks(*c) || f.rule.After != nil && f.rule.After.tally.Hits() == 0 {
		return false
	}
	var affects bool
	c.N, affects = f.tally.Next(f.rule.From, f.rule.Count)
	return affects
}

// Store is a store that can fail.
type Store struct {
	under objects.Store

	mu         sync.Mutex // guards the following fields; not held during calls
	faults     []*Fault
	calls      [ops]int
	late       []func(context.Context) error
	remembered []objects.Info
	quota      int64 // bytes that may still be put; negative: no bound
}

var _ objects.Store = (*Store)(nil)

// New wraps under.
func New(under objects.Store) *Store { return &Store{under: under, quota: -1} }

// Add activates the rule from the next call on. The first rule that affects a call counts. A
// malformed Name matches nothing.
func (s *Store) Add(r Rule) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &Fault{s: s, rule: r}
	s.faults = append(s.faults, f)
	return f
}

// Calls returns the number of calls of these kinds, including failed ones.
func (s *Store) Calls(kinds Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i, calls := range s.calls {
		if kinds&(1<<i) != 0 {
			n += calls
		}
	}
	return n
}

// SetQuota lets the store accept n more bytes, of all calls of Put together. Negative removes the
// bound.
func (s *Store) SetQuota(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota = n
}

// Remember notes the list of all objects for rules with Stale.
func (s *Store) Remember() error {
	var all []objects.Info
	err := s.under.List(context.Background(), "", func(in objects.Info) error {
		all = append(all, in)
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remembered = all
	return err
}

// Release lets the late calls take effect, in their order, and returns how many there were and
// their errors.
func (s *Store) Release() (int, error) {
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	var errs []error
	for _, call := range late {
		errs = append(errs, call(context.Background()))
	}
	return len(late), errors.Join(errs...)
}

// enter must be called first by every call. It returns the rule that affects the call, or a rule
// without effect, and whether the call fails with an error at once.
func (s *Store) enter(ctx context.Context, c *Call) (Rule, error) {
	s.mu.Lock()
	s.calls[bits.TrailingZeros32(uint32(c.Op))]++
	var rule Rule
	for _, f := range s.faults {
		if f.act(c) {
			rule = f.rule
			break
		}
	}
	s.mu.Unlock()
	if rule.Before != nil {
		rule.Before(*c)
	}
	if rule.Hang {
		<-ctx.Done()
		return rule, context.Cause(ctx)
	}
	if rule.Err != nil {
		return rule, fmt.Errorf("%s: %w", c.Name, rule.Err)
	}
	return rule, nil
}

// change runs a call that changes the store.
func (s *Store) change(ctx context.Context, c Call, call func(context.Context) error) error {
	rule, err := s.enter(ctx, &c)
	if err != nil {
		return err
	}
	return s.effect(ctx, &rule, call)
}

// effect runs a call with the effects of a rule.
func (s *Store) effect(ctx context.Context, rule *Rule, call func(context.Context) error) error {
	if rule.Late {
		s.mu.Lock()
		s.late = append(s.late, call)
		s.mu.Unlock()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := call(ctx); err != nil {
		return err
	}
	return rule.Lost
}

// Put implements objects.Store.
func (s *Store) Put(ctx context.Context, name string, body objects.Body) error {
	c := Call{Op: Put, Name: name}
	rule, err := s.enter(ctx, &c)
	if err != nil {
		return err
	}
	if rule.Alter != nil {
		b := make([]byte, body.Size())
		if n, err := body.ReadAt(b, 0); n < len(b) {
			return fmt.Errorf("%s: %w", name, err)
		}
		body = bytes.NewReader(rule.Alter(c, b))
	}
	return s.effect(ctx, &rule, func(ctx context.Context) error {
		if err := s.reserve(body.Size()); err != nil {
			return err
		}
		return s.under.Put(ctx, name, body)
	})
}

// reserve takes n bytes of the quota.
func (s *Store) reserve(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.quota < 0:
	case n > s.quota:
		return fmt.Errorf("%w: %d bytes, %d are free", objects.ErrFull, n, s.quota)
	default:
		s.quota -= n
	}
	return nil
}

// Get implements objects.Store.
func (s *Store) Get(ctx context.Context, name string, off int64, p []byte) (int, error) {
	c := Call{Op: Get, Name: name}
	rule, err := s.enter(ctx, &c)
	if err != nil {
		return 0, err
	}
	n, err := s.under.Get(ctx, name, off, p)
	if rule.Lost != nil {
		return 0, rule.Lost
	}
	if rule.Alter != nil && (err == nil || errors.Is(err, io.EOF)) {
		altered := rule.Alter(c, bytes.Clone(p[:n]))
		if m := copy(p, altered); m < n {
			n, err = m, io.EOF
		}
	}
	return n, err
}

// Copy implements objects.Store.
func (s *Store) Copy(ctx context.Context, from objects.Info, to string) error {
	return s.change(ctx, Call{Op: Copy, Name: to}, func(ctx context.Context) error { return s.under.Copy(ctx, from, to) })
}

// Delete implements objects.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.change(ctx, Call{Op: Delete, Name: name}, func(ctx context.Context) error { return s.under.Delete(ctx, name) })
}

// List implements objects.Store.
func (s *Store) List(ctx context.Context, prefix string, each func(objects.Info) error) error {
	c := Call{Op: List, Name: prefix}
	rule, err := s.enter(ctx, &c)
	if err != nil {
		return err
	}
	names := 0
	pass := func(in objects.Info) error {
		if rule.Lacks != nil && rule.Lacks(in) {
			return nil
		}
		if names++; rule.Stop > 0 && names > rule.Stop {
			return ErrInjected
		}
		return each(in)
	}
	if !rule.Stale {
		return s.under.List(ctx, prefix, pass)
	}
	s.mu.Lock()
	remembered := s.remembered
	s.mu.Unlock()
	for _, in := range remembered {
		if strings.HasPrefix(in.Name, prefix) {
			if err := pass(in); err != nil {
				return err
			}
		}
	}
	return nil
}
