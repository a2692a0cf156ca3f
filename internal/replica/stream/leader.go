package stream

import (
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage"
)

// outgoing is the connection of a follower. It implements Source.
type outgoing struct {
	s     *Streams
	conn  Conn
	ready ring[*sub]    // may have something to send
	cold  chan struct{} // capacity 1: the reader of the disk has work
	highs highPace

	mu       sync.Mutex
	ended    bool
	last     uint32 // the highest slot so far
	subs     map[uint32]*sub
	byPart   map[*part]*sub
	cuts     map[uint32]cut // by slot
	cutOf    map[*part]uint32
	verdicts []frame.Verdict
	resets   []reset // whose producers were not asked for
	recalled []reset // whose answer can be sent
	ahead    int     // bytes of producers in recalled
	ends     []frame.End
	moves    []frame.High // for the next HW frame
	syncs    []frame.Sync
	waiting  []*sub         // whose high watermark has moved since the last HW frame
	gone     []*sub         // for report
	toRead   []*sub         // need the disk
	toFind   map[*part]bool // whose first batch must be found on the disk
	window   int64          // bytes that the follower has not written
	coldUsed int64          // those that were read from the disk
	copies   pace           // of the copies with a limit
}

// sub is a follower's subscription to a partition. Its fields are guarded by outgoing.mu.
type sub struct {
	out    *outgoing
	part   *part
	slot   uint32
	epoch  int32
	handle progress.Handle
	next   int64    // the offset to send next
	sent   []flight // from acked on
	acked  int
	high   int64 // the last high watermark and log start that were sent
	start  int64
	synced int64 // the follower is to sync up to there, or has
	cold   bool  // the goroutine that reads the disk has it
	span   *heldSpan
	ended  bool
	// damaged states that the log of this broker cannot be read for the follower.
	damaged bool
	noted   bool // in outgoing.waiting
	queued  bool
}

func (b *sub) inRing() *bool { return &b.queued }

// flight is a frame that the follower has not acknowledged as written.
type flight struct {
	end  int64
	size int64
	cold bool
}

// heldSpan is a Span that a frame refers to.
type heldSpan struct{ storage.Span }

var spans = sync.Pool{New: func() any { return new(heldSpan) }}

func hold(s storage.Span) *heldSpan {
	h := spans.Get().(*heldSpan)
	h.Span = s
	return h
}

// Release implements Releaser.
func (h *heldSpan) Release() {
	h.Span.Release()
	h.Span = storage.Span{}
	spans.Put(h)
}

// Push implements groupcommit.Pusher.
func (o *outgoing) Push() { o.conn.Push() }

// Serve serves a follower's connection until it ends. It is for link.Options.Data.
func (s *Streams) Serve(c Conn) {
	o := &outgoing{s: s, conn: c, cold: make(chan struct{}, 1), subs: make(map[uint32]*sub), byPart: make(map[*part]*sub),
		cuts: make(map[uint32]cut), cutOf: make(map[*part]uint32)}
	o.highs.init(c.Kick)
	ended := make(chan struct{})
	s.mu.Lock()
	if !s.spawn(func() { o.readDisk(ended) }) {
		s.mu.Unlock()
		return
	}
	s.outgoing[o] = true
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()
	c.Start(o)
	err := o.read()
	close(ended)
	o.end()
	s.mu.Lock()
	delete(s.outgoing, o)
	s.mu.Unlock()
	s.opt.Logger.Info("replica streams to a follower ended", zap.Int32("broker", c.Broker()), zap.Error(err))
}

// end ends all subscriptions.
func (o *outgoing) end() {
	o.mu.Lock()
	o.ended = true
	o.highs.timer.Stop()
	var all []*sub
	for _, b := range o.subs {
		o.endLocked(b)
		all = append(all, b)
	}
	o.mu.Unlock()
	for _, b := range all {
		b.part.dropSub(b)
		b.part.p.Unsubscribe(b.handle, progress.StreamGone)
	}
	o.report() // those that drop has ended since the last report
}

