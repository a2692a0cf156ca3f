package replica

import "fmt"

// Release answers the appends with acks=all that wait for other replicas with ErrNotLeader. A
// broker that stops, but whose leaderships could not move because the others stop too, calls it:
// nothing else ends these waits before their time is over. The records may be committed later
// nevertheless.
func (m *Manager) Release() {
	for _, p := range m.Partitions() {
		p.release()
	}
}

func (p *Partition) release() {
	var ready decided
	p.mu.Lock()
	p.discardUncommitted(fmt.Errorf("%w: this broker stops", ErrNotLeader), &ready)
	p.mu.Unlock()
	ready.finish()
}
