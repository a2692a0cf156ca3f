package service

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
)

// OffsetsTopic holds groups and their offsets.
const OffsetsTopic = "__consumer_offsets"

// GroupsOptions configure Groups.
type GroupsOptions struct {
	Options
	Configs *configdef.Registry
	// Static has the broker configs that the configuration file sets, by name.
	Static map[string]string
	// MemberBytes bounds the memory that members occupy, see coordinator.MemoryBudget. 0 is 64 MiB.
	MemberBytes int64
	// Visible is that of group.Config. If a change of metadata changes what is visible, it must
	// know that before Apply gets the change.
	Visible func(group.Viewer) func(topic string) bool
	// States are the share coordinators. Nil: there are none, and share groups assign nothing.
	States ShareStates
}

// Groups is the group coordinator of this broker. Its methods may be called concurrently. Only
// Close, and Overview and Describe until their context ends, block.
type Groups struct {
	*Service
	opt    GroupsOptions
	memory *coordinator.MemoryBudget
	limits *configdef.Groups // of the broker, for the configs of groups
	shares *shareRequests

	mu      sync.Mutex
	watched map[uint64]struct{} // connections whose end will be sent to the shards
}

// NewGroups returns a coordinator without partitions; Apply adds them.
func NewGroups(opt GroupsOptions) (*Groups, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("group configs: %w", err)
	}
	cfg := configOf(&conf)
	if opt.MemberBytes > 0 {
		cfg.MemberMemory = coordinator.NewMemoryBudget(opt.MemberBytes)
	}
	cfg.Visible = opt.Visible
	c := &Groups{opt: opt, memory: cfg.MemberMemory, limits: &conf.Groups, shares: newShareRequests(opt.States),
		watched: map[uint64]struct{}{}}
	c.shares.failures.log, c.shares.failures.image = opt.Logger, func() *metadata.Image { return c.Image() }
	o := &conf.Offsets
	c.Service = New(opt.Options, Definition{
		Topic: OffsetsTopic, Serves: "groups",
		Partitions: o.Partitions, ReplicationFactor: o.ReplicationFactor, SegmentBytes: o.SegmentBytes,
		New: func(int32) coordinator.Machine { return group.New(cfg) },
		InitialEvent: func(img *metadata.Image) any {
			return group.TopicsChanged{Topics: groupView{img}, All: true, Times: c.times(img)}
		},
		ChangeEvent: c.changeEvent, Send: c.shares.send,
	})
	return c, nil
}

// Stop is Service.Stop. It also ends what is asked of share coordinators.
func (c *Groups) Stop() {
	c.shares.stop()
	c.Service.Stop()
}

// Close is Service.Close. It also ends what is asked of share coordinators.
func (c *Groups) Close() {
	c.shares.stop()
	c.Service.Close()
}

func configOf(conf *configdef.Broker) group.Config {
	cfg, g, o := group.DefaultConfig(), &conf.Groups, &conf.Offsets
	cfg.MinSession, cfg.MaxSession, cfg.InitialDelay, cfg.MaxSize = g.MinSession, g.MaxSession, g.InitialDelay, int(g.MaxSize)
	cfg.ConsumerSession, cfg.ConsumerHeartbeat, cfg.ConsumerMaxSize = g.ConsumerSession, g.ConsumerHeartbeat, int(g.ConsumerMaxSize)
	cfg.Assignors, cfg.Upgrade, cfg.Downgrade = g.Assignors, g.Upgrade, g.Downgrade
	cfg.ProducerExpiry = conf.ProducerExpiration
	cfg.Streams, cfg.StreamsMaxSize = streamsOf(&g.Streams), int(g.StreamsMaxSize)
	cfg.Share, cfg.ShareMaxSize, cfg.ShareRetry = shareOf(&g.ShareGroup), int(g.ShareGroupMaxSize), g.ShareInitializeRetry
	cfg.MaxMetadata, cfg.Retention, cfg.RetentionCheck = int(o.MaxMetadata), o.Retention, o.RetentionCheck
	return cfg
}

func streamsOf(s *configdef.Streams) group.StreamsConfig {
	return group.StreamsConfig{Session: s.Session, Heartbeat: s.Heartbeat, InitialDelay: s.InitialDelay, Interval: s.Interval,
		Standbys: int(s.Standbys)}
}

func shareOf(s *configdef.ShareGroup) group.ShareConfig {
	return group.ShareConfig{Session: s.Session, Heartbeat: s.Heartbeat, Interval: s.Interval}
}

// times returns a function with the settings that groups of an image have configured. A group whose
// configs can't be resolved gets the broker's.
func (c *Groups) times(img *metadata.Image) func(string) group.Times {
	return func(id string) group.Times {
		set := img.GroupConfig(id)
		if len(set) == 0 {
			return group.Times{}
		}
		g, err := c.opt.Configs.ResolveGroup(configdef.Layers{Group: set, Static: c.opt.Static})
		if err != nil {
			c.opt.Logger.Warn("invalid group configs, using the broker's", zap.String("group", id), zap.Error(err))
			return group.Times{}
		}
		streams := streamsOf(&g.Streams)
		within := c.limits.ShareGroupOf(g.ShareGroup)
		share := shareOf(&within)
		return group.Times{Session: g.Session, Heartbeat: g.Heartbeat, Streams: &streams, Share: &share}
	}
}

// changeEvent returns the event that tells shards about a metadata change, nil if it affects no
// group.
func (c *Groups) changeEvent(next *metadata.Image, d *metadata.Delta) any {
	e := group.TopicsChanged{Topics: groupView{next}}
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
	e.All = len(d.ACLsAdded)+len(d.ACLsRemoved) > 0 && c.opt.Visible != nil
	if len(e.Changed) == 0 && len(d.GroupConfigs) == 0 && !e.All {
		return nil
	}
	e.Times = c.times(next)
	return e
}

// WriteMarker ends the transaction of a producer in a partition of the offsets topic. It calls done
// exactly once, from any goroutine and possibly before it returns; done must not block. done gets
// nil when the marker and its effect on offsets are committed, or repeat what is. The errors of
// Submit are temporary; the effect may follow nevertheless. Those of producers.CheckMarker are
// final.
func (c *Groups) WriteMarker(partition int32, m group.Marker, done func(error)) {
	c.SubmitTo(partition, m, func(answer any, err error) {
		marked, ok := answer.(group.Marked)
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("BUG: the answer to a marker is a %T", answer)
		default:
			err = marked.Err
		}
		done(err)
	})
}

// MemberMemory returns the memory budget of group members.
func (c *Groups) MemberMemory() *coordinator.MemoryBudget { return c.memory }

// WatchConnection notifies the shards when a connection ends, because member ids that its client
// was given expire with it. onClose registers a function with the connection. It may be called for
// every request of a connection; it registers once.
func (c *Groups) WatchConnection(connection uint64, onClose func(func()) (stop func() bool)) {
	c.mu.Lock()
	_, known := c.watched[connection]
	c.watched[connection] = struct{}{}
	c.mu.Unlock()
	if known {
		return
	}
	onClose(func() {
		c.mu.Lock()
		delete(c.watched, connection)
		c.mu.Unlock()
		c.Broadcast(group.Closed{Connection: connection})
	})
}
