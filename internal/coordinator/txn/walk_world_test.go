package txn

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// walk is a random history of a cluster around real shards: a transaction log whose leader moves
// while the former one does not know it, partitions with their producer states and the step before
// an append, producers of both versions with zombies, late and doubled messages, and crashes with
// and without loss of power. Partitions are models; their rules are those of the storage.
type walk struct {
	dice
	broken Broken
	// C1 and C5 are rules of the runtime and of the log: a request or answer waits until its
	// records are committed, and the log refuses the appends of a former leader.
	unheld, oldAppends bool
	storm              bool // the power fails often
	anyFlush           bool // the rule of partitions: a flush counts in the leader epoch of the request only

	now   time.Time
	net   []message
	late  []message // requests to partitions that are slow
	tlog  []coordinator.Record
	saved int // records of tlog that are durable
	seats []*seat
	parts []*part
	topic fakeTopics // the metadata; seats learn of changes later
	prods []*client
	txns  []*txn
	pids  int64
	guard int
	vals  int
	calm  bool // no more faults
	stats map[string]int
	wrong []string // found on the way
}

// dice are random decisions, from rapid or from a seed.
type dice interface {
	roll(n int) int // 0 to n-1
}

// message is something on its way.
type message struct {
	deliver func()
	safe    bool // neither lost nor doubled
	marker  bool
	flush   bool
}

// seat is a coordinator: a shard with the runtime around it. The last one leads.
type seat struct {
	w       *walk
	shard   *Shard
	epoch   int32
	timers  map[coordinator.TimerKey]time.Time
	held    []heldBack
	after   int // length of tlog after its last append
	ticket  coordinator.Ticket
	waiting map[coordinator.Ticket]func(any)
	dead    bool
}

type heldBack struct {
	after int
	do    func()
}

// part is a partition with its leader.
type part struct {
	w       *walk
	name    Partition
	weak    bool // acknowledges before records are durable
	log     []entry
	durable int
	states  map[int64]producerState
	guards  map[int64]int
	gate    map[int64][]*batch // batches that wait for the coordinator, by producer id
	epoch   int32
	loading time.Time // unknown to its broker until then
}

type producerState struct {
	epoch int16
	ce    int32
	last  int // sequence, -1 for none
	open  bool
}

type entry struct {
	pid    int64
	epoch  int16
	seq    int
	val    int // 0: a marker
	txn    *txn
	commit bool
	ce     int32
}

// batch is one record of a producer.
type batch struct {
	entry
	version int16
	id      string
	answer  func(result)
}

type result int

const (
	appended result = iota
	again
	fatal
)

// txn is a transaction as its producer sees it.
type txn struct {
	client    *client
	pid       int64
	epoch     int16
	asked     bool // to commit
	committed bool // acknowledged
	never     bool // it was fenced before it was asked to commit
	acked     map[int]*part
}

func (w *walk) send(m message) {
	if (m.marker || m.flush) && !w.calm && w.roll(4) == 0 {
		w.late = append(w.late, m)
		return
	}
	w.net = append(w.net, m)
}

func (w *walk) post(f func()) { w.send(message{deliver: f}) }

// ---- coordinators

// elect makes the next coordinator. What the log has is committed first.
func (w *walk) elect() {
	w.syncLog()
	keep := w.net[:0]
	for _, m := range w.net {
		if m.marker && !w.calm && w.roll(2) == 0 {
			w.late = append(w.late, m)
		} else {
			keep = append(keep, m)
		}
	}
	w.net = keep
	s := &seat{w: w, epoch: int32(len(w.seats)), timers: map[coordinator.TimerKey]time.Time{}, after: len(w.tlog),
		waiting: map[coordinator.Ticket]func(any){}}
	cfg := DefaultConfig()
	cfg.Broken = w.broken
	cfg.MaxPark = 20 * time.Millisecond
	cfg.ProducerID = func(context.Context) (int64, error) { w.pids++; return w.pids, nil }
	s.shard = New(cfg)
	for _, r := range w.tlog {
		if err := s.shard.Apply(r); err != nil {
			panic(err)
		}
	}
	if n := len(w.seats); n > 1 {
		w.seats[n-2].dead = true
	}
	w.seats = append(w.seats, s)
	var out coordinator.Effects
	s.shard.Loaded(w.now, s.epoch, &out)
	s.take(&out)
	s.learn()
}

