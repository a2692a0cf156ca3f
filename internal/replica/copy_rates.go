package replica

import (
	"slices"
	"sync"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
)

// copySources caches from how many leaders brokers copy logs.
type copySources struct {
	mu      sync.Mutex
	version int64 // of the image
	leaders map[int32]int
}

// CopyRates returns the limits in bytes per second for reading from the disk what a follower of a
// partition that this broker leads lacks: that of this broker, and the part of the follower's that
// falls to this broker if it copies from several; 0 means no limit. A follower that is in sync has
// none, because others wait for it. The image is the latest that Follow has seen.
func (s *TopicSettings) CopyRates(p *Partition, follower int32) (leader, copies int64) {
	img := s.image.Load()
	if img == nil {
		return 0, 0
	}
	t := img.TopicByID(p.id.Topic)
	if t == nil {
		return 0, 0
	}
	part := t.Partitions.At(p.id.Partition)
	if part == nil || slices.Contains(part.ISR, follower) {
		return 0, 0
	}
	conf := &s.Of(img, t).Conf
	if conf.LeaderThrottled.Has(p.id.Partition, s.opt.Self) {
		leader = s.opt.Configs.CopyRate(configdef.LeaderRate, s.Layers(img, nil))
	}
	if conf.FollowerThrottled.Has(p.id.Partition, follower) {
		// The configuration file of the follower is not known here.
		l := configdef.Layers{Broker: img.BrokerConfig(follower), All: img.BrokerConfig(metadata.DefaultBroker)}
		if copies = s.opt.Configs.CopyRate(configdef.FollowerRate, l); copies > 0 {
			copies = max(copies/int64(max(s.sources.of(img, follower), 1)), 1)
		}
	}
	return leader, copies
}

// of returns from how many leaders a broker copies logs that are not in sync.
func (c *copySources) of(img *metadata.Image, follower int32) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != img.Version() {
		c.version, c.leaders = img.Version(), map[int32]int{}
	}
	n, known := c.leaders[follower]
	if !known {
		from := map[int32]bool{}
		for t := range img.Topics() {
			for _, p := range t.Partitions.All() {
				if p.Leader >= 0 && p.HasReplica(follower) && !slices.Contains(p.ISR, follower) {
					from[p.Leader] = true
				}
			}
		}
		n = len(from)
		c.leaders[follower] = n
	}
	return n
}
