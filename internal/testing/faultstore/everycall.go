package faultstore

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/testing/crashfs"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// ErrKilled is the error of each call after the process was killed.
var ErrKilled = errors.New("faultstore: the process was killed")

// failure is a way in which a call fails.
type failure struct {
	what string
	ops  Op // of the calls
	rule Rule
	then *Rule // of the calls after it; nil: they succeed
	// lies: the store has other bytes than it acknowledged. power: it loses what is not synced.
	lies, power bool
}

func altered(_ Call, b []byte) []byte {
	b[len(b)/3] ^= 1
	return b
}

func truncated(_ Call, b []byte) []byte { return b[:len(b)/2] }

var dead = &Rule{Err: ErrKilled}

var failures = []failure{
	{what: "fails", ops: Any, rule: Rule{Err: ErrInjected}},
	{what: "finds the store full", ops: Put | Copy, rule: Rule{Err: objects.ErrFull}, then: &Rule{Ops: Put | Copy, Err: objects.ErrFull}},
	{what: "loses its answer", ops: Put | Copy | Delete, rule: Rule{Lost: ErrInjected}},
	{what: "puts altered bytes", ops: Put, rule: Rule{Alter: altered}, lies: true},
	{what: "puts half of the bytes", ops: Put, rule: Rule{Alter: truncated}, lies: true},
	{what: "returns altered bytes", ops: Get, rule: Rule{Alter: altered}},
	{what: "returns half of the bytes", ops: Get, rule: Rule{Alter: truncated}},
	{what: "finds no object", ops: Get, rule: Rule{Err: objects.ErrNotFound}},
	{what: "lists nothing", ops: List, rule: Rule{Lacks: func(objects.Info) bool { return true }}},
	{what: "lists objects of even sizes", ops: List, rule: Rule{Lacks: func(in objects.Info) bool { return in.Size%2 == 1 }}},
	{what: "lists objects of odd sizes", ops: List, rule: Rule{Lacks: func(in objects.Info) bool { return in.Size%2 == 0 }}},
	{what: "lists what was there before", ops: List, rule: Rule{Stale: true}},
	{what: "does not begin: the process is killed", ops: Any, rule: *dead, then: dead},
	{what: "is the last one of the process", ops: Any, rule: Rule{Lost: ErrKilled}, then: dead},
	{what: "is the last one before a loss of power", ops: Any, rule: Rule{Lost: ErrKilled}, then: dead, power: true},
}

// Case is one execution of an operation, in which one call of its store fails in one way.
type Case struct {
	What  string // the call and the failure
	Store *Store
	// Killed: the process was killed, perhaps with a loss of the store's power, and must begin
	// again. Lies: the store has acknowledged a Put and kept other bytes.
	Killed, Lies bool

	t     testing.TB
	disk  *crashfs.FS
	f     *failure
	call  int
	rules []*Fault
}

// EveryCall yields each case of an operation: the first call fails in each way, and then the
// second, until the operation has fewer calls. Each case has a store of its own. The caller
// prepares it, calls Begin, runs the operation, calls End, and checks what is left. Short tests,
// and those under the race detector, try each seventh call.
func EveryCall(t testing.TB) iter.Seq[*Case] { return each(t, 1) }

// SomeCalls is EveryCall with the first call and every second of the others, in turn the odd ones
// and the even ones: each of these fails in about half of the ways. A test that uses it asks for
// EveryCall if CHRONIK_EVERY_CALL is set.
func SomeCalls(t testing.TB) iter.Seq[*Case] { return each(t, 2) }

// each yields the cases of the first call and of each of turns calls in turn.
func each(t testing.TB, turns int) iter.Seq[*Case] {
	return func(yield func(*Case) bool) {
		cases, step := 0, race.Some(turns, 7)
		if testing.Short() {
			step = 7
		}
		for i := range failures {
			next := 2 + (i+turns-1)%turns
			for call, more := 1, true; more; call, next = next, next+step {
				c := newCase(t, &failures[i], call)
				if !yield(c) || t.Failed() {
					return
				}
				if c.rules == nil {
					t.Fatal("the operation was not run")
				}
				if more = c.rules[0].Hits() > 0; more {
					cases++
				}
			}
		}
		t.Logf("%d cases", cases)
	}
}

func newCase(t testing.TB, f *failure, call int) *Case {
	t.Helper()
	c := &Case{What: fmt.Sprintf("call %d (kinds %05b) %s", call, f.ops, f.what), t: t, disk: crashfs.New(uint64(call)), f: f, call: call}
	must.OK(t, c.disk.MkdirAll("/store"))
	must.OK(t, c.disk.SyncDir("/"))
	under, err := dirstore.Open(c.disk, "/store")
	must.OK(t, err)
	c.Store = New(under)
	return c
}

// Begin lets the call fail.
func (c *Case) Begin() {
	c.t.Helper()
	must.OK(c.t, c.Store.Remember())
	rule := c.f.rule
	rule.Ops, rule.From, rule.Count = c.f.ops, c.call, 1
	c.rules = append(c.rules, c.Store.Add(rule))
	if c.f.then != nil {
		rest := *c.f.then
		rest.After = c.rules[0]
		c.rules = append(c.rules, c.Store.Add(rest))
	}
}

// End ends the failure. No call may be in progress.
func (c *Case) End() {
	c.t.Helper()
	for _, r := range c.rules {
		r.Off()
	}
	hit := c.rules[0].Hits() > 0
	c.Killed, c.Lies = hit && c.f.then == dead, hit && c.f.lies
	if hit && c.f.power {
		image := c.disk.PowerLossImage(crashfs.DropUnsynced, uint64(c.call))
		under, err := dirstore.Open(image, "/store")
		must.OK(c.t, err)
		c.Store.under = under
	}
}
