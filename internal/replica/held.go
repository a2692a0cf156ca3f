package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// holdTime is how long the logs stay as a freeze has cut them until Take is called.
const holdTime = MaxFreeze + 10*time.Second

// ErrVoid means that a log can't be read as it was cut: it is not, or may not be, the cut's any
// longer.
var ErrVoid = errors.New("the cut of the log is void")

// Held is a log that keeps what it had when a freeze cut it; see storage.Hold, whose methods read
// it.
type Held struct {
	Cut
	*storage.Hold
	p *Partition
}

// Log returns the log.
func (h *Held) Log() *storage.Log { return h.p.log }

// Known is Partition.Known.
func (h *Held) Known() epochs.Cache { return h.p.Known() }

// Void returns nil if the bytes that were read until now are those of the cut. Otherwise the error
// matches ErrVoid. It must be called after the last read: records between the high watermark and
// the cut may be replaced by others in the next leader epoch. While this broker leads in the epoch
// of the cut, its log only grows. Once the high watermark has passed the cut, the records are
// those of every later leader, unless the log was truncated meanwhile.
func (h *Held) Void() error {
	h.p.mu.Lock()
	r, high := h.p.role.Load(), h.p.high.Load()
	h.p.mu.Unlock()
	if err := h.Kept(h.End); err != nil {
		return fmt.Errorf("%w: %w", ErrVoid, err)
	}
	if r.leader && r.epoch == h.Epoch || high >= h.End {
		return nil
	}
	return fmt.Errorf("%w: %s is cut at %d in leader epoch %d; in epoch %d, its high watermark is %d", ErrVoid, h.p, h.End, h.Epoch,
		r.epoch, high)
}

// hold replaces the logs of the former freeze that were not taken by others, and releases these
// when holdTime is over. The caller holds mu.
func (f *freezing) hold(next map[metadata.TopicPartition]*Held) {
	if f.untaken != nil {
		f.untaken.Stop()
	}
	f.drop()
	f.held = next
	id := f.latest
	f.untaken = time.AfterFunc(holdTime, func() { f.release(func(latest FreezeID) bool { return latest == id }) })
}

// release ends the holds that were not taken if ends accepts the freeze that began last. A timer
// that Stop came too late for waits for mu while another freeze begins, and must not end its holds.
func (f *freezing) release(ends func(latest FreezeID) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ends(f.latest) {
		f.drop()
	}
}

// drop releases the logs that were not taken. The caller holds mu.
func (f *freezing) drop() {
	for _, h := range f.held {
		h.Release()
	}
	f.held = nil
}

// Take returns the log of a cut that the last freeze returned, which the caller must release. It
// fails with ErrVoid if another freeze has begun since, or the last one was more than about 10
// seconds ago, or the log was taken.
func (m *Manager) Take(c Cut) (*Held, error) {
	f := &m.env.freezing
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[c.TopicPartition]
	if h == nil || h.Cut != c {
		return nil, fmt.Errorf("%w: partition %d of topic %x is not held any longer", ErrVoid, c.Partition, c.Topic)
	}
	delete(f.held, c.TopicPartition)
	return h, nil
}
