package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/broker"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/daemon/coordinators"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// member is this broker as a member of its cluster, which may consist of it alone.
type member struct {
	*cluster.Cluster
	incarnation [16]byte
	starting    *broker.Starting // until this broker serves clients
	shown       func() error     // ends what showCluster has started
	streams     *cluster.Streams
	following   atomic.Bool // the applier has started
}

// openMember opens the metadata directory and waits until this node is a member of its cluster and
// has metadata. Other brokers can connect before that; clients cannot. A broker without seeds
// begins a cluster of its own at its first start.
func (b *Broker) openMember(ctx context.Context, r *components) error {
	lock, err := r.data.Create()
	if err != nil {
		return err
	}
	b.stack.pushLock("lock", lock.Close)
	err = b.guard.OpenAudit(b.fs, r.conf.NodeID, b.health, b.reg)
	b.stack.push("audit log", b.guard.Audit().Close)
	if err != nil {
		return err
	}
	dir := r.data.Metadata()
	if err := vfs.MakeDir(b.fs, dir); err != nil {
		return r.data.Error(err)
	}
	listener := resolve.InterListener(b.cfg, &r.conf)
	endpoints, peers, err := b.peersOf(r, listener)
	if err != nil {
		return err
	}
	c, err := cluster.Open(cluster.Options{
		FS: b.fs, Dial: peers.Dial, Admit: peers.Admit, Trusts: peers.Trusts,
		Dir: dir, Conf: r.conf.Cluster, Node: r.conf.NodeID, Rack: r.conf.Rack, Endpoints: endpoints,
		InternalReplicas: coordinators.InternalReplicas(&r.conf),
		Secrets:          peers.Secrets, Logs: r.data.Cluster(),
		Version: b.version, Health: b.health.Recent, Progress: b.waits, Log: b.log,
		Fail: func(err error) { b.fail(b.memberError(context.Background(), r, err)) },
		Adopt: func(nc net.Conn, early []byte, of *network.Adopted) error {
			if s := r.server.Load(); s != nil {
				return s.Adopt(nc, early, of)
			}
			return network.ErrClosed // it is starting
		},
		Refused: guard.RecordRefusedLinks(b.guard.Audit(), listener),
	})
	if err != nil {
		return r.data.Error(err)
	}
	b.stack.pushDisk("metadata", c.Close)
	b.certs.OnChange(c.EndUntrusted)
	if r.linked() {
		b.health.Join(c.Reports)
		b.health.Add(func(f *checks.Facts) { f.Twins = c.Twins(f.Now) })
		if err := metrics.RegisterReports(b.reg, observe.Reports(b.health)); err != nil {
			return err
		}
	}
	r.member = &member{Cluster: c, incarnation: metadata.NewID(), shown: func() error { return nil }}
	if c.ID() == "" { // a directory without metadata, which an interrupted start left, or none
		if err := r.data.CheckOwners(); err != nil {
			return err
		}
		r.data.NameCopy()
	}
	b.health.Add(func(f *checks.Facts) {
		err := c.Store().Failed()
		f.Metadata = checks.Metadata{Dir: dir, Failed: observe.Reason(err), Full: vfs.Full(err), Hanging: c.Store().Hanging()}
	})
	if err := b.openServer(r, c.Accept()); err != nil {
		return err
	}
	server := r.server.Load()
	b.stack.push("connections of brokers", func(context.Context) error { return server.Close() })
	if err := b.serve(server, r, func(name string) bool { return r.linked() && name == listener }); err != nil {
		return err
	}
	if err := b.enter(ctx, r); err != nil {
		return err
	}
	r.control = controller.New(controller.Options{
		Store: b.guard.Changes(c.Store()), Configs: b.configs, NumPartitions: r.conf.NumPartitions,
		ReplicationFactor: r.conf.DefaultReplicationFactor, Seeds: len(r.conf.Cluster.Seeds), Groups: r.conf.Groups,
		MinISR: r.settings.MinISR, Shunned: c.Shunned, HasArchive: r.conf.Archive.URL != "",
	})
	err = c.Control(r.member.incarnation, r.settings.MinISR, func(img *metadata.Image, t *metadata.Topic) bool {
		return r.settings.Of(img, t).Conf.UncleanElection
	})
	if err != nil {
		return err
	}
	if r.linked() {
		return b.showCluster(ctx, r)
	}
	return nil
}