// learn gives a seat the present metadata.
func (s *seat) learn() {
	s.handle(0, TopicsChanged{Topics: maps.Clone(s.w.topic), Changed: slices.Sorted(maps.Keys(s.w.topic)), Tagged: true})
}

func (w *walk) leader() *seat { return w.seats[len(w.seats)-1] }

// anySeat returns the coordinator that a client finds: sometimes the former one.
func (w *walk) anySeat() *seat {
	if n := len(w.seats); n > 1 && !w.seats[n-2].dead && w.roll(3) == 0 {
		return w.seats[n-2]
	}
	return w.leader()
}

func (s *seat) handle(to coordinator.Ticket, e any) {
	if s.dead {
		return
	}
	var out coordinator.Effects
	s.shard.Handle(s.w.now, to, e, &out)
	s.take(&out)
}

// ask hands over a request; done gets the response, unless it is lost.
func (s *seat) ask(e any, done func(any)) {
	s.ticket++
	s.waiting[s.ticket] = done
	s.handle(s.ticket, e)
}

func (s *seat) take(out *coordinator.Effects) {
	w := s.w
	if len(out.Records) > 0 {
		if s != w.leader() && !w.oldAppends {
			s.dead = true // the log has refused the append
			return
		}
		w.tlog = append(w.tlog, out.Records...)
		s.after = len(w.tlog)
	}
	for _, t := range out.Timers {
		if t.At.IsZero() {
			delete(s.timers, t.Key)
		} else {
			s.timers[t.Key] = t.At
		}
	}
	for _, r := range out.Replies {
		s.hold(func() {
			if done := s.waiting[r.To]; done != nil {
				delete(s.waiting, r.To)
				done(r.Response)
			}
		})
	}
	for _, r := range out.Sends {
		s.hold(func() { s.carry(r) })
	}
	for _, c := range out.Calls {
		s.handle(c.To, c.Do(context.Background()))
	}
	for _, e := range out.Deferred {
		s.handle(0, e)
	}
}

// hold lets f wait until everything that the seat has written is durable.
func (s *seat) hold(f func()) {
	if s.w.unheld || s.after <= s.w.saved {
		f()
		return
	}
	s.held = append(s.held, heldBack{s.after, f})
}

func (w *walk) syncLog() {
	w.saved = len(w.tlog)
	for _, s := range w.seats {
		held := s.held
		s.held = nil
		for _, h := range held {
			if !s.dead {
				h.do()
			}
		}
	}
}

// carry takes a request of a shard to its partition, and the result back.
func (s *seat) carry(request any) {
	w := s.w
	back := func(r any) {
		to := s
		if w.broken.Has(CountAnyAnswer) { // the runtime would drop the result of a former machine
			to = w.leader()
		}
		w.send(message{deliver: func() { to.handle(0, r) }, safe: true})
	}
	switch r := request.(type) {
	case WriteMarker:
		p := w.part(r.Partition)
		w.send(message{safe: r.Version == 1, marker: true, deliver: func() {
			fault := 2 // none
			if !w.calm {
				fault = w.roll(30)
			}
			switch fault {
			case 0: // the connection broke before the request came
				back(Marked{r, kerr.NetworkException})
			case 1: // or after it
				p.marker(r, func(*kerr.Error) {})
				back(Marked{r, kerr.NetworkException})
			default:
				p.marker(r, func(err *kerr.Error) { back(Marked{r, err}) })
			}
		}})
	case Flush:
		w.send(message{safe: true, flush: true, deliver: func() {
			p := w.part(r.Partition)
			switch {
			case w.now.Before(p.loading), p.epoch != r.LeaderEpoch && !w.anyFlush:
				back(Flushed{Flush: r, Err: kerr.NotLeaderForPartition})
			default:
				p.await(len(p.log), func(err *kerr.Error) { back(Flushed{Flush: r, Err: err}) })
			}
		}})
	}
}

// fire lets the timers of a seat fire that are due.
func (s *seat) fire() {
	inOrder := func(a, b coordinator.TimerKey) int {
		return cmp.Or(s.timers[a].Compare(s.timers[b]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner, b.Owner))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.timers), inOrder) {
		at, set := s.timers[k]
		if !set || at.After(s.w.now) || s.dead || s != s.w.leader() && s.w.roll(2) == 0 {
			continue
		}
		delete(s.timers, k)
		var out coordinator.Effects
		s.shard.Fire(s.w.now, k, &out)
		s.take(&out)
	}
}

