package guard

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// followQuotas makes quotas follow an applier that has not started: an Image is shown when its
// quotas apply.
func followQuotas(k *quota.Keeper, applier *metadata.Applier) {
	applier.Subscribe("quotas", func(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
		if d.Quotas {
			k.Set(quota.Compile(quotasOf(next)))
		}
		return nil
	})
}

// quotasOf returns the quotas of an Image.
func quotasOf(img *metadata.Image) iter.Seq[quota.Quota] {
	return func(yield func(quota.Quota) bool) {
		for stored := range img.Quotas() {
			q := quota.Quota{Entity: stored.Entity}
			for name, v := range stored.Limits {
				if l, ok := quota.ParseLimit(name); ok { // others can't be stored
					q.Limits[l] = v
				}
			}
			if !yield(q) {
				return
			}
		}
	}
}

// Rates are the rates at which new connections are served: that of all, and those of listeners.
type Rates struct {
	All  *quota.Rate
	Each map[string]*quota.Rate // by listener
}

// NewRates returns rates without limits.
func NewRates(listeners []config.Listener) *Rates {
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) }
	c := &Rates{All: quota.NewRate(math.MaxInt32, clock), Each: map[string]*quota.Rate{}}
	for _, l := range listeners {
		c.Each[l.Name] = quota.NewRate(math.MaxInt32, clock)
	}
	return c
}

// Set changes the rates.
func (c *Rates) Set(to *configdef.Connections) {
	c.All.Set(float64(to.Rate))
	for name, r := range c.Each {
		r.Set(float64(to.Listener(name).Rate))
	}
}

// Take counts a new connection, and returns after how long it is served.
func (c *Rates) Take(listener string) time.Duration {
	return max(c.All.Take(), c.Each[listener].Take())
}
