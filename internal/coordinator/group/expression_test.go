package group

import (
	"context"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/pattern"
)

// An expression that would take too many steps for the topics that there are is refused.
func TestAnExpressionThatIsTooSlowIsRefused(t *testing.T) {
	slow := strings.Repeat(".?", 2000)
	w := newWorld(t)
	for i := range 1000 {
		w.topic(fmt.Sprintf("%030d", i), 1)
	}
	if got := w.consumerBeat(regexHeartbeat("a", slow)); got.ErrorCode != kerr.InvalidRegularExpression.Code {
		t.Errorf("%d", got.ErrorCode)
	}
}

// When topics change, the expressions of many members share a bound, too, and the smallest come
// first: those that would take too long keep their matches.
func TestManyExpressionsKeepNoTopicsFromOthers(t *testing.T) {
	const each = pattern.MaxSteps / 2
	names := slices.Values([]string{strings.Repeat("x", 249), "orders-1"})
	r := topicMatches{matches: map[string][]string{"orders-.*": nil, strings.Repeat(".?", pattern.MaxInstructions/3): nil}}
	bytes := each / (4 * pattern.Small)
	many := func(yield func(string) bool) {
		for range bytes / 257 {
			for name := range names {
				if !yield(name) {
					return
				}
			}
		}
	}
	for i := range 2 * maxRematch / each {
		r.matches[strings.Repeat("(x|y)", pattern.Small)+fmt.Sprintf("%04d", i)] = nil
	}
	r.compute(t.Context(), many, func(Viewer) func(string) bool { return func(string) bool { return true } })
	if got := r.matches["orders-.*"]; len(got) != bytes/257 {
		t.Errorf("%d matches of a small expression, want %d", len(got), bytes/257)
	}
	if n, most := len(r.matches)-1, 2*maxRematch/each; n < most/4 || n == most {
		t.Errorf("%d of %d large expressions were matched", n, most)
	}
	if _, matched := r.matches[strings.Repeat(".?", pattern.MaxInstructions/3)]; matched {
		t.Error("an expression that is too slow for the topics was matched")
	}
}

// regexHeartbeat returns the first heartbeat of a member that subscribes by regular expression.
func regexHeartbeat(member, expression string) *kmsg.ConsumerGroupHeartbeatRequest {
	req := full(member)
	req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, &expression
	return req
}

// calling hands an event to a shard and returns the calls it asks for.
func (w *world) calling(to coordinator.Ticket, e any) []coordinator.Call {
	w.t.Helper()
	var out coordinator.Effects
	w.shard.Handle(w.now, to, e, &out)
	calls := out.Calls
	out.Calls = nil
	w.take(out)
	return calls
}

// A heartbeat with a new expression waits for a call outside of the shard. One with an expression
// that the group already has does not.
func TestExpressionIsMatchedByACall(t *testing.T) {
	w := newWorld(t)
	w.topic("orders-1", 1)
	calls := w.calling(100, request(regexHeartbeat("a", "orders-.*")))
	w.waits(100)
	if len(calls) != 1 || calls[0].To != 100 || len(w.shard.groups) != 0 {
		t.Fatalf("%d calls, %d groups", len(calls), len(w.shard.groups))
	}
	w.handle(100, calls[0].Do(context.Background()))
	is(t, answer[*kmsg.ConsumerGroupHeartbeatResponse](w, 100).ErrorCode, nil)
	if got := w.shard.groups["g"].consumer().regexes["orders-.*"].Topics; !slices.Equal(got, []string{"orders-1"}) {
		t.Error(got)
	}
	if calls := w.calling(101, request(regexHeartbeat("b", "orders-.*"))); len(calls) != 0 {
		t.Error("a known expression is matched again")
	}
	w.replays()
}

// A match that ended because its client is gone says nothing about the expression.
func TestAMatchWithoutAClientIsNoInvalidExpression(t *testing.T) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	for err, want := range map[error]*kerr.Error{context.Canceled: kerr.CoordinatorNotAvailable,
		&syntax.Error{Code: syntax.ErrMissingParen}: kerr.InvalidRegularExpression} {
		if f := (&heartbeatMatch{err: err}).failure(req); f.code != want {
			t.Errorf("%v: %v", err, f.code)
		}
	}
}

// Topics created while an expression is being matched are not missed, and do not delay the answer:
// who makes topics all the time keeps no heartbeat from its end.
func TestTopicsCreatedDuringAMatchAreNotMissed(t *testing.T) {
	w := newWorld(t)
	w.topic("orders-1", 1)
	calls := w.calling(100, request(regexHeartbeat("a", "orders-.*")))
	result := calls[0].Do(context.Background())
	w.topic("orders-2", 1)
	w.handle(100, result)
	is(t, answer[*kmsg.ConsumerGroupHeartbeatResponse](w, 100).ErrorCode, nil)
	w.advance(0)
	if got := w.shard.groups["g"].consumer().regexes["orders-.*"].Topics; !slices.Equal(got, []string{"orders-1", "orders-2"}) {
		t.Error(got)
	}
}

