package daemon

import (
	"fmt"
	"reflect"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
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
	_, cut := divide(b.memory, b.cfg.Produce, len(r.locations), c.KeyBytes)
	cleaning := storage.Cleaning{Backoff: c.Backoff, KeyBytes: cut.Keys, BytesPerSecond: c.BytesPerSecond, Scrub: c.Scrub}
	r.cleaning.Store(&cleaning)
	if r.storage != nil {
		r.storage.SetCleaning(cleaning)
	}
	return nil
}
