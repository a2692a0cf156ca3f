package replica

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
)

// Bounds of the pause before a log is created, removed or recorded again.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

var backoff = pause.Backoff{First: firstPause, Most: mostPause}

// maxFailuresInRow is the number of consecutive logs whose creation fails before the rest of a task
// is postponed to the next retry.
const maxFailuresInRow = 8

// createAtOnce is how many logs are created between two signs of progress. They share the syncs.
const createAtOnce = 500

// missing is a partition of this broker that has no log. Manager.mu guards the fields that change.
//
//	                 ┌────────── time.Timer ─────────┐
//	                 ▼                               │
//	noteUncreated ─▶ queued ──▶ being created ──▶ failed: err, next
//	                 │               │               │
//	                 │               ▼               ▼
//	                 │           a partition     the topic was deleted: no longer in Manager.missing
//	                 └───────────────────────────────▲
//
// A permanent entry is in none of these states: its log was created once and is missing, so it must
// not be created again. An operator or a change of the metadata ends that.
type missing struct {
	wanted // according to the metadata when the entry was made

	dir       *storage.Dir // where the log will be created; nil if not chosen yet
	queued    bool         // for creation, or being created
	permanent bool
	tries     int   // failed attempts
	err       error // of the last attempt; nil before the first
	since     time.Time
	next      time.Time // time of the next attempt
	led       int32     // of a log that moved: the epoch of its partition; a leader needs a later one
}

// why returns the error of a partition without a log. It matches ErrOffline. made says when each
// directory has last created logs.
func (x *missing) why(made map[*storage.Dir]time.Time) error {
	switch {
	case x.err == nil:
		since := x.since
		if at := made[x.dir]; at.After(since) {
			since = at
		}
		return &CreatingError{Partition: x.String(), Since: since}
	case x.permanent:
		return x.err
	default:
		return fmt.Errorf("%w: the log of %s could not be created: %w", ErrOffline, x, x.err)
	}
}

// CreatingError is the error of a partition whose log is being created for the first time. Creation
// takes milliseconds unless a disk hangs, or thousands of logs wait. The error matches ErrOffline
// and ErrCreating.
type CreatingError struct {
	Partition string
	// Since is the time when the creation was queued, or when the directory has last created other
	// logs after that.
	Since time.Time
}

func (e *CreatingError) Error() string {
	return fmt.Sprintf("%v: the log of %s is being created", ErrOffline, e.Partition)
}

// Is reports whether target is ErrOffline or ErrCreating.
func (e *CreatingError) Is(target error) bool { return target == ErrOffline || target == ErrCreating }

// Failure describes a partition of this broker that has no log.
type Failure struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
	Dir       string    // path of the directory in which it was to be created; empty if none was chosen
	Err       error     // matches ErrOffline
	Since     time.Time // time of the first failure
	// NextTry is the time of the next attempt to create the log. It is zero if the log must not be
	// created again, because it was created once and is missing.
	NextTry time.Time
}

// String returns topic-partition.
func (f *Failure) String() string { return fmt.Sprintf("%s-%d", f.Topic, f.Partition) }

// Failed returns the partitions whose logs could not be created or are missing, sorted by topic and
// partition. Partitions whose first creation is in progress are not included.
func (m *Manager) Failed() []Failure {
	m.mu.RLock()
	var all []Failure
	for tp, x := range m.missing {
		if x.err != nil {
			f := Failure{Topic: x.topic.Name, TopicID: tp.Topic, Partition: tp.Partition, Err: x.why(m.made), Since: x.since,
				NextTry: x.next}
			if x.dir != nil {
				f.Dir = x.dir.Path()
			}
			all = append(all, f)
		}
	}
	m.mu.RUnlock()
	sorts.Sort(all, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// WithoutLog returns the partitions of this broker that have no log, also if it is being created,
// in any order.
func (m *Manager) WithoutLog() []metadata.TopicPartition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Collect(maps.Keys(m.missing))
}

// unmade returns the directories in which a log could not be made. It is tried again.
func (m *Manager) unmade() map[*storage.Dir]bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	dirs := map[*storage.Dir]bool{}
	for _, x := range m.missing {
		if x.err != nil && !x.permanent && x.dir != nil {
			dirs[x.dir] = true
		}
	}
	return dirs
}

