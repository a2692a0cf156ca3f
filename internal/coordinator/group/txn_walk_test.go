package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/storage/producers"
)

// A walk is a random history of one shard: producers with transactions of both versions, zombies
// among them, plain commits, a transaction coordinator that moves and whose predecessor still
// answers, markers that are late or doubled, reloads, and time. A small reference knows every
// offset that was written, in order, and which transaction it belongs to.
type walk struct {
	*world
	dice
	ce     int32 // of the present coordinator
	prods  []*walker
	net    []message
	writes map[pendingKey][]*written
	value  int64
	bad    []string
}

// message is on its way: a question and its answer, or a marker.
type message struct {
	deliver func()
	ce      int32 // of the coordinator that sent a marker; 0: a question
}

type dice interface{ roll(n int) int }

type seeded struct{ *rand.Rand }

func (s seeded) roll(n int) int { return s.IntN(n) }

type drawn struct{ t *rapid.T }

func (d drawn) roll(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "roll") }

// walker is a producer id at the coordinator.
type walker struct {
	id      int64
	version int16 // of TxnOffsetCommit: 3, or 5 with a new epoch for each transaction
	epoch   int16
	txn     *walkTxn // the present transaction, or the last one
	next    *walkTxn // with version 5: the one that waits for the end of txn; nil: none
	former  *former  // what the replaced coordinator remembers
	old     []walkClient
}

// former is a replaced coordinator's memory of a transaction that was open.
type former struct {
	ce    int32
	epoch int16
	txn   *walkTxn
}

// walkClient is an instance of a producer, with the transaction that it believes to be in.
type walkClient struct {
	epoch int16
	txn   *walkTxn
}

type walkTxn struct {
	added, commit bool
	state         int   // 0 open, 1 decided, 2 complete
	marker        int16 // its epoch
	applied       bool  // a marker had success
}

// written is an offset that the shard has accepted.
type written struct {
	value int64
	txn   *walkTxn // nil: a plain commit
}

func (w *walk) fail(format string, args ...any) { w.bad = append(w.bad, fmt.Sprintf(format, args...)) }

func newWalk(d dice, broken Broken) *walk {
	w := &walk{dice: d, ce: 1, writes: map[pendingKey][]*written{}}
	w.world = newWorld(panics{}, func(c *Config) { c.Broken = broken })
	w.topic("t", 2)
	for i, v := range []int16{3, 3, 5} {
		w.prods = append(w.prods, &walker{id: int64(i), version: v, txn: &walkTxn{state: 2}})
	}
	return w
}

// panics ends a walk when the world finds a fault.
type panics struct{}

type fault string

func (panics) Helper()                        {}
func (panics) Fatalf(format string, a ...any) { panic(fault(fmt.Sprintf(format, a...))) }

func (w *walk) place() pendingKey {
	return pendingKey{[]string{"g", "h"}[w.roll(2)], "t", int32(w.roll(2))}
}

func (w *walk) step() {
	p := w.prods[w.roll(len(w.prods))]
	switch x := w.roll(100); {
	case x < 10:
		w.plain(w.place())
	case x < 40:
		w.send(p, walkClient{p.epoch, p.txn})
	case x < 44 && len(p.old) > 0:
		w.send(p, p.old[w.roll(len(p.old))])
	case x < 56:
		w.end(p, w.roll(2) == 0)
	case x < 80 && len(w.net) > 0:
		i := w.roll(len(w.net))
		m := w.net[i]
		w.net = slices.Delete(w.net, i, i+1)
		m.deliver()
	case x < 83:
		w.initialize(p)
	case x < 86:
		w.move()
	case x < 89:
		w.start()
	case x < 91:
		w.advance([]time.Duration{time.Minute, 25 * time.Hour, 8 * 24 * time.Hour}[w.roll(3)])
		// No message is on its way for longer than a producer is remembered.
		w.net = slices.DeleteFunc(w.net, func(m message) bool { return m.ce < w.ce })
		for _, p := range w.prods {
			p.former = nil
		}
		w.forgetGone()
	case x < 93:
		id := []string{"g", "h"}[w.roll(2)]
		ask[[]kmsg.DeleteGroupsResponseGroup](w.world, Delete{Groups: []string{id}})
		w.forgetGone()
	case x < 95:
		w.replays()
	case x < 99:
		w.lateCopy(p)
	}
	for at := range w.writes {
		w.read(at)
	}
}

func (w *walk) plain(at pendingKey) {
	w.value++
	req := commitOf("", -1, at.topic, w.value)
	req.Group, req.Topics[0].Partitions[0].Partition = at.group, at.partition
	if w.commit(req) == 0 {
		w.writes[at] = append(w.writes[at], &written{value: w.value})
	}
}

