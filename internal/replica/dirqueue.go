package replica

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// retryPause is after what time a directory is looked at again that can't delete logs now.
const retryPause = time.Second

// dirQueue does what the metadata asks one log directory for, in the order of the images: it
// makes and deletes logs. So a partition's log is made before it is deleted, and one that
// takes the name of another is made after that one's directory is gone. A goroutine works
// on it while there is something to do. Manager.mu guards it.
type dirQueue struct {
	dir   *storage.Dir
	todo  []*task
	busy  bool      // a goroutine works on it, or a timer will
	begun time.Time // of the task in hand, or of the time on hold; zero where there is neither
}

// slowAfter is how long a directory may be at one task until new logs go to others.
const slowAfter = time.Second

// slow are the directories in which a new log would have to wait.
func (m *Manager) slow() map[*storage.Dir]bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	slow := map[*storage.Dir]bool{}
	for d, l := range m.dirQueues {
		slow[d] = !l.begun.IsZero() && time.Since(l.begun) > slowAfter
	}
	return slow
}

// task is what one image asks a directory for: logs to be made, or to be deleted.
type task struct {
	creates []*missing
	deletes []storage.ID
	topics  []*removal // of the topics of drops
	rounds  []*round
	tries   int // to delete drops, that failed
}

// queue gives a task to the lane of a directory.
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

// runTasks carries out the tasks of a lane until there are none, or the directory can't.
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

// nextTask takes the next task, with all creations that follow it where it is one: they share
// a checkpoint. It returns nil, and the lane's goroutine is to end, where there is none.
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

// postpone is what becomes of a lane whose directory can't do anything now: creations fail and
// are tried again, perhaps in another directory; deletions stay in their order until it can.
// It reports whether the lane's goroutine is to end.
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
	if end { // busy stays: the timer is the one that goes on
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

// resume goes on with a lane that was on hold.
func (m *Manager) resume(l *dirQueue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.busy = !m.closed; l.busy {
		m.work.Go(func() { m.runTasks(l) })
	}
}

// removal is a deleted topic of which a log may be on a disk. Manager.mu guards it.
type removal struct {
	topic [16]byte
	name  string
	left  int // lanes that have not deleted its logs yet
}

// queueDeletions queues the deletion of what is left of deleted topics. When that is done their
// tombstones go, which keep a start from taking such a log for a live one's.
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

// eachRemaining calls drop for every log of topics that is on a disk or being made, topic by
// topic, and forgets those that are missing. The caller holds mu.
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
	found := map[[16]byte][]*storage.Log{} // by a start
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

// deleteIn deletes logs in a directory, and returns the topics of which none is left. A
// deletion that fails is tried again until it succeeds; the tombstones of its topics stay
// until then.
func (m *Manager) deleteIn(d *storage.Dir, e *task) (done [][16]byte) {
	if err := m.opt.Storage.Delete(e.deletes...); err != nil {
		e.tries++
		log := m.opt.Logger.Debug
		if e.tries == 1 {
			log = m.opt.Logger.Error
		}
		log("logs of deleted topics could not be removed, it is tried again until they are", zap.String("dir", d.Path()),
			zap.Int("topics", len(e.topics)), zap.String("first", e.topics[0].name), zap.Int("tries", e.tries), zap.Error(err))
		again := &task{deletes: e.deletes, topics: e.topics, tries: e.tries} // what e had asked for was tried once
		time.AfterFunc(backoff(e.tries), func() { m.queue(d, again) })
		return nil
	}
	if e.tries > 0 {
		m.opt.Logger.Info("logs of deleted topics were removed", zap.String("dir", d.Path()), zap.Int("tries", e.tries+1))
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

// forgettable returns the topics whose tombstones may go: none, while a log directory that
// could not be opened may have a log of theirs.
func (m *Manager) forgettable(topics [][16]byte) [][16]byte {
	if len(m.opt.Storage.Failed()) > 0 {
		return nil
	}
	return topics
}

// round is what the image of one version asked for: how many parts of it have not been tried
// yet. Manager.mu guards it; done is closed at none.
type round struct {
	version int64
	left    int
	done    chan struct{}
}

// newRound begins a round with one part, which its maker ends.
func (m *Manager) newRound(version int64) *round {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &round{version: version, left: 1, done: make(chan struct{})}
	m.rounds[version] = r
	return r
}

// share adds a part to a round, which may be nil.
func (m *Manager) share(r *round) []*round {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shareLocked(r)
}

func (m *Manager) shareLocked(r *round) []*round {
	if r == nil {
		return nil
	}
	r.left++
	return []*round{r}
}

// ended ends one part of each round.
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

// AwaitApplied waits until everything that the image of a version asked for was tried once: logs
// were made or deleted, and the metadata knows, or it failed. It returns at once for a
// version that asked for nothing, and where Apply has not seen the version. The error is
// the context's. What other versions asked for is not waited for: it may be in a directory
// that hangs.
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