// endLocked takes a subscription out, without a frame. The caller then calls part.dropSub. The
// caller holds mu.
func (o *outgoing) endLocked(b *sub) {
	if b.ended {
		return
	}
	b.ended = true
	delete(o.subs, b.slot)
	if o.byPart[b.part] == b {
		delete(o.byPart, b.part)
	}
	for _, x := range b.sent[b.acked:] {
		o.window -= x.size
		if x.cold {
			o.coldUsed -= x.size
		}
	}
	b.sent, b.acked = nil, 0
	if b.span != nil {
		o.coldUsed -= cost(&b.span.Span)
		b.span.Release()
		b.span = nil
	}
	o.wakeReader()
}

// read handles the follower's frames until the connection ends.
func (o *outgoing) read() error {
	defer o.conn.Close()
	for {
		h, err := o.conn.Next()
		if err != nil {
			return err
		}
		b, err := o.conn.Payload()
		if err != nil {
			return err
		}
		p, size := b.Bytes(), h.Kind.EntrySize()
		switch h.Kind {
		case frame.SB:
			err = each(p, size, frame.ParseSubscription, o.subscribe)
			o.conn.Kick()
		case frame.AK:
			err = o.acknowledge(p)
		case frame.LS:
			err = each(p, size, frame.ParseStart, func(x frame.Start) {
				if b := o.sub(x.Slot); b != nil {
					b.part.p.StartAcknowledged(b.handle, x.LogStart)
				}
			})
		case frame.OF:
			err = each(p, size, frame.ParseOffline, o.refused)
		case frame.US:
			err = each(p, size, frame.ParseEnd, func(x frame.End) { o.unsubscribe(x.Slot, progress.StreamGone) })
		}
		b.Release()
		if err == nil {
			err = o.fault()
		}
		if err != nil {
			return err
		}
	}
}

// offlineAs returns how the leader's state counts the end of a replica.
func offlineAs(c frame.Cause) progress.StreamEnd {
	if c == frame.LogDamaged {
		return progress.StreamDamaged
	}
	return progress.StreamOffline
}

// errSlot ends a connection whose follower breaks the rules of slots.
var errSlot = errors.New("the follower used a slot again, or acknowledged what was not sent")

// fault returns why the connection must end.
func (o *outgoing) fault() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return errSlot
	}
	return nil
}

func (o *outgoing) sub(slot uint32) *sub {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.subs[slot]
}

// subscribe answers a subscription.
func (o *outgoing) subscribe(x frame.Subscription) {
	o.mu.Lock()
	if x.Slot <= o.last {
		o.ended = true // see fault
		o.mu.Unlock()
		return
	}
	o.last = x.Slot
	o.mu.Unlock()
	v := o.decide(&x)
	v.Slot = x.Slot
	if v.Decision == frame.Accepted || v.Decision == frame.Reset {
		return // begin has queued the verdict, before the first data, or resetLocked
	}
	o.mu.Lock()
	if o.verdicts = append(o.verdicts, v); len(o.verdicts) > maxVerdicts {
		o.ended = true
	}
	o.mu.Unlock()
}

// reset is an answer that lets a follower's log begin again. What the leader knows of the producers
// below goes before it: their last batches may be where the follower never reads, and it may lead
// when they are sent again.
type reset struct {
	part      *part
	epoch     int32 // of this leader
	verdict   frame.Verdict
	producers []byte // that were not sent
}

// How many answers, and bytes of producers, are in recalled before more are asked for.
const (
	maxRecalled = 64
	maxAhead    = 1 << 20
)

// resetLocked queues and returns the answer that lets a follower's log begin again at an offset.
// The caller holds mu.
func (o *outgoing) resetLocked(t *part, epoch int32, slot uint32, at int64) frame.Verdict {
	v := frame.Verdict{Slot: slot, Decision: frame.Reset, Offset: at}
	if o.resets = append(o.resets, reset{part: t, epoch: epoch, verdict: v}); len(o.resets) > maxVerdicts {
		o.ended = true // see fault
	}
	o.wakeReader()
	return v
}

