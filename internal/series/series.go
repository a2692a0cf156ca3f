// Package series chooses which of many failures are logged. What is tried again and again fails
// again and again: a line for each would hide what else is logged, and a line for the first alone
// would hide the failure of another day. The first failure of a series is always worth a line. The
// package does not log, and does not know what failed.
package series

import (
	"strings"
	"sync"
	"time"
)

// Quiet ends a series: so long after its last failure, the next one begins another.
const Quiet = 10 * time.Minute

// most is how many series are remembered; the failures of all further keys are one series.
const most = 1024

// overflow is the key of that series.
const overflow = "\x00\x00"

// Failures are the series of one component, by a key: what failed, and of which log or broker. The
// zero value is ready for use. Its methods may be called concurrently, and do not block.
type Failures struct {
	mu  sync.Mutex
	all map[string]*state
}

type state struct {
	times map[string]int // by cause
	last  time.Time
}

// mostCauses is how many causes a series tells apart: texts with numbers may be any number.
const mostCauses = 8

// Failed notes a failure. It returns how many of its cause the series has, and reports whether this
// one is worth a line: the 1st, 2nd, 3rd, 5th, 9th, 17th and so on. The cause is the text of the
// error that all others wrap.
func (f *Failures) Failed(key string, err error) (times int, say bool) {
	now, why := time.Now(), cause(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]*state{}
	}
	if f.all[key] == nil && f.full(now) {
		key = overflow
	}
	s := f.all[key]
	if s == nil {
		s = new(state)
		f.all[key] = s
	}
	if s.times == nil || now.Sub(s.last) >= Quiet {
		s.times = map[string]int{}
	}
	if s.times[why] == 0 && len(s.times) >= mostCauses {
		why = ""
	}
	n := s.times[why] + 1
	s.times[why], s.last = n, now
	return n, (n-1)&(n-2) == 0
}

// Ended ends the series whose keys begin with prefix: what failed succeeded. It reports whether
// there were any.
func (f *Failures) Ended(prefix string) (any bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.all {
		if strings.HasPrefix(key, prefix) {
			delete(f.all, key)
			any = true
		}
	}
	return any
}

// full reports whether there is no room for another key, after it has forgotten the series that
// have ended. The caller holds mu.
func (f *Failures) full(now time.Time) bool {
	if len(f.all) < most {
		return false
	}
	for key, s := range f.all {
		if now.Sub(s.last) >= Quiet {
			delete(f.all, key)
		}
	}
	return len(f.all) >= most
}

// cause returns the text of the innermost error: the outer ones may say when the next attempt is.
func cause(err error) string {
	for err != nil {
		switch x := err.(type) { //nolint:errorlint // it unwraps
		case interface{ Unwrap() error }:
			if inner := x.Unwrap(); inner != nil {
				err = inner
				continue
			}
		case interface{ Unwrap() []error }:
			if all := x.Unwrap(); len(all) > 0 {
				err = all[len(all)-1] // fmt.Errorf("%w: …: %w", mark, cause)
				continue
			}
		}
		return err.Error()
	}
	return ""
}

// Key joins the parts of a key, of which one may be a prefix.
func Key(parts ...string) string { return strings.Join(parts, "\x00") }
