package shareleader

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Coordinator reaches the share coordinators. No method blocks. done is called exactly once, from
// any goroutine and possibly before the method returns. After COORDINATOR_NOT_AVAILABLE an item may
// have been carried out or not. Other errors are final: those of package sharestate.
type Coordinator interface {
	Peek(ctx context.Context, keys []format.Key, done func([]sharestate.Peeked))
	Open(ctx context.Context, items []sharestate.Opening, done func([]sharestate.Opened))
	Write(ctx context.Context, items []sharestate.Writing, done func([]*kerr.Error))
}

// Log is the data partition on this broker. *replica.Partition implements it.
type Log interface {
	Leader() (broker, epoch int32)
	Ends() replica.Ends
	Readable() (replica.Ends, error)
	Epochs(currentEpoch int32) (epochs.Cache, error)
	ListOffset(ts int64, currentEpoch int32, committed bool) (storage.Timestamp, error)
}

// Settings are those of a group.
type Settings struct {
	// Locks is share.partition.max.record.locks, Deliveries share.delivery.count.limit, Lock
	// share.record.lock.duration.ms, Renew share.renew.acknowledge.enable, and Retry and RetryMax
	// chronik.share.retry.backoff.ms and .max.ms.
	Locks           int64
	Deliveries      int
	Lock            time.Duration
	Renew           bool
	Retry, RetryMax time.Duration
	// Committed is share.isolation.level=read_committed.
	Committed bool
	// Reset is where a group starts without a stored position (share.auto.offset.reset):
	// replica.Latest, replica.Earliest, or Since the group begins to read.
	Reset int64
	// Letters is where dead letters are copied.
	Letters LettersTo
	// Since, above 0, replaces Reset: the group starts with the first record that is not older.
	Since time.Duration
}

// Options configures a Leader.
type Options struct {
	Self        int32
	Coordinator Coordinator
	// Memory bounds share partitions and sessions. Near the bound no records are acquired and no
	// sessions opened; acknowledgements and loads are never refused.
	Memory *coordinator.MemoryBudget
	// Letters copies dead letters; nil: they are archived without a copy.
	Letters Letters
	// Sessions is group.share.max.share.sessions.
	Sessions int
	// Park notifies of new records and of changes of the leadership.
	Park *purgatory.Purgatory
	// Raise has the leader epoch of a data partition raised above known, if it is still epoch: a
	// stored state knows a later one than the metadata, which were restored from a copy. It does
	// not block, and may be called repeatedly. Nil: the load waits for other metadata.
	Raise func(topic [16]byte, partition, epoch, known int32)
	// TopicName returns the name of a topic for lines of the log, or another text that identifies
	// it. Nil: its id in hex.
	TopicName func(topic [16]byte) string
	// Go runs a function that may block on another goroutine.
	Go     func(func())
	Logger *zap.Logger
	// Now is the time since an origin, which does not follow the clock of the wall. Default: the
	// time since New.
	Now func() time.Duration
	// Broken and Window are empty in an ordinary build.
	Broken Broken
	Window window.Broken
}

// Leader has the share partitions and the share sessions of a broker. All methods may be called
// concurrently.
type Leader struct {
	opt  Options
	ctx  context.Context
	stop context.CancelFunc

	failures series.Failures // of loads, that are logged

	closing atomic.Bool // no records are acquired any more

	loads, refused atomic.Int64

	mu       sync.Mutex
	parts    map[format.Key]*Partition
	totals   map[string]*total // by group
	failed   map[format.Key]failedLoad
	sessions sessions
}

// New returns a Leader without share partitions.
func New(opt Options) *Leader {
	if opt.Now == nil {
		begun := time.Now()
		opt.Now = func() time.Duration { return time.Since(begun) }
	}
	l := &Leader{opt: opt, parts: map[format.Key]*Partition{}, totals: map[string]*total{}, failed: map[format.Key]failedLoad{}}
	l.sessions.byKey, l.sessions.of = map[sessionKey]*Session{}, map[netip.Prefix]*claim{}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Release ends the acquisitions, because this broker is about to stop. It waits until the share
// coordinators have what has changed, so that the next leaders know how often records were
// delivered, or until ctx ends. Members may still acknowledge what they hold.
func (l *Leader) Release(ctx context.Context) {
	l.closing.Store(true)
	var stored sync.WaitGroup
	for _, p := range l.all() {
		p.lock()
		if p.state == ready {
			p.w.Close()
			if seq := p.w.Pending(); seq != 0 {
				stored.Add(1)
				p.waiters = append(p.waiters, waiter{seq: seq, at: p.l.now(), done: func(*kerr.Error) { stored.Done() }})
				p.pump()
			}
		}
		p.unlock()
	}
	done := make(chan struct{})
	l.opt.Go(func() { stored.Wait(); close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (l *Leader) all() []*Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.parts))
}

// Close ends all share partitions. Requests that wait are answered.
func (l *Leader) Close() {
	l.stop()
	for _, p := range l.all() {
		p.lock()
		p.end(kerr.NotLeaderForPartition)
		p.abandon()
		p.unlock()
	}
}

func (l *Leader) now() time.Duration { return l.opt.Now() }

// Partition returns the share partition of a data partition that this broker leads. If there is
// none yet, it begins to load. s are the present settings of the group.
func (l *Leader) Partition(k format.Key, log Log, s Settings) *Partition {
	for {
		l.mu.Lock()
		p := l.parts[k]
		made := p == nil
		if made {
			p = &Partition{l: l, key: k, log: log, cfg: s, members: map[string]*member{}, total: l.enter(k.Group)}
			l.parts[k] = p
		}
		l.mu.Unlock()
		p.lock()
		if made {
			p.begin()
		}
		p.current(s)
		if p.state == leaving {
			// Another one must not open the state in the same leader epoch, as it would not know of
			// the last writes.
			if _, epoch := log.Leader(); epoch > p.epoch {
				l.remove(p)
				p.unlock()
				continue
			}
		}
		ended := p.state == ended
		p.unlock()
		if !made && ended {
			continue // it was removed from the table before
		}
		return p
	}
}

// remove forgets a share partition that has ended.
func (l *Leader) remove(p *Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts[p.key] == p {
		delete(l.parts, p.key)
		l.leave(p.key.Group)
	}
}

// Changed reports that the stored state of a share partition was created, replaced, removed or cut:
// id is its identity, the zero value for none, and leader the recorded leader epoch. The memory is
// dropped, unless it is of that state in that epoch or a later one.
func (l *Leader) Changed(k format.Key, id sharestate.Identity, leader int32) {
	l.mu.Lock()
	p := l.parts[k]
	l.mu.Unlock()
	if p == nil {
		return
	}
	p.lock()
	// A load may get the answer about the former state after this notification.
	if (p.state == ready || p.state == loading) && (p.id != id || p.epoch < leader) {
		p.reload(kerr.NotLeaderForPartition)
	}
	p.unlock()
}
