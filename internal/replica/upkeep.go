package replica

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/storage"
)

// Intervals of the upkeep.
const (
	// sweepInterval is that of Partition.Sweep and of the examination of directories.
	sweepInterval = 500 * time.Millisecond
	// saveInterval is that of storage.Dir.SaveHigh.
	saveInterval = 5 * time.Second
	// alterTime bounds one request for changes of ISRs. A change without an outcome is repeated.
	alterTime = 5 * time.Second
)

// upkeep is what a Manager of a cluster does at intervals: it measures the lag of the followers,
// requests changes of ISRs and other leaders, and saves high watermarks. It works only on
// partitions that are led, have followers, and were appended to or changed since they were last in
// order; so idle partitions cost nothing. One goroutine decides. What may wait for the metadata or
// for a disk runs on others, at most one for each purpose and directory.
type upkeep struct {
	m *Manager

	mu      sync.Mutex
	due     []*Partition          // Propose may return a change that need not wait for the next sweep
	watched []*Partition          // to be swept
	wake    chan struct{}         // capacity 1: due has grown, or a leader resigns
	saving  map[*storage.Dir]bool // a goroutine saves its high watermarks
	// unsaved reports that a high watermark has changed since they were saved.
	unsaved atomic.Bool

	failed series.Failures // to save, by directory

	isr    isrRequests
	resign resignRequests

	// Used by run's goroutine only.
	pending  map[*Partition]uint64 // the change that it requested last
	repeated time.Duration         // when Propose was called for all of pending last
	swept    time.Duration
	saved    time.Duration
}

func newUpkeep(m *Manager) *upkeep {
	u := &upkeep{m: m, wake: make(chan struct{}, 1), saving: map[*storage.Dir]bool{}, pending: map[*Partition]uint64{}}
	u.isr = isrRequests{u: u, todo: map[*Partition]isrRequest{}}
	u.resign = resignRequests{u: u, todo: map[*Partition]resignation{}}
	return u
}

// watch has a partition swept. It must not be called again before the partition is unwatched.
func (u *upkeep) watch(p *Partition) {
	u.mu.Lock()
	u.watched = append(u.watched, p)
	u.mu.Unlock()
}

