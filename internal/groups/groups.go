package groups

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/replicalog"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/topicconf"
)

// Topic is where groups and their offsets are kept.
const Topic = "__consumer_offsets"

// Options are what a Coordinator works with.
type Options struct {
	Self       int32
	Replicas   *replica.Manager
	Settings   *replica.TopicSettings
	Controller *controller.Controller
	Configs    *topicconf.Registry
	// Static are the broker's configs as the configuration sets them, by name.
	Static map[string]string
	Logger *zap.Logger
}

// Coordinator is the group coordinator of this broker. Its methods may be called
// concurrently, and only Close blocks.
type Coordinator struct {
	opt  Options
	conf topicconf.Broker
	rt   *coordinator.Runtime
	// image is what the shards know, or are about to hear.
	image  atomic.Pointer[metadata.Image]
	minISR atomic.Int32

	assuming sync.Mutex // a shard's role is that of its partition at this moment

	ctx  context.Context // ends the creation of the topic at Close
	stop context.CancelFunc
	work sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	creating bool
}

// New returns a coordinator that coordinates nothing; Apply brings partitions.
func New(opt Options) (*Coordinator, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("configuration of groups: %w", err)
	}
	c := &Coordinator{opt: opt, conf: conf}
	c.image.Store(metadata.Empty())
	c.minISR.Store(1)
	c.ctx, c.stop = context.WithCancel(context.Background())
	cfg := configOf(&conf)
	c.rt = coordinator.NewRuntime(coordinator.Options{
		New: func(int32) coordinator.Machine { return group.New(cfg) },
		Hello: func(int32) any {
			img := c.image.Load()
			return group.TopicsChanged{Topics: view{img}, All: true, Times: c.times(img)}
		},
		Logger: opt.Logger,
	})
	opt.Replicas.Watch(c.arrived)
	return c, nil
}

func configOf(conf *topicconf.Broker) group.Config {
	cfg, g, o := group.DefaultConfig(), &conf.Groups, &conf.Offsets
	cfg.MinSession, cfg.MaxSession, cfg.InitialDelay, cfg.MaxSize = g.MinSession, g.MaxSession, g.InitialDelay, int(g.MaxSize)
	cfg.ConsumerSession, cfg.ConsumerHeartbeat, cfg.ConsumerMaxSize = g.ConsumerSession, g.ConsumerHeartbeat, int(g.ConsumerMaxSize)
	cfg.Assignors, cfg.Upgrade, cfg.Downgrade = g.Assignors, g.Upgrade, g.Downgrade
	cfg.MaxMetadata, cfg.Retention, cfg.RetentionCheck = int(o.MaxMetadata), o.Retention, o.RetentionCheck
	return cfg
}

// Apply is a metadata.Subscriber, to be told after the partitions. It never fails: a
// partition that can't be had has no shard, and its groups have no coordinator.
func (c *Coordinator) Apply(_ context.Context, _, next *metadata.Image, d *metadata.Delta) error {
	// Before anything is told: a shard that finishes loading meanwhile asks for it.
	c.image.Store(next)
	c.follow(next, d)
	if t := next.Topic(Topic); t != nil && len(d.BrokerConfigs) > 0 {
		c.configure(next, t)
	}
	if e := changed(next, d); len(e.Changed) > 0 || len(d.GroupConfigs) > 0 {
		e.Times = c.times(next)
		c.rt.Broadcast(e)
	}
	return nil
}

// follow gives shards the roles that a change of the topic's partitions gives them.
func (c *Coordinator) follow(next *metadata.Image, d *metadata.Delta) {
	c.assuming.Lock()
	defer c.assuming.Unlock()
	for _, t := range d.Deleted {
		if t.Name == Topic {
			for i := range t.Partitions.All() {
				c.rt.Remove(i)
			}
		}
	}
	for _, t := range d.Created {
		if t.Name == Topic {
			c.configure(next, t)
			for i := range t.Partitions.All() {
				c.assume(t, i)
			}
		}
	}
	for _, change := range d.Changed {
		if t := change.Next; t.Name == Topic {
			c.configure(next, t)
			for _, i := range change.Partitions {
				c.assume(t, i)
			}
		}
	}
}

