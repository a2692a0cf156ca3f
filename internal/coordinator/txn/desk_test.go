package txn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// fataler is the common part of testing.T and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// fakeTopics are the partitions 0 to n-1 of topics by name; n is the value modulo 100, the rest of
// which names one of several topics of the same name. Topics whose name begins with w are
// weak. The leader epochs of partitions are those of all partitions of their topic.
type fakeTopics map[string]int32

func (f fakeTopics) Exists(p Partition) bool { return p.Index < f[p.Topic]%100 }
func (f fakeTopics) ID(topic string) [16]byte {
	if f[topic] == 0 {
		return [16]byte{}
	}
	return [16]byte{topic[0], byte(1 + f[topic]/100)}
}
func (f fakeTopics) Weak(topic string) bool { return topic[0] == 'w' }
func (f fakeTopics) Epochs(p Partition) (leader, lossy int32) {
	return f["leader of "+p.Topic], f["loss of "+p.Topic]
}

// elect begins a leader epoch of a topic's partitions.
func (f fakeTopics) elect(topic string, loses bool) {
	if f["leader of "+topic]++; loses {
		f["loss of "+topic] = f["leader of "+topic]
	}
}

// desk is a shard with a runtime whose appends are committed at once. Requests to partitions wait
// for the test.
type desk struct {
	t      fataler
	cfg    Config
	shard  *Shard
	now    time.Time
	epoch  int32
	topics fakeTopics
	log    []coordinator.Record
	timers map[coordinator.TimerKey]time.Time
	ticket coordinator.Ticket
	got    map[coordinator.Ticket]any
	sent   []any
	pids   int64
	noPID  error // what the source of producer ids returns
	trusts bool  // skips the replay after each event
	lost   int   // so many records of the log are from before a loss
}

func newDesk(t fataler, edit ...func(*Config)) *desk {
	d := &desk{t: t, cfg: DefaultConfig(), now: time.UnixMilli(1_000_000), topics: fakeTopics{"a": 3, "b": 3, "weak": 2}, pids: 99}
	d.cfg.MaxPark = 0
	d.cfg.ProducerID = func(context.Context) (int64, error) {
		if d.noPID != nil {
			return none, d.noPID
		}
		d.pids++
		return d.pids, nil
	}
	for _, f := range edit {
		f(&d.cfg)
	}
	d.reload()
	return d
}

// reload replaces the shard by one that loads the log, in the next leader epoch.
func (d *desk) reload() {
	d.t.Helper()
	d.epoch++
	d.shard, d.sent, d.timers, d.got = d.load(d.log), nil, map[coordinator.TimerKey]time.Time{}, map[coordinator.Ticket]any{}
	var out coordinator.Effects
	d.shard.Loaded(d.now, d.epoch, &out)
	if len(out.Records) > 0 {
		d.t.Fatalf("a load writes %d records", len(out.Records))
	}
	d.take(&out)
	d.change()
}

// load returns a shard that has applied the records.
func (d *desk) load(log []coordinator.Record) *Shard {
	d.t.Helper()
	cfg := d.cfg
	cfg.OpenMemory = coordinator.NewMemoryBudget(cfg.OpenMemory.Size()) // the other shards do not end
	cfg.IDMemory = coordinator.NewMemoryBudget(cfg.IDMemory.Size())
	s := New(cfg)
	for i, r := range log {
		r.Doubtful = i < d.lost
		if err := s.Apply(r); err != nil {
			d.t.Fatalf("load: %v", err)
		}
	}
	return s
}

// change hands over the topics, of which some have new leaders.
func (d *desk) change(changed ...string) {
	d.handle(0, TopicsChanged{Topics: maps.Clone(d.topics), Changed: changed, Tagged: true}, false)
}

func (d *desk) take(out *coordinator.Effects) {
	d.t.Helper()
	d.log = append(d.log, out.Records...)
	for _, t := range out.Timers {
		if t.At.IsZero() {
			delete(d.timers, t.Key)
		} else {
			d.timers[t.Key] = t.At
		}
	}
	for _, r := range out.Replies {
		if d.got[r.To] != nil {
			d.t.Fatalf("ticket %d was answered with %+v, and then with %+v", r.To, d.got[r.To], r.Response)
		}
		d.got[r.To] = r.Response
	}
	d.sent = append(d.sent, out.Sends...)
	calls, deferred := out.Calls, out.Deferred
	for _, c := range calls {
		d.handle(c.To, c.Do(context.Background()), true)
	}
	for _, e := range deferred {
		d.handle(0, e, true)
	}
}

// handle hands over an event. Only events that report it, and deferred ones, may write.
func (d *desk) handle(to coordinator.Ticket, e any, deferred bool) {
	d.t.Helper()
	writes := deferred || to != 0 && d.shard.Writes(e)
	var out coordinator.Effects
	d.shard.Handle(d.now, to, e, &out)
	if len(out.Records) > 0 && !writes {
		d.t.Fatalf("%T writes %d records, which could not be refused", e, len(out.Records))
	}
	d.take(&out)
	d.replays()
}

