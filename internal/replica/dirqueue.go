package replica

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// retryPause is the pause before a directory that cannot delete logs now is tried again.
const retryPause = time.Second

// dirQueue is the queue of a log directory's creations and deletions of logs, in the order of the
// images. So a partition's log is created before it is deleted, and a log is created after the
// directory of a previous log with this name is gone. A goroutine runs the tasks while there are
// any. Guarded by Manager.mu.
type dirQueue struct {
	dir   *storage.Dir
	todo  []*task
	busy  bool      // a goroutine runs its tasks, or a timer will start it
	begun time.Time // start of the current task or pause; zero if there is none
}

// slowAfter is how long a directory may need for one task before new logs are placed elsewhere.
const slowAfter = time.Second

// slow returns the directories in which a new log would have to wait.
func (m *Manager) slow() map[*storage.Dir]bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	slow := map[*storage.Dir]bool{}
	for d, l := range m.dirQueues {
		slow[d] = !l.begun.IsZero() && time.Since(l.begun) > slowAfter
	}
	return slow
}

// task is what one image requests of a directory: logs to create or to delete.
type task struct {
	creates []*missing
	deletes []storage.ID
	topics  []*removal // of the logs in deletes
	rounds  []*round
	tries   int // failed attempts to delete
}

// queue adds a task to the queue of a directory.
func (m *Manager) queue(d *storage.Dir, e *task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.dirQueues[d]
	if l == nil {
		l = &dirQueue{dir: d}
		m.dirQueues[d] = l
	}
	l.todo = append(l.todo, e)
	if !l.busy && !m.closed {
		l.busy = true
		m.work.Go(func() { m.runTasks(l) })
	}
}

// runTasks runs the tasks of a queue until there are none or the directory cannot run them.
func (m *Manager) runTasks(l *dirQueue) {
	for {
		if err := m.unusable(l.dir); err != nil && m.postpone(l, err) {
			return
		}
		e := m.nextTask(l)
		if e == nil {
			return
		}
		var dirs map[metadata.TopicPartition][16]byte
		if len(e.creates) > 0 {
			dirs = m.createIn(l.dir, e.creates)
		}
		var forget [][16]byte
		if len(e.deletes) > 0 {
			forget = m.deleteIn(l.dir, e)
		}
		m.recorder.add(dirs, forget, e.rounds)
	}
}

// nextTask removes and returns the next task. It merges consecutive creations into one task, since
// they share a checkpoint. It returns nil if there is no task; then the queue's goroutine must end.
func (m *Manager) nextTask(l *dirQueue) *task {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.begun = time.Time{}
	if len(l.todo) == 0 || m.closed {
		l.busy = false
		return nil
	}
	l.begun = time.Now()
	e := l.todo[0]
	l.todo = l.todo[1:]
	for len(e.creates) > 0 && len(l.todo) > 0 && len(l.todo[0].creates) > 0 {
		e.creates = append(e.creates, l.todo[0].creates...)
		e.rounds = append(e.rounds, l.todo[0].rounds...)
		l.todo = l.todo[1:]
	}
	return e
}

// postpone handles a directory that cannot do anything now. Its creations fail and are tried again,
// possibly in another directory. Its deletions stay in the queue. postpone reports whether the
// queue's goroutine must end.
func (m *Manager) postpone(l *dirQueue, err error) bool {
	m.mu.Lock()
	var makes []*missing
	var rounds []*round
	var left []*task
	for _, e := range l.todo {
		makes, rounds = append(makes, e.creates...), append(rounds, e.rounds...)
		if e.rounds = nil; len(e.deletes) > 0 {
			left = append(left, e)
		}
	}
	l.todo = left
	if l.begun.IsZero() {
		l.begun = time.Now()
	}
	end := len(left) > 0 && !m.closed
	if end { // busy stays true: the timer continues the work
		time.AfterFunc(retryPause, func() { m.resume(l) })
	}
	m.mu.Unlock()
	if len(makes) > 0 {
		ids := make([]storage.ID, len(makes))
		for i, x := range makes {
			ids[i] = storage.ID{Topic: x.topic.ID, Partition: x.partition}
		}
		m.opt.Storage.Unplace(ids)
		m.noteFailed(makes, err)
	}
	m.ended(rounds...)
	return end
}

