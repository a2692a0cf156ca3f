package sharestate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/race"
	"github.com/chronik-io/chronik/internal/testing/tries"
)

// walk is a random history of one share partition with real windows on its leaders, and a real
// shard that stores its state. Former leaders continue with their own copies of the log. Messages
// are late, lost and repeated. The coordinator loses what is not committed, and loads from any
// record on. The oracle is that of the promises in docs/share-groups.md.
type walk struct {
	roll    func(n int) int
	now     time.Duration // of leaders
	cuts    window.Broken
	windows window.Broken
	lags    bool // the metadata of the coordinator's broker may be old
	letters bool

	log     *datalog
	epoch   int32 // leader epoch
	ids     int
	leaders []*leader
	desk    *desk
	net     []message
	replies []reply
	held    []*delivered
	members window.Member

	// The group.
	generation  int
	stateEpoch  int32
	coordinator int32 // leader epoch of the group coordinator
	sent        []any // what former ones have sent, and comes late
	earliest    bool
	initialized Initializing
	other       int64 // start of the share partition that keeps the log busy
	otherSure   int64

	oracle oracle
	bad    string
}

// datalog is the log of a data partition: one offset a batch.
type datalog struct {
	records []datum
	start   int64
	epochs  epochs.Cache
}

type datum struct {
	id   int
	gone bool // a control record, or one of an aborted transaction
}

func (l *datalog) end() int64 { return int64(len(l.records)) }

func (l *datalog) clone() *datalog {
	return &datalog{slices.Clone(l.records), l.start, l.epochs.Latter(l.epochs.Len())}
}

// read returns some batches from an offset on.
func (l *datalog) read(from int64, n int) (list []window.Batch) {
	for o := max(from, l.start); o < l.end() && len(list) < n; o++ {
		list = append(list, window.Batch{Base: o, Last: o, Gone: l.records[o].gone})
	}
	return list
}

// message is a request of a leader to the coordinator.
type message struct {
	from *leader
	life int // of from's memory
	item any // Opening or Writing; nil: peek
	seq  uint64
	late bool
}

type reply struct {
	message
	result     any
	generation int
}

// leader is a leader, or a former one that does not know it.
type leader struct {
	x     *walk
	epoch int32
	log   *datalog
	life  int // of the memory

	asking     string // "peek" or "open" is under way
	w          *window.Window
	generation int
	id         Identity
	asked      []request // that wait for a write
}

// item is a record that was delivered.
type item struct {
	id     int
	offset int64
	count  int
	by     window.AckType
}

// request is an acknowledgement.
type request struct {
	from  *delivered
	items []item
	wait  uint64
}

// delivered is what a member got at a time. Each has its own member.
type delivered struct {
	l          *leader
	life       int
	generation int
	member     window.Member
	items      []item
	sent       []request
}

const (
	deliveries = 4
	lockTime   = 6
)

func newWalk(roll func(n int) int, cfg Config) *walk {
	x := &walk{roll: roll, cuts: cfg.Cuts, log: &datalog{}, epoch: -1, desk: newDesk(cfg)}
	x.letters, x.lags = roll(4) == 0, roll(2) == 0
	x.oracle.x = x
	x.elect(0, false)
	x.stateEpoch = 1
	x.initialize(Initializing{keyOf(0), 1, int64(roll(2)) - 1, 0})
	x.must(ask[[]*kerr.Error](x.desk, Initialize{{keyOf(1), 1, 0, 0}, {keyOf(2), 1, 77, 0}}))
	p := ask[[]Peeked](x.desk, Peek{keyOf(1)})[0]
	if o := ask[[]Opened](x.desk, Open{{Key: keyOf(1), ID: p.ID, Recorded: -1, Leader: x.epoch, Cut: -1,
		Epochs: beginning(x.epoch)}})[0]; o.Err != nil {
		x.fail("open: %v", o.Err)
	}
	return x
}

func (x *walk) fail(format string, args ...any) {
	if x.bad == "" {
		x.bad = fmt.Sprintf(format, args...)
	}
}

func (x *walk) must(errs []*kerr.Error) {
	for _, err := range errs {
		if err != nil {
			x.fail("a request of the group coordinator: %v", err)
		}
	}
}