// peersOf returns what this broker tells other ones of itself, and how they prove each other who
// they are on a listener. Without seeds there are no others, and none of that is checked.
func (b *Broker) peersOf(r *components, listener string) ([]metadata.Endpoint, *guard.Peers, error) {
	if !r.linked() {
		return nil, &guard.Peers{}, nil
	}
	peers, err := guard.NewPeers(listener, r.conf.Cluster.SecretFile, b.certs, b.net.DialContext)
	return b.endpoints(listener), peers, err
}

// enter waits until this node has metadata, and refuses those to which its directories or its
// configuration do not fit.
func (b *Broker) enter(ctx context.Context, r *components) error {
	c := r.member.Cluster
	err := c.Enter(ctx)
	if err == nil {
		err = c.CheckNode(ctx)
	}
	if err != nil {
		return b.memberError(ctx, r, err)
	}
	if logs := r.data.Cluster(); logs != "" && logs != c.ID() {
		return exit.With(exit.Data, fmt.Errorf("the log directories of this broker belong to the cluster %s, and %s to the cluster %s; "+
			"use log directories of the same cluster, or empty ones", logs, r.data.Metadata(), c.ID()))
	}
	return r.data.CheckAge(c.Store())
}

// showCluster describes the cluster to clients as soon as this node's metadata is as new as its
// start, which may be long before its logs are recovered.
func (b *Broker) showCluster(ctx context.Context, r *components) error {
	images := metadata.NewApplier(b.log.Named("metadata"))
	handlers, err := broker.New(broker.Options{
		Self:        -1, // it has no replicas yet; the others' view of this broker is the right one
		AnswerBytes: b.budgets.Answers, ParkedBytes: b.budgets.Parked, SessionBytes: b.budgets.Sessions, DecodedBytes: b.budgets.Decoded,
		Rules:    guard.FollowRules(&b.cfg.Security, b.log.Named("security"), images),
		Metadata: images, Controller: r.control, Cluster: r.member.Operator(), Settings: r.settings, Configs: b.configs,
		Static: r.static, Share: b.share, Logger: b.log.Named("broker"), Level: b.level, Report: b.health.Last,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() {
		if r.member.Current(ctx) == nil && images.Start(ctx, r.member.Store()) == nil {
			r.member.starting.Show(handlers)
		}
	})
	r.member.shown = sync.OnceValue(func() error {
		cancel()
		shown.Wait()
		images.Stop()
		err := handlers.Close(context.Background()) // it has no background work
		images, handlers = nil, nil                 // their memory is not needed any more
		return err
	})
	b.stack.push("description of the cluster", func(context.Context) error { return r.member.shown() })
	return nil
}

// waits shows what this broker waits for as a member of its cluster. Before the broker serves
// clients, that is the phase of its start.
func (b *Broker) waits(what string) {
	if was := b.waitsFor.Swap(&what); was != nil && *was == what {
		return
	}
	b.log.Info("waiting", zap.String("for", what))
	if !b.serving.Load() {
		b.health.Await(what, checks.OtherBrokers)
	}
}

// Waiting reports whether the start waits for other brokers.
func (b *Broker) Waiting() bool {
	what := b.waitsFor.Load()
	return what != nil && *what == b.health.Phase()
}

// memberError explains why this broker can't be a member of its cluster. Without other brokers, its
// data directory is the cause.
func (b *Broker) memberError(ctx context.Context, r *components, err error) error {
	switch refused := cluster.Refused(err); {
	case refused && !r.linked():
		return exit.With(exit.Data, fmt.Errorf("directory %s: %w", b.cfg.DataDir, err))
	case refused:
		return exit.With(exit.Usage, err)
	case !r.linked() && ctx.Err() == nil:
		return r.data.Error(err)
	}
	return err
}

// endpoints returns the addresses that this broker registers: what its listeners advertise, or else
// what they are bound to. The listener for other brokers is the first one.
func (b *Broker) endpoints(peers string) (list []metadata.Endpoint) {
	for i, l := range b.cfg.Listeners {
		if l.Forward {
			continue // none of them needs to know it
		}
		e := metadata.Endpoint{Listener: l.Name}
		if l.Advertise != "" {
			e.Host, e.Port = config.HostPort(l.Advertise)
		} else {
			e.Host, _ = config.HostPort(l.Listen)
			_, e.Port = config.HostPort(b.bound.clients[i][0].Addr().String()) // the actual one if it was 0
		}
		if l.Name == peers {
			list = slices.Insert(list, 0, e)
		} else {
			list = append(list, e)
		}
	}
	return list
}

// register makes this process the broker, once its logs are recovered.
func (b *Broker) register(ctx context.Context, r *components) error {
	if r.linked() {
		b.waits("registering with the controller")
	}
	logs := &cluster.Logs{Self: r.conf.NodeID, Storage: r.storage,
		Image: func() *metadata.Image {
			if img := r.loaded.Load(); img != nil {
				return img
			}
			return r.applier.Image()
		},
		Replicas: func() *replica.Manager {
			if r.member.following.Load() {
				return r.replicas
			}
			return nil
		}}
	if exchanged := logs.Exchanged(); len(exchanged) > 0 {
		b.log.Warn("log directories are new to this broker, and one that it had at its last start is not there", zap.Strings("new", exchanged))
		b.health.Add(func(f *checks.Facts) { f.Exchanged = exchanged })
	}
	epoch, err := r.member.Register(ctx, r.member.incarnation, logs)
	if err != nil {
		return b.memberError(ctx, r, err)
	}
	if err := r.member.Store().WaitFor(ctx, epoch); err != nil {
		return err
	}
	return r.member.Confirm(r.storage.Dirs())
}

// replicas adds to the options of the replica manager what a cluster needs.
func (m *member) replicas(o *replica.Options, c *controller.Controller, conf *configdef.Cluster) {
	o.LagTime, o.StallTime, o.SessionTime = conf.Replica.Lag, conf.Replica.Stall, conf.Session
	o.Incarnation, o.Cluster, o.Lease, o.Resigner = m.incarnation, c.As(m.incarnation), m.Lease, m.Cluster
}

// awaitActive waits until the controller counts this broker as active.
func (b *Broker) awaitActive(ctx context.Context, r *components) error {
	if r.linked() {
		b.waits("waiting for the controller to activate this broker")
	}
	return r.member.Agent().AwaitActive(ctx)
}

// leave moves leaderships away before the broker stops: those of partitions as far as its
// configuration says, and then that of the metadata, which moved the others. Share groups first
// store what their next leaders need.
func (b *Broker) leave(ctx context.Context) {
	r := b.components
	if r == nil {
		return
	}
	if b.serving.Load() {
		r.handlers.ReleaseShares(ctx)
	}
	if r.member == nil {
		return
	}
	if b.serving.Load() && r.conf.Cluster.Drain {
		r.member.Drain(ctx, r.applier.Image())
	}
	r.member.HandOver(ctx)
}

// observeCluster shows what this broker knows of its cluster. It must be called before the applier
// starts.
func (b *Broker) observeCluster(r *components) error {
	r.cluster = &observe.Cluster{Self: r.conf.NodeID, Image: r.applier.Image, MinISR: r.settings.MinISR, Log: b.log.Named("cluster")}
	r.applier.Subscribe("cluster", r.cluster.Follow)
	if !r.linked() {
		r.cluster.Elections, r.cluster.ISRChanges = metrics.NewElections(nil), metrics.NewISRChanges(nil) // not shown
		return metrics.RegisterPartitions(b.reg, r.cluster.View)
	}
	r.cluster.Lags, r.cluster.Changed = r.replicas.Lags, b.health.Expect
	r.cluster.Member = func(img *metadata.Image, x *view.Cluster) { r.member.streams.Describe(img, b.version, x) }
	r.cluster.Elections, r.cluster.ISRChanges = metrics.NewElections(b.reg), metrics.NewISRChanges(b.reg)
	b.health.Add(r.cluster.Facts)
	b.health.Add(func(f *checks.Facts) { // after the source that sets the other fields
		self, _ := r.applier.Image().Broker(r.conf.NodeID)
		f.Metadata.LostVote = r.member.LostVote(&self)
	})
	return metrics.RegisterCluster(b.reg, r.cluster.View)
}
