package daemon

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/admin"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/vfs"
)

// probes are the times of fdatasync that somebody asked to measure, by journal
// directory. It is safe for concurrent use.
type probes struct {
	busy  sync.Mutex // one at a time: two would measure each other
	found atomic.Pointer[map[string]checks.Latency]
}

// of is what the last probe of a journal's disk found; zero where there was none.
func (p *probes) of(journal string) checks.Latency {
	if all := p.found.Load(); all != nil {
		return (*all)[journal]
	}
	return checks.Latency{}
}

// probe measures the disks of all journals, a few seconds each at most.
func (b *Broker) probe(ctx context.Context) error {
	if b.fs != vfs.OS() {
		return admin.BadRequest("the broker is in memory: there is no disk to measure")
	}
	p := b.probes
	if !p.busy.TryLock() {
		return admin.Conflict("the disks are being measured now for another request; retry in some seconds")
	}
	defer p.busy.Unlock()
	all := map[string]checks.Latency{}
	if old := p.found.Load(); old != nil {
		maps.Copy(all, *old)
	}
	for _, d := range b.rooms.storage.Dirs() {
		if d.Room() != nil || d.Err() != nil {
			continue // there are findings about it already
		}
		l, err := host.Probe(ctx, d.JournalPath())
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return admin.BadRequest("%v; chronik-bench limits --dir DIR measures with files of its own", err)
		case err != nil:
			return err
		}
		all[d.JournalPath()] = l
	}
	p.found.Store(&all)
	return nil
}