func (x *walk) current() *leader { return x.leaders[len(x.leaders)-1] }

// some returns the current leader, or sometimes a former one.
func (x *walk) some() *leader {
	if x.roll(4) == 0 {
		return x.leaders[x.roll(len(x.leaders))]
	}
	return x.current()
}

// reset is where a group without a start begins.
func (x *walk) reset() int64 {
	if x.earliest {
		return x.current().log.start
	}
	return x.current().log.end()
}

// elect makes a new leader. Its log is that of the present one, or that with which an earlier one
// ended, and lacks the last records.
func (x *walk) elect(lost int, former bool) {
	if n := len(x.leaders); n > 0 {
		x.leaders[n-1].log = x.log.clone()
	}
	if of := x.log; former {
		x.log = x.leaders[x.roll(len(x.leaders))].log.clone()
		x.log.start = min(max(x.log.start, of.start), x.log.end())
		same := int64(0)
		for same < min(of.end(), x.log.end()) && of.records[same] == x.log.records[same] {
			same++
		}
		if same < of.end() {
			x.oracle.lost = min(x.oracle.lost, same)
		}
		for _, d := range x.log.records[same:] {
			x.oracle.returns(d.id)
		}
	}
	end := max(x.log.start, x.log.end()-int64(lost))
	if end < x.log.end() {
		x.oracle.lost = min(x.oracle.lost, end)
	}
	x.log.records = x.log.records[:end]
	x.log.epochs.CutEnd(end)
	x.epoch++
	x.log.epochs.Assign(x.epoch, end)
	if !x.lags || x.roll(3) == 0 {
		x.desk.topics[keyOf(0).Topic] = x.epoch
	}
	x.leaders = append(x.leaders, &leader{x: x, epoch: x.epoch, log: x.log})
	x.leaders = x.leaders[max(0, len(x.leaders)-3):]
}

// asks sends what the present group coordinator wants. If the metadata of the share coordinator's
// broker are behind, it repeats that when they are not.
func (x *walk) asks(event any) {
	errs := ask[[]*kerr.Error](x.desk, event)
	if slices.Contains(errs, kerr.NotCoordinator) {
		x.desk.topics[groups] = x.coordinator
		errs = ask[[]*kerr.Error](x.desk, event)
	}
	x.must(errs)
	x.sent = append(x.sent, event)
	x.sent = x.sent[max(0, len(x.sent)-6):]
}

// move makes another broker the group coordinator. It asks for something at once: until then, what
// the former one has sent counts.
func (x *walk) move() {
	x.coordinator++
	if !x.lags {
		x.desk.topics[groups] = x.coordinator
	}
	x.admin()
}

// late lets a request arrive that a former group coordinator has sent.
func (x *walk) late() {
	former := slices.DeleteFunc(slices.Clone(x.sent), func(event any) bool {
		switch e := event.(type) {
		case Initialize:
			return e[0].Coordinator == x.coordinator
		case Delete:
			return e[0].Coordinator == x.coordinator
		}
		return true
	})
	if len(former) > 0 {
		x.desk.submit(former[x.roll(len(former))], func(any) {})
	}
}

func (x *walk) initialize(e Initializing) {
	x.asks(Initialize{e})
	x.initialized = e
	x.oracle.begin(e.Start)
}

// admin alters the offsets of the group, or deletes it and begins it again.
func (x *walk) admin() {
	x.generation++
	x.earliest = x.roll(2) == 0
	if x.roll(2) == 0 {
		x.stateEpoch++
		x.initialize(Initializing{keyOf(0), x.stateEpoch, x.log.start + int64(x.roll(int(x.log.end()-x.log.start)+1)), x.coordinator})
		return
	}
	x.asks(Delete{{keyOf(0), x.coordinator}})
	x.stateEpoch = 1
	x.initialize(Initializing{keyOf(0), 1, -1, x.coordinator})
}

// ---- leaders ----

func (l *leader) send(item any, seq uint64) {
	l.x.net = append(l.x.net, message{from: l, life: l.life, item: item, seq: seq})
}

// drop forgets the memory.
func (l *leader) drop() {
	l.w, l.asking, l.asked = nil, "", nil
	l.life++
}

func (l *leader) load() {
	if l.w == nil && l.asking == "" {
		l.asking = "peek"
		l.send(nil, 0)
	}
}

