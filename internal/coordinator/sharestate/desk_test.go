package sharestate

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// desk does for a Shard what the runtime does: it keeps the log, holds answers until their records
// are committed, and loads again.
type desk struct {
	cfg       Config
	s         *Shard
	clock     int64 // ms
	topics    topics
	log       []coordinator.Record
	begin     int // records below are deleted
	committed int // records below survive a crash
	held      []answer
	asked     map[coordinator.Ticket]func(any)
	last      coordinator.Ticket
	deferred  []any
	// unheld: answers leave at once.
	unheld bool
	wrong  string
	final  []coordinator.Reply // of the last event of parts
}

// answer leaves when the records below at are committed.
type answer struct {
	coordinator.Reply
	at int
}

// topics are topics of ten partitions, with the leader epoch of all of them. That of groups is the
// one of group coordinators.
type topics map[[16]byte]int32

var groups [16]byte

func (t topics) LeaderEpoch(topic [16]byte, partition int32) int32 {
	if epoch, ok := t[topic]; ok && partition >= 0 && partition < 10 {
		return epoch
	}
	return -1
}

func (t topics) GroupEpoch(string) int32 { return t[groups] }

// config returns the configuration of a test: each fourth write is a snapshot.
func config() Config {
	return Config{SnapshotUpdates: 3, Memory: coordinator.NewMemoryBudget(64 << 20)}
}

func newDesk(cfg Config) *desk {
	d := &desk{cfg: cfg, clock: 1000, topics: topics{keyOf(0).Topic: 0}}
	d.load(0)
	return d
}

// keyOf returns the key of a share partition.
func keyOf(partition int32) format.Key {
	return format.Key{Group: "g", Topic: [16]byte{1}, Partition: partition}
}

func (d *desk) time() time.Time { return time.UnixMilli(d.clock) }

func (d *desk) fail(format string, args ...any) {
	if d.wrong == "" {
		d.wrong = fmt.Sprintf(format, args...)
	}
}

// submit hands an event to the shard. done gets the answer when it leaves, unless the shard crashes
// before.
func (d *desk) submit(event any, done func(any)) {
	d.last++
	d.asked[d.last] = done
	d.handle(d.last, event, d.s.Writes(event))
	for len(d.deferred) > 0 {
		e := d.deferred[0]
		d.deferred = d.deferred[1:]
		d.handle(0, e, true)
	}
	d.release()
}

func (d *desk) handle(to coordinator.Ticket, event any, writes bool) {
	var out coordinator.Effects
	d.s.Handle(d.time(), to, event, &out)
	if len(out.Records) > 0 && !writes {
		d.fail("%T writes %d records", event, len(out.Records))
	}
	d.log = append(d.log, out.Records...)
	for _, r := range out.Replies {
		d.held = append(d.held, answer{r, len(d.log)})
	}
	d.deferred = append(d.deferred, out.Deferred...)
}

// release sends the answers that depend on committed records only.
func (d *desk) release() {
	for len(d.held) > 0 && (d.held[0].at <= d.committed || d.unheld) {
		a := d.held[0]
		d.held = d.held[1:]
		done := d.asked[a.To]
		delete(d.asked, a.To)
		if done == nil {
			d.fail("ticket %d is answered twice", a.To)
			return
		}
		done(a.Response)
	}
}

// commit commits all records.
func (d *desk) commit() {
	d.committed = len(d.log)
	d.release()
}

// crash keeps some of the records that are not committed, and loads.
func (d *desk) crash(keep int) {
	d.log = d.log[:d.committed+keep]
	d.committed = len(d.log)
	d.s.End()
	if used := d.cfg.Memory.Used(); used != 0 {
		d.fail("%d bytes are in use after the end", used)
	}
	d.load(d.begin)
}

// load loads the log from a record on.
func (d *desk) load(from int) {
	d.s, d.held, d.asked, d.deferred = New(d.cfg), nil, map[coordinator.Ticket]func(any){}, nil
	for i, r := range d.log[from:] {
		if err := d.s.Apply(r); err != nil {
			d.fail("load record %d: %v", from+i, err)
		}
	}
	var out coordinator.Effects
	d.s.Loaded(d.time(), 1, &out)
	d.handle(0, TopicsChanged{Topics: d.topics}, false)
	for len(d.deferred) > 0 {
		e := d.deferred[0]
		d.deferred = d.deferred[1:]
		d.handle(0, e, true)
	}
	d.check()
}