// recall asks logs for their producers, a bounded amount ahead of what is sent.
func (o *outgoing) recall() {
	for found := false; ; found = true {
		o.mu.Lock()
		if len(o.resets) == 0 || len(o.recalled) >= maxRecalled || o.ahead >= maxAhead {
			o.mu.Unlock()
			if found {
				o.conn.Kick()
			}
			return
		}
		x := o.resets[0]
		if o.resets = o.resets[1:]; len(o.resets) == 0 {
			o.resets = nil
		}
		o.mu.Unlock()
		if o.conn.Version() >= frame.HasProducers && !o.s.opt.broken.Has(forgetProducers) {
			var err error
			if x.producers, err = x.part.log.ProducersBelow(x.verdict.Offset); err != nil {
				x.verdict.Decision, x.verdict.Offset = frame.Busy, 0
			}
		}
		if leader, epoch := x.part.p.Leader(); leader != o.s.opt.Self || epoch != x.epoch { // and the log may be another one
			x.verdict.Decision, x.verdict.Offset, x.producers = frame.NotHere, 0, nil
		}
		o.mu.Lock()
		o.recalled = append(o.recalled, x)
		o.ahead += len(x.producers)
		o.mu.Unlock()
	}
}

// maxVerdicts bounds the answers that a follower does not read.
const maxVerdicts = 1 << 17