// ---- partitions

func (w *walk) part(p Partition) *part {
	for _, x := range w.parts {
		if x.name == p {
			return x
		}
	}
	panic(fmt.Sprint("unknown partition ", p))
}

func (w *walk) newPart(topic string) *part {
	p := &part{w: w, name: Partition{topic, 0}, weak: w.topic.Weak(topic)}
	w.parts, w.topic[topic] = append(w.parts, p), 1
	p.lead(0, false)
	return p
}

// lead begins a leader epoch in which the log has n entries left. loses: the metadata know that
// others may have been acknowledged.
func (p *part) lead(n int, loses bool) {
	p.w.topic.elect(p.name.Topic, loses)
	p.epoch, _ = p.w.topic.Epochs(p.name)
	p.log, p.durable = p.log[:n], n
	p.giveUp()
	p.recover()
}

// recover builds the state from the log.
func (p *part) recover() {
	p.states, p.guards, p.gate = map[int64]producerState{}, map[int64]int{}, map[int64][]*batch{}
	for _, e := range p.log {
		p.apply(e)
	}
}

func (p *part) apply(e entry) {
	s, known := p.states[e.pid]
	if !known || s.epoch != e.epoch {
		s = producerState{epoch: e.epoch, ce: max(s.ce, -1), last: -1, open: s.open}
		if !known {
			s.ce = -1
		}
	}
	if e.val > 0 {
		s.last, s.open = e.seq, true
	} else {
		s.ce, s.open = e.ce, false
	}
	p.states[e.pid] = s
}

// await runs do when the first n entries are durable, or another leader epoch has begun. A crash of
// all brokers drops it.
func (p *part) await(n int, do func(*kerr.Error)) {
	if n <= p.durable {
		do(nil)
		return
	}
	gen := p.epoch
	p.w.send(message{safe: true, deliver: func() {
		if gen != p.epoch {
			do(kerr.NotLeaderForPartition)
			return
		}
		if p.w.roll(2) == 0 || p.w.calm {
			p.durable = max(p.durable, n)
		}
		p.await(n, do)
	}})
}

// produce is the step before an append.
func (p *part) produce(b *batch) {
	s, known := p.states[b.pid]
	if known && s.open && s.epoch == b.epoch {
		p.number(b, 0, 0)
		return
	}
	if known && b.epoch < s.epoch {
		b.answer(fatal)
		return
	}
	queue := p.gate[b.pid]
	if p.gate[b.pid] = append(queue, b); len(queue) > 0 {
		return // behind those that wait
	}
	p.w.guard++
	guard, epoch := p.w.guard, p.epoch
	p.guards[b.pid] = guard
	answered := func(err *kerr.Error, ce int32) {
		if p.epoch != epoch || p.guards[b.pid] != guard && len(p.gate[b.pid]) == 0 {
			return
		}
		queue := p.gate[b.pid]
		delete(p.gate, b.pid)
		for _, x := range queue {
			switch {
			case err == nil && x.epoch == b.epoch:
				p.number(x, guard, ce)
			case err == kerr.ConcurrentTransactions || err == kerr.UnknownTopicOrPartition || err == nil:
				x.answer(again)
			default:
				x.answer(fatal)
			}
		}
	}
	p.w.post(func() {
		at, asked := p.w.anySeat(), []AddedPartition{{Partition: p.name}}
		if p.name.Topic != "new" { // that one asks as the topic of groups' offsets, which is never created again
			asked[0].TopicID = p.w.topic.ID(p.name.Topic)
		}
		if b.version == 1 {
			at.ask(Verify{b.id, b.pid, b.epoch, asked}, func(r any) {
				v := r.(Verified)
				p.w.post(func() { answered(v.Errs[0], v.CoordinatorEpoch) })
			})
			return
		}
		e := Add{ID: b.id, ProducerID: b.pid, Epoch: b.epoch, Version: 2, Partitions: asked,
			Deadline: p.w.now.Add(time.Duration(p.w.roll(50)) * time.Millisecond)}
		at.ask(e, func(r any) {
			a := r.(Added)
			p.w.post(func() { answered(a.Err, a.CoordinatorEpoch) })
		})
	})
}