// resume continues a postponed queue.
func (m *Manager) resume(l *dirQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.busy = !m.closed; l.busy {
		m.work.Go(func() { m.runTasks(l) })
	}
}

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
		} else if next.Deleting(id) != nil {
			done = append(done, id)
		}
	}
	m.mu.Unlock()
	for d, e := range byDir {
		m.queue(d, e)
	}
	m.recorder.add(nil, m.forgettable(done), m.share(r))
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

// deleteIn deletes logs in a directory, and returns the topics that have no logs left. It retries a
// failed deletion until it succeeds; the tombstones of the topics stay until then.
func (m *Manager) deleteIn(d *storage.Dir, e *task) (done [][16]byte) {
	if err := m.opt.Storage.Delete(e.deletes...); err != nil {
		e.tries++
		log := m.opt.Logger.Debug
		if e.tries == 1 {
			log = m.opt.Logger.Error
		}
		log("deleting the logs of deleted topics failed; retrying", zap.String("dir", d.Path()),
			zap.Int("topics", len(e.topics)), zap.String("first", e.topics[0].name), zap.Int("tries", e.tries), zap.Error(err))
		again := &task{deletes: e.deletes, topics: e.topics, tries: e.tries} // everything else of e has been tried
		time.AfterFunc(backoff(e.tries), func() { m.queue(d, again) })
		return nil
	}
	if e.tries > 0 {
		m.opt.Logger.Info("logs of deleted topics removed", zap.String("dir", d.Path()), zap.Int("tries", e.tries+1))
	}
	m.mu.Lock()
	for _, g := range e.topics {
		if g.left--; g.left == 0 {
			delete(m.removals, g.topic)
			done = append(done, g.topic)
		}
	}
	m.mu.Unlock()
	return m.forgettable(done)
}

// forgettable returns the topics whose tombstones may be removed: none if a log directory that
// could not be opened may have one of their logs.
func (m *Manager) forgettable(topics [][16]byte) [][16]byte {
	if len(m.opt.Storage.Failed()) > 0 {
		return nil
	}
	return topics
}

// round counts the tasks of one image version that were not attempted yet. When there are none,
// done is closed. Guarded by Manager.mu.
type round struct {
	version int64
	left    int
	done    chan struct{}
}

// newRound returns a round with one task, which the caller must end.
func (m *Manager) newRound(version int64) *round {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &round{version: version, left: 1, done: make(chan struct{})}
	m.rounds[version] = r
	return r
}

// share adds a task to a round, which may be nil.
func (m *Manager) share(r *round) []*round {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shareLocked(r)
}

// shareLocked is share for a caller that holds mu.
func (m *Manager) shareLocked(r *round) []*round {
	if r == nil {
		return nil
	}
	r.left++
	return []*round{r}
}

// ended ends one task of each round.
func (m *Manager) ended(rounds ...*round) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rounds {
		if r.left--; r.left == 0 && m.rounds[r.version] == r {
			delete(m.rounds, r.version)
			close(r.done)
		}
	}
}

// AwaitApplied waits until every task of an image version has been attempted once: logs were
// created or deleted and the metadata updated, or the attempt failed. It returns at once if the
// version has no tasks or Apply has not seen it. The error is that of the context. AwaitApplied
// does not wait for other versions, whose tasks may be in a directory that hangs.
func (m *Manager) AwaitApplied(ctx context.Context, version int64) error {
	m.mu.RLock()
	r := m.rounds[version]
	m.mu.RUnlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the logs of metadata version %d: %w", version, ctx.Err())
	}
}
