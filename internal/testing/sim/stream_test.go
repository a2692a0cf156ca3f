package sim

import (
	"slices"

	"github.com/chronik-io/chronik/internal/replica/progress"
)

// link is one direction of the connection between two brokers.
type link struct {
	frames []frame
	cut    bool // frames wait
}

// stray is a frame that the receiver still has when the connection is broken.
type stray struct {
	from, to int32
	frame    frame
}

// frame is what goes over a link.
type frame struct {
	kind             kind
	tag              uint64 // of the subscription, made by the follower
	handle           progress.Handle
	position         progress.Position
	sub              progress.Subscription
	verdict          progress.Verdict
	epoch            int32
	end              int64
	prev             int64
	entries          []entry
	high             int64
	start            int64
	written, durable int64
}

// kind is the kind of a frame.
type kind uint8

const (
	frameSubscribe kind = iota
	frameVerdict
	frameData
	frameEnds
	frameStart
	frameOffline
)

// send puts a frame on a link. A link that is too full breaks.
func (w *world) send(from, to int32, f frame) {
	l := &w.links[from][to]
	if len(l.frames) >= 6 {
		w.breakLink(from, to)
		return
	}
	f.entries = slices.Clone(f.entries)
	l.frames = append(l.frames, f)
}

// breakLink breaks the connection between two brokers. Some of its frames may already have been
// read and are handled later.
func (w *world) breakLink(a, b int32) {
	for _, d := range [][2]int32{{a, b}, {b, a}} {
		l := &w.links[d[0]][d[1]]
		for _, f := range l.frames {
			if w.chance(3) {
				w.stray = append(w.stray, stray{d[0], d[1], f})
			}
		}
		l.frames = nil
		x := w.nodes[d[0]]
		if s := &x.slots[d[1]]; s.ok && x.leader != nil && !w.chance(3) { // otherwise it has not noticed yet
			x.leader.End(s.handle, progress.StreamGone, w.now)
		}
		x.slots[d[1]] = slot{}
		if w.image(x).part.Leader == d[1] {
			x.sub = subscription{}
		}
	}
}

// deliver lets a node handle the next frame of a link.
func (w *world) deliver(from, to int32) {
	l := &w.links[from][to]
	if len(l.frames) == 0 || l.cut || !w.nodes[to].runs() {
		return
	}
	f := l.frames[0]
	l.frames = l.frames[1:]
	if f.kind == frameEnds && w.chance(6) {
		w.stray = append(w.stray, stray{from, to, f}) // as if an earlier connection had carried it
	}
	if f.kind == frameData && !w.healing && w.chance(60) {
		w.logf("a data frame from %s to %s at %d is lost", name(from), name(to), f.prev)
		return
	}
	w.handle(from, to, f)
}

// deliverStray lets a node handle a frame of a broken connection.
func (w *world) deliverStray() {
	if len(w.stray) == 0 {
		return
	}
	k := w.r.IntN(len(w.stray))
	s := w.stray[k]
	w.stray = slices.Delete(w.stray, k, k+1)
	if x := w.nodes[s.to]; x.runs() && x.step == registered {
		w.handle(s.from, s.to, s.frame)
	}
}

func (w *world) handle(from, to int32, f frame) {
	x := w.nodes[to]
	switch f.kind {
	case frameSubscribe:
		w.answerSubscribe(x, from, f)
	case frameVerdict:
		w.takeVerdict(x, from, f)
	case frameData:
		if f.tag == x.sub.tag && x.sub.ok && x.leader == nil && !x.offline {
			x.queue = append(x.queue, item{epoch: x.epoch, stream: true, tag: f.tag, prev: f.prev, entries: f.entries, high: f.high,
				start: f.start})
		}
	case frameEnds:
		if x.leader != nil {
			x.leader.Ends(f.handle, f.written, f.durable)
			w.complete(x)
		}
	case frameStart:
		if x.leader != nil {
			x.leader.LogStart(f.handle, f.start)
			w.answerDeletions(x)
		}
	case frameOffline:
		if x.leader != nil {
			x.leader.End(f.handle, progress.StreamOffline, w.now)
		}
	}
}

// subscribe lets a follower ask its leader for the stream.
func (w *world) subscribe(x *node) {
	s := w.image(x)
	to := s.part.Leader
	if !x.runs() || x.leader != nil || x.offline || x.step != registered || x.epoch != s.part.LeaderEpoch || x.sub.tag != 0 {
		return
	}
	if s.brokers[x.id].epoch != x.brokerEpoch || to < 0 || to == x.id {
		return
	}
	if x.lastEpoch() > x.epoch || x.flaw && !w.cfg.removed.has(damagedFollows) {
		return // until the epoch is raised
	}
	if x.startSynced < x.start && !w.cfg.removed.has(nameFormerStart) {
		return // its leader has to see where its log begins
	}
	if len(x.queue) > 0 {
		return // what it handed over to the log is not decided yet
	}
	if len(s.part.ISR)+len(s.part.ELR) == 0 || !s.part.HasReplica(x.id) || x.leaving {
		return
	}
	w.serial++
	x.sub = subscription{tag: w.serial, reported: x.startSynced}
	at := progress.Position{Epoch: x.epoch, LastEpoch: x.lastEpoch(), Start: x.startSynced, End: x.end()}
	w.send(x.id, to, frame{
		kind: frameSubscribe, tag: w.serial, position: at,
		sub: progress.Subscription{Broker: x.id, BrokerEpoch: x.brokerEpoch, Dir: x.dir, Serial: w.serial,
			Written: x.written, Durable: x.durable, LogStart: x.startSynced, WriteThrough: x.through},
	})
}

