package raftstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/vfs"
)

var _ metadata.Store = (*Store)(nil)

const (
	defaultTick     = 100 * time.Millisecond
	defaultPatience = 15 * time.Second

	queueLength = 256      // transactions that wait for the loop
	maxInflight = 32 << 20 // bytes of proposals above which the loop takes no further transaction
	inboxBytes  = 64 << 20 // of messages that wait for the loop
	inboxLength = 1024
)

// Peers is the transport to the other members. The daemon implements it on links.
type Peers interface {
	// Send passes a message to a member and owns it from then on. It never blocks. It may drop the
	// message, which the members repair; a lost message costs time. Messages of one member should
	// arrive in order. Store.Receive takes them. A message has at most 1 MiB, unless one
	// transaction is larger.
	Send(member uint64, message []byte)
	// Call sends a request to a member, for Store.Handle, and waits for the response. If the
	// request certainly was not sent, the error matches ErrNotSent.
	Call(ctx context.Context, member uint64, request []byte) (response []byte, err error)
}

// ErrNotSent marks an error of Peers.Call for a request that did not leave this process.
var ErrNotSent = errors.New("request was not sent")

// Options configure a store.
type Options struct {
	FS vfs.FS
	// Dir is the directory; it belongs to the store. Its parent must exist.
	Dir   string
	Log   *zap.Logger
	Peers Peers
	// Tick is the unit of the library's time; 0 means 100 ms. A member that hears nothing of the
	// leader for 10 to 20 ticks starts an election.
	Tick time.Duration
	// CompactBytes is the size of the log at which a new generation begins, unless the snapshot is
	// larger. 0 means 4 MiB.
	CompactBytes int64
	// History is how many transactions, at most 16 MiB, a watcher may be behind before it gets
	// ErrCompacted. 0 means 4,096.
	History int
	// Patience is how long a transaction waits for a leader if its context does not end earlier. 0
	// means 15 s.
	Patience time.Duration
	// Fatal is called once, in a goroutine of the store, if the replicated data contradict what was
	// applied here. The store is closed then, and the process must end: it may have shown data that
	// the cluster does not have. It must not call Close.
	Fatal func(error)

	now      func() time.Time
	broken   broken
	memberID uint64 // with sharedMemberID
}

// Store is a member of the replicated metadata. Open starts its goroutine, the loop; Close ends it.
// The loop owns the node, with the files:
//
//	Txn ─ queue ──▶                                             ┌▶ Peers.Send
//	Receive ─ inbox ──▶ loop: node ─▶ one write, one fdatasync ─┤
//	ticker ─────────▶                                           └▶ apply ─▶ readers see it, Txn returns
type Store struct {
	opts Options
	node *node // of the loop
	view *kv.View

	queue chan *request          // capacity queueLength; what is left when the loop ends is answered with ErrClosed
	calls chan func(*node) error // unbuffered: the loop runs them
	wake  chan struct{}          // capacity 1: the inbox has messages
	stop  chan struct{}          // closed by Close
	ended chan struct{}          // closed when the loop ended
	once  sync.Once
	err   error // of the loop's end, valid when ended is closed

	life    context.Context // ends with the store
	endLife context.CancelFunc
	tasks   sync.WaitGroup // of background

	unsent series.Failures // snapshots, by member

	transferMu sync.Mutex
	transfer   receiver

	copy  atomic.Pointer[Copy]
	sole  atomic.Uint64 // see Sole
	opens time.Time     // when the store was opened
	busy  atomic.Int64  // when the loop began its present work, in nanoseconds after opens; 0: it waits

	mu         sync.Mutex
	inbox      []received
	waiting    int // bytes of the inbox
	dropped    uint64
	generation [16]byte
	role       Leadership
	roleMoved  chan struct{} // closed and replaced when role changes
	asked      map[*asked]struct{}
	failed     error
	confirmed  time.Time
	voters     []uint64
}

// Copy is a copy of the metadata on another disk, for a group whose members are too few to survive
// the loss of one.
type Copy interface {
	// Wait waits until the copy has a revision, as long as it keeps up.
	Wait(ctx context.Context, revision int64)
}

// SetCopy has the transactions that this member answers as the leader wait for a copy, nil for
// none.
func (s *Store) SetCopy(c Copy) {
	if c == nil {
		s.copy.Store(nil)
		return
	}
	s.copy.Store(&c)
}

