package group

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/pattern"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Calls match regular expressions against topics, outside of the shard's goroutine: matching may be
// slow and would delay other groups. A heartbeat with a new expression waits for a call and is
// handled when the matches are known. When topics change, a single call matches all expressions of
// the shard.

// heartbeatMatch is the result of a call for a heartbeat. It is an event.
type heartbeatMatch struct {
	request    Request // its body is the heartbeat
	expression string
	topics     Topics // the topics it was matched against
	matches    []string
	err        error // the expression is invalid, or its client is gone
}

// The topics that an expression matches depend on who subscribes: a member gets only topics that it
// may see. So an expression is known, and recorded, together with its member's viewer, and two
// viewers with the same expression have two:
//
//	expression NUL principal NUL host
//
// Without authorization it is the expression alone, as in Kafka.

// bind returns an expression of a viewer.
func bind(expression string, v Viewer) string {
	if expression == "" || v == (Viewer{}) {
		return expression
	}
	return expression + "\x00" + v.Principal + "\x00" + v.Host
}

// unbind returns the two parts of what bind returned.
func unbind(bound string) (expression string, v Viewer) {
	expression, client, _ := strings.Cut(bound, "\x00")
	v.Principal, v.Host, _ = strings.Cut(client, "\x00")
	return expression, v
}

// expressionAfter returns the expression of a member after a heartbeat, bound to its viewer;
// former is the one before it. A member whose client has another viewer than before gets its
// topics.
func expressionAfter(former *string, e Request, req *kmsg.ConsumerGroupHeartbeatRequest) string {
	re := deref(req.SubscribedTopicRegex)
	if req.SubscribedTopicRegex == nil {
		if deref(former) == "" {
			return ""
		}
		var v Viewer
		if re, v = unbind(*former); v == e.Viewer {
			return *former
		}
	}
	return bind(re, e.Viewer)
}

// expressionOf is expressionAfter for the member that a heartbeat names.
func (s *Shard) expressionOf(e Request, req *kmsg.ConsumerGroupHeartbeatRequest) string {
	var former *string
	if g := s.groups[req.Group]; g != nil && g.consumer() != nil {
		former = g.consumer().memberOrNew(req.MemberID).meta.Regex
	}
	return expressionAfter(former, e, req)
}

// visible returns which topics the viewer of an expression may see.
func (s *Shard) visible(v Viewer) func(topic string) bool {
	if s.cfg.Visible == nil || v == (Viewer{}) {
		return func(string) bool { return true }
	}
	return s.cfg.Visible(v)
}

// needsMatch reports whether the expression of a heartbeat has no known matches.
func (s *Shard) needsMatch(re string, req *kmsg.ConsumerGroupHeartbeatRequest) bool {
	if re == "" || s.heartbeatMatch != nil && s.heartbeatMatch.expression == re {
		return false
	}
	if g := s.groups[req.Group]; g != nil && g.consumer() != nil {
		_, known := g.consumer().regexes[re]
		return !known
	}
	return true
}

// usesRegex reports whether members of the group subscribe by regular expression.
func (g *group) usesRegex() bool {
	c := g.consumer()
	return c != nil && (len(c.regexes) > 0 || c.unresolved)
}

// startMatch starts a call that matches a heartbeat's expression.
func (s *Shard) startMatch(to coordinator.Ticket, e Request, expression string) {
	topics := s.topics
	s.out.CallFor(e.Client, to, func(ctx context.Context) any {
		m := heartbeatMatch{request: e, expression: expression, topics: topics}
		if m.err = ctx.Err(); m.err != nil {
			return m
		}
		plain, viewer := unbind(expression)
		re, _, err := pattern.Compile(plain, sizeOf(topics.Names()))
		if m.err = err; err == nil {
			m.matches, m.err = matchNames(ctx, re, topics.Names(), s.visible(viewer))
		}
		return m
	})
}

// resumeHeartbeat handles a heartbeat whose expression was matched. If topics have changed
// meanwhile, the expressions of the group are matched again afterwards, and not before: a client
// that makes topics would keep the heartbeat from an end.
func (s *Shard) resumeHeartbeat(to coordinator.Ticket, m heartbeatMatch) {
	req := m.request.Body.(*kmsg.ConsumerGroupHeartbeatRequest)
	if m.err != nil {
		s.refuseHeartbeat(to, req, m.failure(req))
		s.finishEvent(req.Group)
		return
	}
	s.heartbeatMatch = &m
	s.consumerHeartbeat(to, m.request, req)
	s.heartbeatMatch = nil
	if g := s.groups[req.Group]; g != nil && g.usesRegex() && m.topics.Version() != s.topics.Version() {
		s.requestMatches(g)
	}
	s.finishEvent(req.Group)
}

// failure returns why a heartbeat whose expression was not matched is refused. The client is gone
// if its context ended; the code says that it may come back.
func (m *heartbeatMatch) failure(req *kmsg.ConsumerGroupHeartbeatRequest) *failure {
	if errors.Is(m.err, context.Canceled) || errors.Is(m.err, context.DeadlineExceeded) {
		return refuse(kerr.CoordinatorNotAvailable)
	}
	return fail(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.",
		truncateExpression(deref(req.SubscribedTopicRegex)), reason(m.err))
}

// resolveRegexes records the matches of new expressions and drops unused ones.
func (s *Shard) resolveRegexes(g *group) {
	c := g.consumer()
	for _, m := range c.list() {
		re := deref(m.meta.Regex)
		if _, known := c.regexes[re]; known || re == "" {
			continue
		}
		if s.heartbeatMatch != nil && s.heartbeatMatch.expression == re {
			s.emitRegex(g, re, s.heartbeatMatch.matches)
		} else {
			s.requestMatches(g)
		}
	}
	s.dropRegexes(g)
}

