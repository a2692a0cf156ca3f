// Package refusals counts what a broker refuses to clients, and for how long it lets them wait, by
// what refuses and who is refused. What refuses reports to a Table: the limits of connections, the
// checks of logins, the rules of access, and the quotas. So an operator sees why clients stand
// still, although the broker works as configured.
//
// Clients choose names and have many addresses, so a Table has bounds: beyond them it counts what
// refuses, and no longer who is refused. It decides nothing: what refuses has the reason, and the
// checks of health know how many are too many.
package refusals

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/view"
)

// Bounds of a Table.
const (
	// maxEntries is how many causes and clients there are at most, for each kind of refusal.
	maxEntries = 256
	// maxText is how many bytes of a name, or of a reason, are kept.
	maxText = 256
	// slot and slots are the parts of the time that is counted: a minute, and what has passed of
	// the present slot.
	slot  = 10 * time.Second
	slots = 7
	// sweepEvery is the least time between two searches for entries to forget.
	sweepEvery = time.Second
)

// Who is a client that is refused. What is not known is empty.
type Who = view.Client

// Table counts refusals. Any goroutine may use it. A nil Table counts nothing.
type Table struct {
	clock func() time.Time
	kinds [view.RefusalKinds]kind
}

// kind has the refusals of one kind.
type kind struct {
	// active is when the last refusal was, in Unix ns; 0: never. Without a recent one, nothing is
	// counted of those that pass.
	active atomic.Int64

	mu      sync.Mutex
	entries map[key]*entry
	users   map[string]bool    // of entries
	passed  map[string]*window // by user, of users; the empty one has all
	swept   time.Time
}

// key is what refuses, and whom.
type key struct {
	cause, rule string
	who         Who
}

type entry struct {
	window
	since  time.Time // the first refusal after a minute without any
	last   time.Time
	detail string
	lift   string
	noted  int64 // the slot of detail and lift
}

// window counts what happened in the last minute.
type window struct {
	n    [slots]int
	wait [slots]time.Duration // the longest
	at   [slots]int64         // number of the slot
}

func (w *window) add(number int64, wait time.Duration) {
	i := number % slots
	if w.at[i] != number {
		w.at[i], w.n[i], w.wait[i] = number, 0, 0
	}
	w.n[i]++
	w.wait[i] = max(w.wait[i], wait)
}

func (w *window) sum(number int64) (n int, wait time.Duration) {
	for i, at := range w.at {
		if number-at < slots {
			n, wait = n+w.n[i], max(wait, w.wait[i])
		}
	}
	return n, wait
}

// New returns an empty Table.
func New(clock func() time.Time) *Table { return &Table{clock: clock} }

// Refused counts a refusal. cause is the name of a limit, a mechanism or an operation; rule is
// whose limit it is, empty if there is only one. detail returns view.Refused.Detail and Lift; it is
// called now and then, and may be nil. wait is for how long the client waits.
func (t *Table) Refused(k view.RefusalKind, cause, rule string, who Who, wait time.Duration, detail func() (text, lift string)) {
	if t == nil {
		return
	}
	for _, s := range []*string{&cause, &rule, &who.User, &who.ClientID, &who.Address} {
		*s = text.Cut(*s, maxText)
	}
	now := t.clock()
	number := now.UnixNano() / int64(slot)
	x := &t.kinds[k]
	x.active.Store(now.UnixNano())
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entry(key{cause, rule, who}, now)
	if now.Sub(e.last) >= (slots-1)*slot {
		e.since = now
	}
	e.last = now
	e.add(number, wait)
	if detail != nil && e.noted != number {
		why, lift := detail()
		e.detail, e.lift, e.noted = strings.Clone(clip(why)), lift, number
	}
}

// clip returns what is kept of a sentence: whole words.
func clip(why string) string {
	if len(why) <= maxText {
		return why
	}
	return why[:max(strings.LastIndexByte(why[:maxText], ' '), 0)] + " …"
}

