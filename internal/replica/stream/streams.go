package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/few"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage"
)

// Options configure Streams. Links and Partition are required.
type Options struct {
	Self  int32
	Links Links
	// Partition returns a partition of this broker, as replica.Manager.Partition does.
	Partition func(topic [16]byte, partition int32) (*replica.Partition, error)
	Logger    *zap.Logger // nil: no logging
	// Window bounds the bytes on a connection to a follower that the follower has not written
	// (replica.window.bytes). Default 8 MiB.
	Window int64
	// FollowBytes bounds the bytes that arrived from leaders and were not accepted by a log
	// (replica.follow.bytes). Each log directory may hold one frame more. Default 16 MiB.
	FollowBytes int64
	// CatchUpRate bounds how many bytes a second each connection reads from the disk for followers
	// (replica.catchup.bytes.per.second). 0: no limit.
	CatchUpRate int64
	// CopyRates returns how many bytes a second this broker may read from the disk for copies of a
	// partition on a follower, and how many this follower's copies may take of that; 0: no limit.
	// The limits are shared by the partitions that have one. It must not block. nil: no limits.
	CopyRates func(p *replica.Partition, follower int32) (leader, copies int64)

	broken broken
}

// The defaults of Options, and times.
const (
	defaultWindow = 8 << 20
	defaultFollow = 16 << 20
	// highInterval is the least time between two HW frames of a connection.
	highInterval = 2 * time.Millisecond
	// busyWait is how long a reader waits for memory before it drops a frame.
	busyWait = 250 * time.Millisecond
	// Bounds of the pause before a follower subscribes again.
	firstPause = 10 * time.Millisecond
	mostPause  = time.Second
	// closeGrace is how long Close waits for a disk operation after its context has ended.
	closeGrace = 250 * time.Millisecond
)

var backoff = pause.Backoff{First: firstPause, Most: mostPause}

// ErrClosed ends what Close ended.
var ErrClosed = errors.New("streams are closed")

// Streams copies the logs that other brokers lead to this one, and those that this one leads to
// others. All methods may be called concurrently.
type Streams struct {
	opt    Options
	follow *bufpool.Budget
	copies pace // of all copies with a limit
	serial atomic.Uint64
	count  counters
	halted few.Set[*part]  // partitions that may not follow their leaders; see Stopped
	failed series.Failures // by message, partition and broker
	// several reports whether the replicas are in more than one log directory.
	several atomic.Bool

	mu        sync.Mutex
	closed    bool
	parts     map[*replica.Partition]*part
	followers map[int32]*follower // by leader
	outgoing  map[*outgoing]bool
	dirs      map[*storage.Dir]*directory
	work      sync.WaitGroup
	ctx       context.Context // ends with Close
	stop      context.CancelFunc
}

// New returns Streams without connections. The caller must call Close.
func New(opt Options) *Streams {
	if opt.Logger == nil {
		opt.Logger = zap.NewNop()
	}
	if opt.Window <= 0 {
		opt.Window = defaultWindow
	}
	if opt.FollowBytes <= 0 {
		opt.FollowBytes = defaultFollow
	}
	s := &Streams{opt: opt, follow: bufpool.NewBudget(opt.FollowBytes), parts: make(map[*replica.Partition]*part),
		followers: make(map[int32]*follower), outgoing: make(map[*outgoing]bool), dirs: make(map[*storage.Dir]*directory)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// say logs a failure of a partition with another broker, which peer names, unless it repeats what
// was logged: the broker asks again, and fails again, for as long as the reason lasts.
func (s *Streams) say(log func(string, ...zap.Field), message string, t *part, peer zap.Field, err error, more ...zap.Field) {
	n, say := s.failed.Failed(series.Key(message, t.p.String(), strconv.FormatInt(peer.Integer, 10)), err)
	if say {
		log(message, append(more, zap.Stringer("partition", t.p), peer, zap.Int("failures", n), zap.Error(err))...)
	}
}

// works ends what say logs of a partition, and logs message if there was something.
func (s *Streams) works(failure, message string, t *part) {
	if s.failed.Ended(series.Key(failure, t.p.String(), "")) {
		s.opt.Logger.Info(message, zap.Stringer("partition", t.p))
	}
}

// Close ends all connections and waits for their goroutines, at most until ctx ends and closeGrace
// longer.
func (s *Streams) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var dialers []Dialer
	for _, f := range s.followers {
		dialers = append(dialers, f.dialer)
	}
	for o := range s.outgoing {
		o.conn.Close()
	}
	s.mu.Unlock()
	s.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, d := range dialers {
			d.Close()
		}
		s.work.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return nil
	case <-time.After(closeGrace):
		return fmt.Errorf("a log directory still works for replica streams: %w", ctx.Err())
	}
}

