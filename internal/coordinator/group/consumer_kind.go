package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
)

// What a consumer group does as a kind, beyond its requests.

func (c *consumer) name() string         { return "consumer" }
func (c *consumer) protocolName() string { return consumerProtocol }
func (c *consumer) empty() bool          { return len(c.members) == 0 }
func (c *consumer) idle() bool           { return c.empty() }
func (c *consumer) blank() bool          { return false } // there are records of it

// writes: a Heartbeat may find that topics have changed; a SyncGroup fetches.
func (c *consumer) writes(req kmsg.Request) bool {
	_, fetches := req.(*kmsg.SyncGroupRequest)
	return !fetches
}

func (c *consumer) subscriptions() (subscribes func(topic string) bool, known bool) {
	return in(c.subscribed()), true
}

func (c *consumer) readTopics() func(topic string) bool { return in(c.subscribed()) }

func (c *consumer) emptied() (ms int64, counts bool) { return 0, false }

// fire takes out a member whose time is over, whatever it was for, or computes the target
// that the group waits for.
func (c *consumer) fire(s *Shard, g *group, key coordinator.TimerKey) {
	if key.Kind == timerTarget {
		s.bump(g, false)
		s.retarget(g)
		return
	}
	if m := c.members[key.Part]; m != nil {
		s.fence(g, m)
	}
}

func (c *consumer) topicsChanged(e TopicsChanged) {
	c.dirty = c.dirty || e.All || slices.ContainsFunc(e.Changed, in(c.subscribed()))
}