// noteUncreated records that a partition has no log, and returns its entry. It returns nil if the
// creation is already queued or scheduled.
func (m *Manager) noteUncreated(w wanted) *missing {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.missing[w.tp()]; x != nil && !x.permanent {
		return nil
	}
	x := &missing{wanted: w, queued: true, since: time.Now(), led: -1}
	m.missing[w.tp()] = x
	return x
}

// noteMissing records that a partition's log must not be created, and why it is missing.
func (m *Manager) noteMissing(w wanted, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing[w.tp()] = &missing{wanted: w, permanent: true, err: err, since: time.Now(), led: -1}
}

// created reports whether this process has created a log, or has already compared its directory
// with the metadata. The metadata may show an older directory for a moment.
func (m *Manager) created(tp metadata.TopicPartition, l *storage.Log) bool {
	if l == nil {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	x := m.missing[tp]
	return m.partitions[tp] != nil || x != nil && x.dir == l.Dir()
}

// creating reports whether a log that is not there is being created, or tried again. That it may be
// was decided when its entry was made. An image that shows no replica in sync any longer takes
// nothing back: the partition would stay without a log here for as long as its record stands still,
// and an unclean election would find no log.
func (m *Manager) creating(tp metadata.TopicPartition, l *storage.Log) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	x := m.missing[tp]
	return l == nil && x != nil && !x.permanent
}

// assignDirs chooses directories for logs and queues their creation.
func (m *Manager) assignDirs(list []*missing, r *round) {
	if len(list) == 0 {
		return
	}
	specs := make([]storage.Spec, len(list))
	byID := make(map[storage.ID]*missing, len(list))
	for i, x := range list {
		specs[i] = storage.Spec{ID: storage.ID{Topic: x.topic.ID, Partition: x.partition}, Topic: x.topic.Name}
		byID[specs[i].ID] = x
	}
	byDir, err := m.opt.Storage.AssignDirs(specs, m.slow())
	if err != nil {
		m.noteFailed(list, err)
		return
	}
	for d, specs := range byDir {
		makes := make([]*missing, len(specs))
		m.mu.Lock()
		for i := range specs {
			makes[i] = byID[specs[i].ID]
			makes[i].dir = d
		}
		m.mu.Unlock()
		m.queue(d, &task{creates: makes, rounds: m.share(r)})
	}
}

// createIn creates logs in a directory, createAtOnce at a time. If that fails, it divides them in
// halves, so that a log that cannot be created does not affect the others.
func (m *Manager) createIn(d *storage.Dir, list []*missing) (done changes) {
	done = newChanges()
	inRow := 0
	var try func([]*missing)
	try = func(some []*missing) {
		some, specs, version := m.specs(some)
		if len(some) == 0 {
			return
		}
		logs, err := m.opt.Storage.CreateIn(d, specs)
		switch {
		case err == nil:
			inRow = 0
			m.mu.Lock()
			m.made[d] = time.Now()
			m.mu.Unlock()
			m.adoptCreated(logs, version, done)
		case len(some) == 1 || inRow >= maxFailuresInRow || m.unusable(d) != nil:
			inRow++
			m.noteFailed(some, err)
		default:
			half := len(some) / 2
			try(some[:half])
			try(some[half:])
		}
	}
	for some := range slices.Chunk(list, createAtOnce) {
		try(some)
	}
	return done
}

// specs returns the entries that are still wanted, and their specs under the latest image, with its
// version.
func (m *Manager) specs(list []*missing) ([]*missing, []storage.Spec, int64) {
	m.roles.Lock()
	defer m.roles.Unlock()
	var still []*missing
	var specs []storage.Spec
	for _, x := range list {
		m.mu.RLock()
		current := m.missing[x.tp()] == x
		m.mu.RUnlock()
		if t := m.image.TopicByID(x.topic.ID); current && t != nil {
			id := storage.ID{Topic: t.ID, Partition: x.partition}
			still, specs = append(still, x), append(specs, storage.Spec{ID: id, Topic: t.Name, Config: m.opt.Config(m.image, t)})
		}
	}
	return still, specs, m.image.Version()
}