// requestMatches requests matches for expressions without any, such as those of members that
// another version has recorded.
func (s *Shard) requestMatches(g *group) {
	g.consumer().unresolved, s.changes.all = true, true
	s.setTimer(timerTopics, "", "", 0)
}

func (s *Shard) emitRegex(g *group, expression string, topics []string) {
	s.emit(format.Key{Type: format.TypeRegex, Group: g.id, Item: expression},
		format.Regex{Topics: topics, Version: s.topics.Version(), Time: s.nowMillis()})
}

// dropRegexes drops expressions that no member uses.
func (s *Shard) dropRegexes(g *group) {
	used := g.consumer().expressions()
	for _, re := range slices.Sorted(maps.Keys(g.consumer().regexes)) {
		if !used[re] {
			s.emit(format.Key{Type: format.TypeRegex, Group: g.id, Item: re}, nil)
		}
	}
}

// expressions returns the expressions that members use.
func (c *consumer) expressions() map[string]bool {
	used := map[string]bool{}
	for _, m := range c.members {
		if m.meta.Regex != nil {
			used[*m.meta.Regex] = true
		}
	}
	return used
}

// topicMatches is the result of the call that follows a change of topics. It is an event.
type topicMatches struct {
	topics  Topics
	all     bool
	changed []string            // sorted
	matches map[string][]string // by expression, of all topics or of those in changed
	groups  []string            // groups that have not recorded the matches yet, sorted
}

// startMatchAll starts a call that matches the expressions of all groups against changed topics.
func (s *Shard) startMatchAll() {
	r := topicMatches{topics: s.topics, all: s.changes.all, changed: slices.Sorted(maps.Keys(s.changes.changed)),
		matches: map[string][]string{}}
	s.changes.all, s.changes.changed = false, nil
	for id, g := range s.groups {
		if g.usesRegex() {
			r.groups = append(r.groups, id)
			for re := range g.consumer().expressions() {
				r.matches[re] = nil
			}
		}
	}
	if len(r.groups) == 0 {
		return
	}
	slices.Sort(r.groups)
	s.rematching = true
	names := r.topics.Names()
	if !r.all {
		names = existing(r.topics, r.changed)
	}
	s.out.Call(0, func(ctx context.Context) any {
		r.compute(ctx, names, s.visible)
		return r
	})
}

// maxRematch bounds the steps of all expressions of more than pattern.Small instructions together.
const maxRematch = 10 * pattern.MaxSteps

// compute matches all expressions, the smallest first. There may be more topics now than when an
// expression was accepted, and more expressions: those that would take too long keep their matches,
// so that they do not keep the topics from others. An expression that this version can't compile,
// recorded by another version, matches nothing. If ctx ends, the machine is gone, and nothing
// applies the result.
func (r *topicMatches) compute(ctx context.Context, names iter.Seq[string], visible func(Viewer) func(string) bool) {
	type program struct {
		bound string
		re    *regexp.Regexp
		size  int
	}
	var programs []program
	for bound := range r.matches {
		plain, _ := unbind(bound)
		if re, size, err := pattern.Compile(plain, 0); err == nil {
			programs = append(programs, program{bound, re, size})
		}
		if coordinator.Pause(ctx); ctx.Err() != nil {
			return
		}
	}
	sorts.Sort(programs, func(a, b program) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.bound, b.bound)) })
	left, bytes := maxRematch, sizeOf(names)
	for _, p := range programs {
		if p.size > pattern.Small {
			if left -= p.size * bytes; p.size*bytes > pattern.MaxSteps || left < 0 {
				delete(r.matches, p.bound)
				continue
			}
		}
		_, viewer := unbind(p.bound)
		var err error
		if r.matches[p.bound], err = matchNames(ctx, p.re, names, visible(viewer)); err != nil {
			return
		}
	}
}

// existing returns the names of topics that exist.
func existing(topics Topics, names []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range names {
			if _, exists := topics.ByName(name); exists && !yield(name) {
				return
			}
		}
	}
}

// maxMatches bounds the size of match lists that one event records, in bytes. The rest follows
// after tombstoneDelay.
const maxMatches = 1 << 20

// applyMatches records the result of a call and reports whether that was all of it.
func (s *Shard) applyMatches(r *topicMatches) (all bool) {
	for size := 0; len(r.groups) > 0; r.groups = r.groups[1:] {
		if size > maxMatches {
			return false
		}
		g := s.groups[r.groups[0]]
		if g == nil || g.consumer() == nil {
			continue
		}
		c := g.consumer()
		for _, re := range slices.Sorted(maps.Keys(c.expressions())) {
			old, known := c.regexes[re]
			found, asked := r.matches[re]
			// A heartbeat may have recorded newer matches in the meantime.
			if !asked || known && old.Version > r.topics.Version() || !known && !r.all {
				continue
			}
			next := found
			if !r.all {
				next = replaced(old.Topics, r.changed, found)
			}
			if !known || !slices.Equal(old.Topics, next) {
				s.out.Split() // after a load, those that are older are asked for again
				s.emitRegex(g, re, next)
				size += regexWeight(re, c.regexes[re])
				c.dirty = true
			}
		}
		c.unresolved = false
		s.finishEvent(g.id)
	}
	return true
}

// replaced returns the sorted list old, in which the names in some are replaced by those in found.
func replaced(old, some, found []string) []string {
	next := slices.DeleteFunc(slices.Clone(old), func(name string) bool {
		_, is := slices.BinarySearch(some, name)
		return is
	})
	next = append(next, found...)
	slices.Sort(next)
	return next
}
