package daemon

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/diagnose"
	"github.com/chronik-io/chronik/internal/diagnose/host"
	"github.com/chronik-io/chronik/internal/vfs"
)

// probes are the times of fdatasync that somebody asked to measure, by journal
// directory. It is safe for concurrent use.
type probes struct {
	busy  sync.Mutex // one at a time: two would measure each other
	found atomic.Pointer[map[string]diagnose.Latency]
}

// of is what the last probe of a journal's disk found; zero where there was none.
func (p *probes) of(journal string) diagnose.Latency {
	if all := p.found.Load(); all != nil {
		return (*all)[journal]
	}
	return diagnose.Latency{}
}

// probe measures the disks of all journals, a few seconds each at most.
func (a *api) probe(ctx context.Context) error {
	r, err := a.rooms()
	if err != nil {
		return err
	}
	if a.b.fs != vfs.OS() {
		return badRequest("the broker is in memory: there is no disk to measure")
	}
	p := a.b.probes
	if !p.busy.TryLock() {
		return &apiError{http.StatusConflict, "the disks are being measured now for somebody else; ask again in some seconds"}
	}
	defer p.busy.Unlock()
	all := map[string]diagnose.Latency{}
	if old := p.found.Load(); old != nil {
		maps.Copy(all, *old)
	}
	for _, d := range r.storage.Dirs() {
		if d.Room() != nil || d.Err() != nil {
			continue // there are findings about it already
		}
		l, err := host.Probe(ctx, d.JournalPath())
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return badRequest("%v; chronik-bench limits --dir DIR measures with files of its own", err)
		case err != nil:
			return err
		}
		all[d.JournalPath()] = l
	}
	p.found.Store(&all)
	return nil
}
