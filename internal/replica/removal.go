package replica

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// removal is a deleted topic that may still have a log on a disk. Guarded by Manager.mu.
type removal struct {
	topic [16]byte
	name  string
	left  int // directories that have not deleted its logs yet
}

// queueDeletions queues the deletion of the logs of deleted topics. Their tombstones are removed
// afterwards; until then they keep recovery from using such a log.
func (m *Manager) queueDeletions(d *metadata.Delta, next *metadata.Image, r *round) {
	gone := map[[16]byte]*removal{}
	m.mu.Lock()
	for _, t := range d.Deleted {
		gone[t.ID] = &removal{topic: t.ID, name: t.Name}
	}
	for _, t := range d.Tombstones {
		if gone[t.ID] == nil && m.removals[t.ID] == nil {
			gone[t.ID] = &removal{topic: t.ID, name: t.Name}
		}
	}
	if len(gone) == 0 {
		m.mu.Unlock()
		return
	}
	byDir := map[*storage.Dir]*task{}
	drop := func(d *storage.Dir, id storage.ID) {
		e := byDir[d]
		if e == nil {
			e = &task{rounds: m.shareLocked(r)}
			byDir[d] = e
		}
		e.deletes = append(e.deletes, id)
		g := gone[id.Topic]
		if n := len(e.topics); n == 0 || e.topics[n-1] != g {
			e.topics = append(e.topics, g)
			g.left++
		}
	}
	m.eachRemaining(d, gone, drop)
	var done [][16]byte
	for id, g := range gone {
		if g.left > 0 {
			m.removals[id] = g
		} else if tomb := next.Deleting(id); tomb != nil && tomb.Waits(m.opt.Self) {
			done = append(done, id)
		}
	}
	m.mu.Unlock()
	for d, e := range byDir {
		m.queue(d, e)
	}
	m.recorder.add(forgetting(m.forgettable(done)), m.share(r))
}

// eachRemaining calls drop for every log of the topics that is on a disk or being created, topic by
// topic, and removes the topics' missing partitions. The caller holds mu.
func (m *Manager) eachRemaining(d *metadata.Delta, gone map[[16]byte]*removal, drop func(*storage.Dir, storage.ID)) {
	known := map[[16]byte]bool{}
	for _, t := range d.Deleted {
		known[t.ID] = true
		for i := range t.Partitions.All() {
			tp, id := metadata.TopicPartition{Topic: t.ID, Partition: i}, storage.ID{Topic: t.ID, Partition: i}
			x := m.missing[tp]
			delete(m.missing, tp)
			if l := m.opt.Storage.Get(id); l != nil {
				drop(l.Dir(), id)
			} else if x != nil && x.dir != nil {
				drop(x.dir, id)
			} else if dir := m.leaving[tp]; dir != nil { // its deletion may have failed so far
				drop(dir, id)
			}
		}
	}
	if len(known) == len(gone) {
		return
	}
	found := map[[16]byte][]*storage.Log{} // logs that the start found
	for _, l := range m.opt.Storage.Logs() {
		if id := l.ID().Topic; gone[id] != nil && !known[id] {
			found[id] = append(found[id], l)
		}
	}
	for _, logs := range found {
		for _, l := range logs {
			drop(l.Dir(), l.ID())
		}
	}
}

// deleteIn deletes logs in a directory, and returns what must be recorded then: the topics that
// have no logs left, and the replicas that have no directory any longer. It retries a failed
// deletion until it succeeds; the tombstones of the topics stay until then.
func (m *Manager) deleteIn(d *storage.Dir, e *task) changes {
	remove := m.opt.Storage.Delete
	if e.keep {
		remove = m.opt.Storage.Replace
	}
	if err := remove(e.deletes...); err != nil {
		e.tries++
		log := m.opt.Logger.Debug
		if e.tries == 1 {
			log = m.opt.Logger.Error
		}
		log("deleting logs failed; retrying", zap.String("dir", d.Path()), zap.Int("logs", len(e.deletes)),
			zap.Int("topics", len(e.topics)), zap.Int("tries", e.tries), zap.Error(err))
		// Everything else of e has been tried.
		again := &task{deletes: e.deletes, topics: e.topics, leaves: e.leaves, keep: e.keep, tries: e.tries}
		// After Close, queue starts no goroutine.
		time.AfterFunc(backoff.After(e.tries), func() { m.queue(d, again) })
		return newChanges()
	}
	if e.tries > 0 {
		m.opt.Logger.Info("logs removed", zap.String("dir", d.Path()), zap.Int("logs", len(e.deletes)), zap.Int("tries", e.tries+1))
	}
	var done [][16]byte
	m.mu.Lock()
	for _, g := range e.topics {
		if g.left--; g.left == 0 {
			delete(m.removals, g.topic)
			done = append(done, g.topic)
		}
	}
	m.mu.Unlock()
	m.runMoves() // those of the logs are canceled
	c := forgetting(m.forgettable(done))
	m.left(e.leaves, c)
	return c
}

