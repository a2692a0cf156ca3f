package filestore

import (
	"encoding/binary"
	"fmt"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
)

// request is a transaction on its way through the committer, which answers it
// exactly once; done has room for that.
type request struct {
	txn  metadata.Txn
	done chan outcome
}

type outcome struct {
	revision int64
	err      error
}

// group is what one frame will hold.
type group struct {
	requests []*request
	outcomes []outcome
	admitted []metadata.Txn
	written  map[string]int64 // key → revision it will have; 0: deleted
	bytes    int
}

// run is the committer. After a failure it goes on answering, with that failure
// or healed.
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

// gather takes what waits, up to the size of a group, and decides each in the
// order of arrival.
func (s *Store) gather(first *request) *group {
	g := &group{written: map[string]int64{}}
	s.admit(g, first)
	for g.bytes < maxGroup {
		select {
		case r := <-s.queue:
			s.admit(g, r)
		default:
			return g
		}
	}
	return g
}

// admit decides one transaction against the state as it will be after those
// before it in the group.
func (s *Store) admit(g *group, r *request) {
	o := outcome{revision: s.state.revision + int64(len(g.admitted))}
	for _, c := range r.txn.If {
		have, ok := g.written[c.Key]
		if !ok {
			have = s.state.keys[c.Key].ModRevision
		}
		if have != c.ModRevision {
			o = outcome{err: fmt.Errorf("%s is at revision %d, not %d: %w", c.Key, have, c.ModRevision, metadata.ErrConflict)}
			break
		}
	}
	if o.err == nil && len(r.txn.Put)+len(r.txn.Delete) > 0 {
		o.revision++
		t := metadata.Txn{Delete: r.txn.Delete}
		for _, kv := range r.txn.Put {
			kv.Value = append([]byte{}, kv.Value...) // the caller may do with its own what it likes
			t.Put = append(t.Put, kv)
			g.written[kv.Key] = o.revision
			g.bytes += int(size(kv))
		}
		for _, key := range t.Delete {
			g.written[key] = 0
			g.bytes += len(key)
		}
		g.admitted = append(g.admitted, t)
	}
	g.requests, g.outcomes = append(g.requests, r), append(g.outcomes, o)
}

// commit makes a group durable, then visible, then answers. A conflict is
// answered then too: what it was decided against may have been in this group.
func (s *Store) commit(g *group) {
	err := s.failed
	if err != nil && len(g.admitted) > 0 {
		err = s.heal()
	}
	if err == nil && len(g.admitted) > 0 {
		if err = s.write(g); err != nil {
			err = s.latch(err)
		} else {
			s.show(g)
		}
	}
	for i, r := range g.requests {
		if err != nil {
			g.outcomes[i] = outcome{err: err}
		}
		r.done <- g.outcomes[i]
	}
	if err == nil && s.end > max(s.opts.CompactBytes, s.floor) {
		if err := s.compact(); err != nil {
			_ = s.latch(err) // the group itself is durable
		}
	}
}

// write appends the group's frame and syncs it.
func (s *Store) write(g *group) error {
	p := binary.AppendUvarint(s.payload[:0], uint64(len(g.admitted)))
	for _, t := range g.admitted {
		p = appendTxn(p, t)
	}
	s.payload = p
	return s.append(frame{kind: frameTxns, revision: s.state.revision + int64(len(g.admitted)), payload: p})
}

func (s *Store) append(f frame) error {
	s.buf = s.id.appendFrame(s.buf[:0], f)
	if _, err := s.file.WriteAt(s.buf, s.end); err != nil {
		return fmt.Errorf("append to %s: %w", s.file.Name(), err)
	}
	if err := s.file.Datasync(); err != nil {
		return fmt.Errorf("append to %s: %w", s.file.Name(), err)
	}
	s.end += int64(len(s.buf))
	if cap(s.buf)+cap(s.payload) > 2*maxGroup { // one giant must not be remembered forever
		s.buf, s.payload = nil, nil
	}
	return nil
}

// show makes a durable group visible.
func (s *Store) show(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range g.admitted {
		s.history.add(s.state.apply(t))
	}
	close(s.moved)
	s.moved = make(chan struct{})
}

// latch remembers a failure: nothing is known any more about what the file
// holds behind the last sync, so nothing may be written behind it. Only a new
// generation ends that.
func (s *Store) latch(cause error) error {
	s.opts.Log.Error("metadata store failed: topics and configs cannot be changed until a new file could be written", zap.Error(cause))
	return s.setFailed(fmt.Errorf("%w: %w", metadata.ErrFailed, cause))
}

func (s *Store) setFailed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// heal begins a new generation from what was confirmed, which leaves the dead
// file behind: a disk that was full may have room again. Every transaction tries
// it once; there is no other way on, since a crash may find the old generation or
// one whose beginning failed.
func (s *Store) heal() error {
	was := s.failed
	if err := s.compact(); err != nil {
		return fmt.Errorf("%w; not yet: %w", was, err)
	}
	s.opts.Log.Info("metadata store takes changes again")
	return s.setFailed(nil)
}

// finish answers what still waits and ends the log.
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
		_ = s.file.Close() // it has failed already, and loudly
		return s.failed
	}
	err := s.append(frame{kind: frameClosed, revision: s.state.revision})
	if cerr := s.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close %s: %w", s.file.Name(), cerr)
	}
	return err
}