// send commits an offset in a client's transaction. The first one of it adds the group.
func (w *walk) send(p *walker, c walkClient) {
	if c.epoch == p.epoch && !p.begin(&c) {
		return
	}
	if c.txn == p.txn && p.version < 5 && c.txn.state == 0 {
		c.txn.added = true // AddOffsetsToTxn
	}
	w.value++
	at := w.place()
	x := transact{id: "x", pid: p.id, epoch: c.epoch}
	req := x.commit(at.group, "", -1, at.topic, at.partition, w.value)
	req.Version = p.version
	w.submit(p, c, at, txnCommitOf(req))
}

// begin lets a client begin its next transaction if the last one is decided. It returns false if
// the client must wait: before version 5, it has to add the group first.
func (p *walker) begin(c *walkClient) bool {
	switch {
	case p.txn.state == 1 && p.version < 5:
		return false
	case p.txn.state > 0 && p.next == nil:
		p.next = &walkTxn{}
	}
	if p.adopt(); p.next != nil {
		c.txn = p.next
	} else {
		c.txn = p.txn
	}
	return true
}

// adopt begins the transaction that waits if the last one is complete.
func (p *walker) adopt() {
	if p.txn.state == 2 && p.next != nil {
		p.txn, p.next = p.next, nil
	}
}

func (w *walk) submit(p *walker, c walkClient, at pendingKey, e TxnCommit) {
	switch r := ask[any](w.world, e).(type) {
	case *kmsg.TxnOffsetCommitResponse:
		if r.Topics[0].Partitions[0].ErrorCode == 0 {
			w.writes[at] = append(w.writes[at], &written{e.Body.Topics[0].Partitions[0].Offset, c.txn})
		}
	case NeedsPermit:
		var ask func()
		ask = func() {
			if p.adopt(); p.next != nil && c.txn == p.next {
				w.net = append(w.net, message{ask, 0}) // parked
			} else if ce, ok := w.answer(p, c); ok {
				e.Permit = Permit{r.Guard, ce}
				w.submit(p, c, at, e)
			}
		}
		w.net = append(w.net, message{ask, 0})
	}
}

// lateCopy is a late request of a complete transaction before version 5. The replaced coordinator,
// which has not noticed the end, permits it.
func (w *walk) lateCopy(p *walker) {
	f := p.former
	if p.version >= 5 || f == nil || f.epoch != p.epoch || !f.txn.added || p.txn.state != 2 || !p.txn.added {
		return
	}
	w.value++
	at, x := w.place(), transact{id: "x", pid: p.id, epoch: p.epoch}
	req := x.commit(at.group, "", -1, at.topic, at.partition, w.value)
	req.Version = p.version
	e := txnCommitOf(req)
	if need, ok := ask[any](w.world, e).(NeedsPermit); ok {
		e.Permit = Permit{need.Guard, f.ce}
		if r, ok := ask[any](w.world, e).(*kmsg.TxnOffsetCommitResponse); ok && r.Topics[0].Partitions[0].ErrorCode == 0 {
			w.fail("offsets of a complete transaction of producer %d begin another one", p.id)
		}
	}
}

// answer is the answer of the transaction's coordinator, or of the replaced one. A coordinator of
// version 1 knows a transaction only by its epoch.
func (w *walk) answer(p *walker, c walkClient) (ce int32, ok bool) {
	if f := p.former; f != nil && w.roll(3) == 0 {
		return f.ce, f.epoch == c.epoch && f.txn.added
	}
	if c.epoch != p.epoch || p.txn.state != 0 || p.version < 5 && !p.txn.added {
		return 0, false
	}
	p.txn.added = true
	return w.ce, true
}

// end decides the present transaction.
func (w *walk) end(p *walker, commit bool) {
	if p.txn.state != 0 {
		return
	}
	p.txn.state, p.txn.commit = 1, commit
	p.txn.marker = p.epoch
	if p.version >= 5 {
		p.epoch++
		p.txn.marker = p.epoch
	}
	w.decided(p)
}

// initialize gives a new instance the producer id; the former one becomes a zombie.
func (w *walk) initialize(p *walker) {
	switch p.txn.state {
	case 1:
		return // CONCURRENT_TRANSACTIONS
	case 0:
		p.old = append(p.old, walkClient{p.epoch, p.txn})
		p.epoch++
		p.txn.state, p.txn.commit, p.txn.marker = 1, false, p.epoch
		w.decided(p)
	default:
		p.old = append(p.old, walkClient{p.epoch, p.txn})
		p.epoch++
		p.next = nil
	}
}

