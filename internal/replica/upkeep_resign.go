package replica

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
)

// Resigner asks the controller, on whichever broker it runs, for other leaders.
type Resigner interface {
	// Resign reports that a broker must not lead partitions any longer in the given leader epochs:
	// it discarded records that it had sent to followers, or cannot read its log. In a higher epoch
	// it may. An error means that the outcome is unknown; the caller tries again. It
	// blocks until there is an answer or the context ends.
	Resign(ctx context.Context, broker int32, brokerEpoch int64, partitions map[metadata.TopicPartition]int32) error
}

const (
	// resignBatch bounds the partitions of one request.
	resignBatch = 10_000
	// resignWarn is the least time between two warnings that a request failed for the same reason.
	resignWarn = time.Minute
	// resignTime bounds one request, and resignPause is the pause between two for a partition.
	resignTime  = 2 * time.Second
	resignPause = 200 * time.Millisecond
	// damagedPause is the least time between two resignations of a partition because of damage: it
	// may be elected again, if no other replica can lead.
	damagedPause = time.Minute
)

// resignation is a leader epoch that must end.
type resignation struct {
	epoch int32
	sent  time.Duration
	is    bool // it was sent
}

// resignRequests asks for other leaders until the metadata shows a higher leader epoch.
type resignRequests struct {
	u    *upkeep
	todo map[*Partition]resignation // guarded by upkeep.mu
	busy bool                       // guarded by upkeep.mu

	failed string        // why the request that was logged last failed; guarded by upkeep.mu
	warned time.Duration // when that was
}

// add requests another leader than this broker in an epoch. It does not block.
func (s *resignRequests) add(p *Partition, epoch int32) {
	s.u.mu.Lock()
	if x, ok := s.todo[p]; !ok || x.epoch < epoch {
		s.todo[p] = resignation{epoch: epoch}
	}
	s.u.mu.Unlock()
	select {
	case s.u.wake <- struct{}{}:
	default:
	}
}

// send starts a request for the partitions that have not been asked for recently, unless one is on
// its way.
func (s *resignRequests) send(now time.Duration) {
	m := s.u.m
	if m.opt.Resigner == nil {
		return
	}
	s.u.mu.Lock()
	defer s.u.mu.Unlock()
	if s.busy || len(s.todo) == 0 {
		return
	}
	list := map[metadata.TopicPartition]int32{}
	for p, x := range s.todo {
		r := p.role.Load()
		if !r.leader || r.epoch > x.epoch {
			delete(s.todo, p)
			continue
		}
		if x.is && now-x.sent < resignPause || len(list) == resignBatch {
			continue
		}
		list[p.tp()] = x.epoch
		s.todo[p] = resignation{x.epoch, now, true}
	}
	if len(list) == 0 {
		return
	}
	s.busy = true
	m.work.Go(func() { s.request(list) })
}

func (s *resignRequests) request(list map[metadata.TopicPartition]int32) {
	m := s.u.m
	ctx, cancel := context.WithTimeout(m.ctx, resignTime)
	defer cancel()
	m.roles.Lock()
	self, _ := m.image.Broker(m.opt.Self)
	m.roles.Unlock()
	err := m.opt.Resigner.Resign(ctx, m.opt.Self, self.Epoch, list)
	now := m.env.now()
	s.u.mu.Lock()
	defer s.u.mu.Unlock()
	s.busy = false
	switch {
	case err == nil:
		s.failed = ""
	case m.ctx.Err() == nil && (err.Error() != s.failed || now-s.warned >= resignWarn):
		s.failed, s.warned = err.Error(), now
		m.opt.Logger.Warn("the controller did not accept that this broker resigns; trying again", zap.Int("partitions", len(list)),
			zap.Error(err))
	}
}

// ReadFailed is called with the error of a read of the partition's log. If records are damaged
// here, this broker gives way to an intact replica. It takes no lock of the partition.
func (p *Partition) ReadFailed(err error) {
	if errors.Is(err, storage.ErrCorrupt) {
		p.giveWay()
	}
}

// giveWay resigns if this broker leads and another in-sync replica can lead, but not often: that
// one may not be able to read its log either.
func (p *Partition) giveWay() {
	r := p.role.Load()
	if !r.leader || !r.hasOther(p.env.self) || p.env.resign == nil {
		return
	}
	now := int64(p.env.now())
	last := p.resigned.Load()
	if last != 0 && now-last < int64(damagedPause) || !p.resigned.CompareAndSwap(last, max(now, 1)) {
		return
	}
	p.env.resign(p, r.epoch)
}

func compareIDs(a, b storage.ID) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}