// View returns what this member shows, which only the store changes.
func (s *Store) View() *kv.View { return s.view }

// Ended returns a channel that is closed when the store has ended.
func (s *Store) Ended() <-chan struct{} { return s.ended }

// received is a message that waits for the loop.
type received struct {
	message    *pb.Message
	generation [16]byte
}

// Open opens the member in a directory, or makes a new one with a new member id, and starts its
// loop. A new member has no state: Bootstrap gives it one, or a leader that has added it sends
// one. After ErrDamaged or ErrNewerFormat of package statelog, nothing was changed. The caller must
// make sure that no other process uses the directory.
func Open(opts Options) (*Store, error) {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Tick <= 0 {
		opts.Tick = defaultTick
	}
	if opts.now == nil {
		opts.now = time.Now
	}
	if opts.Patience <= 0 {
		opts.Patience = defaultPatience
	}
	s := &Store{
		opts: opts, queue: make(chan *request, queueLength), calls: make(chan func(*node) error), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), roleMoved: make(chan struct{}), opens: time.Now(),
		asked: make(map[*asked]struct{}),
	}
	s.life, s.endLife = context.WithCancel(context.Background())
	n, err := openNode(&s.opts, s, s.stop)
	if err != nil {
		s.endLife()
		close(s.stop)
		return nil, fmt.Errorf("open metadata in %s: %w", opts.Dir, err)
	}
	s.node, s.view = n, n.view
	s.note(n)
	go s.run()
	return s, nil
}

// run is the loop.
func (s *Store) run() {
	label.Goroutine("metadata store", "")
	defer close(s.ended)
	ticker := time.NewTicker(s.opts.Tick)
	defer ticker.Stop()
	for {
		queue, ticks := s.queue, ticker.C
		if s.node.inflightBytes > maxInflight {
			queue = nil
		}
		if s.node.idle() {
			ticks = nil // a ticker without a reader does not wake the process
		}
		s.busy.Store(0)
		var err error
		select {
		case <-ticks:
			s.begin()
			err = s.node.tick()
			s.forgetTransfer()
		case <-s.wake:
			s.begin()
			err = s.deliver()
		case r := <-queue:
			s.begin()
			err = s.node.propose(s.gather(r))
		case do := <-s.calls:
			s.begin()
			err = do(s.node)
		case <-s.stop:
			s.err = s.finish()
			return
		}
		s.note(s.node)
		if err != nil {
			s.die(err)
			return
		}
	}
}

// begin notes when the loop began its present work.
func (s *Store) begin() { s.busy.Store(max(1, int64(time.Since(s.opens)))) }

// Hanging returns for how long the loop has been at its present work, 0 if it waits for some. More
// than a moment means that it waits for the disk.
func (s *Store) Hanging() time.Duration {
	if began := s.busy.Load(); began != 0 {
		return time.Since(s.opens) - time.Duration(began)
	}
	return 0
}

// note publishes what other goroutines may know of the node.
func (s *Store) note(n *node) {
	s.sole.Store(n.sole)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation, s.failed, s.confirmed, s.voters = n.generation, n.failed, n.confirmed, n.deciding
}

// gather collects waiting transactions for one entry.
func (s *Store) gather(first *request) []*request {
	group := []*request{first}
	for bytes := len(first.txn); bytes < maxEntry; {
		select {
		case r := <-s.queue:
			group, bytes = append(group, r), bytes+len(r.txn)
		default:
			return group
		}
	}
	return group
}

// deliver hands the messages of the inbox to the node.
func (s *Store) deliver() error {
	s.mu.Lock()
	messages := s.inbox
	s.inbox, s.waiting = nil, 0
	s.mu.Unlock()
	for _, r := range messages {
		s.node.join(r.generation)
		if err := s.node.step(r.message); err != nil {
			return err
		}
	}
	return nil
}

// die ends the store after a contradiction.
func (s *Store) die(cause error) {
	s.opts.Log.Error("replicated metadata is inconsistent, this process must end; copy the metadata directory before you start it again",
		zap.Error(cause))
	s.err = cause
	s.node.abandon(fmt.Errorf("%w: %w", metadata.ErrUnknown, cause))
	_ = s.node.disk.Close() // the cause is more important
	s.once.Do(func() { close(s.stop) })
	s.endLife()
	s.refuseQueued()
	if s.opts.Fatal != nil {
		s.opts.Fatal(cause)
	}
}