func (l *leader) config() window.Config {
	return window.Config{Broken: l.x.windows, Locks: 6, Deliveries: deliveries, Lock: lockTime, DeadLetters: l.x.letters}
}

func (l *leader) onReply(r reply) {
	if r.life != l.life {
		return
	}
	switch result := r.result.(type) {
	case *kerr.Error:
		l.written(r.seq, result)
	case Peeked:
		if l.asking != "peek" {
			return
		}
		if l.asking = ""; result.Err != nil {
			return
		}
		l.asking = "open"
		// It names a cut whatever the recorded epoch is: the coordinator decides.
		l.send(Opening{keyOf(0), result.ID, result.Leader, l.epoch, result.Cut(&l.log.epochs, l.log.start),
			l.log.epochs.Latter(format.MaxEpochs), l.x.reset()}, 0)
	case Opened:
		if l.asking != "open" {
			return
		}
		if l.asking = ""; result.Err != nil {
			return
		}
		w, err := window.Load(l.config(), result.Stored)
		if err != nil {
			l.x.fail("%v", err)
			return
		}
		l.w, l.generation, l.id = w, r.generation, r.item.(Opening).ID
		l.x.oracle.loads(l)
	}
}

// written handles the answer to a write.
func (l *leader) written(seq uint64, err *kerr.Error) {
	switch {
	case l.w == nil:
	case err != nil:
		if w := l.w.Begin(); w != nil && w.Seq == seq {
			l.w.Refused()
			l.drop()
		}
	default:
		l.w.Written(seq)
		l.asked = slices.DeleteFunc(l.asked, func(q request) bool {
			if q.wait <= seq {
				l.answer(q)
			}
			return q.wait <= seq
		})
	}
}

// answer answers an acknowledgement. Some answers are lost.
func (l *leader) answer(q request) {
	if l.x.roll(12) > 0 {
		l.x.oracle.answered(q)
	}
}

// flush sends the write under way, or begins one.
func (l *leader) flush() {
	if l.w == nil {
		return
	}
	if w := l.w.Begin(); w != nil {
		l.send(Writing{keyOf(0), l.id, l.epoch, w.Start, w.Complete, slices.Clone(w.Marks)}, w.Seq)
	}
}

// take delivers records to a new member.
func (l *leader) take() {
	if l.w == nil {
		l.load()
		return
	}
	x := l.x
	x.oracle.serves(l)
	from, ok := l.w.Plan(l.log.start)
	if !ok {
		return
	}
	x.members++
	d := &delivered{l: l, life: l.life, generation: l.generation, member: x.members}
	for _, got := range l.w.Take(window.Taking{Member: d.member, Now: x.now, From: from, Batches: l.log.read(from, 5),
		Records: int64(1 + x.roll(3)), Strict: x.roll(2) == 0, BatchSize: 1}, nil) {
		for o := got.First; o <= got.Last; o++ {
			i := item{id: l.log.records[o].id, offset: o, count: got.Count}
			d.items = append(d.items, i)
			x.oracle.delivers(d, i)
		}
	}
	if len(d.items) > 0 {
		x.held = append(x.held, d)
		x.held = x.held[max(0, len(x.held)-12):]
	}
}

// acknowledge sends an acknowledgement to the leader from which the records are, whose memory may
// be another one by now.
func (l *leader) acknowledge(q request) {
	if l.w == nil {
		return
	}
	var acks []window.Ack
	for _, i := range q.items {
		acks = append(acks, window.Ack{First: i.offset, Last: i.offset, Types: []window.AckType{i.by}})
	}
	wait, err := l.w.Acknowledge(q.from.member, l.x.now, acks)
	if err != nil {
		return
	}
	l.x.oracle.applied(l, q)
	if q.wait = wait; wait == 0 {
		l.answer(q)
	} else {
		l.asked = append(l.asked, q)
	}
}

// ---- steps ----

