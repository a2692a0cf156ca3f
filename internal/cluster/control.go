package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
)

// Control makes this node the controller whenever it leads the metadata, until Close. minISR
// returns the effective min.insync.replicas of a partition, and unclean whether a topic permits
// unclean elections; own is the incarnation of this process. It must be called once, after Enter.
//
// The controller follows the metadata by an applier of its own, because it must run before the logs
// are recovered: the other brokers need it.
func (c *Cluster) Control(own [16]byte, minISR func(*metadata.Image, *metadata.Topic, *metadata.Partition) int,
	unclean func(*metadata.Image, *metadata.Topic) bool) error {
	applier := metadata.NewApplier(c.o.Log.Named("controller"))
	loop := controller.NewLoop(controller.LoopOptions{
		Store: ownTerm{c.store}, Images: applier, Leadership: leadership{c}, Own: own, MinISR: minISR, Unclean: unclean, Now: c.now,
		LogStates: c.askReports,
		Timeout:   c.o.Conf.Session, Interval: c.o.Conf.Heartbeat, DrainTime: c.o.Conf.DrainTime,
		Balance: c.o.Conf.Balance, InternalReplicas: c.o.InternalReplicas, Seeds: len(c.o.Conf.Seeds), Log: c.o.Log.Named("controller"),
	})
	applier.Subscribe("controller", loop.Follow)
	applier.Subscribe("links", func(_ context.Context, prev, next *metadata.Image, _ *metadata.Delta) error {
		c.book.follow(next)
		c.others.changed(prev, next)
		return nil
	})
	if err := applier.Start(c.ctx, c.store); err != nil {
		return fmt.Errorf("follow the metadata: %w", err)
	}
	c.control.Store(loop)
	c.work.Go(func() { loop.Run(c.ctx) })
	if c.Linked() {
		c.work.Go(func() { c.keepVoters(applier.Image) })
	}
	c.work.Go(func() {
		<-applier.Done()
		if c.ctx.Err() == nil {
			c.o.Fail(fmt.Errorf("follow the metadata: %w", applier.Err()))
		}
	})
	return nil
}

// now reads a monotonic clock.
func (c *Cluster) now() time.Duration { return time.Since(c.began) }

// Leading is the metadata store for what runs on the metadata leader only.
type Leading interface {
	Range(ctx context.Context, prefix string) (kvs []metadata.KV, revision int64, err error)
	WaitFor(ctx context.Context, revision int64) error
	// LeaderTxn is that of controller.Store.
	LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (revision int64, err error)
}

// Leading returns the store.
func (c *Cluster) Leading() Leading { return ownTerm{c.store} }

// Leads returns the term in which this node leads the metadata, as controller.Leadership does; 0 if
// it does not.
func (c *Cluster) Leads() (term uint64, moved <-chan struct{}) {
	t, moved := leadership{c}.Leads()
	return t.Number, moved
}

// ownTerm implements controller.Store.
type ownTerm struct{ *raftstore.Store }

// LeaderTxn implements controller.Store.
func (s ownTerm) LeaderTxn(ctx context.Context, term uint64, t metadata.Txn) (revision int64, err error) {
	if revision, err = s.Store.LeaderTxn(ctx, term, t); errors.Is(err, raftstore.ErrNotLeader) {
		err = fmt.Errorf("%w: %w", controller.ErrNotController, err)
	}
	return revision, err
}

// leadership implements controller.Leadership.
type leadership struct{ c *Cluster }

// Leads implements controller.Leadership.
func (l leadership) Leads() (controller.Term, <-chan struct{}) {
	role, moved := l.c.store.Leadership()
	if role.Leader != l.c.self.ID || !role.Ready {
		return controller.Term{}, moved
	}
	// Everything of former terms is applied, so what is shown now includes it.
	_, revision, err := l.c.store.Get(l.c.ctx, metadata.ClusterKey)
	if err != nil {
		return controller.Term{}, moved
	}
	return controller.Term{
		Number: role.Term, Revision: revision, Former: role.Former, FormerUntil: role.FormerUntil.Sub(l.c.began),
	}, moved
}