// spawn runs fn on a goroutine that Close waits for, and reports whether it did. The caller holds
// mu.
func (s *Streams) spawn(fn func()) bool {
	if s.closed {
		return false
	}
	s.work.Go(fn)
	return true
}

// RoleChanged follows the leader of a partition, or ends the streams of one that this broker leads
// in another epoch or has no longer. It is replica.Options.RoleChanged, and does not block.
func (s *Streams) RoleChanged(p *replica.Partition) {
	leader, epoch := p.ReplicaLeader()
	follows := leader >= 0 && leader != s.opt.Self
	s.mu.Lock()
	t := s.parts[p]
	switch {
	case s.closed || t == nil && !follows:
		s.mu.Unlock()
		return
	case t == nil:
		t = s.addLocked(p)
	case leader < 0:
		delete(s.parts, p)
		p.SetTail(nil)
	}
	var f *follower
	if follows {
		f = s.followerLocked(leader)
	}
	s.mu.Unlock()
	t.setLeader(f, epoch)
	t.Moved()
}

// addLocked returns the new part of a partition. The caller holds mu.
func (s *Streams) addLocked(p *replica.Partition) *part {
	d := s.dirs[p.Log().Dir()]
	if d == nil {
		d = &directory{s: s, dir: p.Log().Dir(), most: s.opt.FollowBytes / 2}
		s.dirs[d.dir] = d
		s.several.Store(len(s.dirs) > 1)
	}
	t := &part{s: s, p: p, log: p.Log(), dir: d}
	s.parts[p] = t
	p.SetTail(t)
	return t
}

// part returns the part of a partition that this broker leads, nil after Close.
func (s *Streams) part(p *replica.Partition) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.parts[p]; t != nil || s.closed {
		return t
	}
	return s.addLocked(p)
}

// part has the streams of a partition, in either role.
type part struct {
	s    *Streams
	p    *replica.Partition
	log  *storage.Log
	dir  *directory
	subs atomic.Pointer[[]*sub] // of the followers; replaced, never changed
	// following is the stream from the leader, nil while another role is in force.
	following atomic.Pointer[following]
	straddle  atomic.Pointer[straddle] // of the log that this broker leads

	mu      sync.Mutex
	pending int  // appends that were handed over to the log and were neither accepted nor refused
	cutting bool // a truncation is queued or runs
}

// Appended implements replica.Tail.
func (t *part) Appended(batch *groupcommit.Batch) {
	subs := t.subs.Load()
	if subs == nil {
		return
	}
	for _, b := range *subs {
		b.out.ready.push(b)
		if batch != nil {
			batch.AddPusher(b.out)
		} else {
			b.out.conn.Kick()
		}
	}
}

// Advanced implements replica.Tail.
func (t *part) Advanced() {
	if f := t.following.Load(); f != nil {
		f.dirty.Store(true)
		f.wake()
	}
}

// HighMoved implements replica.Tail. The leader says nothing to followers that they do not learn
// with the next frame, and a follower says nothing: so it wakes no goroutine for each move.
func (t *part) HighMoved() {
	if subs := t.subs.Load(); subs != nil {
		for _, b := range *subs {
			b.out.ready.push(b)
			b.out.highs.moved()
		}
	}
}

// Moved implements replica.Tail.
func (t *part) Moved() {
	if f := t.following.Load(); f != nil {
		f.wake()
	}
	if subs := t.subs.Load(); subs != nil {
		for _, b := range *subs {
			b.out.ready.push(b)
			b.out.conn.Kick()
		}
	}
}

// addSub adds a follower's subscription.
func (t *part) addSub(b *sub) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*sub
	if old := t.subs.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = append(all, b)
	t.subs.Store(&all)
}

// dropSub removes a follower's subscription.
func (t *part) dropSub(b *sub) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.subs.Load()
	if old == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*old), func(x *sub) bool { return x == b })
	if len(all) == 0 {
		t.subs.Store(nil)
		return
	}
	t.subs.Store(&all)
}

// setLeader replaces the stream from the leader: f is nil unless another broker leads.
func (t *part) setLeader(f *follower, epoch int32) {
	old := t.following.Load()
	if f != nil && old != nil && old.from == f && old.epoch >= epoch {
		return
	}
	var next *following
	if f != nil {
		next = &following{part: t, from: f, epoch: epoch, state: wanted}
	}
	t.mu.Lock()
	t.following.Store(next)
	if old != nil {
		old.endLocked(frame.RoleChanged, stopped)
	}
	t.mu.Unlock()
	if old != nil {
		old.wake()
		old.from.forget(old)
	}
	if next != nil {
		f.add(next)
		next.wake()
	}
}
