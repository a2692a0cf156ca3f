package raftstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
)

// retryAfter is the longest pause before a transaction that had no leader is tried again without
// news of one.
const retryAfter = 200 * time.Millisecond

// Get implements metadata.Store. It reads this member's state, which may be behind the leader's.
func (s *Store) Get(ctx context.Context, key string) (metadata.KV, int64, error) {
	return s.view.Get(ctx, key)
}

// Range implements metadata.Store, like Get.
func (s *Store) Range(ctx context.Context, prefix string) ([]metadata.KV, int64, error) {
	return s.view.Range(ctx, prefix)
}

// WaitFor implements metadata.Store.
func (s *Store) WaitFor(ctx context.Context, revision int64) error {
	return s.view.WaitFor(ctx, revision)
}

// Watch implements metadata.Store. Every member shows the same revisions. A member that installs a
// snapshot skips some: its watchers get ErrCompacted.
func (s *Store) Watch(ctx context.Context, from int64) (metadata.Watcher, error) {
	return s.view.Watch(ctx, from)
}

// Txn implements metadata.Store. It returns when a majority of the voters has the transaction on
// disk and the leader has applied it; this member may show it later (WaitFor). Without a leader it
// waits for one, for at most Options.Patience, and then returns ErrUnavailable: nothing was
// changed. It returns ErrUnknown if contact with the leader, or the leadership of this member, was
// lost before the outcome was known; it never repeats such a transaction, because a copy could
// overwrite a later one.
func (s *Store) Txn(ctx context.Context, t metadata.Txn) (int64, error) {
	if err := kv.Check(t); err != nil {
		return 0, err
	}
	encoded := kv.AppendTxn(nil, t)
	patience := time.NewTimer(s.opts.Patience)
	defer patience.Stop()
	for {
		role, moved := s.Leadership()
		revision, err := s.try(ctx, role, encoded)
		if !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrNotSent) {
			return revision, err
		}
		if err := s.pause(ctx, moved, patience.C, err); err != nil {
			return 0, fmt.Errorf("metadata transaction: %w", err)
		}
	}
}

// pause waits until a transaction that reached no leader may be tried again. It returns an error if
// it must not be.
func (s *Store) pause(ctx context.Context, moved <-chan struct{}, patience <-chan time.Time, cause error) error {
	again := time.NewTimer(retryAfter)
	defer again.Stop()
	select {
	case <-moved:
	case <-again.C:
	case <-patience:
		return fmt.Errorf("%w for %v: %w", metadata.ErrUnavailable, s.opts.Patience, cause)
	case <-s.stop:
		return metadata.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", metadata.ErrUnavailable, ctx.Err())
	}
	return nil
}

// try hands an encoded transaction to the leader once.
func (s *Store) try(ctx context.Context, role Leadership, txn []byte) (int64, error) {
	select {
	case <-s.stop:
		return 0, metadata.ErrClosed
	default:
	}
	if s.Failed() != nil {
		if err := s.retry(ctx); err != nil {
			return 0, err
		}
		role, _ = s.Leadership()
	}
	switch role.Leader {
	case 0:
		return 0, ErrNotLeader
	case s.node.member:
		return s.propose(ctx, txn, 0)
	}
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	request := append(append(newHeader(generation, s.node.member, role.Leader), requestTxn), txn...)
	within, end := s.ask(ctx, role.Leader)
	defer end()
	response, err := s.opts.Peers.Call(within, role.Leader, request)
	switch {
	case errors.Is(err, ErrNotSent):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%w: %w", metadata.ErrUnknown, err)
	}
	r := parseResult(response)
	return r.revision, r.err
}

// answerAfter is how long a former leader may take to answer a transaction that it has. A leader
// whose disk hangs never answers, and the caller can do nothing else meanwhile.
const answerAfter = time.Second

// asked is a leader that has a transaction of this member.
type asked struct {
	leader uint64
	end    context.CancelFunc
	timer  *time.Timer // calls end; set when another member leads
}

// ask returns a context in which a leader is asked. It ends with ctx, with end, and answerAfter
// another member has become the leader.
func (s *Store) ask(ctx context.Context, leader uint64) (within context.Context, end func()) {
	a := &asked{leader: leader}
	within, a.end = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[a] = struct{}{}
	s.checkLocked(a)
	return within, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asked, a)
		if a.timer != nil {
			a.timer.Stop()
		}
		a.end()
	}
}

// checkLocked ends the wait for a former leader soon. Caller holds mu.
func (s *Store) checkLocked(a *asked) {
	if a.timer == nil && s.role.Leader != 0 && s.role.Leader != a.leader {
		a.timer = time.AfterFunc(answerAfter, a.end)
	}
}

// maxRetries bounds the attempts to write again in a tick that callers have made at once.
const maxRetries = 4

// retry tries at once to write what could not be written: a full disk may have space again. Each
// attempt writes a file, so a client that repeats its request gets only maxRetries in a tick.
func (s *Store) retry(ctx context.Context) error {
	failed := make(chan error, 1)
	err := s.do(ctx, func(n *node) (err error) {
		defer func() { failed <- n.failed }()
		defer n.guard(&err)
		if n.retriedAt != n.ticks {
			n.retriedAt, n.retries = n.ticks, 0
		}
		if n.retries++; n.retries > maxRetries {
			return nil
		}
		n.retryAt = n.ticks
		return n.recover()
	})
	if err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done(): // the disk of this attempt hangs
		return fmt.Errorf("%w: its files are being written again: %w", metadata.ErrUnavailable, ctx.Err())
	}
}

// LeaderTxn is Txn for the controller: it changes something only if this member leads in the given
// term and has applied an entry of it, so that a deposed controller changes nothing. Otherwise it
// returns ErrNotLeader.
func (s *Store) LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (int64, error) {
	if err := kv.Check(t); err != nil {
		return 0, err
	}
	return s.propose(ctx, kv.AppendTxn(nil, t), term)
}

// propose queues an encoded transaction for the loop and waits for its outcome.
func (s *Store) propose(ctx context.Context, txn []byte, term uint64) (int64, error) {
	r := &request{txn: txn, term: term, done: make(chan result, 1)}
	select {
	case <-s.stop:
		return 0, metadata.ErrClosed
	default:
	}
	select {
	case s.queue <- r:
	case <-s.stop:
		return 0, metadata.ErrClosed
	case <-ctx.Done():
		return 0, fmt.Errorf("metadata transaction: %w", ctx.Err())
	}
	var o result
	select {
	case o = <-r.done:
	case <-ctx.Done():
		return 0, fmt.Errorf("metadata transaction: %w: %w", metadata.ErrUnknown, ctx.Err())
	case <-s.ended:
		select { // the loop may have answered before it ended
		case o = <-r.done:
		default:
			return 0, metadata.ErrClosed
		}
	}
	if c := s.copy.Load(); c != nil && o.err == nil {
		(*c).Wait(ctx, o.revision)
	}
	return o.revision, o.err
}
