package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
)

// registerPause is the pause after a registration that failed, less up to a quarter of it: after a
// failure of the controller all brokers register again. It ends when another member leads, or the
// present leader begins to decide.
const registerPause = 200 * time.Millisecond

// impatient is the most time between two heartbeats of a broker that waits to become active, or to
// be drained.
const impatient = 50 * time.Millisecond

// maxInFlight bounds the heartbeats that wait for an answer.
const maxInFlight = 8

// exact is the most time between a heartbeat and its answer for which the leader's clock in the
// answer is compared with this broker's.
const exact = 500 * time.Millisecond

// BrokerState is what a broker tells the controller of itself with each heartbeat.
type BrokerState struct {
	Applied int64 // the version of its Image
	Unable  []metadata.UnableDir
	Damaged []metadata.TopicPartition
	// Uncompared and UncomparedLogs are those of metadata.BrokerState in the metadata that were
	// applied, as far as they still are.
	Uncompared     bool
	UncomparedLogs []metadata.TopicPartition
	// Unreached are those of controller.Heartbeat.
	Unreached []int32
}

// AgentOptions configure an Agent.
type AgentOptions struct {
	// Request is what the broker registers. Seen is filled in from Registered.
	Request controller.RegisterRequest
	// Registered returns the revision and the incarnation of the broker's registration that this
	// node's metadata shows; revision 0 means none. Its error ends Register.
	Registered func(ctx context.Context) (revision int64, incarnation [16]byte, err error)
	// Leader returns the metadata leader, 0 if none is known, and a channel that is closed when
	// that changes.
	Leader func() (member uint64, moved <-chan struct{})
	// Seek asks the seeds for the leader if this node hears none, or if the one that it knows
	// turned out not to lead: former, 0 for none. It returns another one if a seed knows another.
	// If the seeds know none, it returns 0 and what they answered.
	Seek func(ctx context.Context, former uint64) (leader uint64, why string)
	// Call sends a request to a member, which may be this node.
	Call func(ctx context.Context, member uint64, method uint16, body []byte) ([]byte, error)
	// State is called for each heartbeat. It must not block.
	State func() BrokerState
	// Join is sent before each registration: the leader may not know the address of this member, or
	// not even the member.
	Join func() JoinRequest
	// Wish returns whether this node is a seed, and its list.
	Wish func() Wish
	// Interval is that of heartbeats, Timeout that of the session. No lease is accepted that is
	// longer, whatever the controller has computed.
	Interval, Timeout time.Duration
	// Hopeless, if set, returns why it does not help to ask for the first registration again, nil
	// if it may help. Default: it always may.
	Hopeless func() error
	// Progress is called with what the broker waits for.
	Progress func(string)
	// Fail is called once if the broker cannot stay a member.
	Fail func(error)
	Log  *zap.Logger
}

// Agent registers a broker process and sends its heartbeats. Register must succeed before Run. Its
// other methods are safe for concurrent use.
type Agent struct {
	o AgentOptions

	began    time.Time
	replaced bool         // it has registered over another process; of Register
	lease    atomic.Int64 // end of the lease, as nanoseconds after began; 0 for none

	mu       sync.Mutex
	session  *Session
	epoch    int64
	state    metadata.Liveness
	moved    chan struct{} // closed and replaced when state or the lease's existence changes
	drain    bool
	asked    uint64 // the member to which the newest heartbeat was sent
	doubted  uint64 // heartbeats up to this sequence grant no lease
	former   uint64 // those up to this one were sent before the newest registration
	inFlight int
	heard    time.Time // when the last answer arrived
	refused  string    // the refusal that was logged last
	leader   Leader
	lacks    lack
	beat     chan struct{} // capacity 1: send a heartbeat now
	stale    chan struct{} // capacity 1: register again
}

// NewAgent returns an agent that does nothing yet.
func NewAgent(o AgentOptions) *Agent {
	return &Agent{
		o: o, began: time.Now(), session: NewSession(), moved: make(chan struct{}),
		beat: make(chan struct{}, 1), stale: make(chan struct{}, 1),
	}
}

