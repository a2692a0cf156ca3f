package replica

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica/progress"
	"github.com/chronik-io/chronik/pkg/durability"
)

// applyRole gives a partition its role, and adds to changes what the metadata does not have: its
// directory, and a leader epoch above those of its log and high watermark. This broker must not
// lead in a lower one, and cannot follow in one: a replica that an unclean election passed over has
// what the others took back, and discards it only in a later epoch. A log has a later epoch than
// the metadata gives if that was restored from a copy, or the same one after a stop that was not
// clean: the registration has raised what the copy had. The caller holds roles.
func (m *Manager) applyRole(w wanted, changes changes) {
	tp := w.tp()
	m.mu.RLock()
	p := m.partitions[tp]
	m.mu.RUnlock()
	if p == nil {
		return
	}
	part := w.topic.Partitions.At(w.partition)
	m.recordDir(p, changes)
	_, high := p.High()
	seen := max(latest(p.log), high)
	if seen > part.LeaderEpoch && part.PassedOver(m.opt.Self) {
		changes.raise[tp] = metadata.Raise{From: part.LeaderEpoch, Seen: seen, Lossy: true}
	}
	m.mu.Lock()
	x, fenced := m.fence[tp]
	later := part.Leader == m.opt.Self && max(seen-1, p.found) >= part.LeaderEpoch && (!fenced || x.From < part.LeaderEpoch)
	if later {
		// What an unclean stop lost may have been of a later epoch than what is left. What an
		// unclean election passed over that did not know this epoch is older than the next.
		raise := metadata.Raise{From: part.LeaderEpoch, Seen: max(seen, part.LeaderEpoch+1), Lossy: part.Unclean > 0}
		x, fenced = Waiting{tp, raise, time.Now()}, true
		m.fence[tp], changes.raise[tp] = x, x.Raise
	}
	if fenced = fenced && part.Leader == m.opt.Self && part.LeaderEpoch <= x.From; !fenced {
		delete(m.fence, tp)
	}
	m.mu.Unlock()
	if later && seen > part.LeaderEpoch {
		m.opt.Logger.Warn("the log has records of the leader epoch that the metadata gives, or of a later one, because the metadata was restored from a copy; "+
			"asking for a higher one",
			zap.Stringer("partition", p), zap.Int32("epoch", part.LeaderEpoch), zap.Int32("known", seen))
	}
	if fenced {
		return // a raised epoch is on its way
	}
	p.SetRole(m.roleOf(w))
}

// recordDir adds the directory of a partition's log to the changes, unless the image has it. The
// caller holds roles.
func (m *Manager) recordDir(p *Partition, changes changes) {
	if recorded, _ := m.image.Placement(m.opt.Self, p.tp()); recorded != p.log.Dir().ID() {
		changes.dirs[p.tp()] = p.log.Dir().ID()
	}
}

// roleOf returns what the latest image says about a partition. The caller holds roles.
func (m *Manager) roleOf(w wanted) *Role {
	part := w.topic.Partitions.At(w.partition)
	a := &Role{Leader: part.Leader, Epoch: part.LeaderEpoch, Unclean: part.Unclean}
	a.View = progress.View{Version: m.image.Version(), Revision: part.Revision, MinISR: 1,
		Notes: m.image.FeatureLevel() >= metadata.LedLevel}
	a.View.Replicas = make([]progress.Replica, len(part.Replicas))
	if part.Leader == m.opt.Self {
		a.View.Written = m.opt.Config(m.image, w.topic).Profile.Ack != durability.Synced
		if m.opt.MinISR != nil {
			a.View.MinISR = m.opt.MinISR(m.image, w.topic, part)
		}
	}
	for i, id := range part.Replicas {
		r := progress.Replica{Broker: id, Adding: slices.Contains(part.Adding, id), InSync: slices.Contains(part.ISR, id),
			Eligible: slices.Contains(part.ELR, id)}
		b, _ := m.image.Broker(id)
		r.BrokerEpoch = b.Epoch
		var state metadata.BrokerState
		state, r.Liveness = m.image.State(id)
		r.Placement, _ = m.image.Placement(id, w.tp())
		works, _ := b.Able(&state, r.Placement)
		r.Active = state.Liveness == metadata.Active && works && !slices.Contains(state.Damaged, w.tp())
		if id == m.opt.Self {
			a.BrokerEpoch = r.BrokerEpoch
		}
		a.View.Replicas[i] = r
	}
	return a
}

// review renews the roles of the partitions that this broker leads and whose record is unchanged,
// but not the registrations, placements, configs or feature level on which they depend. It records
// this broker's placements again if a late write has replaced them. The caller holds roles.
func (m *Manager) review(prev *metadata.Image, d *metadata.Delta, r *round) {
	changes := newChanges()
	for _, x := range d.Placements {
		if x.Broker == m.opt.Self {
			m.eachOf(x.Topic, func(p *Partition) { m.recordDir(p, changes) })
		}
	}
	m.recorder.add(changes, m.share(r))
	if d.Cluster || d.Brokers || len(d.Liveness) > 0 || len(d.BrokerConfigs) > 0 {
		for _, p := range m.Partitions() {
			m.reviewOne(m.image.TopicByID(p.id.Topic), p)
		}
		return
	}
	for _, x := range d.Placements {
		for i := range m.image.Moved(prev, x) {
			m.mu.RLock()
			p := m.partitions[metadata.TopicPartition{Topic: x.Topic, Partition: i}]
			m.mu.RUnlock()
			if p != nil {
				m.reviewOne(m.image.TopicByID(x.Topic), p)
			}
		}
	}
	for _, c := range d.Changed {
		if c.Config {
			m.eachOf(c.Next.ID, func(p *Partition) { m.reviewOne(c.Next, p) })
		}
	}
}

// eachOf calls a function for each partition of a topic that this broker has. The caller holds
// roles.
func (m *Manager) eachOf(topic [16]byte, call func(*Partition)) {
	t := m.image.TopicByID(topic)
	if t == nil {
		return
	}
	for i := range t.Partitions.All() {
		m.mu.RLock()
		p := m.partitions[metadata.TopicPartition{Topic: topic, Partition: i}]
		m.mu.RUnlock()
		if p != nil {
			call(p)
		}
	}
}

// renewRole gives a partition that this broker leads its role of the latest image.
func (m *Manager) renewRole(p *Partition) {
	m.roles.Lock()
	defer m.roles.Unlock()
	if m.applied && !m.replaced {
		m.reviewOne(m.image.TopicByID(p.id.Topic), p)
	}
}

// reviewOne gives a partition the role of the latest image if that has the same leader and epoch.
// The caller holds roles.
func (m *Manager) reviewOne(t *metadata.Topic, p *Partition) {
	r := p.role.Load()
	if t == nil || !r.leader {
		return
	}
	w := wanted{t, p.id.Partition}
	if part := t.Partitions.At(w.partition); part != nil && part.Leader == m.opt.Self && part.LeaderEpoch == r.epoch {
		p.SetRole(m.roleOf(w))
	}
}
