package filestore

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/kv"
	"github.com/chronik-io/chronik/internal/statelog"
)

// request is a transaction for the committer, which answers it exactly once; done has capacity 1.
type request struct {
	txn  metadata.Txn
	done chan outcome
}

type outcome struct {
	revision int64
	err      error
}

// group is the content of one write.
type group struct {
	*kv.Group
	requests []*request
	outcomes []outcome
}

// run is the committer's goroutine. After a failure it continues to answer requests: with that
// failure, until it has begun a new generation.
func (s *Store) run() {
	defer close(s.ended)
	for {
		select {
		case r := <-s.queue:
			s.commit(s.gather(r))
		case <-s.stop:
			s.err = s.finish()
			return
		}
	}
}

// gather collects waiting transactions, up to the size of a group, and decides each in the order of
// arrival.
func (s *Store) gather(first *request) *group {
	g := &group{Group: s.view.State().Begin()}
	g.admit(first)
	for g.Bytes() < maxGroup {
		select {
		case r := <-s.queue:
			g.admit(r)
		default:
			return g
		}
	}
	return g
}

// admit checks a transaction against the state left by the earlier ones of its group.
func (g *group) admit(r *request) {
	o := g.Add(r.txn)
	g.requests, g.outcomes = append(g.requests, r), append(g.outcomes, outcome{o.Revision, o.Err})
}

// commit makes a group durable, then visible, then answers its requests. Conflicts are answered
// then, too, because the decision may depend on changes in this group.
func (s *Store) commit(g *group) {
	now := time.Now()
	s.began.Store(&now)
	defer s.began.Store(nil)
	err := s.failed
	if err != nil && len(g.Admitted()) > 0 {
		err = s.restart()
	}
	if err == nil && len(g.Admitted()) > 0 {
		if err = s.write(g); err != nil {
			err = s.latch(err)
		} else {
			s.view.Commit(g.Group)
		}
	}
	for i, r := range g.requests {
		if err != nil {
			g.outcomes[i] = outcome{err: err}
		}
		r.done <- g.outcomes[i]
	}
	if err == nil && s.log.ShouldRotate() {
		if err := s.log.Rotate(s.emit()); err != nil { // transactions wait: this is rare
			_ = s.latch(err) // the group itself is durable
		}
	}
}

// write appends and syncs the group's transactions.
func (s *Store) write(g *group) error {
	records := make([][]byte, len(g.Admitted()))
	for i, t := range g.Admitted() {
		records[i] = kv.AppendChanges(nil, t)
	}
	return s.log.Append(records...)
}

// latch stores the error until a new generation begins; no records are written until then.
func (s *Store) latch(cause error) error {
	s.opts.Log.Error("metadata store failed, topics and configs can't be changed until a new file can be written", zap.Error(cause))
	return s.setFailed(fmt.Errorf("%w: %w", metadata.ErrFailed, cause))
}

func (s *Store) setFailed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// restart begins a new generation from the confirmed state and abandons the failed file: a full
// disk may have space again. Every transaction tries this once. It is the only way to continue,
// because after a crash the store may find the old generation or an incomplete new one.
func (s *Store) restart() error {
	was := s.failed
	if err := s.log.Rotate(s.emit()); err != nil {
		return fmt.Errorf("%w; retry failed: %w", was, err)
	}
	s.opts.Log.Info("metadata store accepts changes again")
	return s.setFailed(nil)
}

// emit returns a function that emits the whole state for a snapshot.
func (s *Store) emit() func(statelog.Emit) error { return emitKeys(s.view.State().Range("")) }

// finish answers the waiting requests and closes the log.
func (s *Store) finish() error {
	for {
		select {
		case r := <-s.queue:
			r.done <- outcome{err: metadata.ErrClosed}
			continue
		default:
		}
		break
	}
	if s.failed != nil {
		_ = s.log.Close() // its failure was logged already
		return s.failed
	}
	return s.log.Close()
}
