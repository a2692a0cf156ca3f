package sim

import (
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// entry is a record.
type entry struct {
	epoch int32
	value int  // 0 for none
	gone  bool // compaction removed it
}

// node is a broker process, its disk, and its replica of the partition.
type node struct {
	id         int32
	up, paused bool

	// The disk.
	dir              dir
	log              []entry // by offset; what is below start is deleted, and below base it never was here
	base             int64
	startSynced      int64 // the durable log start
	written, durable int64 // ends; a process that is killed loses what is not written
	savedHigh        int64 // of the checkpoint
	savedEpoch       int32
	flaw             bool // the log is damaged: it lacks the record at hole
	hole             int64
	relied           int64 // the end of the records because of which compaction removed others
	spare            disk  // one that was unmounted
	through          bool  // the log acknowledges written records, and its checkpoint says so
	lossy            bool  // the log may lack what it acknowledged, which the next start notices
	led              int32 // the leader epoch that the log notes to have led in, 0 for none
	short            bool  // the disk has lost synced records, which no start notices

	// The process.
	life        int   // number of starts
	marked      int64 // revision of the liveness record that the registration wrote
	step        int   // of the registration
	brokerEpoch int64 // of the registration, 0 before it
	start       int64 // the log start in memory
	moves       []move
	deletions   []int64 // that wait for other replicas
	former      int64   // brokerEpoch of the former process, as long as a heartbeat of it may arrive
	image       int64
	cache       epochs.Cache
	fence       int32 // the log refuses appends of other epochs
	held        int32 // the log refuses appends of epochs up to this one
	epoch       int32 // of the role
	leader      *progress.Leader
	view        *progress.View // that the leader has
	follower    progress.Follower
	queue       []item // appends that have no offset yet
	waits       []wait
	slots       []slot // as a leader, by follower
	sub         subscription
	void        int32 // the leader epoch in which the process was ready to replace its damaged log
	offline     bool  // a truncation was refused in this epoch
	leaving     bool  // the log is to be deleted, because the record does not name the replica
	entered     bool  // the process was registered
	shortened   bool  // it began with a disk that is short
	epochStart  int64 // as a leader
	compareTo   int64 // the end of what was committed when it subscribed, plus 1; 0 if it is unknown
	compared    bool  // the log has lost nothing unnoticed
}

// The steps of a registration.
const (
	unregistered = iota
	marked
	adjusted
	registered
)

// item is an append in the log's queue.
type item struct {
	epoch int32
	// From a client.
	value int
	all   bool
	// From the leader.
	stream  bool
	tag     uint64
	prev    int64
	entries []entry
	high    int64
	start   int64
}

// wait is an append with acks=all.
type wait struct {
	offset int64
	value  int
}

// slot is a leader's end of a subscription.
type slot struct {
	handle progress.Handle
	tag    uint64
	cursor int64
	ok     bool
}

// subscription is a follower's end of a subscription.
type subscription struct {
	tag      uint64 // 0 for none
	ok       bool   // accepted
	handle   progress.Handle
	reported int64 // the log start that the leader knows
}

func (x *node) end() int64 { return int64(len(x.log)) }

func (x *node) runs() bool { return x.up && !x.paused }

func (x *node) lastEpoch() int32 {
	if x.base == x.end() {
		return -1
	}
	return x.log[len(x.log)-1].epoch
}

// epochEnd returns the largest known epoch not above another, and its end, which is not below the
// log start.
func (x *node) epochEnd(epoch int32) (int32, int64) {
	known, end := x.cache.End(epoch, x.end())
	if end >= 0 {
		end = max(end, x.start)
	}
	return known, end
}

// reported returns the epoch by which an election compares the log with others, -1 for none.
func (x *node) reported() int32 {
	if x.led > 0 {
		return max(x.lastEpoch(), x.led)
	}
	return x.lastEpoch()
}

// seen returns the latest epoch of the log and of the high watermark.
func (x *node) seen() int32 {
	_, epoch := x.high()
	return max(x.reported(), epoch)
}

// high returns the high watermark and the epoch in which it is valid.
func (x *node) high() (int64, int32) {
	if x.leader != nil {
		return x.leader.High(), x.leader.Epoch()
	}
	return x.follower.High, x.follower.Epoch
}

// counted returns the end that the profile counts.
func (w *world) counted(x *node) int64 {
	if w.image(x).written && x.through {
		return x.written
	}
	return x.durable
}

// adopt makes a log adopt the profile of the metadata. A log that stops to acknowledge written
// records is durable first, and a change of the mode needs a new subscription.
func (w *world) adopt(x *node) {
	to := w.image(x).written
	if !x.runs() || x.through == to {
		return
	}
	if !to {
		x.written, x.durable = x.end(), x.end()
	}
	x.through = to
	if !w.cfg.removed.has(keepSubscription) {
		x.sub = subscription{}
	}
	w.advance(x)
}

// see shows a node the metadata at a version, and changes its role.
func (w *world) see(x *node, version int64) {
	x.image = version
	s := w.image(x)
	if x.step != registered || s.brokers[x.id].epoch != x.brokerEpoch {
		return
	}
	p := &s.part
	switch {
	case !p.HasReplica(x.id):
		w.release(x, p)
	case x.leaving: // a new log follows when the old one is deleted
	case p.Leader == x.id && x.leader != nil && x.leader.Epoch() == p.LeaderEpoch:
		if v := view(s); !same(v, x.view) { // roles are renewed by what changes them
			w.show(x, v)
		}
	case p.Leader == x.id && x.seen() > p.LeaderEpoch && !w.cfg.removed.has(leadBelowLog): // until the epoch is raised
	case p.Leader == x.id && p.LeaderEpoch > x.held:
		w.lead(x, s)
	case p.Leader == x.id: // held until the next epoch
	default:
		w.follow(x, p)
	}
	w.advance(x)
}

// show gives a leader a view.
func (w *world) show(x *node, v *progress.View) {
	x.view = v
	x.leader.SetView(v, w.now)
}

// renew gives a leader the view of the image that its broker sees, although nothing in it changed.
func (w *world) renew(x *node) {
	s := w.image(x)
	if s.brokers[x.id].epoch == x.brokerEpoch && s.part.Leader == x.id && s.part.LeaderEpoch == x.leader.Epoch() {
		w.show(x, view(s))
		w.advance(x)
	}
}

// same reports whether two views differ in nothing but the image.
func same(a, b *progress.View) bool {
	return a.Revision == b.Revision && a.MinISR == b.MinISR && a.Written == b.Written && slices.Equal(a.Replicas, b.Replicas)
}

// view returns the part of the metadata that progress needs.
func view(s *state) *progress.View {
	v := &progress.View{Version: s.version, Revision: s.part.Revision, MinISR: s.minISR, Written: s.written, Notes: true}
	for _, id := range s.part.Replicas {
		b := &s.brokers[id]
		v.Replicas = append(v.Replicas, progress.Replica{
			Broker: id, Adding: slices.Contains(s.part.Adding, id),
			InSync: slices.Contains(s.part.ISR, id), Eligible: slices.Contains(s.part.ELR, id),
			BrokerEpoch: b.epoch, Liveness: b.livenessRev, Active: b.liveness == metadata.Active && !b.damaged, Placement: b.placement,
		})
	}
	return v
}

// limits has no end of a session: the controller of the walks ends them when it likes.
var limits = progress.Limits{Lag: 3 * time.Second, Stall: 1500 * time.Millisecond, Gone: time.Second, Repeat: 200 * time.Millisecond,
	Session: 1000 * time.Hour}

func (w *world) lead(x *node, s *state) {
	high, _ := x.high()
	epoch := s.part.LeaderEpoch
	w.fenceLog(x, epoch)
	x.epoch, x.sub, x.waits, x.moves = epoch, subscription{}, nil, nil
	x.cache.Assign(epoch, x.end())
	w.oracle.led(w, x, epoch)
	w.oracle.removed[epoch] = max(w.oracle.removed[epoch], x.startSynced)
	cfg := progress.Config{
		Broken: w.cfg.removed.inProgress(), Self: x.id, BrokerEpoch: x.brokerEpoch, Dir: x.dir, Epoch: epoch, EpochStart: x.end(),
		Noted: x.end() == 0 || x.led >= epoch, High: high, End: w.counted(x), LogStart: x.startSynced, Limits: limits,
	}
	clear(x.slots)
	x.view, x.epochStart, x.compared = view(s), x.end(), true
	if x.short {
		w.oracle.compared(w, x)
		x.short = false
	}
	x.leader = progress.Lead(cfg, x.view, w.now)
	if x.hole == discarded {
		x.flaw, x.hole = false, 0 // no other replica has what it lacks
	}
	w.logf("%s leads epoch %d with %d to %d, high %d", name(x.id), epoch, x.start, x.end(), high)
}

// fenceLog makes the log refuse the appends of other epochs.
func (w *world) fenceLog(x *node, epoch int32) { x.fence = epoch }

// stepDown ends a leadership of this process.
func (w *world) stepDown(x *node) {
	if x.leader == nil {
		return
	}
	high, epoch := x.high()
	x.follower = progress.Follower{Broken: w.cfg.removed.inProgress(), High: high, Epoch: epoch}
	x.follower.Follow()
	x.leader, x.waits, x.deletions = nil, nil, nil
	clear(x.slots)
}

func (w *world) follow(x *node, p *metadata.Partition) {
	if x.leader == nil && x.epoch == p.LeaderEpoch {
		return
	}
	w.stepDown(x)
	x.epoch, x.sub, x.offline = p.LeaderEpoch, subscription{}, false
	w.fenceLog(x, p.LeaderEpoch)
	if !w.cfg.removed.has(keepEmptyEpochs) {
		x.cache.CutEnd(x.end())
	}
	x.follower.Follow()
	if high, _ := x.high(); w.cfg.removed.has(cutToHigh) && high < x.end() {
		w.cut(x, high)
	}
}

// advance uses the ends of a node's log after they have moved.
func (w *world) advance(x *node) {
	if x.leader == nil {
		x.follower.Own(w.counted(x))
		return
	}
	x.leader.Own(w.counted(x))
	w.complete(x)
}

// note lets a leader's log note its epoch, if its records are durable.
func (w *world) note(x *node) {
	if !x.runs() || x.leader == nil || x.leader.Noted() || x.durable < x.end() {
		return
	}
	x.led = x.leader.Epoch()
	x.leader.Note()
	w.logf("%s notes epoch %d", name(x.id), x.led)
	w.advance(x)
}

// complete acknowledges the appends below the high watermark.
func (w *world) complete(x *node) {
	rest := x.waits[:0]
	for _, a := range x.waits {
		switch {
		case a.offset >= x.leader.High():
			rest = append(rest, a)
		case len(w.image(x).part.ISR) >= x.leader.MinISR():
			w.oracle.acknowledged(w, x, a)
		}
	}
	x.waits = rest
	w.answerDeletions(x)
}

// cut truncates a log, whose bytes are then written as far as they were.
func (w *world) cut(x *node, to int64) {
	w.logf("%s truncates %d to %d", name(x.id), x.end(), to)
	x.log = slices.Clone(x.log[:to])
	x.written, x.durable, x.savedHigh = min(x.written, to), min(x.durable, to), min(x.savedHigh, to)
	x.base, x.start, x.startSynced = min(x.base, to), min(x.start, to), min(x.startSynced, to)
	x.cache.CutEnd(to)
	w.stats["cuts"]++
}

// number takes the first append of the log's queue.
func (w *world) number(x *node) {
	if len(x.queue) == 0 {
		return
	}
	a := x.queue[0]
	x.queue = x.queue[1:]
	loose := w.cfg.removed.has(anyEpochAppends)
	if a.epoch != x.fence && !loose || a.epoch <= x.held || loose && a.epoch < x.cache.Latest() && !a.stream {
		return
	}
	if a.stream {
		w.numberStream(x, a)
		return
	}
	if x.leader == nil && !loose {
		return
	}
	for at, e := range x.log { // the idempotent producer sent the value before
		if e.value == a.value {
			w.await(x, wait{int64(at), a.value}, a.all)
			return
		}
	}
	if w.oracle.gone[a.value] { // compaction keeps what it needs to know a batch again
		return
	}
	w.append(x, entry{epoch: a.epoch, value: a.value})
	w.await(x, wait{x.end() - 1, a.value}, a.all)
	w.logf("%s appends value %d at %d in epoch %d", name(x.id), a.value, x.end()-1, a.epoch)
}

// await makes an append wait for its acknowledgement.
func (w *world) await(x *node, a wait, all bool) {
	if all && x.leader != nil {
		x.waits = append(x.waits, a)
		w.complete(x)
	}
}

func (w *world) append(x *node, e entry) {
	if e.gone && w.cfg.removed.has(forgetGaps) {
		e.epoch = max(x.lastEpoch(), 0)
	}
	w.oracle.appended(w, x, x.end(), e)
	x.cache.Assign(e.epoch, x.end())
	x.log = append(x.log, e)
}

// numberStream appends what the leader sent.
func (w *world) numberStream(x *node, a item) {
	if a.prev != x.end() {
		if !w.cfg.removed.has(acceptGap) || a.prev < x.end() {
			x.sub = subscription{}
			return
		}
		for x.end() < a.prev { // a hole, as compaction leaves them
			x.log = append(x.log, entry{epoch: a.epoch})
		}
	}
	for _, e := range a.entries {
		w.append(x, e)
	}
	if x.leader == nil && a.tag == x.sub.tag {
		w.named(x, a.start, x.end())
		x.follower.LeaderHigh(a.high, a.epoch, w.counted(x))
	}
}

// syncSome lets a node's disk work.
func (w *world) syncSome(x *node) {
	if !x.runs() {
		return
	}
	if w.chance(2) {
		x.written += int64(w.r.IntN(int(x.end()-x.written) + 1))
	} else if !w.image(x).written || w.chance(4) {
		x.written, x.durable = x.end(), x.end()
	}
	if w.chance(2) {
		w.note(x)
	}
	if high, epoch := x.high(); w.chance(6) {
		x.savedHigh, x.savedEpoch = min(high, x.durable), epoch
	}
	w.advance(x)
}

// produce sends a value to a node that believes to lead: a new one, or one that has no
// acknowledgement yet.
func (w *world) produce(x *node) {
	if !x.runs() || x.leader == nil || x.leader.Epoch() <= x.held || x.end() > 40 || len(x.queue) > 8 {
		return
	}
	a := item{epoch: x.leader.Epoch(), all: !w.chance(4)}
	if a.all && len(w.image(x).part.ISR) < x.leader.MinISR() {
		return
	}
	w.values++
	a.value = w.values
	if old := 1 + w.r.IntN(w.values); w.chance(5) && !w.oracle.knows(old) {
		a.value = old
	}
	x.queue = append(x.queue, a)
}
