package checks

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/health"
)

// A finding that flaps writes freeLines lines to the log at once, then at most one in quietFor. It
// may write freeLines again when the log has had no line about it for forgetAfter.
const (
	freeLines   = 4
	quietFor    = time.Minute
	forgetAfter = 10 * time.Minute
	// A fault that is back after at most backWithin has not been away: a lossy network, for
	// example, hides it for a second.
	backWithin = 10 * time.Second
)

// ledger records since when each finding exists and what the log says about it. One goroutine uses
// it.
type ledger struct {
	log     *zap.Logger
	loud    func(check string) bool
	entries map[findingKey][]*entry
}

// findingKey identifies findings by check and subject. If a key has one finding before and after,
// it is the same fault if their texts are alike: names and numbers in them change. Of several,
// those with the same shape are the same.
type findingKey struct{ check, subject string }

// entry is a fault. It stays for some time after it is resolved, so that flapping is detected.
type entry struct {
	shape   string
	since   time.Time
	gone    time.Time // when it was resolved; zero: it is there
	problem string    // its latest text

	severity, logged health.Severity // current, and as last logged; empty: absent, or resolved
	remedy           string
	lines            int
	spoken           time.Time // when the last line was logged
}

func newLedger(o *Options) ledger {
	return ledger{log: o.Log, entries: map[findingKey][]*entry{}, loud: func(check string) bool {
		return slices.ContainsFunc(o.Checks, func(c Check) bool { return c.Name == check && c.Loud })
	}}
}

// enter receives all current findings, sets since when each exists and, if speaks is true, logs
// those that appeared, changed their severity or were resolved.
func (l *ledger) enter(findings []health.Finding, at time.Time, speaks bool) {
	now := map[findingKey][]*health.Finding{}
	for i := range findings {
		f := &findings[i]
		now[findingKey{f.Check, f.Subject}] = append(now[findingKey{f.Check, f.Subject}], f)
	}
	for p, list := range now {
		l.entries[p] = matched(l.entries[p], list, at)
	}
	if speaks {
		for i := range findings { // in the order of the report
			for _, e := range l.entries[findingKey{findings[i].Check, findings[i].Subject}] {
				l.say(findingKey{findings[i].Check, findings[i].Subject}, e, at)
			}
		}
	}
	for p, all := range l.entries {
		for _, e := range all {
			if now[p] == nil {
				e.resolve(at)
			}
			if speaks {
				l.say(p, e, at)
			}
		}
		all = slices.DeleteFunc(all, func(e *entry) bool {
			return e.severity == "" && e.logged == "" && at.Sub(e.spoken) >= forgetAfter
		})
		if l.entries[p] = all; len(all) == 0 {
			delete(l.entries, p)
		}
	}
}

// matched returns the entries of a place for its current findings, followed by those of resolved
// faults.
func matched(before []*entry, now []*health.Finding, at time.Time) []*entry {
	left := slices.Clone(before)
	known := slices.DeleteFunc(slices.Clone(before), func(e *entry) bool { return e.severity == "" })
	if len(known) == 0 {
		known = before
	}
	same := len(now) == 1 && len(known) == 1
	var all []*entry
	for _, f := range now {
		shape := shapeOf(f.Problem)
		i := slices.IndexFunc(left, func(e *entry) bool { return e.shape == shape })
		if i < 0 && same && alike(known[0].problem, f.Problem) {
			i = slices.Index(left, known[0])
		}
		e := &entry{since: at.UTC()}
		if i >= 0 {
			e = left[i]
			left = slices.Delete(left, i, i+1)
		}
		if !e.gone.IsZero() && at.Sub(e.gone) > backWithin {
			e.since = at.UTC()
		}
		e.gone = time.Time{}
		e.shape, e.problem, e.remedy, e.severity, f.Since = shape, f.Problem, f.Remedy, f.Severity, e.since
		all = append(all, e)
	}
	for _, e := range left {
		e.resolve(at)
	}
	return append(all, left...)
}

// resolve records that a fault is not there.
func (e *entry) resolve(at time.Time) {
	if e.gone.IsZero() {
		e.gone = at
	}
	e.severity = ""
}

// alike reports whether two texts say the same with other names and numbers: they share at least a
// third of their words.
func alike(a, b string) bool {
	words := func(text string) map[string]bool {
		all := map[string]bool{}
		for _, w := range strings.FieldsFunc(shapeOf(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
			all[w] = true
		}
		return all
	}
	of, other := words(a), words(b)
	shared := 0
	for w := range of {
		if other[w] {
			shared++
		}
	}
	return 3*shared >= len(of)+len(other)-shared
}

// shapeOf returns a text without its numbers.
func shapeOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// say logs the current state of a fault, unless the log has it or has had too many lines about it.
func (l *ledger) say(p findingKey, e *entry, at time.Time) {
	if e.logged == e.severity {
		return
	}
	switch quiet := at.Sub(e.spoken); {
	case quiet >= forgetAfter:
		e.lines = 0
	case e.lines >= freeLines && quiet < quietFor:
		return
	}
	e.lines++
	e.spoken, e.logged = at, e.severity
	if e.severity == "" {
		l.log.Info("resolved: "+e.problem, zap.String("check", p.check), zap.String("subject", p.subject))
		return
	}
	log := l.log.Warn
	switch {
	case e.severity == health.Bad:
		log = l.log.Error
	case e.severity == health.Note && !l.loud(p.check):
		log = l.log.Info
	}
	log(e.problem, zap.String("check", p.check), zap.String("subject", p.subject), zap.String("remedy", e.remedy))
}