// adoptCreated turns created logs into partitions with the role and the configuration of the latest
// image, and adds what the metadata does not have to done. version is that of the image under which
// they were created. A log whose topic was deleted meanwhile is skipped; its deletion is queued.
func (m *Manager) adoptCreated(logs []*storage.Log, version int64, done changes) {
	var adopted []wanted
	m.roles.Lock()
	for _, l := range logs {
		tp := metadata.TopicPartition{Topic: l.ID().Topic, Partition: l.ID().Partition}
		m.mu.RLock()
		x, leaving := m.missing[tp], m.leaving[tp] != nil
		m.mu.RUnlock()
		t := m.image.TopicByID(tp.Topic)
		if x == nil || t == nil || leaving {
			continue // its deletion is queued
		}
		if x.tries > 0 {
			m.opt.Logger.Info("log created", zap.Stringer("partition", x), zap.Int("tries", x.tries+1),
				zap.Duration("after", time.Since(x.since)))
		}
		m.adopt(tp, l)
		if m.image.Version() != version {
			l.Configure(m.opt.Config(m.image, t))
		}
		w := wanted{t, tp.Partition}
		if !m.replaced { // otherwise the newest image has the roles of another process
			m.applyRole(w, done)
		}
		adopted = append(adopted, w)
	}
	m.roles.Unlock()
	m.mu.RLock()
	watchers := m.watchers
	m.mu.RUnlock()
	for _, w := range adopted {
		for _, tell := range watchers {
			tell(w.topic, w.partition)
		}
	}
}

// noteFailed records why logs could not be created, and schedules the next attempt.
func (m *Manager) noteFailed(list []*missing, err error) {
	now := time.Now()
	loud := false
	m.mu.Lock()
	for _, x := range list {
		if m.missing[x.tp()] != x {
			continue
		}
		loud = loud || x.err == nil || x.err.Error() != err.Error()
		if x.err == nil {
			x.since = now
		}
		x.queued, x.err, x.tries = false, err, x.tries+1
		x.next = now.Add(backoff.After(x.tries))
	}
	m.armLocked()
	m.mu.Unlock()
	log := m.opt.Logger.Debug // a repetition
	if loud {
		log = m.opt.Logger.Error
	}
	log("creating logs failed; retrying until they exist or their topic is deleted",
		zap.Int("partitions", len(list)), zap.Stringer("first", list[0]), zap.Error(err))
}

// armLocked schedules retry for the next creation that is due. The caller holds mu.
func (m *Manager) armLocked() {
	var next time.Time
	for _, x := range m.missing {
		if !x.queued && !x.permanent && (next.IsZero() || x.next.Before(next)) {
			next = x.next
		}
	}
	switch {
	case next.IsZero() || m.closed:
	case m.again == nil:
		m.again = time.AfterFunc(time.Until(next), m.startRetry)
	default:
		m.again.Reset(time.Until(next))
	}
}

// startRetry runs retry on a goroutine for which Close waits.
func (m *Manager) startRetry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.work.Go(func() { m.retry(time.Now()) })
	}
}

// retry queues the creations that are due. It adopts logs whose creation succeeded after it had
// been given up because of a hanging disk.
func (m *Manager) retry(now time.Time) {
	late, done := m.retryDue(now), newChanges()
	m.adoptCreated(late, -1, done)
	m.recorder.add(done, nil)
}

// retryDue is retry except for the logs that exist by now, which it returns. It holds roles, so
// that no topic is deleted between the choice of a directory and its entry in missing: that would
// leave the choice behind.
func (m *Manager) retryDue(now time.Time) (late []*storage.Log) {
	m.roles.Lock()
	defer m.roles.Unlock()
	var due []*missing
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	for _, x := range m.missing {
		if !x.queued && !x.permanent && !x.next.After(now) {
			x.queued = true
			due = append(due, x)
		}
	}
	m.armLocked()
	m.mu.Unlock()
	due = slices.DeleteFunc(due, func(x *missing) bool {
		l := m.opt.Storage.Get(storage.ID{Topic: x.topic.ID, Partition: x.partition})
		if l != nil {
			late = append(late, l)
		}
		return l != nil
	})
	m.assignDirs(due, nil)
	return late
}

// unusable returns why a directory cannot create or delete logs now.
func (m *Manager) unusable(d *storage.Dir) error {
	return cmp.Or(m.opt.Storage.Hung(d), d.Err())
}