// times are what the groups of an image have set for themselves. One that can't be
// resolved has nothing of its own.
func (c *Coordinator) times(img *metadata.Image) func(string) group.Times {
	return func(id string) group.Times {
		set := img.GroupConfig(id)
		if len(set) == 0 {
			return group.Times{}
		}
		g, err := c.opt.Configs.ResolveGroup(topicconf.Layers{Group: set, Static: c.opt.Static})
		if err != nil {
			c.opt.Logger.Warn("configs of a group can't be used", zap.String("group", id), zap.Error(err))
			return group.Times{}
		}
		return group.Times{Session: g.Session, Heartbeat: g.Heartbeat}
	}
}

// changed is what shards are to hear of a change.
func changed(next *metadata.Image, d *metadata.Delta) group.TopicsChanged {
	e := group.TopicsChanged{Topics: view{next}}
	for _, t := range d.Created {
		e.Changed = append(e.Changed, t.Name)
	}
	for _, t := range d.Deleted {
		e.Changed, e.Deleted = append(e.Changed, t.Name), append(e.Deleted, t.Name)
	}
	for _, change := range d.Changed {
		if change.Prev.Partitions.Len() != change.Next.Partitions.Len() {
			e.Changed = append(e.Changed, change.Next.Name)
		}
	}
	return e
}

// arrived gives a shard its role when the log of its partition has been made. Where the topic is
// not the one that Apply knows, Apply sees to it.
func (c *Coordinator) arrived(t *metadata.Topic, index int32) {
	c.assuming.Lock()
	defer c.assuming.Unlock()
	if now := c.image.Load().Topic(Topic); now != nil && now.ID == t.ID {
		c.assume(now, index)
	}
}

// assume gives a shard the role that its partition has. The partition's own word
// counts, not the metadata's: after an unclean stop it does not lead in the epoch
// that it had. The caller holds assuming.
func (c *Coordinator) assume(t *metadata.Topic, index int32) {
	part, err := c.opt.Replicas.Partition(t.ID, index)
	if err != nil {
		c.rt.Resign(index, t.Partitions.At(index).LeaderEpoch)
		return
	}
	leader, epoch := part.Leader()
	if leader != c.opt.Self {
		c.rt.Resign(index, epoch)
		return
	}
	c.rt.Lead(index, epoch, replicalog.New(part, c.opt.Replicas.Purgatory(), c.minISR.Load))
}

// configure notes what appends need of the topic's configs.
func (c *Coordinator) configure(img *metadata.Image, t *metadata.Topic) {
	c.minISR.Store(c.opt.Settings.Of(img, t).Conf.MinInSyncReplicas)
}

// Partition is the partition of Topic that a group belongs to; false where there is
// no such topic yet.
func (c *Coordinator) Partition(groupID string) (int32, bool) {
	t := c.image.Load().Topic(Topic)
	if t == nil {
		return 0, false
	}
	return coordinator.PartitionFor(groupID, t.Partitions.Len()), true
}

// Submit hands an event about a group to its shard; see coordinator.Runtime.Submit.
func (c *Coordinator) Submit(groupID string, event any, done func(response any, err error)) {
	p, ok := c.Partition(groupID)
	if !ok {
		done(nil, coordinator.ErrNotCoordinator)
		return
	}
	c.rt.Submit(p, event, done)
}

// SubmitTo hands an event to the shard of a partition.
func (c *Coordinator) SubmitTo(partition int32, event any, done func(response any, err error)) {
	c.rt.Submit(partition, event, done)
}

// Partitions are those that this broker coordinates or has coordinated, in no order.
func (c *Coordinator) Partitions() []int32 { return c.rt.Partitions() }

// Stats are the shards' figures.
func (c *Coordinator) Stats() []coordinator.Stats { return c.rt.Stats() }

// Close answers everything that waits with coordinator.ErrNotCoordinator, and ends.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.rt.Close()
	c.work.Wait()
}