// Confirmed implements controller.Leadership.
func (l leadership) Confirmed() (time.Duration, bool) {
	at := l.c.store.Confirmed()
	return at.Sub(l.c.began), !at.IsZero()
}

// Sole implements controller.Leadership.
func (l leadership) Sole() bool { return l.c.store.Sole() != 0 }

// Register registers this process and begins its heartbeats, which end with Close. It blocks until
// the controller has accepted the registration, and returns the broker epoch. The error matches
// membership.ErrRefused, or is that of ctx, or says why this node's metadata cannot be read. If no
// other node may lead, the error may also be that of the disk on which this one writes them.
func (c *Cluster) Register(ctx context.Context, incarnation [16]byte, logs *Logs) (epoch int64, err error) {
	own := logs.registration(c.o.Log)
	a := membership.NewAgent(membership.AgentOptions{
		Request: controller.RegisterRequest{
			Broker: c.o.Node, Member: c.self.ID, ClusterID: c.ID(), Incarnation: incarnation, Dirs: own.dirs,
			Listeners: c.o.Endpoints, Rack: c.o.Rack, Features: metadata.Features{Min: 1, Max: metadata.MaxFeatureLevel},
			Lossy: own.lossy, Damaged: own.damaged,
		},
		Registered: c.registered,
		Join: func() membership.JoinRequest {
			r := c.clusterRecord()
			return membership.JoinRequest{Cluster: r.ID, Generation: r.Generation, Member: c.self}
		},
		Leader: func() (uint64, <-chan struct{}) {
			role, moved := c.store.Leadership()
			return role.Leader, moved
		},
		Seek: c.seek, Call: c.book.Call, State: func() membership.BrokerState {
			state := logs.state()
			state.Unreached = c.reported()
			return state
		}, Wish: c.wish, Interval: c.o.Conf.Heartbeat, Timeout: c.o.Conf.Session,
		Hopeless: func() error {
			if c.Linked() {
				return nil // another node may lead
			}
			return c.store.Failed()
		},
		Progress: c.o.Progress, Fail: c.o.Fail, Log: c.o.Log.Named("membership"),
	})
	c.reporter.Store(&reporter{incarnation, logs.logEnd})
	if epoch, err = a.Register(ctx); err != nil {
		return 0, err
	}
	c.agent.Store(a)
	c.work.Go(func() { a.Run(c.ctx) })
	return epoch, nil
}

// Lease reports whether this broker may assume that the controller has not fenced it. While its
// node is the only voter, no other node can have become the controller, and this one's does not
// fence it (controller.Loop): then it needs no answer. It takes no lock.
func (c *Cluster) Lease() bool {
	a := c.agent.Load()
	return a != nil && (c.store.Sole() != 0 || a.Lease())
}

// Resign asks the controller to end leaderships of this broker in the given leader epochs. At most
// controller.MaxPartitions are allowed. It returns when this node's metadata shows the result.
func (c *Cluster) Resign(ctx context.Context, broker int32, brokerEpoch int64, partitions map[metadata.TopicPartition]int32) error {
	a := c.agent.Load()
	if a == nil || broker != c.o.Node {
		return fmt.Errorf("broker %d is not registered by this process", broker)
	}
	revision, err := a.Resign(ctx, brokerEpoch, partitions)
	if err != nil {
		return err
	}
	return c.store.WaitFor(ctx, revision)
}

// registered returns this broker's registration as this node's metadata shows it.
func (c *Cluster) registered(ctx context.Context) (revision int64, incarnation [16]byte, err error) {
	kv, _, err := c.store.Get(ctx, metadata.BrokerKey(c.o.Node))
	if err != nil || kv.ModRevision == 0 {
		return 0, incarnation, err
	}
	kv.Key = metadata.BrokerKey(c.o.Node)
	b, err := metadata.DecodeBroker(kv)
	if err != nil {
		return 0, incarnation, fmt.Errorf("registration of broker %d: %w", c.o.Node, err)
	}
	return kv.ModRevision, b.Incarnation, nil
}
