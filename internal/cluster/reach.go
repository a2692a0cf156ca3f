package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// unreached returns the brokers to which this one cannot connect at the addresses that they
// registered, by id: leaders that it has followed, and those that no connection for the metadata
// reaches. What failed before a broker was running again does not count: the next attempt may
// succeed.
func (c *Cluster) unreached() (list []view.Unreached) {
	if s := c.follows.Load(); s != nil {
		list = s.Unreached()
	}
	for _, x := range c.book.unreached() {
		i := slices.IndexFunc(list, func(y view.Unreached) bool { return x.Broker == y.Broker })
		switch {
		case x.Broker == c.o.Node:
		case i < 0:
			list = append(list, x)
		case x.Since.Before(list[i].Since): // the other connection has only just been dialed
			list[i].Since = x.Since
		}
	}
	for i := range list {
		if runs := c.book.runsSince(list[i].Broker); runs.After(list[i].Since) {
			list[i].Since = runs
		}
	}
	sorts.Sort(list, func(a, b view.Unreached) int { return cmp.Compare(a.Broker, b.Broker) })
	return list
}

// reported returns the brokers that a heartbeat names as unreached: they run, and no connection
// could be made for a session timeout, so that a broker which has ended is fenced first. Leaders
// keep their followers in the ISR for twice as long, see progress.Limits.Replace.
func (c *Cluster) reported() (list []int32) {
	for _, x := range c.unreached() {
		runs := !c.book.runsSince(x.Broker).IsZero()
		if runs && time.Since(x.Since) >= c.o.Conf.Session && len(list) < controller.MaxReportedUnreached {
			list = append(list, x.Broker)
		}
	}
	return list
}

// Shunned returns those of the newest controller.HeartbeatAnswer.
func (c *Cluster) Shunned() []int32 {
	a := c.agent.Load()
	if a == nil {
		return nil
	}
	_, of, _ := a.State()
	return of.Shunned
}