// fire fires a timer that is set, and returns the calls it asks for.
func (w *world) fire(kind uint8) []coordinator.Call {
	w.t.Helper()
	key := coordinator.TimerKey{Kind: kind}
	if _, set := w.timers[key]; !set {
		w.t.Fatalf("timer %d is not set", kind)
	}
	delete(w.timers, key)
	var out coordinator.Effects
	w.shard.Fire(w.now, key, &out)
	calls := out.Calls
	out.Calls = nil
	w.take(out)
	return calls
}

// A result that is older than a heartbeat's matches is ignored. Topics that change during a call
// are matched after it.
func TestOutdatedMatchesAreIgnored(t *testing.T) {
	w := newWorld(t)
	w.topic("orders-1", 1)
	is(t, w.consumerBeat(regexHeartbeat("a", "orders-.*")).ErrorCode, nil)
	change := func(name string, partitions int32) {
		w.topics.version++
		if w.topics.list[name] = partitions; partitions == 0 {
			delete(w.topics.list, name)
		}
		w.event(TopicsChanged{Topics: w.topics.clone(), Changed: []string{name}})
	}
	change("orders-2", 1)
	first := w.fire(timerTopics)
	change("orders-2", 0)
	change("orders-3", 1)
	if calls := w.fire(timerTopics); len(calls) != 0 {
		t.Fatal("two concurrent calls")
	}
	leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	leave.Group, leave.MemberID, leave.MemberEpoch, leave.Version = "g", "a", -1, 1
	is(t, w.consumerBeat(leave).ErrorCode, nil)
	is(t, w.consumerBeat(regexHeartbeat("b", "orders-.*")).ErrorCode, nil) // knows orders-3, but not orders-2
	w.event(first[0].Do(context.Background()))
	second := w.fire(timerTopics)
	if got := w.shard.groups["g"].consumer().regexes["orders-.*"].Topics; !slices.Equal(got, []string{"orders-1", "orders-3"}) {
		t.Error(got)
	}
	if len(second) != 1 {
		t.Fatalf("%d calls for later changes", len(second))
	}
	change("orders-4", 1)
	w.event(second[0].Do(context.Background()))
	w.advance(0)
	if got := w.shard.groups["g"].consumer().regexes["orders-.*"].Topics; !slices.Equal(got, []string{"orders-1", "orders-3", "orders-4"}) {
		t.Error(got)
	}
	w.replays()
}

// The size of the match lists recorded by one event is bounded.
func TestMatchesAreRecordedInBatches(t *testing.T) {
	w := newWorld(t)
	const topics, groups = 2000, 30
	for i := range topics {
		w.topics.list[fmt.Sprintf("%0100d", i)] = 1
	}
	w.topics.version++
	w.event(TopicsChanged{Topics: w.topics.clone(), All: true})
	for i := range groups {
		req := regexHeartbeat("a", ".*")
		req.Group = fmt.Sprint("g", i)
		is(t, w.consumerBeat(req).ErrorCode, nil)
	}
	w.topics.version++
	w.topics.list["new"] = 1
	w.event(TopicsChanged{Topics: w.topics.clone(), Changed: []string{"new"}})
	w.event(w.fire(timerTopics)[0].Do(context.Background()))
	rounds := 0
	for ; w.shard.rematched != nil; rounds++ {
		before := len(w.log)
		w.fire(timerTopics)
		size := 0
		for _, r := range w.log[before:] {
			size += r.Size()
		}
		if size > 2<<20 {
			t.Fatalf("%d bytes at once", size)
		}
	}
	for i := range groups {
		if got := len(w.shard.groups[fmt.Sprint("g", i)].consumer().regexes[".*"].Topics); got != topics+1 {
			t.Errorf("group %d: %d topics", i, got)
		}
	}
	if rounds < 5 {
		t.Errorf("%d rounds", rounds)
	}
	w.weighs()
}

// Expressions without matches in the log are matched after the load.
func TestExpressionsWithoutMatchesAreResolvedAfterALoad(t *testing.T) {
	w := newWorld(t)
	w.topic("orders-1", 1)
	is(t, w.consumerBeat(regexHeartbeat("a", "orders-.*")).ErrorCode, nil)
	w.log = slices.DeleteFunc(w.log, func(r coordinator.Record) bool { return strings.Contains(string(r.Key), "orders-.*") })
	w.start()
	w.advance(time.Second)
	if got := w.shard.groups["g"].consumer().regexes["orders-.*"].Topics; !slices.Equal(got, []string{"orders-1"}) {
		t.Error(got)
	}
}

// An invalid expression is refused with the reason, after the call.
func TestInvalidExpressionIsRefused(t *testing.T) {
	w := newWorld(t)
	w.topic("t", 1)
	for expression, says := range map[string]string{
		"(": "missing closing )", "(x{1000}){1000}": "invalid repeat count", "(" + strings.Repeat("x", 3000) + "){1000}": "too large",
	} {
		resp := w.consumerBeat(regexHeartbeat("a", expression))
		is(t, resp.ErrorCode, kerr.InvalidRegularExpression)
		if !strings.Contains(*resp.ErrorMessage, says) {
			t.Error(*resp.ErrorMessage)
		}
	}
	if len(w.shard.groups) != 0 || len(w.log) != 0 {
		t.Errorf("%d groups, %d records", len(w.shard.groups), len(w.log))
	}
}
