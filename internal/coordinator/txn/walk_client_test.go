package txn

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// client is a transactional producer.
type client struct {
	w         *walk
	number    int
	id        string
	version   int16
	pid       int64
	epoch     int16
	phase     string // init, write, end, dead
	attempt   int    // answers to earlier attempts of a phase count for nothing
	busy      bool   // a request of the present attempt has no answer (version 1 sends one at a time)
	txn       *txn
	left      int
	commits   bool
	seq       map[*part]int
	unacked   map[*part]*batch
	inFlight  map[*part]bool // version 1
	resuming  bool           // InitProducerID with the last id and epoch
	confirmed map[*part]bool // version 1: added
}

func (w *walk) newClient(id string, version int16) {
	w.prods = append(w.prods, &client{w: w, number: len(w.prods), id: id, version: version, phase: "init", pid: none, epoch: none})
}

// newest reports whether no other instance with the id was started later.
func (c *client) newest() bool {
	for _, o := range c.w.prods {
		if o.id == c.id && o.number > c.number {
			return false
		}
	}
	return true
}

// turn goes to another phase; answers to requests of the present one count for nothing.
func (c *client) turn(phase string) {
	c.phase, c.busy = phase, false
	c.attempt++
}

// fail is what a client does after an error: the newest instance starts again, an older one ends.
func (c *client) fail() {
	c.turn("init")
	c.resuming = c.w.roll(2) == 0 && c.pid != none
	if !c.newest() {
		c.turn("dead")
	}
}

// disconnected ends the requests of version 1 that are on their way.
func (c *client) disconnected() {
	c.busy, c.inFlight = false, map[*part]bool{}
}

func (c *client) begin() {
	c.turn("write")
	c.left, c.commits = 1+c.w.roll(4), c.w.roll(4) > 0
	c.txn = &txn{client: c, pid: c.pid, epoch: c.epoch, acked: map[int]*part{}}
	c.unacked, c.confirmed, c.inFlight = map[*part]*batch{}, map[*part]bool{}, map[*part]bool{}
	c.w.txns = append(c.w.txns, c.txn)
}

// request sends a request of the present attempt to the coordinator.
func (c *client) request(e any, answered func(any)) {
	if c.version == 1 && c.busy {
		return
	}
	c.busy = true
	attempt, w := c.attempt, c.w
	w.send(message{safe: c.version == 1, deliver: func() {
		at := w.anySeat()
		at.ask(e, func(r any) {
			if got, ok := r.(Identity); ok && got.Err == kerr.ProducerFenced && at == w.leader() && at.current(e) {
				w.wrong = append(w.wrong, c.id+" is fenced and has the present epoch")
			}
			w.send(message{safe: c.version == 1, deliver: func() {
				if attempt == c.attempt {
					c.busy = false
					answered(r)
				}
			}})
		})
	}})
}

// current reports whether a request has the present id and epoch of its producer.
func (s *seat) current(e any) bool {
	id, producer, epoch := "", int64(none), int16(none)
	switch e := e.(type) {
	case End:
		id, producer, epoch = e.ID, e.ProducerID, e.Epoch
	case InitProducerID:
		id, producer, epoch = e.ID, e.ProducerID, e.Epoch
	}
	t := s.shard.ids[id]
	if t == nil {
		return false
	}
	nowID, nowEpoch := t.identity()
	return producer == nowID && epoch == nowEpoch
}

// act takes the client's next step.
func (c *client) act() {
	switch c.phase {
	case "init":
		c.init()
	case "write":
		c.write()
	case "end":
		if c.commits {
			c.txn.asked = true
		}
		c.request(End{c.id, c.pid, c.epoch, c.commits, c.version}, c.ended)
	}
}

func (c *client) init() {
	e := InitProducerID{ID: c.id, Timeout: 400, ProducerID: none, Epoch: none}
	if c.resuming {
		e.ProducerID, e.Epoch = c.pid, c.epoch
	}
	c.request(e, func(r any) {
		got := r.(Identity)
		c.checkEpoch(got)
		switch {
		case got.Err == kerr.ProducerFenced:
			c.turn("dead")
		case got.Err != nil: // again
		default:
			for _, t := range c.w.txns {
				before := t.pid < got.ProducerID || t.pid == got.ProducerID && t.epoch < got.Epoch
				if t.client.id == c.id && !t.asked && before {
					t.never = true
				}
			}
			c.pid, c.epoch, c.seq = got.ProducerID, got.Epoch, map[*part]int{}
			c.begin()
		}
	})
}

func (c *client) checkEpoch(got Identity) {
	if got.Err == nil && (got.Epoch < 0 || got.Epoch > maxEpoch) {
		c.w.wrong = append(c.w.wrong, c.id+" got epoch "+itoa(int(got.Epoch)))
	}
}