// kept returns a copy of a key that may be a part of a request's memory.
func (k key) kept() key {
	for _, s := range []*string{&k.cause, &k.rule, &k.who.User, &k.who.ClientID, &k.who.Address} {
		*s = strings.Clone(*s)
	}
	return k
}

// entry returns the entry of a key or, at the bound, that of all others of its cause. The caller
// holds mu.
func (x *kind) entry(at key, now time.Time) *entry {
	e := x.entries[at]
	if e == nil && len(x.entries) >= maxEntries {
		x.sweep(now)
		if len(x.entries) >= maxEntries {
			at = key{cause: at.cause}
			e = x.entries[at]
		}
	}
	if e == nil {
		if x.entries == nil {
			x.entries, x.users = map[key]*entry{}, map[string]bool{}
		}
		e, at = &entry{noted: -1}, at.kept()
		x.entries[at], x.users[at.who.User] = e, true
	}
	return e
}

// sweep forgets what was not refused in the last minute. The caller holds mu.
func (x *kind) sweep(now time.Time) {
	if now.Sub(x.swept) < sweepEvery {
		return
	}
	x.swept = now
	users := map[string]bool{"": true}
	for at, e := range x.entries {
		if now.Sub(e.last) >= slots*slot {
			delete(x.entries, at)
		} else {
			users[at.who.User] = true
		}
	}
	x.users = users
	for user := range x.passed {
		if !users[user] {
			delete(x.passed, user)
		}
	}
}

// Forget removes the refusals of a kind for which drop returns true, because their cause ended. It
// is called with what is not a count.
func (t *Table) Forget(k view.RefusalKind, drop func(view.Refused) bool) {
	if t == nil {
		return
	}
	x := &t.kinds[k]
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, e := range x.entries {
		if drop(view.Refused{Kind: k, Cause: at.cause, Rule: at.rule, Who: at.who, Detail: e.detail, Lift: e.lift}) {
			delete(x.entries, at)
		}
	}
}

// Passed counts what was not refused, of a user. It costs next to nothing if nothing of the kind
// was refused in the last minute.
func (t *Table) Passed(k view.RefusalKind, user string) {
	if t == nil || t.kinds[k].active.Load() == 0 {
		return
	}
	x, now := &t.kinds[k], t.clock()
	if now.UnixNano()-x.active.Load() >= int64(slots*slot) {
		return
	}
	number := now.UnixNano() / int64(slot)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.passed == nil {
		x.passed = map[string]*window{}
	}
	for _, name := range slices.Compact([]string{"", text.Cut(user, maxText)}) {
		w := x.passed[name]
		if w == nil {
			if name != "" && !x.users[name] || len(x.passed) > maxEntries {
				continue
			}
			w = &window{}
			x.passed[strings.Clone(name)] = w
		}
		w.add(number, 0)
	}
}

// Last returns what was refused in the last minute, the most first.
func (t *Table) Last() (all []view.Refused) {
	if t == nil {
		return nil
	}
	now := t.clock()
	number := now.UnixNano() / int64(slot)
	for k := range t.kinds {
		x := &t.kinds[k]
		x.mu.Lock()
		x.sweep(now)
		passed := func(user string) int {
			w := x.passed[user]
			if w == nil {
				return 0
			}
			n, _ := w.sum(number)
			return n
		}
		for at, e := range x.entries {
			n, wait := e.sum(number)
			if n == 0 {
				continue
			}
			r := view.Refused{Kind: view.RefusalKind(k), Cause: at.cause, Rule: at.rule, Who: at.who, Count: n, Longest: wait,
				Since: e.since.UTC(), Detail: e.detail, Lift: e.lift, PassedAll: passed("")}
			if at.who.User != "" {
				r.Passed = passed(at.who.User)
			}
			all = append(all, r)
		}
		x.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b view.Refused) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Who.String(), b.Who.String()))
	})
	return all
}
