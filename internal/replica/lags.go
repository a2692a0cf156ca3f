package replica

import "time"

// Lag is by how much a follower is behind in all partitions together that this broker leads.
type Lag struct {
	Records int64
	Longest time.Duration // for how long it has not been caught up in a partition
}

// Behind returns how many records a follower lacks of those that its leader has committed, as far
// as the leader has told it; 0 for a leader.
func (p *Partition) Behind() int64 {
	if p.role.Load().leader {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.follow.Committed()-p.log.Ends().LogEnd)
}

// Lags returns the lag of each follower of the partitions that this broker leads. Its cost grows
// with their number.
func (m *Manager) Lags() map[int32]Lag {
	all := map[int32]Lag{}
	now := m.env.now()
	for _, p := range m.Partitions() {
		if r := p.role.Load(); !r.leader || r.replicas < 2 {
			continue
		}
		p.mu.Lock()
		if p.lead != nil {
			p.lead.Lags(now, p.log.Ends().LogEnd, func(broker int32, records int64, behind time.Duration) {
				x := all[broker]
				all[broker] = Lag{x.Records + records, max(x.Longest, behind)}
			})
		}
		p.mu.Unlock()
	}
	return all
}
