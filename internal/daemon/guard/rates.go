package guard

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/security/quota"
)

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