func (w *walk) decided(p *walker) {
	if !p.txn.added {
		p.txn.state = 2
		return
	}
	w.sendMarker(p, p.txn, w.ce)
}

// sendMarker sends a marker until the coordinator that sent it has its answer.
func (w *walk) sendMarker(p *walker, t *walkTxn, ce int32) {
	m := Marker{ProducerID: p.id, Epoch: t.marker, CoordinatorEpoch: ce, Commit: t.commit,
		Bumps: p.version >= 5}
	w.net = append(w.net, message{ce: ce, deliver: func() {
		err := w.mark(m)
		var fenced *producers.CoordinatorFenced
		t.applied = t.applied || err == nil
		switch {
		case err == nil && ce == w.ce && t.state == 1:
			t.state = 2
		case err != nil && ce == w.ce && !errors.As(err, &fenced):
			w.fail("the marker of epoch %d of producer %d is refused: %v", m.Epoch, p.id, err)
		}
	}})
}

// move replaces the coordinator. The new one sends the markers of decided transactions again.
func (w *walk) move() {
	for _, p := range w.prods {
		if p.txn.state == 0 {
			p.former = &former{w.ce, p.epoch, p.txn}
		}
	}
	w.ce++
	for _, p := range w.prods {
		if p.txn.state == 1 {
			w.sendMarker(p, p.txn, w.ce)
		}
	}
}

// shown returns an offset as a reader gets it.
func (w *walk) shown(at pendingKey, stable bool) (int64, int16) {
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group, req.Topics = at.group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: at.topic, Partitions: []int32{at.partition}}}
	e := FetchOffsets{Groups: []kmsg.OffsetFetchRequestGroup{req}, RequireStable: stable}
	p := ask[[]kmsg.OffsetFetchResponseGroup](w.world, e)[0].Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

// read compares an offset with the reference: the last written one that is committed, from the
// marker on.
func (w *walk) read(at pendingKey) {
	got, _ := w.shown(at, false)
	want, open := int64(-1), false
	for _, x := range w.writes[at] {
		if x.committed() {
			want = x.value
		}
		open = open || x.txn != nil && !x.txn.applied
	}
	if got != want {
		w.fail("%v shows %d, want %d", at, got, want)
	}
	if got, code := w.shown(at, true); open && code != kerr.UnstableOffsetCommit.Code {
		w.fail("%v is stable at %d, and an offset is pending", at, got)
	}
}

// committed reports whether the offset must be shown if none was written later.
func (x *written) committed() bool { return x.txn == nil || x.txn.applied && x.txn.commit }

// forgetGone removes the committed offsets from the reference that a deletion or an expiry may have
// removed.
func (w *walk) forgetGone() {
	for at := range w.writes {
		if got, _ := w.shown(at, false); got < 0 {
			w.writes[at] = slices.DeleteFunc(w.writes[at], (*written).committed)
		}
	}
}

// finish aborts what is open and delivers everything. No offset may stay pending, and every
// committed one must be there.
func (w *walk) finish() {
	for n := 0; n < 10_000; n++ {
		for _, p := range w.prods {
			w.end(p, false)
		}
		if len(w.net) == 0 {
			break
		}
		m := w.net[0]
		w.net = w.net[1:]
		m.deliver()
	}
	for _, p := range w.prods {
		if p.txn.state == 1 {
			w.fail("the transaction of producer %d has no marker", p.id)
		}
	}
	for id, g := range w.shard.groups {
		if len(g.pending) > 0 {
			w.fail("offsets of %s are pending for ever: %v", id, g.pending)
		}
	}
	for at := range w.writes {
		w.read(at)
	}
}

// run takes steps and ends the walk. It returns what is wrong.
func (w *walk) run(steps int) (bad []string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			w.fail("%s", r)
			bad = w.bad
		default:
			panic(r)
		}
	}()
	for range steps {
		if w.step(); len(w.bad) > 0 {
			return w.bad
		}
	}
	w.finish()
	return w.bad
}

// Random histories of transactions, named G1 to G6 in the design.
func TestTransactionsInChaos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if bad := newWalk(drawn{t}, Broken{}).run(rapid.IntRange(1, 150).Draw(t, "steps")); len(bad) > 0 {
			t.Fatal(bad)
		}
	})
	for seed := range uint64(40) {
		if bad := newWalk(seeded{rand.New(rand.NewPCG(seed, 1))}, Broken{}).run(400); len(bad) > 0 {
			t.Fatalf("walk %d: %q", seed, bad)
		}
	}
}
