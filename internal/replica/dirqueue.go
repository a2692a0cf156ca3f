package replica

import (
	"time"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

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
	topics  []*removal                // deleted topics of the logs in deletes
	leaves  []metadata.TopicPartition // replicas among deletes that other brokers have now, or that are replaced
	keep    bool                      // the logs in deletes are replaced
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
	label.Goroutine("replica create", l.dir.Path())
	for {
		if err := m.unusable(l.dir); err != nil && m.postpone(l, err) {
			return
		}
		e := m.nextTask(l)
		if e == nil {
			return
		}
		done := newChanges()
		if len(e.creates) > 0 {
			done = m.createIn(l.dir, e.creates)
		}
		if len(e.deletes) > 0 {
			done = m.deleteIn(l.dir, e)
		}
		m.recorder.add(done, e.rounds)
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
	if end {
		// busy stays true: the timer continues the work. After Close, resume starts nothing.
		time.AfterFunc(firstPause, func() { m.resume(l) })
	}
	m.mu.Unlock()
	if len(makes) > 0 {
		ids := make([]storage.ID, len(makes))
		for i, x := range makes {
			ids[i] = storage.ID{Topic: x.topic.ID, Partition: x.partition}
		}
		m.opt.Storage.UnassignDirs(ids)
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