func (c *client) write() {
	w := c.w
	if c.left == 0 && len(c.unacked) == 0 {
		c.turn("end")
		return
	}
	if len(c.unacked) > 0 && c.version == 1 && w.roll(12) == 0 || // it gives up
		len(c.unacked) == 0 && c.version == 2 && w.roll(40) == 0 { // it aborts, perhaps before it has written anything
		c.commits = false
		c.turn("end")
		return
	}
	p := w.parts[w.roll(len(w.parts))]
	b := c.unacked[p]
	if b == nil && c.left > 0 {
		w.vals++
		c.left--
		b = &batch{entry: entry{pid: c.pid, epoch: c.epoch, seq: c.seq[p], val: w.vals, txn: c.txn}, version: c.version, id: c.id}
		c.seq[p]++
		c.unacked[p] = b
	}
	if b == nil {
		return
	}
	if c.version == 1 && !c.confirmed[p] {
		e := Add{ID: c.id, ProducerID: c.pid, Epoch: c.epoch, Version: 1, Partitions: []AddedPartition{{Partition: p.name}}}
		c.request(e, func(r any) {
			switch r.(Added).Err {
			case nil:
				c.confirmed[p] = true
			case kerr.ConcurrentTransactions, kerr.UnknownTopicOrPartition:
			default:
				c.fail()
			}
		})
		return
	}
	if c.version == 1 && c.inFlight[p] {
		return
	}
	c.inFlight[p] = true
	t, copied := c.txn, *b
	copied.answer = func(r result) {
		w.send(message{safe: c.version == 1, deliver: func() { c.produced(t, p, copied.val, r) }})
	}
	w.send(message{safe: c.version == 1, deliver: func() {
		if !w.now.Before(p.loading) {
			p.produce(&copied)
		} else {
			copied.answer(again)
		}
	}})
}

func (c *client) produced(t *txn, p *part, val int, r result) {
	if t == c.txn {
		c.inFlight[p] = false
	}
	if c.phase != "write" || t != c.txn || c.unacked[p] == nil || c.unacked[p].val != val {
		return
	}
	switch r {
	case appended:
		t.acked[val] = p
		delete(c.unacked, p)
	case fatal:
		c.fail()
	}
}

func (c *client) ended(r any) {
	got := r.(Identity)
	c.checkEpoch(got)
	switch {
	case got.Err == kerr.ConcurrentTransactions: // again
		return
	case got.Err == kerr.TransactionAbortable:
		c.txn.asked, c.commits = false, false
		return
	case got.Err != nil:
		c.fail()
		return
	}
	if c.commits {
		c.txn.committed = true
		c.w.stats["commits"]++
	}
	if c.version == 2 {
		c.pid, c.epoch, c.seq = got.ProducerID, got.Epoch, map[*part]int{}
	}
	if len(c.unacked) > 0 {
		c.fail()
		return
	}
	c.begin()
}

// ---- the oracle

// check compares what a read_committed reader sees at the end with the answers that producers got.
func (w *walk) check() (bad []string) {
	shown := map[int]int{}
	outcome := map[*txn]map[bool]int{}
	for _, p := range w.parts {
		open := map[int64][]entry{}
		for _, e := range p.log {
			if e.val > 0 {
				open[e.pid] = append(open[e.pid], e)
				continue
			}
			for _, d := range open[e.pid] {
				if outcome[d.txn] == nil {
					outcome[d.txn] = map[bool]int{}
				}
				outcome[d.txn][e.commit]++
				if e.commit {
					shown[d.val]++
				}
			}
			delete(open, e.pid)
		}
		for _, pid := range slices.Sorted(maps.Keys(open)) {
			bad = append(bad, "producer "+itoa(int(pid))+" hangs in "+p.name.Topic)
		}
	}
	for i, t := range w.txns {
		name := "transaction " + itoa(i) + " of " + t.client.id
		o := outcome[t]
		if !t.committed && o[true] > 0 && o[false] > 0 {
			bad = append(bad, name+" is torn")
		}
		if o[true] > 0 && !t.asked {
			bad = append(bad, name+" is shown and no client asked for its commit")
		}
		if o[true] > 0 && t.never {
			bad = append(bad, name+" is shown and was fenced")
		}
		for val := range t.acked {
			switch {
			case t.committed && shown[val] != 1:
				bad = append(bad, name+" was committed, value "+itoa(val)+" is shown "+itoa(shown[val])+" times")
			case o[true] > 0 && shown[val] != 1:
				bad = append(bad, name+" is shown without value "+itoa(val))
			}
		}
	}
	for id, t := range w.leader().shard.ids {
		if t.state == Ongoing || t.state.prepared() {
			bad = append(bad, id+" hangs in "+t.state.String())
		}
		if t.epoch < 0 {
			bad = append(bad, id+" has a negative epoch")
		}
	}
	bad = append(bad, w.wrong...)
	slices.Sort(bad)
	return bad
}
