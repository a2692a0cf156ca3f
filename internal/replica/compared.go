package replica

import (
	"slices"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/metadata"
)

// comparison knows whether a log has lost nothing unnoticed: since this process has it, it led, or
// had all that was committed when it began to follow.
//
//	unknown ──── the leader names the end of what is committed ────▶ copying
//	   │                                                                │ the log has what is below
//	   └───────────────────────────── it leads ─────────────────────────┴──▶ done
type comparison struct {
	to   atomic.Int64 // the end of what was committed, plus 1; 0 if it is unknown
	done atomic.Bool
}

// wholeLocked returns the offset up to which a follower that subscribes now has every record that
// was committed before. A leader had those of earlier epochs when its own began, and what it has
// committed since is below its high watermark. From here on, the follower's new ends count. The
// caller holds mu, and this broker leads.
func (p *Partition) wholeLocked() int64 { return max(p.role.Load().epochStart, p.lead.High()) }

// CompareTo notes what the leader of an epoch named when it accepted this broker's subscription:
// all records that were committed by then are below whole. The log agrees with the leader's up to
// its end.
func (p *Partition) CompareTo(epoch int32, whole int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followsLocked(epoch) == nil {
		p.comparison.to.Store(whole + 1)
	}
}

// Compared reports whether the log has lost nothing unnoticed.
func (p *Partition) Compared() bool {
	c := &p.comparison
	to := c.to.Load()
	if !c.done.Load() && (p.role.Load().leader || to > 0 && p.log.AckEnd() >= to-1) {
		c.done.Store(true)
	}
	return c.done.Load()
}

// Uncompared returns the logs of this broker that are not compared, if an image says that some are:
// such a log is a member of ISR or ELR, others are, too, and no leader has compared it. If they are
// more than most, all is true instead.
func (m *Manager) Uncompared(img *metadata.Image, most int) (all bool, logs []metadata.TopicPartition) {
	state, _ := img.State(m.opt.Self)
	if !state.Uncompared && len(state.UncomparedLogs) == 0 {
		return false, nil
	}
	for t := range img.Topics() {
		for i, part := range t.Partitions.All() {
			tp := metadata.TopicPartition{Topic: t.ID, Partition: i}
			if img.Compared(m.opt.Self, tp) || !shared(part, m.opt.Self) {
				continue
			}
			if p, err := m.Partition(t.ID, i); err == nil && p.Compared() {
				continue
			}
			if logs = append(logs, tp); len(logs) > most {
				return true, state.UncomparedLogs
			}
		}
	}
	return false, logs
}

// shared reports whether a broker's replica and another one are in the ISR or the ELR.
func shared(p *metadata.Partition, broker int32) bool {
	member := slices.Contains(p.ISR, broker) || slices.Contains(p.ELR, broker)
	return member && len(p.ISR)+len(p.ELR) > 1
}
