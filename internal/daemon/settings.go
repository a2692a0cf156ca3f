package daemon

import (
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/memory"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// applySettings applies the broker settings of img that can change while the broker runs.
// replica.TopicSettings applies those of topics.
func (b *Broker) applySettings(r *components, img *metadata.Image) error {
	live, err := b.configs.ResolveLive(r.settings.Layers(img, nil))
	if err != nil {
		return fmt.Errorf("resolve the broker's settings: %w", err)
	}
	r.minFree.Store(live.MinFree)
	if was := b.limits.now.Swap(&live.Connections); !reflect.DeepEqual(was, &live.Connections) {
		b.limitConnections(r) // not otherwise: the process may have few descriptors at the moment
	}
	c := &live.Cleaning
	_, cut := memory.Divide(b.memory, b.cfg.Produce, len(r.data.Locations()), c.KeyBytes)
	cleaning := storage.Cleaning{Backoff: c.Backoff, KeyBytes: cut.Keys, BytesPerSecond: c.BytesPerSecond, Scrub: c.Scrub}
	r.cleaning.Store(&cleaning)
	if r.storage != nil {
		r.storage.SetCleaning(cleaning)
		r.storage.SetMoveRate(live.MoveRate)
	}
	return nil
}

// localPlaces is how many connections from the broker's machine are served above max.connections:
// an administrator needs one or two to raise it, and a script may leave some.
const localPlaces = 10

// connectionLimits are the limits of connections. They follow the broker's settings while it runs.
type connectionLimits struct {
	now   atomic.Pointer[configdef.Connections]
	rates *guard.Rates
	// applying makes reading the newest limits and passing them on one step.
	applying sync.Mutex
}

// newConnectionLimits returns the limits that the configuration sets.
func newConnectionLimits(listeners []config.Listener, c *configdef.Connections) *connectionLimits {
	l := &connectionLimits{rates: guard.NewRates(listeners)}
	l.now.Store(c)
	l.rates.Set(c)
	return l
}

// most returns max.connections; math.MaxInt32 means no limit.
func (l *connectionLimits) most() int { return int(l.now.Load().Most) }

// limitConnections passes the limits of connections on to what counts them.
func (b *Broker) limitConnections(r *components) {
	b.limits.applying.Lock()
	defer b.limits.applying.Unlock()
	c := b.limits.now.Load()
	b.limits.rates.Set(c)
	if server := r.server.Load(); server != nil {
		server.SetLimits(b.networkLimits(r, c))
	}
}

// showRefusals adds to the facts what is refused to clients, with the present limits of
// connections.
func (b *Broker) showRefusals(r *components) checks.Source {
	return func(f *checks.Facts) {
		f.Refused = b.guard.Refusals.Last()
		if len(f.Refused) == 0 {
			return
		}
		now := b.networkLimits(r, b.limits.now.Load())
		f.ConnectionLimits = map[string]int{checks.LimitTotal: now.Connections,
			checks.LimitUnauthenticated: b.cfg.Security.MaxUnauthenticated}
		if now.PerIP < math.MaxInt32 && len(now.PerIPOf) == 0 {
			f.ConnectionLimits[checks.LimitPerIP] = int(now.PerIP)
		}
		for name, most := range now.Listeners {
			f.ConnectionLimits[configdef.ListenerMostName(name)] = most
		}
	}
}

func (b *Broker) networkLimits(r *components, c *configdef.Connections) network.Limits {
	l := network.Limits{Connections: b.maxConnections(r, c.Most), PerIP: c.PerIP, PerIPOf: c.PerIPOf, Listeners: map[string]int{}}
	for i := range b.cfg.Listeners {
		name := b.cfg.Listeners[i].Name
		l.Listeners[name] = int(c.Listener(name).Most)
	}
	return l
}

// maxConnections returns max.connections or, if that sets no limit, the number of file descriptors
// that segments leave for connections: more would take descriptors from the logs. Before the logs
// are open, that is half of all. It is less if memory is short; see memory.Connections.
func (b *Broker) maxConnections(r *components, most int32) int {
	if most < math.MaxInt32 {
		return int(most)
	}
	most = memory.Connections(b.memory)
	if r.storage == nil {
		return min(int(most), vfs.Descriptors()/2)
	}
	var segments []int
	if b.fs == vfs.OS() { // in memory there are no files
		for _, d := range r.storage.Dirs() {
			segments = append(segments, d.Usage().MaxOpenFiles)
		}
	}
	return min(int(most), checks.Connections(vfs.Descriptors(), segments))
}