// forgettable returns the topics whose tombstones may be removed: none if a log directory that
// could not be opened may have one of their logs. It removes what was replaced of them, which
// nothing would name any longer.
func (m *Manager) forgettable(topics [][16]byte) [][16]byte {
	if len(topics) > 0 {
		for _, a := range m.opt.Storage.Replaced() {
			if slices.Contains(topics, a.Topic) {
				m.opt.Storage.RemoveReplaced(a)
			}
		}
	}
	if len(m.opt.Storage.Failed()) > 0 {
		return nil
	}
	return topics
}

// leave is a replica that the metadata has assigned to other brokers, or that is replaced.
type leave struct {
	tp   metadata.TopicPartition
	dir  *storage.Dir // of its log
	keep bool         // the log is replaced
}

// release ends a partition that the metadata no longer assigns to this broker. If it has a log, or
// one is being created, release returns the replica, and the caller must queue its deletion. l is
// the log, which may be nil.
//
// A log that an earlier process left is only deleted if the metadata records it in its directory. A
// metadata store that was restored from a copy may be older than the log and name replicas that no
// longer have the records; then this log may be the only copy.
func (m *Manager) release(w wanted, l *storage.Log) (x leave, leaves bool) {
	tp := w.tp()
	m.mu.Lock()
	p, missing := m.partitions[tp], m.missing[tp]
	m.setLocked(tp, nil)
	delete(m.missing, tp)
	delete(m.fence, tp)
	x.tp = tp
	recorded, _ := m.image.Placement(m.opt.Self, tp)
	if l != nil && (p != nil || missing != nil || recorded == l.Dir().ID()) {
		x.dir = l.Dir()
	} else if missing != nil {
		x.dir = missing.dir
	}
	leaves = x.dir != nil && m.leaving[tp] == nil
	if leaves {
		m.leaving[tp] = x.dir
	}
	m.mu.Unlock()
	if p != nil {
		p.SetRole(m.roleOf(w))
	}
	return x, leaves
}

func (m *Manager) isLeaving(tp metadata.TopicPartition) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.leaving[tp] != nil
}

// queueLeaving queues the deletion of the logs of replicas. The round may be nil.
func (m *Manager) queueLeaving(list []leave, r *round) {
	type way struct {
		dir  *storage.Dir
		keep bool
	}
	tasks := map[way]*task{}
	for _, x := range list {
		e := tasks[way{x.dir, x.keep}]
		if e == nil {
			e = &task{rounds: m.share(r), keep: x.keep}
			tasks[way{x.dir, x.keep}] = e
		}
		e.deletes = append(e.deletes, storage.ID{Topic: x.tp.Topic, Partition: x.tp.Partition})
		e.leaves = append(e.leaves, x.tp)
	}
	for w, e := range tasks {
		if !w.keep {
			m.opt.Logger.Info("removing the logs of replicas that other brokers have now", zap.String("dir", w.dir.Path()),
				zap.Int("logs", len(e.deletes)))
		}
		m.queue(w.dir, e)
	}
}

// left completes the removal of replicas: their directories are to be removed from the metadata.
// Those that were assigned to this broker again in the meantime get new logs.
func (m *Manager) left(list []metadata.TopicPartition, c changes) {
	if len(list) == 0 {
		return
	}
	m.roles.Lock()
	defer m.roles.Unlock()
	var makes []*missing
	m.mu.Lock()
	for _, tp := range list {
		delete(m.leaving, tp)
		c.dirs[tp] = [16]byte{}
		if x := m.missing[tp]; x != nil && x.queued && x.dir == nil {
			makes = append(makes, x)
		}
	}
	m.mu.Unlock()
	m.assignDirs(makes, nil)
}

// maxNamed bounds the logs that one message names.
const maxNamed = 20

// reportStrays names the logs that belong to no partition of this broker in the metadata, not even
// to a deleted or a former one. They stay: if the metadata is older than the logs, they may hold
// the only copy of their records.
func (m *Manager) reportStrays(img *metadata.Image) {
	var names []string
	n := 0
	for _, l := range m.opt.Storage.Logs() {
		id := l.ID()
		if img.Deleting(id.Topic) != nil {
			continue
		}
		tp := metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition}
		if part := img.Partition(tp); part != nil {
			if recorded, _ := img.Placement(m.opt.Self, tp); part.HasReplica(m.opt.Self) || recorded == l.Dir().ID() {
				continue
			}
		}
		if n++; n <= maxNamed {
			names = append(names, fmt.Sprintf("%s (topic id %s)", l, metadata.FormatID(id.Topic)))
		}
	}
	if n > 0 {
		m.opt.Logger.Warn("the metadata does not know some logs of this broker; they are kept and not served", zap.Int("logs", n),
			zap.Strings("names", names))
	}
}
