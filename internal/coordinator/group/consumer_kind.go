package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// The methods of kind on consumer groups, other than requests.

func (c *consumer) listed() (name, protocol, state string) {
	return "consumer", consumerProtocol, c.stateName()
}
func (c *consumer) empty() bool   { return len(c.members) == 0 }
func (c *consumer) expires() bool { return c.empty() }

// writes implements classicProtocol. A Heartbeat may notice that topics have changed; a SyncGroup
// only reads.
func (c *consumer) writes(req kmsg.Request) bool {
	_, fetches := req.(*kmsg.SyncGroupRequest)
	return !fetches
}

func (c *consumer) subscriptions() (subscribes func(topic string) bool, known bool) {
	return contains(c.subscribed()), true
}

func (c *consumer) readTopics() func(topic string) bool { return contains(c.subscribed()) }

// fire implements kind: it removes a member whose time is over, or computes a pending target.
func (c *consumer) fire(s *Shard, g *group, key coordinator.TimerKey) {
	if key.Kind == timerTarget {
		s.bumpEpoch(g, false)
		s.updateTarget(g)
		return
	}
	if m := c.members[key.Part]; m != nil {
		s.fence(g, m)
	}
}

func (c *consumer) topicsChanged(e TopicsChanged) {
	c.dirty = c.dirty || e.All || slices.ContainsFunc(e.Changed, contains(c.subscribed()))
}
