package cluster

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
)

// Drain moves the leaderships of partitions to other brokers, if there are any, until ctx ends.
func (c *Cluster) Drain(ctx context.Context, img *metadata.Image) {
	a := c.agent.Load()
	if a == nil || len(img.Brokers()) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Conf.DrainTime)
	defer cancel()
	// With nothing to hand over, the others only learn of the stop a moment later if the controller
	// is not reached.
	begun, patience := time.Now(), c.o.Conf.Heartbeat
	if shares(img, c.o.Node) {
		patience = c.o.Conf.Session
	}
	if err := a.Drain(ctx, patience); err != nil {
		c.o.Log.Warn("stopping before all leaderships have moved", zap.Error(err), zap.Duration("waited", time.Since(begun)))
	}
}

// HandOver ends the leadership of the metadata on this node, if it has that: another voter leads
// when it returns, unless none is able to within two election timeouts. It must be called while
// other brokers can still connect: the one that takes over may lack entries, and the answers that
// say so arrive on their connections.
func (c *Cluster) HandOver(ctx context.Context) {
	if role, _ := c.store.Leadership(); role.Leader != c.self.ID || c.store.Sole() != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*c.o.Conf.Election)
	defer cancel()
	begun := time.Now()
	if err := c.store.Resign(ctx); err != nil {
		c.o.Log.Info("metadata leadership not handed over", zap.Error(err))
		return
	}
	c.o.Log.Info("metadata leadership handed over", zap.Duration("took", time.Since(begun)))
}

// shares reports whether a broker is in an ISR with others.
func shares(img *metadata.Image, broker int32) bool {
	for t := range img.Topics() {
		for _, p := range t.Partitions.All() {
			if len(p.ISR) > 1 && slices.Contains(p.ISR, broker) {
				return true
			}
		}
	}
	return false
}