// acknowledges sends acknowledgements of a member, or repeats one.
func (x *walk) acknowledges() {
	if len(x.held) == 0 {
		return
	}
	d := x.held[x.roll(len(x.held))]
	if n := len(d.sent); n > 0 && x.roll(3) == 0 {
		d.l.acknowledge(d.sent[x.roll(n)])
		return
	}
	q := request{from: d}
	d.items = slices.DeleteFunc(d.items, func(i item) bool {
		if x.roll(3) == 0 {
			return false
		}
		i.by = window.AckType(x.roll(5))
		q.items = append(q.items, i)
		return i.by != window.Renew
	})
	if len(q.items) == 0 {
		return
	}
	x.oracle.says(q)
	d.sent = append(d.sent, q)
	d.l.acknowledge(q)
}

// deliver hands messages of one kind to the coordinator, as one event.
func (x *walk) deliver(list []message) {
	var event any
	switch list[0].item.(type) {
	case nil:
		e := Peek{}
		for range list {
			e = append(e, keyOf(0))
		}
		event = e
	case Opening:
		e := Open{}
		for _, m := range list {
			e = append(e, m.item.(Opening))
		}
		event = e
	case Writing:
		e := Write{}
		for _, m := range list {
			e = append(e, m.item.(Writing))
		}
		event = e
	}
	generation := x.generation
	x.desk.submit(event, func(r any) {
		for i, m := range list {
			var result any
			switch r := r.(type) {
			case []Peeked:
				result = r[i]
			case []Opened:
				result = r[i]
			case []*kerr.Error:
				result = r[i]
			}
			x.replies = append(x.replies, reply{m, result, generation})
		}
	})
}

// arrive lets a message arrive, or two of a kind, in any order. It may be lost, or come again.
func (x *walk) arrive() {
	var list []message
	for n := 1 + x.roll(4)/3; n > 0 && len(x.net) > 0; n-- {
		i := x.roll(len(x.net))
		m := x.net[i]
		if len(list) > 0 && fmt.Sprintf("%T", m.item) != fmt.Sprintf("%T", list[0].item) || m.late && x.roll(8) > 0 {
			continue
		}
		if x.net = slices.Delete(x.net, i, i+1); x.roll(10) == 0 {
			continue
		}
		if m.late = true; x.roll(3) == 0 {
			x.net = append(x.net, m)
		}
		list = append(list, m)
	}
	if len(list) > 0 {
		x.deliver(list)
	}
}

func (x *walk) step() {
	switch x.roll(32) {
	case 0, 1:
		if x.current().w == nil || x.log.end()-x.current().w.Stats().Start < 9 {
			for range 1 + x.roll(2) {
				x.ids++
				x.log.records = append(x.log.records, datum{x.ids, x.roll(6) == 0})
			}
		}
	case 2, 3, 4, 5, 6:
		x.some().take()
	case 7, 8, 9, 10, 11, 12:
		x.acknowledges()
	case 13, 14, 15, 16, 17, 18:
		x.arrive()
	case 19, 20, 21, 22, 23:
		if n := len(x.replies); n > 0 {
			i := x.roll(n)
			r := x.replies[i]
			if x.replies = slices.Delete(x.replies, i, i+1); x.roll(10) > 0 {
				r.from.onReply(r)
			}
		}
	case 24, 25:
		x.desk.commit()
		x.otherSure = x.other
	case 26:
		x.now += time.Duration(1 + x.roll(4))
		for _, l := range x.leaders {
			if l.w != nil {
				l.w.Expire(x.now)
			}
		}
	case 27, 28, 29:
		x.nudge(x.some())
	default:
		x.rare()
	}
}

// nudge loads, repeats what has no answer, or sends what is due.
func (x *walk) nudge(l *leader) {
	if l.w == nil {
		l.asking = ""
		l.load()
		return
	}
	for c, ok := l.w.NextLetters(1000); ok && x.roll(2) == 0; c, ok = l.w.NextLetters(1000) {
		l.w.Copied(c.First, c.Last)
	}
	l.w.StartMoved(l.log.start)
	l.flush()
}