func (w *world) answerSubscribe(x *node, from int32, f frame) {
	if x.leader == nil {
		return
	}
	member, _ := x.leader.Asks(f.sub, w.now)
	f.position.Member = member
	offsets := progress.Offsets{Broken: w.cfg.removed.inProgress(), Epoch: x.leader.Epoch(), Start: x.start, LogEnd: x.end()}
	epochEnd := func(e int32) (int32, int64) { return x.epochEnd(e) }
	v, epoch, end := progress.Answer(offsets, f.position, epochEnd)
	if v == progress.Reset && member {
		v = progress.LeaderBehind // it leaves the ISR first
	}
	out := frame{kind: frameVerdict, tag: f.tag, verdict: v, epoch: epoch, end: end}
	if v == progress.Accepted {
		h, _, ok := x.leader.Subscribe(f.sub, w.now)
		if !ok {
			out.verdict = progress.LeaderBehind
		} else {
			x.slots[from] = slot{handle: h, tag: f.tag, cursor: end, ok: true}
			out.handle, out.high, out.start = h, x.leader.High(), max(x.epochStart, x.leader.High())
			w.complete(x)
		}
	}
	w.send(x.id, from, out)
}

func (w *world) takeVerdict(x *node, from int32, f frame) {
	if f.tag != x.sub.tag || x.leader != nil || x.sub.ok && f.verdict != progress.Reset {
		return
	}
	switch f.verdict {
	case progress.Reset:
		w.reset(x, f.end)
	case progress.Accepted:
		x.sub.ok, x.sub.handle, x.compareTo = true, f.handle, f.start+1
		x.follower.LeaderHigh(f.high, x.epoch, w.counted(x))
	case progress.Diverged:
		x.sub = subscription{}
		_, own := x.epochEnd(f.epoch)
		if own < 0 {
			own = x.end()
		}
		to := progress.Divergence(f.end, own)
		if w.cfg.removed.has(cutToLeaderEnd) {
			to = min(f.end, x.end())
		}
		w.truncate(x, to)
	case progress.NewerLog:
		w.failf("%s has an epoch above that of its leader %s", name(x.id), name(from))
	default:
		x.sub = subscription{}
	}
}

// truncate cuts a follower's log if its high watermark allows it.
func (w *world) truncate(x *node, to int64) {
	if to >= x.end() {
		return
	}
	high := x.follower.High
	lost, ok := x.follower.Truncate(to, w.image(x).part.Unclean)
	if !ok {
		x.offline = true
		w.oracle.refused(w, x, to)
		return
	}
	if lost {
		w.stats["lost below high"]++
		w.oracle.cutBelow(x)
		gaps := slices.ContainsFunc(x.log[:to], func(e entry) bool { return e.gone })
		if gaps && !w.cfg.removed.has(trustCopies) {
			x.relied = max(x.relied, high)
		}
	}
	w.cut(x, to)
	switch {
	case x.start == x.end():
		x.relied = 0
	case to < x.relied && !w.cfg.removed.has(keepCompacted):
		w.logf("%s lacks what it compacted because of records that it truncates", name(x.id))
		w.stats["compacted logs cut"]++
		x.flaw, x.void, x.hole = true, 0, discarded
	}
}

// push lets a leader send the next records of a follower's stream.
func (w *world) push(x *node, to int32) {
	s := &x.slots[to]
	if !x.runs() || x.leader == nil || !s.ok || s.cursor > x.end() {
		return
	}
	if s.cursor < x.start {
		w.restart(x, to, s.tag)
		return
	}
	n := min(x.end()-s.cursor, 1+int64(w.r.IntN(3)))
	if x.flaw && x.hole >= s.cursor {
		n = min(n, x.hole-s.cursor)
	}
	from := s.cursor
	s.cursor += n
	start := x.startSynced
	if w.cfg.removed.has(sendEarlyStart) {
		start = x.start
	}
	w.send(x.id, to, frame{kind: frameData, tag: s.tag, prev: from, entries: x.log[from : from+n], high: x.leader.High(), start: start})
}

// ack lets a follower acknowledge what it has.
func (w *world) ack(x *node) {
	to := w.image(x).part.Leader
	if !x.runs() || x.leader != nil || !x.sub.ok || to < 0 || to == x.id {
		return
	}
	w.reportStart(x, to)
	f := frame{kind: frameEnds, handle: x.sub.handle, written: x.written, durable: x.durable}
	if x.offline {
		f.kind = frameOffline
	}
	w.send(x.id, to, f)
}