// Register registers the process with the controller, and asks again until that succeeds. The error
// matches ErrRefused, or is that of ctx, or of Registered or Hopeless of the options. A process
// that has registered replaces one that registered later only once: two that have one node.id would
// do so for ever.
func (a *Agent) Register(ctx context.Context) (epoch int64, err error) {
	var last int64    // the newest registration of another process that made ours stale
	var former uint64 // the member that was asked last, if it does not lead or does not answer
	overtaken := 0
	for {
		revision, incarnation, err := a.o.Registered(ctx)
		if err != nil {
			return 0, err
		}
		// These metadata may be behind, and show the process before this one.
		now := a.Epoch()
		other := now > 0 && revision > now && incarnation != a.o.Request.Incarnation
		if other && a.replaced {
			return 0, a.twice()
		}
		var asked uint64
		_, moved := a.o.Leader()
		epoch, asked, err = a.register(ctx, revision, former, other)
		if err == nil {
			a.replaced = a.replaced || other
			a.begin(epoch)
			return epoch, nil
		}
		f := failure(err)
		if former = 0; f == nil || f.Code == CodeNotLeader {
			former = asked
		}
		if f.refusedAs(controller.StaleBrokerEpoch) && revision > last && incarnation != a.o.Request.Incarnation {
			if last = revision; overtaken > 1 {
				return 0, a.twice()
			}
			overtaken++
		}
		if f.final() {
			return 0, Refused(f.Text)
		}
		if a.o.Hopeless != nil && a.Epoch() == 0 {
			if err := a.o.Hopeless(); err != nil {
				return 0, err
			}
		}
		a.o.Progress(fmt.Sprintf("waiting for the registration of broker %d: %v", a.o.Request.Broker, err))
		select {
		case <-moved:
			former = 0 // it may lead now
		case <-time.After(pause.Spread(registerPause)):
		case <-ctx.Done():
			return 0, fmt.Errorf("become a member of the cluster: %w", ctx.Err())
		}
	}
}