func (x *walk) rare() {
	switch x.roll(44) {
	case 0, 1:
		x.elect(x.roll(2)*x.roll(6), x.roll(3) == 0)
	case 2, 3, 4:
		x.crash()
	case 5:
		x.log.start = min(x.log.end(), x.log.start+1+int64(x.roll(2)))
		x.log.epochs.CutStart(x.log.start)
	case 6, 7, 8, 9:
		x.desk.submit(Prune{int64(len(x.desk.log))}, func(r any) {
			x.desk.begin = max(x.desk.begin, int(r.(Pruned).To))
		})
	case 10, 11, 12, 13, 14:
		x.writeOther()
	case 15:
		x.admin()
	case 16, 17:
		x.desk.submit(Initialize{x.initialized}, func(any) {}) // an answer was lost
	case 18, 19:
		x.desk.submit(Initialize{{keyOf(0), x.stateEpoch, -1, x.coordinator}}, func(any) {})
	case 20, 21:
		x.desk.clock += int64(x.roll(5) - 2)
	case 22, 23, 24, 25:
		l := x.current()
		if l.w != nil && l.w.Due() {
			l.flush() // its last write is under way
		}
		l.drop()
	case 26:
		x.move()
	case 27, 28, 29:
		x.late()
	}
}

// writeOther writes the state of another share partition, whose records share the log.
func (x *walk) writeOther() {
	p := x.desk.s.peek(keyOf(1))
	if x.other++; p.Err != nil {
		x.fail("another share partition: %v", p.Err)
		return
	}
	x.desk.submit(Write{{Key: keyOf(1), ID: p.ID, Leader: p.Leader, Start: x.other}}, func(any) {})
}

// crash loses a part of what is not committed.
func (x *walk) crash() {
	x.desk.crash(x.roll(len(x.desk.log) - x.desk.committed + 1))
	other, idle := x.desk.s.states[keyOf(1)], x.desk.s.states[keyOf(2)]
	if other == nil || other.start < x.otherSure || idle == nil || idle.start != 77 {
		x.fail("a load lacks the states of other share partitions")
		return
	}
	x.other, x.otherSure = other.start, other.start
	if x.roll(8) == 0 {
		x.desk.checkPoints()
	}
}

// finish ends a walk without faults: one leader, and members that accept everything.
func (x *walk) finish() {
	x.crash()
	x.net, x.replies = nil, nil
	x.elect(0, false)
	l := x.current()
	for i := 0; i < 400 && x.bad == "" && (l.w == nil || l.w.Stats().Start < l.log.end()); i++ {
		x.now++
		x.held = nil
		if l.take(); l.w != nil {
			l.w.Expire(x.now)
			for _, d := range x.held {
				q := request{from: d}
				for _, it := range d.items {
					it.by = window.Accept
					q.items = append(q.items, it)
				}
				x.oracle.says(q)
				l.acknowledge(q)
			}
			for c, ok := l.w.NextLetters(1000); ok; c, ok = l.w.NextLetters(1000) {
				l.w.Copied(c.First, c.Last)
			}
			l.flush()
		}
		for ; len(x.net) > 0; x.net = x.net[1:] {
			x.deliver(x.net[:1:1])
		}
		x.desk.commit()
		for ; len(x.replies) > 0; x.replies = x.replies[1:] {
			l.onReply(x.replies[0])
		}
	}
	x.oracle.end(l)
}

// run makes steps until something is wrong, and returns what.
func (x *walk) run(steps int) string {
	for i := 0; i < steps && x.bad == ""; i++ {
		if x.step(); x.desk.wrong != "" {
			x.fail("%s", x.desk.wrong)
		}
	}
	if x.bad == "" {
		x.finish()
	}
	if x.desk.check(); x.desk.wrong != "" {
		x.fail("%s", x.desk.wrong)
	}
	return x.bad
}

func seeded(seed uint64) func(n int) int { return rand.New(rand.NewPCG(seed, 1)).IntN }

// Windows and the coordinator keep the promises together.
func TestWalks(t *testing.T) {
	answered, elections := 0, int32(0)
	for seed := range tries.Of(t, "CHRONIK_SHARE_WALKS", race.Some(400, 60)) {
		x := newWalk(seeded(uint64(seed)), config())
		if bad := x.run(1500); bad != "" {
			t.Fatalf("walk %d: %s", seed, bad)
		}
		answered, elections = answered+x.oracle.answers, elections+x.epoch
	}
	t.Logf("%d accepts and rejects were answered, in %d elections", answered, elections)
}

func TestHistoriesThatShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roll := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
		if bad := newWalk(roll, config()).run(250); bad != "" {
			t.Fatal(bad)
		}
	})
}

var _ coordinator.Machine = (*Shard)(nil)
