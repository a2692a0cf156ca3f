package storage

import (
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/pkg/durability"
)

// A log that acknowledges written records may lose acknowledged records with the power, and the
// next start must report it (Dir.Lossy). The configuration of that moment is not known then, so
// the checkpoint lists such logs. It does so before the first acknowledgement: a new profile that
// acknowledges written records applies only after a checkpoint with the log's mark is durable.
// Until then the log keeps its old profile, which promises more.

// acks is the state of a log's mark in the checkpoint.
type acks struct {
	// marked: every checkpoint that a start may find has the mark.
	marked atomic.Bool
	// lossy: a power loss may have removed acknowledged records; see Dir.Lossy.
	lossy   atomic.Bool
	pending *Config // configuration that waits for the mark; nil: none. Guarded by Log.mu.
}

// Configure changes the configuration. A new durability profile applies from the next group on,
// except that one which acknowledges written records waits for a checkpoint if the current one does
// not; Configure does not wait. If the old profile acknowledged records that are only written,
// AckEnd drops to the durable end until the fdatasync that this call requests.
func (l *Log) Configure(cfg Config) {
	l.mu.Lock()
	old, now, asked := *l.cfg.Load(), cfg, l.acks.pending != nil
	waits := cfg.Profile.Ack == durability.Written && old.Profile.Ack != durability.Written && !l.acks.marked.Load()
	l.acks.pending = nil
	if waits && !l.dir.opt.broken.has(lateMark) {
		now.Profile = old.Profile
		l.acks.pending = &cfg
	}
	l.cfg.Store(&now)
	l.mu.Unlock()
	if waits && !asked {
		l.dir.requestCommit(l)
	}
	if cfg.Profile.Ack == durability.Synced && l.written.Load() > l.durable.Load() {
		l.dir.journal.Sync()
	}
	if old.Cleanup != cfg.Cleanup {
		l.dir.limitsChanged()
		l.dir.applyRetentionSoon(l)
	}
}

// Config returns the configuration that was set last.
func (l *Log) Config() Config {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if p := l.acks.pending; p != nil {
		return *p
	}
	return *l.cfg.Load()
}

// AcksWritten reports whether the log may report a written end above its durable end: its profile
// acknowledges written records, and the checkpoint lists it as such.
func (l *Log) AcksWritten() bool {
	return l.cfg.Load().Profile.Ack == durability.Written && l.acks.marked.Load()
}

// markLocked sets the marks of a checkpoint entry. A log keeps the mark while records that it may
// have acknowledged as written are not synced. The caller holds mu, for reading at least.
func (l *Log) markLocked(lc *checkpoint.Log) {
	lc.Lossy, lc.Partial = l.acks.lossy.Load(), l.partial.Load()
	lc.AcksWritten = l.acks.pending != nil || l.cfg.Load().Profile.Ack == durability.Written || l.written.Load() > l.durable.Load()
	if !lc.AcksWritten {
		l.acks.marked.Store(false) // the entry may become durable from now on
	}
}

// setMarked records that a checkpoint with the log's mark is durable. The caller holds Dir.ckptMu,
// so no checkpoint without the mark has been written since.
func (l *Log) setMarked() {
	if l.acks.marked.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks.marked.Store(true)
	if p := l.acks.pending; p != nil {
		l.cfg.Store(p)
		l.acks.pending = nil
	}
}