// giveUp ends the waiting of a producer's batches at their deadline.
func (p *part) giveUp() {
	for _, pid := range slices.Sorted(maps.Keys(p.gate)) {
		queue := p.gate[pid]
		delete(p.gate, pid)
		for _, b := range queue {
			b.answer(again)
		}
	}
}

// number appends a batch. guard and ce are those of the coordinator's answer.
func (p *part) number(b *batch, guard int, ce int32) {
	s, known := p.states[b.pid]
	fresh := !known || s.epoch != b.epoch
	switch {
	case known && b.epoch < s.epoch:
		b.answer(fatal)
		return
	case !fresh && s.last >= b.seq: // a repetition
		p.ack(b)
		return
	case !fresh && b.seq != s.last+1 && (s.last >= 0 || b.version == 2), fresh && b.seq != 0 && b.version == 2:
		b.answer(again)
		return
	case (fresh || !s.open) && (p.guards[b.pid] != guard || known && ce < s.ce):
		b.answer(again)
		return
	}
	delete(p.guards, b.pid)
	p.log = append(p.log, b.entry)
	p.apply(b.entry)
	p.ack(b)
}

func (p *part) ack(b *batch) {
	n := len(p.log)
	if p.weak {
		n = 0
	}
	p.await(n, func(err *kerr.Error) {
		if err != nil {
			b.answer(again)
			return
		}
		b.answer(appended)
	})
}

// marker writes the marker of a transaction.
func (p *part) marker(m WriteMarker, done func(*kerr.Error)) {
	s, known := p.states[m.ProducerID]
	same := known && m.Version >= 2 && m.Epoch == s.epoch
	switch {
	case p.w.now.Before(p.loading):
		done(kerr.UnknownTopicOrPartition)
		return
	case known && m.CoordinatorEpoch < s.ce:
		done(kerr.TransactionCoordinatorFenced)
		return
	case known && m.Epoch < s.epoch, same && s.open && !p.w.broken.Has(KeepEpoch):
		done(kerr.InvalidProducerEpoch)
		return
	case same && !s.open && m.CoordinatorEpoch == s.ce:
	default:
		e := entry{pid: m.ProducerID, epoch: m.Epoch, commit: m.Commit, ce: m.CoordinatorEpoch}
		p.log = append(p.log, e)
		p.apply(e)
		delete(p.guards, m.ProducerID)
	}
	p.await(len(p.log), done)
}

// ---- faults

// crash stops all brokers. With power lost, each log keeps what is durable and part of the rest.
func (w *walk) crash(power bool) {
	w.stats["crashes"]++
	for _, s := range w.seats {
		s.dead, s.held = true, nil
	}
	if power {
		w.tlog = w.tlog[:w.saved+w.roll(len(w.tlog)-w.saved+1)]
	}
	for _, p := range w.parts {
		p.crash(power)
	}
	w.net, w.late = nil, nil
	for _, c := range w.prods {
		c.disconnected()
	}
	w.elect()
}

// crash stops the broker of a partition.
func (p *part) crash(power bool) {
	n := len(p.log)
	if power {
		n = p.durable + p.w.roll(n-p.durable+1)
	}
	p.lead(n, power && p.weak)
	p.loading = p.w.now.Add(time.Duration(p.w.roll(100)) * time.Millisecond)
}

// electUncleanly elects a leader that lacks the last records, all of transactions that are open. It
// may lack others, too, and then breaks promises that nothing can keep. The coordinator knows at
// once: what it decides before, it decides before the loss.
func (p *part) electUncleanly() {
	p.w.stats["unclean elections"]++
	n := len(p.log)
	for n > 0 && p.log[n-1].val > 0 && p.w.isOpen(p.log[n-1].txn, p) {
		n--
	}
	p.lead(n+p.w.roll(len(p.log)-n+1), true)
	p.w.leader().learn()
}

// isOpen reports whether a transaction is open and can't be decided any more without the leader of
// the coordinators.
func (w *walk) isOpen(t *txn, p *part) bool {
	s := w.leader()
	x := s.shard.ids[t.client.id]
	return t.client.txn == t && x.state == Ongoing && x.pid == t.pid && x.epoch == t.epoch && x.has(p.name) && !s.dead
}