// register asks a member to register the process, and returns which. That is the leader that this
// node's metadata know, unless it is former: a new leader does not know the address of a member
// that has not registered, and so cannot tell it that it leads.
//
// over is a registration over another process. That one may have led with logs that this one does
// not have, so nothing counts as whole of what this process found at its start.
func (a *Agent) register(ctx context.Context, seen int64, former uint64, over bool) (epoch int64, leader uint64, err error) {
	if leader, _ = a.o.Leader(); leader == 0 || leader == former {
		found, why := a.o.Seek(ctx, former)
		if leader = cmp.Or(found, leader); leader == 0 {
			return 0, 0, fmt.Errorf("%w: %s", errNoLeader, why)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	if _, err := a.o.Call(ctx, leader, MethodJoin, encode(a.o.Join())); err != nil {
		return 0, leader, err
	}
	q := a.o.Request
	q.Seen = seen
	if over {
		q.Dirs = slices.Clone(q.Dirs)
		for i := range q.Dirs {
			q.Dirs[i].Found, q.Dirs[i].Clean = 0, false
		}
	}
	p, err := a.o.Call(ctx, leader, MethodRegister, encode(&q))
	if err != nil {
		return 0, leader, err
	}
	r, err := decode[registered](p)
	return r.Epoch, leader, err
}

func (a *Agent) twice() error {
	return Refused(fmt.Sprintf("another process registers with node.id=%d again and again; give each broker another node.id, "+
		"and do not start copies of a machine", a.o.Request.Broker))
}

// begin begins a session under a broker epoch.
func (a *Agent) begin(epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch, a.former = epoch, a.session.Newest()
	select {
	case <-a.stale: // it is about a heartbeat of before
	default:
	}
	a.session.Begin()
	a.endLease()
	a.o.Log.Info("registered with the controller", zap.Int32("node", a.o.Request.Broker), zap.Int64("epoch", epoch))
}

// Run sends heartbeats until ctx ends. If the controller no longer accepts them, the process
// registers again.
func (a *Agent) Run(ctx context.Context) {
	label.Goroutine("membership agent", "")
	var sends sync.WaitGroup
	defer sends.Wait()
	for {
		_, moved := a.o.Leader()
		a.send(ctx, &sends)
		tick := time.NewTimer(a.interval())
		select {
		case <-ctx.Done():
			return
		case <-a.stale:
			a.o.Log.Warn("the controller does not know this process, registering again")
			if _, err := a.Register(ctx); err != nil {
				if ctx.Err() == nil {
					a.o.Fail(err)
				}
				return
			}
		case <-moved: // the new controller should hear this broker soon
		case <-a.beat:
		case <-tick.C:
		}
		tick.Stop()
	}
}

// interval returns the time until the next heartbeat. It is short while the broker waits for the
// controller, but the controller remembers the answers of a session.
func (a *Agent) interval() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	interval := a.o.Interval
	if a.state != metadata.Active || a.drain || a.doubted > 0 {
		interval = min(interval, impatient)
	}
	return max(interval, a.o.Timeout/controller.MaxUnproven)
}

// send starts one heartbeat.
func (a *Agent) send(ctx context.Context, sends *sync.WaitGroup) {
	leader, _ := a.o.Leader()
	state := a.o.State()
	a.mu.Lock()
	defer a.mu.Unlock()
	if leader == 0 || a.inFlight >= maxInFlight {
		return
	}
	a.inFlight++
	a.asked = leader
	q := &a.o.Request
	h := controller.Heartbeat{
		Broker: q.Broker, Epoch: a.epoch, Incarnation: q.Incarnation, Applied: state.Applied, Ready: true, Drain: a.drain,
		Unable: state.Unable, Damaged: state.Damaged, Uncompared: state.Uncompared, UncomparedLogs: state.UncomparedLogs,
		Unreached: state.Unreached,
	}
	h.Sequence, h.Answered = a.session.Send(time.Now())
	sends.Go(func() {
		within, cancel := context.WithTimeout(ctx, a.o.Timeout)
		defer cancel()
		sent := time.Now()
		p, err := a.o.Call(within, leader, MethodHeartbeat, encode(heartbeat{h, a.o.Wish()}))
		var answer controller.HeartbeatAnswer
		if err == nil {
			var of leaderInfo
			answer, of, err = unpackAnswer(p)
			a.compare(of, sent)
		}
		a.answered(&h, answer, err)
	})
}

// answered takes the answer to a heartbeat.
func (a *Agent) answered(h *controller.Heartbeat, answer controller.HeartbeatAnswer, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight--
	switch {
	case h.Epoch != a.epoch || h.Sequence <= a.former:
	case err == nil:
		a.heard, a.refused, a.leader.Shunned = time.Now(), "", answer.Shunned
		first := a.session.Lease().IsZero()
		a.session.Answered(answer.Sequence, answer.Proven, min(answer.Lease, a.o.Timeout))
		if end := a.session.Lease(); !end.IsZero() && h.Sequence > a.doubted {
			a.doubted = 0
			a.lease.Store(int64(end.Sub(a.began)))
		}
		if answer.Liveness != a.state || first != a.session.Lease().IsZero() {
			a.state = answer.Liveness
			close(a.moved)
			a.moved = make(chan struct{})
		}
		a.lacks.note(h.Applied, answer.Revision, a.heard)
		if answer.Proven == 0 && answer.Revision <= h.Applied { // a new session, which the next heartbeat proves
			signal(a.beat)
		}
	case failure(err).refusedAs(controller.StaleBrokerEpoch):
		signal(a.stale)
	case failure(err).final(): // it stays refused, and this broker will be fenced
		if text := err.Error(); text != a.refused {
			a.refused = text
			a.o.Log.Warn("the controller refuses the heartbeats of this broker", zap.Error(err))
		}
	default:
		a.o.Log.Debug("heartbeat not answered", zap.Error(err))
	}
}

// compare records what an answer contains about the metadata leader. Its clock was read between
// sent and now; an answer that took long says too little about it.
func (a *Agent) compare(of leaderInfo, sent time.Time) {
	took := time.Since(sent)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leader.Version = of.Version
	if of.Wall > 0 && took < exact {
		a.leader.Ahead = time.UnixMicro(of.Wall).Sub(sent.Add(took / 2).Round(0))
	}
}

// Leader is what a broker knows of the metadata leader that answers its heartbeats.
type Leader struct {
	Version string        // empty before the first answer
	Ahead   time.Duration // by how much its clock is ahead of this broker's
	// Shunned are those of controller.HeartbeatAnswer.
	Shunned []int32
	// Behind is how long ago the leader had a revision that this broker has not applied yet, 0 if
	// there is none.
	Behind time.Duration
}

// lack is the oldest revision that an answer has named and this broker had not applied when it sent
// its newest heartbeat.
type lack struct {
	revision int64 // 0 for none
	since    time.Time
}

// note takes what a heartbeat said of this broker, and its answer of the controller.
func (l *lack) note(applied, revision int64, now time.Time) {
	if l.revision > applied {
		return
	}
	if *l = (lack{}); revision > applied {
		*l = lack{revision, now}
	}
}

// State returns this broker's state in the last answer, and what that says of the metadata leader.
// ok is false before the first answer.
func (a *Agent) State() (state metadata.Liveness, of Leader, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of = a.leader
	if a.lacks.revision > 0 {
		of.Behind = time.Since(a.lacks.since)
	}
	return a.state, of, !a.heard.IsZero()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Epoch returns the broker epoch, 0 before the registration.
func (a *Agent) Epoch() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch
}

// Lease reports whether the broker may assume that the controller has not fenced it. It takes no
// lock.
func (a *Agent) Lease() bool { return a.LeaseLeft() > 0 }

// LeaseLeft returns for how long the broker may assume that; 0 or less means that it may not, for
// that time.
func (a *Agent) LeaseLeft() time.Duration {
	return time.Duration(a.lease.Load()) - time.Since(a.began)
}

// Ended notes the end of a connection with a member, at whichever end it began. If that is the
// controller, it may take the end for that of this process, and fence it early. So the lease ends
// until a heartbeat that is sent from now on has been answered. The controller is the member that
// this broker asked last: another one has not heard it, and does not fence it early.
func (a *Agent) Ended(member uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if member != a.asked {
		return
	}
	a.doubted = a.session.Newest()
	a.endLease()
	signal(a.beat)
}

// endLease ends the lease now, or leaves it ended. The caller has the lock.
func (a *Agent) endLease() { a.lease.Store(min(a.lease.Load(), int64(time.Since(a.began)))) }

// Resign asks the controller to end leaderships of this broker in the given leader epochs. It
// returns the metadata revision that shows the result.
func (a *Agent) Resign(ctx context.Context, brokerEpoch int64, partitions map[metadata.TopicPartition]int32) (revision int64, err error) {
	leader, _ := a.o.Leader()
	if leader == 0 {
		return 0, errNoLeader
	}
	p, err := a.o.Call(ctx, leader, MethodResign, packResign(a.o.Request.Broker, brokerEpoch, partitions))
	if err != nil {
		return 0, err
	}
	r, err := decode[resigned](p)
	return r.Revision, err
}

var errNoLeader = errors.New("this broker knows no metadata leader, which a majority of the seeds elects")

// Heard returns when the controller answered a heartbeat last, the zero time if it never did.
func (a *Agent) Heard() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard
}