// check checks the shard's own order.
func (d *desk) check() {
	n, memory, incomplete := 0, int64(0), 0
	var last *state
	for st := d.s.oldest; st != nil; last, st = st, st.next {
		n, memory = n+1, memory+st.memory
		if st.incomplete {
			incomplete++
		}
		if st.prev != last || last != nil && last.round > st.round || d.s.states[st.key] != st {
			d.fail("the list of states is wrong at %v", st.key)
		}
		for i, m := range st.marks {
			if m.First > m.Last || m.First < st.start || m.State == 0 && m.Count == 0 ||
				i > 0 && (m.First <= st.marks[i-1].Last || m.First == st.marks[i-1].Last+1 && order(m, st.marks[i-1]) == 0) {
				d.fail("marks %v from %d on", st.marks, st.start)
			}
		}
	}
	if n != len(d.s.states) || last != d.s.newest || memory != d.s.memory || memory != d.cfg.Memory.Used() ||
		incomplete != d.s.incomplete {
		d.fail("%d of %d states, %d of %d bytes, %d of %d incomplete", n, len(d.s.states), memory, d.s.memory, incomplete,
			d.s.incomplete)
	}
}

// checkPoints loads the log from each of its records on. A state whose last snapshot is in the load
// is the same as ever. Of others there are updates at most, and they are not served.
func (d *desk) checkPoints() {
	snapshots := map[format.Key]int{}
	for i, r := range d.log {
		if t, k, err := format.DecodeKey(r.Key); err == nil && t == format.TypeSnapshot {
			snapshots[k] = i
		}
	}
	whole := d.scratch(0)
	for from := range d.log {
		part := d.scratch(from)
		for k, st := range part.states {
			switch {
			case snapshots[k] < from && st.incomplete:
			case snapshots[k] < from:
				d.fail("a load from %d serves %v without its snapshot", from, k)
			case d.differ(st, whole.states[k]) != "":
				d.fail("a load from %d: %v\n%s", from, k, d.differ(st, whole.states[k]))
			}
		}
		for k := range whole.states {
			if snapshots[k] >= from && part.states[k] == nil {
				d.fail("a load from %d lacks %v", from, k)
			}
		}
	}
	for k, st := range d.s.states {
		if diff := d.differ(st, d.scratch(d.begin).states[k]); diff != "" {
			d.fail("a load differs from what it loads: %v\n%s", k, diff)
		}
	}
}

// scratch returns a shard that has loaded the log from a record on.
func (d *desk) scratch(from int) *Shard {
	cfg := d.cfg
	cfg.Memory = coordinator.NewMemoryBudget(1)
	s := New(cfg)
	for i, r := range d.log[from:] {
		if err := s.Apply(r); err != nil {
			d.fail("load record %d: %v", from+i, err)
		}
	}
	return s
}

// differ compares the replicated parts of two states. Walks compare millions, which are equal and
// need no description: reflect finds that in a tenth of the time.
func (d *desk) differ(a, b *state) string {
	if a != nil && b != nil && reflect.DeepEqual(replicated(*a), replicated(*b)) {
		return ""
	}
	return cmp.Diff(a, b, cmp.AllowUnexported(state{}, epochs.Cache{}), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(state{}, "round", "prev", "next", "memory"))
}

// replicated is a state without what differ ignores.
func replicated(st state) state {
	st.round, st.prev, st.next, st.memory = 0, nil, nil, 0
	return st
}

// ask submits an event, commits, and returns the answer.
func ask[T any](d *desk, event any) (response T) {
	answered := false
	d.submit(event, func(r any) { response, answered = r.(T), true })
	d.commit()
	if !answered {
		d.fail("%T has no answer", event)
	}
	return response
}

// kinds returns the types of the records from an index on: s for a snapshot, u for an update, t for
// a tombstone.
func (d *desk) kinds(from int) string {
	var list []byte
	for _, r := range d.log[from:] {
		t, _, err := format.DecodeKey(r.Key)
		switch {
		case err != nil:
			list = append(list, '?')
		case r.Value == nil:
			list = append(list, 't')
		default:
			list = append(list, "su"[t])
		}
	}
	return string(slices.Clip(list))
}
