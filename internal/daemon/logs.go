package daemon

import (
	"fmt"
	"math"
	"net"
	"os"
	"strconv"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/storage"
)

// holder returns what lock files record about this process.
func holder() string { return "pid " + strconv.Itoa(os.Getpid()) }

// places returns the log directories and their journals.
func places(conf *configdef.Broker) []storage.Place {
	places := make([]storage.Place, len(conf.LogDirs))
	for i, dir := range conf.LogDirs {
		places[i].Path = dir
		if i < len(conf.JournalDirs) {
			places[i].Journal = conf.JournalDirs[i]
		}
	}
	return places
}

// applySettings applies the broker settings of img that can change while the broker runs. Those of
// logs are applied elsewhere.
func (b *Broker) applySettings(r *components, img *metadata.Image) error {
	live, err := b.configs.ResolveLive(r.settings.Layers(img, nil))
	if err != nil {
		return fmt.Errorf("resolve the broker's settings: %w", err)
	}
	r.minFree.Store(live.MinFree)
	c := &live.Cleaning
	_, cut := divide(b.memory, b.cfg.Produce, len(places(&r.conf)), c.KeyBytes)
	cleaning := storage.Cleaning{Backoff: c.Backoff, KeyBytes: cut.Keys, BytesPerSecond: c.BytesPerSecond}
	r.cleaning.Store(&cleaning)
	if r.storage != nil {
		r.storage.SetCleaning(cleaning)
	}
	return nil
}

// listenerOf converts a listener to network's type.
func listenerOf(l config.Listener) (*network.Listener, error) {
	n := &network.Listener{Name: l.Name}
	if l.Advertise == "" {
		return n, nil
	}
	host, port, err := net.SplitHostPort(l.Advertise)
	if err != nil {
		return nil, &ExitError{ExitUsage, fmt.Errorf("advertise %s: %w", l.Advertise, err)}
	}
	p, err := strconv.ParseInt(port, 10, 32)
	if err != nil || p > math.MaxUint16 {
		return nil, &ExitError{ExitUsage, fmt.Errorf("advertise %s: the port is not a number up to 65535", l.Advertise)}
	}
	n.AdvertisedHost, n.AdvertisedPort = host, int32(p)
	return n, nil
}
