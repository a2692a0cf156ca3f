package group

import (
	order "cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group/assign"
	"github.com/chronik-io/chronik/internal/coordinator/group/format"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// world is a shard and a simulation of its runtime, in simulated time.
type world struct {
	t      fataler
	cfg    Config
	shard  *Shard
	now    time.Time
	topics fakeTopics
	log    []coordinator.Record
	timers map[coordinator.TimerKey]time.Time
	ticket coordinator.Ticket
	got    map[coordinator.Ticket]any
	ids    int
	sent   []any // what the shard has sent, without a result
	// watched are the topics of the last assignment of a leader with the classic protocol.
	watched map[string]int32
}

// fataler is the common part of testing.T and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// fakeTopics are topics by name; the id is derived from the name.
type fakeTopics struct {
	list    map[string]int32
	version int64
	// again counts how often a topic was created again. Nil: with the same id, which leaves no
	// trace of the deletion in most groups.
	again map[string]byte
}

func (f fakeTopics) id(name string) assign.TopicID {
	id := idOf(name)
	id[15] = f.again[name]
	return id
}

func idOf(name string) (id assign.TopicID) {
	copy(id[:], name)
	return id
}

func (f fakeTopics) ByName(name string) (Topic, bool) {
	n, ok := f.list[name]
	return Topic{ID: f.id(name), Name: name, Partitions: n}, ok
}

func (f fakeTopics) ByID(id assign.TopicID) (Topic, bool) {
	for name := range f.list {
		if f.id(name) == id {
			return f.ByName(name)
		}
	}
	return Topic{}, false
}

func (f fakeTopics) Names() iter.Seq[string] { return maps.Keys(f.list) }
func (f fakeTopics) Version() int64          { return f.version }

func newWorld(t fataler, edit ...func(*Config)) *world {
	w := &world{t: t, now: time.UnixMilli(1_000_000), timers: map[coordinator.TimerKey]time.Time{}, got: map[coordinator.Ticket]any{},
		topics: fakeTopics{list: map[string]int32{}}}
	w.cfg = DefaultConfig()
	w.cfg.InitialDelay = 0
	w.cfg.NewID = func() string { w.ids++; return fmt.Sprint(w.ids) }
	for _, f := range edit {
		f(&w.cfg)
	}
	w.start()
	return w
}

// start loads a new shard from the log, as a restart of the coordinator does.
func (w *world) start() {
	if w.shard != nil {
		w.shard.End()
	}
	w.shard = New(w.cfg)
	for _, r := range w.log {
		if err := w.shard.Apply(r); err != nil {
			w.t.Fatalf("load: %v", err)
		}
	}
	clear(w.timers)
	clear(w.got)
	w.sent = nil
	var out coordinator.Effects
	w.shard.Loaded(w.now, 1, &out)
	if len(out.Records) > 0 {
		w.t.Fatalf("a load writes %d records", len(out.Records))
	}
	w.take(out)
	w.event(TopicsChanged{Topics: w.topics.clone(), All: true})
	w.advance(0)
}

func (f fakeTopics) clone() fakeTopics {
	return fakeTopics{maps.Clone(f.list), f.version, maps.Clone(f.again)}
}

func (w *world) take(out coordinator.Effects) {
	w.log = append(w.log, out.Records...)
	w.complete(out.Records)
	for _, r := range out.Replies {
		if w.got[r.To] == nil {
			w.got[r.To] = r.Response
		}
	}
	w.sent = append(w.sent, out.Sends...)
	for _, c := range out.Calls {
		w.handle(c.To, c.Do(context.Background()))
	}
	for _, t := range out.Timers {
		if t.At.IsZero() {
			delete(w.timers, t.Key)
		} else {
			w.timers[t.Key] = t.At
		}
	}
	for _, e := range out.Deferred { // they may write
		var next coordinator.Effects
		w.shard.Handle(w.now, 0, e, &next)
		w.take(next)
	}
}

// event hands over an event that has no response.
func (w *world) event(e any) {
	w.t.Helper()
	w.handle(0, e)
}

// handle hands over an event and checks what the runtime relies on: only events that report it
// write records, and no event without a ticket does.
func (w *world) handle(to coordinator.Ticket, e any) {
	w.t.Helper()
	var out coordinator.Effects
	writes := to != 0 && w.shard.Writes(e)
	w.shard.Handle(w.now, to, e, &out)
	if len(out.Records) > 0 && !writes {
		w.t.Fatalf("%T writes %d records, which could not be refused", e, len(out.Records))
	}
	w.take(out)
}

// send sends an event and returns the ticket.
func (w *world) send(e any) coordinator.Ticket {
	w.ticket++
	ticket := w.ticket
	w.handle(ticket, e)
	return ticket
}

// advance advances the time; timers fire in order.
func (w *world) advance(d time.Duration) {
	end := w.now.Add(d)
	for {
		var next coordinator.TimerKey
		var at time.Time
		for k, t := range w.timers {
			if !t.After(end) && (at.IsZero() || t.Before(at) || t.Equal(at) && fmt.Sprint(k) < fmt.Sprint(next)) {
				next, at = k, t
			}
		}
		if at.IsZero() {
			break
		}
		delete(w.timers, next)
		w.now = later(w.now, at)
		var out coordinator.Effects
		w.shard.Fire(w.now, next, &out)
		w.take(out)
	}
	w.now = end
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// topic creates a topic or gives it partitions; 0 deletes it.
func (w *world) topic(name string, partitions int32) {
	w.topics.version++
	e := TopicsChanged{Changed: []string{name}}
	if partitions == 0 {
		delete(w.topics.list, name)
		e.Deleted = e.Changed
		if w.topics.again != nil {
			w.topics.again[name]++
		}
	} else {
		w.topics.list[name] = partitions
	}
	e.Topics = w.topics.clone()
	w.event(e)
	w.advance(0)
}

func request(body kmsg.Request) Request {
	return Request{ClientID: "c", ClientHost: "/1.2.3.4", Body: body}
}

// answer returns the response to a ticket, nil while the request waits.
func answer[T any](w *world, ticket coordinator.Ticket) T {
	w.t.Helper()
	got, ok := w.got[ticket]
	if !ok {
		w.t.Fatalf("no answer yet")
	}
	return got.(T)
}

func (w *world) waits(ticket coordinator.Ticket) {
	w.t.Helper()
	if got, ok := w.got[ticket]; ok {
		w.t.Fatalf("answered: %+v", got)
	}
}

// ask sends an event and returns its response, which must be immediate.
func ask[T any](w *world, e any) T {
	w.t.Helper()
	return answer[T](w, w.send(e))
}

func is(t fataler, code int16, want *kerr.Error) {
	t.Helper()
	if want == nil && code != 0 || want != nil && code != want.Code {
		t.Fatalf("error %v, want %v", kerr.ErrorForCode(code), want)
	}
}

// replays checks that a shard loaded from the log has the same replicated state.
func (w *world) replays() {
	w.t.Helper()
	w.weighs()
	again := New(w.cfg)
	defer again.End()
	for _, r := range w.log {
		if err := again.Apply(r); err != nil {
			w.t.Fatalf("replay: %v", err)
		}
	}
	live, loaded := replicated(w.shard), replicated(again)
	between(w.shard, live, loaded)
	if d := unlike(live, loaded); d != "" {
		w.t.Fatalf("the live state differs from a load of the log:\n%s", d)
	}
	inLog := fences(again, false)
	for id, f := range fences(w.shard, false) { // others have expired, perhaps also before they were used again
		if inLog[id] != f && (w.shard.transactions.forgot == 0 || inLog[id].Open != f.Open) {
			w.t.Fatalf("producer %d is %+v in the live state, and %+v in a load of the log", id, f, inLog[id])
		}
	}
	compacted := New(w.cfg)
	defer compacted.End()
	for _, r := range compact(w.log) {
		if err := compacted.Apply(r); err != nil {
			w.t.Fatalf("replay compacted: %v", err)
		}
	}
	if d := unlike(replicated(again), replicated(compacted)); d != "" {
		w.t.Fatalf("a load of the compacted log differs:\n%s", d)
	}
	if a, b := fences(again, true), fences(compacted, true); !maps.Equal(a, b) {
		w.t.Fatalf("the producers after a load of the compacted log differ:\n%s", cmp.Diff(a, b))
	}
}

// fences returns what a shard knows of its producers; without what a compaction takes from markers,
// if emptied is set.
func fences(s *Shard, emptied bool) map[int64]producers.Fence {
	all := map[int64]producers.Fence{}
	for id, p := range s.transactions.ids {
		f := p.Fence
		if emptied {
			f.Coordinator, f.Last, f.Marked = 0, 0, false
		}
		all[id] = f
	}
	return all
}

// pendingIn returns the pending offsets of a group in the order in which they were written.
func pendingIn(g *group) []string {
	var all []pendingOffset
	at := map[uint64]string{}
	for topic, partitions := range g.pending {
		for p, list := range partitions {
			for _, x := range list {
				all, at[x.order] = append(all, x), fmt.Sprint(topic, "/", p)
			}
		}
	}
	slices.SortFunc(all, func(a, b pendingOffset) int { return order.Compare(a.order, b.order) })
	var list []string
	for _, x := range all {
		list = append(list, fmt.Sprint(at[x.order], " ", x.producer, " ", x.Offset, " ", x.late))
	}
	return list
}

// weighs checks that the memory accounting was updated with every change.
func (w *world) weighs() {
	w.t.Helper()
	total := 0
	for id, g := range w.shard.groups {
		n := 0
		if c := g.classic(); c != nil {
			n = c.count()
		}
		if c := g.consumer(); c != nil {
			for _, m := range c.members {
				n += metaWeight(m.id, m.meta) + partitionWeight*(m.assigned.count()+m.revoking.count())
			}
			for _, a := range c.target {
				n += targetWeight * a.Count()
			}
			for re, r := range c.regexes {
				n += regexWeight(re, r)
			}
		}
		if c := g.share(); c != nil {
			n = c.states.weight()
			for _, m := range c.members {
				n += shareWeight(m.id, &m.meta) + targetWeight*(m.assigned.Count()+c.target[m.id].Count())
			}
		}
		if c := g.streams(); c != nil {
			n = topologyWeight(c.topology)
			for _, m := range c.members {
				n += streamsWeight(m.id, &m.meta) + partitionWeight*(m.assigned.count()+m.revoking.count())
			}
			for _, t := range c.target {
				n += taskWeight * t.Count()
			}
		}
		kept := 0
		for topic, all := range g.offsets {
			kept += topicWeight + len(topic)
			for _, o := range all {
				kept += offsetWeight + len(o.Metadata)
			}
		}
		for topic, all := range g.pending {
			for _, list := range all {
				for _, x := range list {
					kept += offsetWeight + len(topic) + len(x.Metadata)
				}
			}
		}
		n += kept + groupWeight + 2*len(id)
		if g.memory != int64(n) {
			w.t.Fatalf("group %s holds %d bytes, counted are %d", id, n, g.memory)
		}
		total += n
	}
	if w.shard.memory != int64(total) || w.cfg.MemberMemory.Used() != int64(total) {
		w.t.Fatalf("groups use %d bytes, the shard counts %d and the budget %d", total, w.shard.memory, w.cfg.MemberMemory.Used())
	}
	given := 0
	for _, list := range w.shard.pending {
		for _, p := range list {
			if _, there := w.shard.groups[p.group].classic().pending[p.id]; !there {
				w.t.Fatalf("id %s of group %s is not pending", p.id, p.group)
			}
			given++
		}
	}
	for _, g := range w.shard.groups {
		if g.classic() == nil {
			continue
		}
		for _, connection := range g.classic().pending {
			if connection != 0 {
				given--
			}
		}
	}
	if given != 0 {
		w.t.Fatalf("%d ids are not on their connections' lists", -given)
	}
}

// compact does what a compaction does. Below the first record of an open transaction, it keeps the
// last committed record of every key, without tombstones. It keeps a marker while a record of its
// transaction is left, and the newest one of each producer, emptied.
func compact(log []coordinator.Record) []coordinator.Record {
	marker, newest := map[int64]int{}, map[int64]int{} // index of the next marker of a producer, and of its last
	ends := make([]int, len(log))                      // marker of a record's transaction; -1: none
	stable := len(log)
	for i := len(log) - 1; i >= 0; i-- {
		r := log[i]
		ends[i] = -1
		if r.Marker != nil {
			if marker[r.Producer.ID] = i; newest[r.Producer.ID] == 0 {
				newest[r.Producer.ID] = i
			}
		} else if end, decided := marker[r.Producer.ID]; r.Producer.Transactional && decided {
			ends[i] = end
		} else if r.Producer.Transactional {
			stable = i
		}
	}
	committed := func(i int) bool { return log[i].Marker == nil && (ends[i] < 0 || log[ends[i]].Marker.Commit) }
	last, used := map[string]int{}, map[int]bool{}
	for i, r := range log[:stable] {
		if committed(i) {
			last[string(r.Key)] = i
		}
	}
	var out []coordinator.Record
	for i, r := range log[:stable] {
		switch {
		case r.Marker == nil && committed(i) && last[string(r.Key)] == i && r.Value != nil:
			out, used[ends[i]] = append(out, r), true
		case r.Marker == nil:
		case used[i]:
			out = append(out, r)
		case newest[r.Producer.ID] == i:
			r.Marker = &coordinator.Marker{CoordinatorEpoch: -1, Emptied: true}
			out = append(out, r)
		}
	}
	return append(out, log[stable:]...)
}

// complete checks that the record of a classic group, if an event has written one, has all of its
// state.
func (w *world) complete(records []coordinator.Record) {
	w.t.Helper()
	for _, r := range records {
		k, err := format.DecodeKey(r.Key)
		g := w.shard.groups[k.Group]
		if r.Marker != nil || err != nil || k.Type != format.TypeClassicGroup || r.Value == nil || g == nil || g.classic() == nil {
			continue
		}
		v, err := format.DecodeClassic(r.Value)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		again := newClassic()
		again.apply(v, Broken{})
		if d := unlike(g.classic(), again); d != "" && w.cfg.Broken == (Broken{}) {
			w.t.Fatalf("a group differs from the record that was just written:\n%s", d)
		}
	}
}

// replicated returns a shard's replicated state in a comparable form.
func replicated(s *Shard) map[string]any {
	out := map[string]any{}
	for id, g := range s.groups {
		v := map[string]any{}
		if len(g.offsets) > 0 {
			v["offsets"] = g.offsets
		}
		if len(g.pending) > 0 {
			v["pending"] = pendingIn(g)
		}
		if c := g.classic(); c == nil {
			v["kind"] = g.kind
		} else if c.recorded {
			v["recorded"] = true
			if c.state == stable || c.state == empty {
				v["classic"], v["record"] = c, c.record()
			}
		}
		if len(v) > 0 {
			out[id] = v
		}
	}
	return out
}

// between removes from the states of two shards the classic groups that are between two records in
// the live one.
func between(live *Shard, states ...map[string]any) {
	for id, g := range live.groups {
		if c := g.classic(); c == nil || c.state == empty || c.state == stable {
			continue
		}
		for _, s := range states {
			if v, ok := s[id].(map[string]any); ok {
				delete(v, "classic")
				delete(v, "record")
				if delete(v, "recorded"); len(v) == 0 {
					delete(s, id)
				}
			}
		}
	}
}

func TestMain(m *testing.M) { m.Run() }