// decide compares the follower's log with this broker's, and begins the stream if they agree.
func (o *outgoing) decide(x *frame.Subscription) frame.Verdict {
	p, err := o.s.opt.Partition(x.Topic, x.Partition)
	if err != nil {
		return frame.Verdict{Decision: frame.NotHere}
	}
	leader, epoch := p.Leader()
	if leader != o.s.opt.Self && epoch >= x.LeaderEpoch {
		return frame.Verdict{Decision: frame.NotHere}
	}
	t := o.s.part(p)
	if t == nil {
		return frame.Verdict{Decision: frame.Busy}
	}
	e, err := t.log.Readable()
	if err != nil {
		return frame.Verdict{Decision: frame.Busy}
	}
	member := p.Asks(epoch, o.subscription(x))
	ours := progress.Offsets{Epoch: epoch, Start: t.startFor(x.LogEnd, e.LogStart), LogEnd: e.LogEnd}
	theirs := progress.Position{Epoch: x.LeaderEpoch, LastEpoch: x.LastEpoch, Start: x.LogStart, End: x.LogEnd, Member: member}
	answer, at, end := progress.Answer(ours, theirs, t.log.EpochEnd)
	if o.s.opt.broken.Has(KeepDiverged) && answer == progress.Diverged {
		answer = progress.Accepted
	}
	switch answer {
	case progress.Accepted:
		return o.begin(t, x, epoch)
	case progress.Diverged:
		o.cutting(x.Slot, t, epoch, at)
		return frame.Verdict{Decision: frame.Diverged, Epoch: at, Offset: max(end, 0)}
	case progress.Reset:
		base, known := o.baseOf(t, e.LogStart)
		if !known || member {
			return frame.Verdict{Decision: frame.Busy}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.resetLocked(t, epoch, x.Slot, base)
	case progress.FollowerBehind:
		return frame.Verdict{Decision: frame.NewerEpoch, Epoch: epoch}
	case progress.LeaderBehind:
		return frame.Verdict{Decision: frame.OlderEpoch, Epoch: epoch}
	default:
		return frame.Verdict{Decision: frame.NotHere}
	}
}

// subscription returns what a follower's request says.
func (o *outgoing) subscription(x *frame.Subscription) progress.Subscription {
	return progress.Subscription{
		Broker: o.conn.Broker(), BrokerEpoch: o.conn.BrokerEpoch(), Dir: x.Directory, Serial: x.Serial,
		Written: x.Written, Durable: x.Durable, LogStart: x.LogStart, WriteThrough: x.WriteThrough,
	}
}

// begin begins the stream of a subscription.
func (o *outgoing) begin(t *part, x *frame.Subscription, epoch int32) frame.Verdict {
	h, whole, err := t.p.Subscribe(epoch, o.subscription(x))
	if err != nil {
		o.mu.Lock()
		o.stale(t)
		o.mu.Unlock()
		if errors.Is(err, replica.ErrNotLeader) {
			return frame.Verdict{Decision: frame.NotHere}
		}
		return frame.Verdict{Decision: frame.Busy}
	}
	b := &sub{out: o, part: t, slot: x.Slot, epoch: epoch, handle: h, next: x.LogEnd, high: -1, synced: x.Durable}
	o.mu.Lock()
	old := o.byPart[t]
	if old != nil {
		o.endLocked(old)
	}
	o.subs[x.Slot], o.byPart[t] = b, b
	v := frame.Verdict{Slot: x.Slot, Decision: frame.Accepted, Epoch: epoch, Offset: x.LogEnd}
	o.verdicts = append(o.verdicts, v)
	if o.conn.Version() >= frame.HasWhole {
		o.verdicts = append(o.verdicts, frame.Verdict{Slot: x.Slot, Decision: frame.Whole, Epoch: epoch, Offset: whole})
	}
	o.mu.Unlock()
	o.cutting(0, t, epoch, -1)
	if old != nil {
		t.dropSub(old)
	}
	t.addSub(b)
	o.ready.push(b)
	return v
}

// acknowledge handles an AK frame. It does not allocate.
func (o *outgoing) acknowledge(p []byte) error {
	for ; len(p) >= frame.AckSize; p = p[frame.AckSize:] {
		a, err := frame.ParseAck(p)
		if err != nil {
			return err
		}
		o.mu.Lock()
		b := o.subs[a.Slot]
		if b == nil || b.epoch != a.LeaderEpoch {
			o.mu.Unlock()
			continue
		}
		if a.Written > b.next {
			o.mu.Unlock()
			return fmt.Errorf("%w: %d of %s, sent up to %d", errSlot, a.Written, b.part.p, b.next)
		}
		full := o.window >= o.s.opt.Window
		o.written(b, a.Written)
		resume := full && o.window < o.s.opt.Window
		o.mu.Unlock()
		b.part.p.Acknowledged(b.handle, a.Written, a.Durable)
		if resume {
			o.conn.Kick()
		}
	}
	return nil
}

// written returns what the follower has written to the window. The caller holds mu.
func (o *outgoing) written(b *sub, end int64) {
	for ; b.acked < len(b.sent) && b.sent[b.acked].end <= end; b.acked++ {
		o.window -= b.sent[b.acked].size
		if b.sent[b.acked].cold {
			o.coldUsed -= b.sent[b.acked].size
			o.wakeReader()
		}
	}
	if b.acked == len(b.sent) || b.acked > 1024 && b.acked > len(b.sent)/2 {
		b.sent = b.sent[:copy(b.sent, b.sent[b.acked:])]
		b.acked = 0
	}
}

// cut is a request that was answered with a truncation of the follower's log.
type cut struct {
	part          *part
	epoch, common int32 // the leader's, and the last one of which both logs have records
}

// cutting notes the slot of a request that is answered with a truncation, in place of an earlier
// one of the partition; slot 0 notes none.
func (o *outgoing) cutting(slot uint32, t *part, epoch, common int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.cuts, o.cutOf[t])
	delete(o.cutOf, t)
	if slot > 0 {
		o.cuts[slot], o.cutOf[t] = cut{t, epoch, common}, slot
	}
}

// refused handles the answer of a follower that cannot follow. If it would have to remove committed
// records, this leader may lack them.
func (o *outgoing) refused(x frame.Offline) {
	o.mu.Lock()
	c, ok := o.cuts[x.Slot]
	o.mu.Unlock()
	if ok && x.Cause == frame.BelowHigh {
		c.part.p.Lacks(c.epoch, c.common, o.conn.Broker())
	}
	o.unsubscribe(x.Slot, offlineAs(x.Cause))
}

// unsubscribe ends a slot because the follower said so.
func (o *outgoing) unsubscribe(slot uint32, why progress.StreamEnd) {
	o.mu.Lock()
	b := o.subs[slot]
	if b != nil {
		o.endLocked(b)
	}
	if c, ok := o.cuts[slot]; ok {
		delete(o.cuts, slot)
		delete(o.cutOf, c.part)
	}
	o.mu.Unlock()
	if b != nil {
		b.part.dropSub(b)
		b.part.p.Unsubscribe(b.handle, why)
		o.conn.Kick() // the window may have room again
	}
}