// proposalDue has Propose called soon. It does not block.
func (u *upkeep) proposalDue(p *Partition) {
	u.mu.Lock()
	u.due = append(u.due, p)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// run ends with Close.
func (u *upkeep) run() {
	label.Goroutine("replica upkeep", "")
	now := u.m.env.now()
	u.swept, u.saved = now, now
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for {
		select {
		case <-u.m.ctx.Done():
			return
		case <-u.wake:
		case <-timer.C:
		}
		timer.Reset(u.turn(u.m.env.now()))
	}
}

// turn does what is due, and returns the time until the next turn.
func (u *upkeep) turn(now time.Duration) time.Duration {
	u.mu.Lock()
	list := u.due
	u.due = nil
	u.mu.Unlock()
	if now-u.repeated >= u.m.env.limits.Repeat { // not in every turn, of which each change causes some
		u.repeated = now
		list = slices.AppendSeq(list, maps.Keys(u.pending))
	}
	for _, p := range list {
		u.propose(p)
	}
	if now-u.swept >= sweepInterval {
		u.swept = now
		u.sweep()
		u.m.abilities.examine(u.m, now)
		u.m.renew()
	}
	if now-u.saved >= saveInterval {
		u.saved = now
		u.saveHigh()
	}
	u.resign.send(now)
	next := sweepInterval - (now - u.swept)
	if len(u.pending) > 0 {
		next = min(next, u.m.env.limits.Repeat-(now-u.repeated))
	}
	return max(next, time.Millisecond)
}

// sweep measures the lag of the watched partitions, and requests the changes that follow.
func (u *upkeep) sweep() {
	u.mu.Lock()
	list := u.watched
	u.watched = nil
	u.mu.Unlock()
	for _, p := range list {
		p.isWatched.Store(false) // an append from here on has it watched again
		if p.Sweep() {
			p.watch()
		}
		u.propose(p)
	}
}

// propose requests the change of a partition's ISR, if there is one.
func (u *upkeep) propose(p *Partition) {
	p.isDue.Store(false)
	if int64(u.m.env.now()) < p.notBefore.Load() {
		p.watch() // the next sweep proposes
		return
	}
	if p.refused() { // the images that follow need not change anything of this partition
		u.m.renewRole(p)
	}
	x, epoch, ok := p.Propose()
	if !ok {
		if !p.proposed() {
			delete(u.pending, p)
		}
		if !p.env.leaseLive() {
			p.watch() // for the time when the lease is back
		}
		return
	}
	if u.pending[p] != x.ID {
		u.report(p, &x)
	}
	u.pending[p] = x.ID
	u.isr.add(p, isrRequest{x, epoch})
}

// report logs a change that is requested for the first time.
func (u *upkeep) report(p *Partition, x *progress.Proposal) {
	fields := []zap.Field{zap.Stringer("partition", p), zap.Stringer("reason", x.Reason), zap.Int32s("isr", x.ISR),
		zap.Int32s("elr", x.ELR)}
	if x.Reason == progress.Damaged {
		u.m.opt.Logger.Error("a replica lacks committed records and leaves the in-sync replicas; see chronikctl cluster health", fields...)
		return
	}
	u.m.opt.Logger.Info("requesting a change of the in-sync replicas", fields...)
}

// isrRequest is a change with the leader epoch of its partition.
type isrRequest struct {
	progress.Proposal
	epoch int32
}

// isrRequests sends changes of ISRs to the metadata store. While one request is on its way, it
// keeps the newest change of each partition.
type isrRequests struct {
	u    *upkeep
	todo map[*Partition]isrRequest // guarded by upkeep.mu
	busy bool                      // guarded by upkeep.mu
}

func (s *isrRequests) add(p *Partition, x isrRequest) {
	m := s.u.m
	s.u.mu.Lock()
	s.todo[p] = x
	start := !s.busy
	s.busy = true
	s.u.mu.Unlock()
	if start {
		m.work.Go(s.run)
	}
}

// run sends what is to be sent until there is nothing.
func (s *isrRequests) run() {
	label.Goroutine("replica isr", "")
	m := s.u.m
	for {
		s.u.mu.Lock()
		todo := s.todo
		s.todo = map[*Partition]isrRequest{}
		if len(todo) == 0 || m.ctx.Err() != nil {
			s.busy = false
			s.u.mu.Unlock()
			return
		}
		s.u.mu.Unlock()
		s.send(todo)
	}
}

// send requests changes and waits for the outcomes. An accepted change has no consequence here: an
// image will show it. Neither has one with an unknown outcome, which is repeated.
func (s *isrRequests) send(todo map[*Partition]isrRequest) {
	m := s.u.m
	ctx, cancel := context.WithTimeout(m.ctx, alterTime)
	defer cancel()
	partitions := make([]*Partition, 0, len(todo))
	changes := make([]metadata.ISRChange, 0, len(todo))
	for p, x := range todo {
		partitions, changes = append(partitions, p), append(changes, isrChange(p, &x.Proposal))
	}
	for i, err := range m.opt.Cluster.AlterISR(ctx, changes) {
		p := partitions[i]
		revision, refused := metadata.Refused(err)
		switch {
		case refused:
			p.notBefore.Store(int64(m.env.now() + m.env.limits.Repeat))
			p.Refused(todo[p].epoch, todo[p].ID, revision)
		case err != nil:
			m.opt.Logger.Debug("a change of the in-sync replicas has no known outcome", zap.Stringer("partition", p), zap.Error(err))
		}
	}
}

func isrChange(p *Partition, x *progress.Proposal) metadata.ISRChange {
	c := metadata.ISRChange{TopicPartition: p.tp(), Revision: x.Revision, ISR: x.ISR, ELR: x.ELR}
	for _, b := range x.Members {
		c.Members = append(c.Members, metadata.BrokerRevision{Broker: b.Broker, Epoch: b.BrokerEpoch, Liveness: b.Liveness})
	}
	return c
}

// highChanged has the high watermarks saved soon.
func (u *upkeep) highChanged() {
	if u != nil && !u.unsaved.Load() {
		u.unsaved.Store(true)
	}
}

// saveHigh saves the high watermarks of the replicated logs, for a start after a crash, if one has
// changed. A directory that hangs delays only itself.
func (u *upkeep) saveHigh() {
	if !u.unsaved.Swap(false) {
		return
	}
	logs := map[*storage.Dir][]*storage.Log{}
	for _, p := range u.m.Partitions() {
		if p.role.Load().replicas > 1 {
			logs[p.log.Dir()] = append(logs[p.log.Dir()], p.log)
		}
	}
	for d, list := range logs {
		u.mu.Lock()
		busy := u.saving[d]
		u.saving[d] = true
		u.mu.Unlock()
		if busy {
			u.unsaved.Store(true)
			continue
		}
		slices.SortFunc(list, func(a, b *storage.Log) int { return compareIDs(a.ID(), b.ID()) }) // unchanged ones are not written
		u.m.work.Go(func() {
			key := series.Key(d.Path(), "") // no path begins with it
			switch err := d.SaveHigh(list); {
			case err == nil:
				if u.failed.Ended(key) {
					u.m.opt.Logger.Info("high watermarks are saved again", zap.String("dir", d.Path()))
				}
			case u.m.ctx.Err() == nil:
				u.unsaved.Store(true)
				if n, say := u.failed.Failed(key, err); say {
					u.m.opt.Logger.Warn("high watermarks were not saved; after a crash, readers wait for the other replicas",
						zap.String("dir", d.Path()), zap.Int("failures", n), zap.Error(err))
				}
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			u.saving[d] = false
		})
	}
}
