package service

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
)

// OffsetsTopic is where groups and their offsets are kept.
const OffsetsTopic = "__consumer_offsets"

// GroupsOptions are what a Coordinator works with.
type GroupsOptions struct {
	Self       int32
	Replicas   *replica.Manager
	Settings   *replica.TopicSettings
	Controller *controller.Controller
	Configs    *configdef.Registry
	// Static are the broker's configs as the configuration sets them, by name.
	Static map[string]string
	// MemberBytes bounds what members make the broker keep, see group.Room. 0 is 64 MiB.
	MemberBytes int64
	Logger      *zap.Logger
}

// Groups is the group coordinator of this broker. Its methods may be called
// concurrently, and only Close blocks.
type Groups struct {
	*Service
	opt     GroupsOptions
	members *group.MemoryBudget

	mu       sync.Mutex
	attended map[uint64]struct{} // connections whose end the shards will hear of
}

// NewGroups returns a coordinator that coordinates nothing; Apply brings partitions.
func NewGroups(opt GroupsOptions) (*Groups, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("configuration of groups: %w", err)
	}
	cfg := configOf(&conf)
	if opt.MemberBytes > 0 {
		cfg.Room = group.NewMemoryBudget(opt.MemberBytes)
	}
	c := &Groups{opt: opt, members: cfg.Room, attended: map[uint64]struct{}{}}
	o := &conf.Offsets
	c.Service = New(Options{
		Self: opt.Self, Replicas: opt.Replicas, Controller: opt.Controller, Settings: opt.Settings, Logger: opt.Logger,
	}, Definition{
		Topic: OffsetsTopic, Partitions: o.Partitions, ReplicationFactor: o.ReplicationFactor, SegmentBytes: o.SegmentBytes,
		New: func(int32) coordinator.Machine { return group.New(cfg) },
		Hello: func(img *metadata.Image) any {
			return group.TopicsChanged{Topics: view{img}, All: true, Times: c.times(img)}
		},
		Changed: c.changed,
	})
	return c, nil
}

func configOf(conf *configdef.Broker) group.Config {
	cfg, g, o := group.DefaultConfig(), &conf.Groups, &conf.Offsets
	cfg.MinSession, cfg.MaxSession, cfg.InitialDelay, cfg.MaxSize = g.MinSession, g.MaxSession, g.InitialDelay, int(g.MaxSize)
	cfg.ConsumerSession, cfg.ConsumerHeartbeat, cfg.ConsumerMaxSize = g.ConsumerSession, g.ConsumerHeartbeat, int(g.ConsumerMaxSize)
	cfg.Assignors, cfg.Upgrade, cfg.Downgrade = g.Assignors, g.Upgrade, g.Downgrade
	cfg.MaxMetadata, cfg.Retention, cfg.RetentionCheck = int(o.MaxMetadata), o.Retention, o.RetentionCheck
	return cfg
}

// times are what the groups of an image have set for themselves. One that can't be
// resolved has nothing of its own.
func (c *Groups) times(img *metadata.Image) func(string) group.Times {
	return func(id string) group.Times {
		set := img.GroupConfig(id)
		if len(set) == 0 {
			return group.Times{}
		}
		g, err := c.opt.Configs.ResolveGroup(configdef.Layers{Group: set, Static: c.opt.Static})
		if err != nil {
			c.opt.Logger.Warn("configs of a group can't be used", zap.String("group", id), zap.Error(err))
			return group.Times{}
		}
		return group.Times{Session: g.Session, Heartbeat: g.Heartbeat}
	}
}

// changed is what shards are to hear of a change of metadata, nil for nothing.
func (c *Groups) changed(next *metadata.Image, d *metadata.Delta) any {
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
	if len(e.Changed) == 0 && len(d.GroupConfigs) == 0 {
		return nil
	}
	e.Times = c.times(next)
	return e
}

// Members is the memory that members hold.
func (c *Groups) Members() *group.MemoryBudget { return c.members }

// Attend has the shards hear of the end of a connection, whose request onClose is of: ids
// that its client was given leave with it. It is called for any number of requests of a
// connection, and notes it once.
func (c *Groups) Attend(connection uint64, onClose func(func()) (stop func() bool)) {
	c.mu.Lock()
	_, known := c.attended[connection]
	c.attended[connection] = struct{}{}
	c.mu.Unlock()
	if known {
		return
	}
	onClose(func() {
		c.mu.Lock()
		delete(c.attended, connection)
		c.mu.Unlock()
		c.Broadcast(group.Closed{Connection: connection})
	})
}
