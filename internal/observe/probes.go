package observe

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/view"
)

// ErrProbing is returned for a measurement while another one runs.
var ErrProbing = errors.New("another request is measuring the disks now; retry in a few seconds")

// Probes holds the fdatasync latencies that were measured on request, by journal directory. It is
// safe for concurrent use.
type Probes struct {
	busy  sync.Mutex // one at a time: two would measure each other
	found atomic.Pointer[map[string]view.Latency]
}

// of returns the last measurement of a journal's disk; zero if there was none.
func (p *Probes) of(journal string) view.Latency {
	if all := p.found.Load(); all != nil {
		return (*all)[journal]
	}
	return view.Latency{}
}

// Measure measures the disks of all journals, a few seconds each at most. The error matches
// ErrProbing, or errors.ErrUnsupported if a file system has no unnamed files.
func (p *Probes) Measure(ctx context.Context, dirs []*storage.Dir) error {
	if !p.busy.TryLock() {
		return ErrProbing
	}
	defer p.busy.Unlock()
	all := map[string]view.Latency{}
	if old := p.found.Load(); old != nil {
		maps.Copy(all, *old)
	}
	for _, d := range dirs {
		if d.CanCreate() != nil || d.Err() != nil {
			continue // findings report it already
		}
		l, err := host.Probe(ctx, d.JournalPath())
		if err != nil {
			return err
		}
		all[d.JournalPath()] = l
	}
	p.found.Store(&all)
	return nil
}