// send hands over a request and returns its ticket.
func (d *desk) send(e any) coordinator.Ticket {
	d.t.Helper()
	d.ticket++
	to := d.ticket
	d.handle(to, e, false)
	return to
}

// ask returns the response to a request, which must be immediate.
func ask[T any](d *desk, e any) T {
	d.t.Helper()
	to := d.send(e)
	got, ok := d.got[to].(T)
	if !ok {
		d.t.Fatalf("%+v: answered with %+v", e, d.got[to])
	}
	return got
}

// advance advances the time; timers fire in order.
func (d *desk) advance(by time.Duration) {
	d.t.Helper()
	end := d.now.Add(by)
	for {
		var next coordinator.TimerKey
		var at time.Time
		for k, t := range d.timers {
			if !t.After(end) && (at.IsZero() || t.Before(at) || t.Equal(at) && fmt.Sprint(k) < fmt.Sprint(next)) {
				next, at = k, t
			}
		}
		if at.IsZero() {
			break
		}
		delete(d.timers, next)
		if at.After(d.now) {
			d.now = at
		}
		var out coordinator.Effects
		d.shard.Fire(d.now, next, &out)
		d.take(&out)
		d.replays()
	}
	d.now = end
}

// answer gives every request to a partition that was sent so far its result.
func (d *desk) answer(err *kerr.Error) {
	d.t.Helper()
	sent := d.sent
	d.sent = nil
	for _, r := range sent {
		d.handle(0, resultOf(r, err), false)
	}
}

func resultOf(request any, err *kerr.Error) any {
	switch r := request.(type) {
	case WriteMarker:
		return Marked{r, err}
	case Flush:
		return Flushed{Flush: r, Err: err}
	}
	return nil
}

// replays checks that a load of the log has the same replicated state, and so has one of what
// compaction leaves of it.
func (d *desk) replays() {
	d.t.Helper()
	if d.trusts {
		return
	}
	for _, log := range [][]coordinator.Record{d.log, compact(d.log)} {
		if diff := cmp.Diff(replicated(d.shard), replicated(d.load(log)), cmp.AllowUnexported(value{}), cmpopts.EquateEmpty()); diff != "" {
			d.t.Fatalf("the state differs from a load of the log:\n%s", diff)
		}
	}
}

func replicated(s *Shard) map[string]value {
	all := map[string]value{}
	for id, t := range s.ids {
		all[id] = t.value
	}
	return all
}

// compact keeps the last record of every key, without tombstones.
func compact(log []coordinator.Record) []coordinator.Record {
	last := map[string]int{}
	for i, r := range log {
		last[string(r.Key)] = i
	}
	var out []coordinator.Record
	for i, r := range log {
		if last[string(r.Key)] == i && r.Value != nil {
			out = append(out, r)
		}
	}
	return out
}

// Requests of the producer "x".

func (d *desk) init(pid int64, epoch int16) Identity {
	d.t.Helper()
	return ask[Identity](d, InitProducerID{ID: "x", Timeout: 60_000, ProducerID: pid, Epoch: epoch})
}

func (d *desk) addOf(version int16, partitions ...Partition) Add {
	pid, epoch := d.shard.ids["x"].identity()
	a := Add{ID: "x", ProducerID: pid, Epoch: epoch, Version: version}
	for _, p := range partitions {
		a.Partitions = append(a.Partitions, AddedPartition{Partition: p, TopicID: d.topics.ID(p.Topic)})
	}
	return a
}

func (d *desk) add(version int16, partitions ...Partition) {
	d.t.Helper()
	if a := ask[Added](d, d.addOf(version, partitions...)); a.Err != nil || a.CoordinatorEpoch != d.epoch {
		d.t.Fatalf("%+v", a)
	}
}

func (d *desk) end(version int16, pid int64, epoch int16, commit bool) Identity {
	d.t.Helper()
	return ask[Identity](d, End{ID: "x", ProducerID: pid, Epoch: epoch, Commit: commit, Version: version})
}

// bring brings "x" into a state by the requests of a version, with a producer in epoch 3 or 4.
func (d *desk) bring(state State, version int16) {
	d.t.Helper()
	for range 4 {
		d.init(none, none)
	}
	if state == Empty {
		return
	}
	d.add(version, a(0), a(1))
	if state == Ongoing {
		return
	}
	pid, epoch := d.state().identity()
	if got := d.end(version, pid, epoch, state.commits()); got.Err != nil {
		d.t.Fatalf("%+v", got)
	}
	if state.complete() {
		d.answer(nil)
	}
	if now := d.state().state; now != state {
		d.t.Fatalf("state %v, want %v", now, state)
	}
}

func (d *desk) state() *value { return &d.shard.ids["x"].value }

func a(i int32) Partition { return Partition{"a", i} }

func TestMain(m *testing.M) { m.Run() }

func sentMarkers(d *desk) (list []string) {
	for _, r := range d.sent {
		m := r.(WriteMarker)
		list = append(list, fmt.Sprintf("%s-%d pid %d epoch %d commit %t v%d ce %d", m.Partition.Topic, m.Partition.Index, m.ProducerID,
			m.Epoch, m.Commit, m.Version, m.CoordinatorEpoch))
	}
	slices.Sort(list)
	return list
}