// AwaitActive waits until the controller answers that this process is active, with a lease.
func (a *Agent) AwaitActive(ctx context.Context) error {
	signal(a.beat) // what this broker has applied since the last heartbeat may be all that is missing
	return a.await(ctx, func() bool { return a.state == metadata.Active && !a.session.Lease().IsZero() })
}

// await waits until a condition holds, which is called with mu.
func (a *Agent) await(ctx context.Context, holds func() bool) error {
	for {
		a.mu.Lock()
		done, moved := holds(), a.moved
		a.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drain asks the controller to move this broker's leaderships, and waits until none is left that
// another broker could take. It gives up when ctx ends, or when the controller has not answered for
// the given time: several brokers may be stopping.
func (a *Agent) Drain(ctx context.Context, patience time.Duration) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	a.mu.Lock()
	a.drain = true
	a.mu.Unlock()
	signal(a.beat)
	lost := make(chan struct{})
	watch.Go(func() {
		tick := time.NewTicker(min(a.o.Interval, patience))
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if heard := a.Heard(); now.Sub(begun) > patience && now.Sub(heard) > patience {
					close(lost)
					cancel()
					return
				}
			}
		}
	})
	err := a.await(ctx, func() bool { return a.state == metadata.Drained })
	select {
	case <-lost:
		return errors.New("no controller answers")
	default:
		return err
	}
}