// finish answers the waiting transactions and closes the files.
func (s *Store) finish() error {
	s.endLife()
	s.refuseQueued()
	return s.node.close()
}

func (s *Store) refuseQueued() {
	for {
		select {
		case r := <-s.queue:
			r.done <- result{err: metadata.ErrClosed}
		default:
			return
		}
	}
}

// do runs a function in the loop, and does not wait for its end. It returns metadata.ErrClosed if
// the store has ended, or the error of ctx: the function will not run then. A disk that hangs holds
// up the loop.
func (s *Store) do(ctx context.Context, f func(*node) error) error {
	select {
	case s.calls <- f:
		return nil
	case <-s.ended:
		return metadata.ErrClosed
	case <-s.stop:
		return metadata.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements metadata.Store. It marks the log as cleanly stopped and returns the error of
// that. It does not hand over the leadership; see Resign.
func (s *Store) Close() error {
	s.once.Do(func() { close(s.stop) })
	<-s.ended
	s.tasks.Wait()
	return s.err
}

// Failed returns why the files of this member accept no writes, nil if they do.
func (s *Store) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// send implements host.
func (s *Store) send(to uint64, message []byte) { s.opts.Peers.Send(to, message) }

// led implements host.
func (s *Store) led(l Leadership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role = l
	close(s.roleMoved)
	s.roleMoved = make(chan struct{})
	for a := range s.asked {
		s.checkLocked(a)
	}
}

// Receive takes a message that a member passed to Peers.Send. It never blocks; it drops the message
// if too many wait. An error names a message that is not for this member: another generation, or
// another member's.
func (s *Store) Receive(from uint64, message []byte) error {
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	raw, theirs, err := parseHeader(message, generation, from, s.node.member)
	if err != nil {
		return err
	}
	m, err := parseMessage(raw, from, s.node.member)
	if err != nil {
		return err
	}
	if m.GetType() == pb.MsgSnap {
		return fmt.Errorf("%w: a snapshot without its state", errTransfer)
	}
	s.mu.Lock()
	full := len(s.inbox) >= inboxLength || s.waiting > 0 && s.waiting+len(raw) > inboxBytes
	if full {
		s.dropped++
	} else {
		s.inbox, s.waiting = append(s.inbox, received{m, theirs}), s.waiting+len(raw)
	}
	s.mu.Unlock()
	if full {
		return nil
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Handle answers a request that a member passed to Peers.Call. It blocks until the outcome is known
// or ctx ends.
func (s *Store) Handle(ctx context.Context, from uint64, request []byte) ([]byte, error) {
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	p, theirs, err := parseHeader(request, generation, from, s.node.member)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		return nil, errors.New("metadata request without a kind")
	}
	switch p[0] {
	case requestTxn:
		t, err := kv.ParseTxn(p[1:])
		if err == nil {
			err = kv.Check(t)
		}
		if err != nil {
			return encodeResult(result{err: err}), nil
		}
		revision, err := s.propose(ctx, p[1:], 0)
		return encodeResult(result{revision, err}), nil
	case requestPiece:
		return encodeResult(result{err: s.piece(ctx, p[1:], theirs, from)}), nil
	}
	return nil, fmt.Errorf("metadata request of the unknown kind %q", p[0])
}

// piece takes a piece of a snapshot, and installs the snapshot when it is complete.
func (s *Store) piece(ctx context.Context, p []byte, theirs [16]byte, from uint64) error {
	s.transferMu.Lock()
	defer s.transferMu.Unlock()
	m, state, err := s.transfer.piece(p, theirs, from, s.node.member)
	if err != nil || state == nil {
		return err
	}
	installed := make(chan struct{})
	if err := s.do(ctx, func(n *node) error { defer close(installed); return n.install(m, theirs, state) }); err != nil {
		return err
	}
	select {
	case <-installed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forgetTransfer frees the memory of a transfer whose sender has gone.
func (s *Store) forgetTransfer() {
	if !s.transferMu.TryLock() {
		return
	}
	defer s.transferMu.Unlock()
	switch r := &s.transfer; {
	case r.state == nil:
	case r.at == 0 || r.seen != r.next:
		r.at, r.seen = s.node.ticks, r.next
	case s.node.ticks > r.at+transferTicks:
		*r = receiver{}
	}
}
