package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/broker"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/daemon/archiving"
	"github.com/chronik-io/chronik/internal/daemon/coordinators"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// components holds what open has built so far: the fields are in the order of the steps that set
// them, and each step uses the results of the steps before it.
type components struct {
	// open
	static   map[string]string
	conf     configdef.Broker
	settings *replica.TopicSettings
	data     *datadir.Dirs
	// openMember, and openServer, which it calls; storage's journals ask the server's Producers
	member   *member
	network  *metrics.Network
	requests *metrics.Requests
	server   atomic.Pointer[network.Server]
	control  *controller.Controller
	// openLogs, which calls applySettings first
	minFree  atomic.Int64 // follows the metadata: the free-space threshold can change at run time
	cleaning atomic.Pointer[storage.Cleaning]
	loaded   atomic.Pointer[metadata.Image] // as it was found, nil since the applier has a later one
	found    int64                          // its revision
	measured *metrics.Storage
	storage  *storage.Manager
	dirs     *observe.Dirs
	// openPartitions
	applier      *metadata.Applier
	replicas     *replica.Manager
	copies       *archiving.Copies
	coordinators *coordinators.Coordinators
	// openHandlers
	handlers *broker.Handler
	cluster  *observe.Cluster
	logs     *observe.Logs
	fenced   bool // no partition is led in a leader epoch of an unclean stop (I9)
}

// open starts the components from the disk upwards: metadata, logs, partitions, handlers and, last,
// connections.
func (b *Broker) open(ctx context.Context) error {
	r := &components{static: resolve.Static(b.cfg)}
	b.components = r
	var err error
	if r.conf, err = b.configs.ResolveBroker(r.static); err != nil {
		return exit.With(exit.Usage, err)
	}
	r.settings = replica.NewTopicSettings(replica.SettingsOptions{
		Self: r.conf.NodeID, Configs: b.configs, Static: r.static, KeepAll: !r.conf.Cleaning.Compact, Logger: b.log.Named("replica"),
	})
	r.data = datadir.New(b.fs, b.cfg, &r.conf, b.log)
	for _, step := range []func(context.Context, *components) error{
		b.checkDirs, b.openMember, b.openLogs, b.register, b.openLogins, b.openPartitions, b.openHandlers,
		b.openArchive, b.awaitActive, b.openClients,
	} {
		if err := step(ctx, r); err != nil {
			return r.data.Classify(err)
		}
	}
	return nil
}

// checkDirs rejects directories that this broker can't use, before anything is changed.
func (b *Broker) checkDirs(ctx context.Context, r *components) error {
	if err := r.data.FindHung(ctx, b.diskPatience, func(what string) { b.health.Await(what, checks.ItsDisk) }); err != nil {
		return err
	}
	return r.data.CheckFormats()
}

// linked reports whether there may be other brokers.
func (r *components) linked() bool { return len(r.conf.Cluster.Seeds) > 0 }

// replicated reports whether a partition has replicas on several brokers, as `log repair` asks.
func replicated(img *metadata.Image) bool {
	for t := range img.Topics() {
		for _, p := range t.Partitions.All() {
			if len(p.Replicas) > 1 {
				return true
			}
		}
	}
	return false
}

// openLogs recovers the log directories.
func (b *Broker) openLogs(ctx context.Context, r *components) error {
	kvs, revision, err := r.member.Store().Range(ctx, "/")
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	img, err := metadata.Load(kvs, revision)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if err := b.applySettings(r, img); err != nil {
		return err
	}
	r.loaded.Store(img)
	r.found = img.Version()
	b.health.Enter("recovering logs")
	r.measured = metrics.NewStorage(b.reg)
	r.storage, err = storage.Open(r.data.Locations(), storage.Options{
		FS: b.fs, Holder: datadir.Holder(), Replicated: replicated(img), Logger: b.log.Named("storage"), Metrics: r.measured,
		DeferredBytes: b.budgets.Deferred, JournalFileSize: b.journalFile, JournalBytes: b.journalBytes,
		ProducerExpiry: r.conf.ProducerExpiration, RetentionInterval: r.conf.Cleaning.Interval,
		Progress: b.health.Progress, Interrupted: ctx.Err, MinFree: r.minFree.Load,
		Cleaning: *r.cleaning.Load(), Places: b.share.Of(share.Batches),
		Absent: func() int {
			if s := r.server.Load(); s != nil {
				return s.Producers().Absent()
			}
			return 0
		},
		Config: func(_ string, id storage.ID) storage.Config {
			return r.settings.Of(img, img.TopicByID(id.Topic)).Log
		},
	})
	if err != nil {
		return r.data.Errors(err)
	}
	b.stack.push("log directories", func(context.Context) error { r.storage.Closed(); return nil }) // that logs has left
	b.stack.pushDisk("logs", func(ctx context.Context) error {
		if !r.fenced {
			r.storage.Unused()
		}
		return r.storage.Shutdown(ctx)
	})
	r.dirs = observe.NewDirs(r.storage, r.data.Remedy, r.measured, b.probes)
	b.health.Add(r.dirs.Facts)
	if b.fs == vfs.OS() {
		b.health.Add(r.data.Presence(r.storage.Dirs()).Source)
	}
	held := r.data.KeepCopy(ctx, r.member.Store(), r.member.ID(), r.storage.Dirs())
	b.health.Add(held.Facts)
	b.stack.push("metadata copy", func(context.Context) error { held.Stop(); return nil })
	return metrics.RegisterDirs(b.reg, r.dirs.List)
}

// openLogins makes the metadata ready for logins, and sets passwords that an operator leaves in the
// data directory.
func (b *Broker) openLogins(ctx context.Context, r *components) error {
	if err := b.guard.TakeUsers(ctx, b.fs, r.control); err != nil {
		return err
	}
	if err := guard.PrepareLogins(ctx, b.cfg, r.member.Store(), r.control, b.log); err != nil {
		return err
	}
	following, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.guard.FollowUsers(following, b.fs, r.control) })
	b.stack.push("new users", func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
	return nil
}

// openPartitions subscribes the replicas and the coordinators to the metadata: its content and
// changes create, open and remove logs and give partitions their roles. That begins when
// openHandlers starts the applier.
func (b *Broker) openPartitions(_ context.Context, r *components) error {
	opt := replica.Options{
		Self: r.conf.NodeID, Storage: r.storage, DirPaths: r.data.Paths(r.storage.Dirs()), Cluster: r.control,
		Logger: b.log.Named("replica"),
		Config: func(img *metadata.Image, t *metadata.Topic) storage.Config { return r.settings.Of(img, t).Log },
		MinISR: r.settings.MinISR,
	}
	r.member.replicas(&opt, r.control, &r.conf.Cluster)
	copies := r.member.NewStreams(cluster.StreamsOptions{Conf: &r.conf.Cluster.Replica, CopyRates: r.settings.CopyRates,
		Partition: func(t [16]byte, p int32) (*replica.Partition, error) { return r.replicas.Partition(t, p) }})
	r.member.streams, opt.RoleChanged = copies, copies.RoleChanged
	r.applier = metadata.NewApplier(b.log.Named("metadata"))
	reads, err := archiving.OpenReads(b.archive(r))
	if err != nil {
		return err
	}
	opt.Tier = replica.TierOptions{Reads: reads, ReadWait: r.conf.Tiers.FetchWait, LookupWait: r.conf.Tiers.LookupWait,
		Alter: r.control.AlterTier, Applied: r.applier.WaitFor}
	r.replicas = replica.NewManager(opt)
	archive := b.archive(r)
	archive.Replicas = r.replicas
	r.copies = archiving.NewCopies(archive, reads)
	b.guard.Follow(r.applier)
	r.applier.Subscribe("settings", func(_ context.Context, _, next *metadata.Image, _ *metadata.Delta) error {
		return b.applySettings(r, next)
	})
	r.applier.Subscribe("topics", r.settings.Follow)
	if b.guard.Logins != nil {
		r.applier.Subscribe("logins", b.guard.Logins.Follow)
		b.stack.push("keys of tokens", b.guard.Logins.Run())
		if err := b.guard.Logins.ShowKeys(b.cfg.Security.OAuth.JWKS, b.health, b.reg); err != nil {
			return err
		}
	}
	r.applier.Subscribe("streams", copies.Apply) // before the roles that it connects
	r.applier.Subscribe("replicas", r.replicas.Apply)
	r.applier.Finish(r.replicas.AwaitApplied)
	b.stack.push("replicas", r.replicas.Close)
	b.stack.push("streams", copies.Close)
	copies.Serve()
	return b.openCoordinators(r)
}

// openCoordinators subscribes the coordinators to the metadata.
func (b *Broker) openCoordinators(r *components) error {
	var err error
	r.coordinators, err = coordinators.Open(coordinators.Options{
		Conf: &r.conf, Replicas: r.replicas, Controller: r.control, Configs: b.configs, Settings: r.settings, Static: r.static,
		Share: b.share, Log: b.log,
		MemberBytes: b.budgets.Groups(), TransactionBytes: b.budgets.Transactions(),
		StateBytes: b.budgets.ShareStates(), AskShares: r.member.Ask(cluster.Shares), AskLetters: r.member.Ask(cluster.Letters),
		Lease: r.member.Lease, Visible: broker.Visible(b.guard.Rules), Ask: r.member.Ask(cluster.Transactions),
		ProducerID: func(ctx context.Context) (int64, error) { return r.handlers.ProducerID(ctx) },
		Registry:   b.reg, Partitions: b.cfg.MetricsPartitions, Health: b.health, Push: b.stack.push,
	}, r.applier)
	if err != nil {
		return err
	}
	r.member.Serve(cluster.Transactions, r.coordinators.Exchange.Handle)
	r.member.Serve(cluster.Shares, r.coordinators.Desk.Handle)
	r.member.Serve(cluster.Letters, r.coordinators.Letters.Handle)
	return nil
}

// openHandlers connects the handlers to the components and starts the flow of metadata.
func (b *Broker) openHandlers(ctx context.Context, r *components) error {
	o := broker.Options{
		AnswerBytes: b.budgets.Answers, ParkedBytes: b.budgets.Parked, SessionBytes: b.budgets.Sessions, DecodedBytes: b.budgets.Decoded,
		ShareBytes: b.budgets.Shares(),
		Self:       r.conf.NodeID, Metadata: r.applier, Controller: r.control, Cluster: r.member.Operator(),
		Replicas: r.replicas, Settings: r.settings, Configs: b.configs, Audit: b.guard.Audit(), Refusals: b.guard.Refusals,
		Groups: r.coordinators.Groups, Transactions: r.coordinators.Transactions.Service, Shares: r.coordinators.Shares,
		ShareStates: r.coordinators.Desk, Operators: r.coordinators.Desk, Letters: r.coordinators.Letters,
		Coordinators: r.coordinators.Exchange, Exchange: r.coordinators.Exchange, Gate: r.coordinators.Gate,
		Rules: b.guard.Rules, Quotas: b.guard.Quotas, Report: b.report,
		Static: r.static, Share: b.share, Logger: b.log.Named("broker"), Level: b.level,
		Lease: r.member.Lease, ProduceBytes: b.budgets.Produce,
	}
	if r.member.Linked() {
		o.Tunnel = r.member.streams.Tunnel
	}
	var err error
	if r.handlers, err = broker.New(o); err != nil {
		return err
	}
	clients := r.handlers.Telemetry()
	r.applier.Subscribe("client metrics", clients.Follow(b.configs, b.log.Named("telemetry")))
	if err := metrics.RegisterClients(b.reg, clients.View); err != nil {
		return err
	}
	r.coordinators.Desk.Watch(r.handlers.ShareStateChanged)
	r.coordinators.Desk.WatchLeader(r.handlers.InspectShare)
	r.coordinators.Desk.WatchOperator(r.handlers.OperateShare)
	if err := r.coordinators.ServeShares(r.handlers.Shares, b.reg); err != nil {
		return err
	}
	if f := r.handlers.Forwarder(); f != nil {
		b.health.Add(func(x *checks.Facts) { x.Forwarding = f.Targets() })
		if err := metrics.RegisterForward(b.reg, f.Targets); err != nil {
			return err
		}
	}
	if err := b.observeCluster(r); err != nil {
		return err
	}
	r.logs = &observe.Logs{Self: r.conf.NodeID, Image: r.applier.Image, Replicas: r.replicas, Storage: r.storage,
		Settings: r.settings, Copying: r.copies.Copying}
	if err := metrics.RegisterLogs(b.reg, b.cfg.MetricsPartitions, r.logs.Each); err != nil {
		return err
	}
	b.stack.push("handlers", r.handlers.Close)
	// The applier lives as long as the broker, not only as long as its start.
	if err := r.applier.Start(context.WithoutCancel(ctx), r.member.Store()); err != nil {
		return err
	}
	b.stack.push("applier", func(context.Context) error { r.applier.Stop(); return nil })
	r.loaded.Store(nil)
	r.member.following.Store(true)
	// What the first image requires must be recorded and applied before a client can see the
	// broker.
	if err := r.applier.WaitFor(ctx, r.applier.Image().Version()); err != nil {
		return err
	}
	_, revision, err := r.member.Store().Range(ctx, metadata.ClusterKey)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if err := r.applier.WaitFor(ctx, revision); err != nil {
		return err
	}
	b.health.Add(r.logs.Facts)
	b.health.Add(func(f *checks.Facts) { // after the source that sets the other fields
		f.Metadata.Lacking = observe.Lacking(r.applier)
	})
	r.coordinators.AddSources(b.health, cmp.Or(b.slowChecks, time.Minute))
	b.health.AddSlow(observe.Access(b.cfg, r.applier.Image))
	r.fenced = true
	unwatch := watch(r.applier.Done(), func() { b.fail(fmt.Errorf("metadata: %w", r.applier.Err())) })
	b.stack.push("applier watch", func(context.Context) error { unwatch(); return nil })
	return nil
}

// openArchive starts what takes snapshots of the cluster. They are outside of the broker, also if
// its data is in memory.
func (b *Broker) openArchive(_ context.Context, r *components) error {
	o := b.archive(r)
	o.Replicas = r.replicas
	return archiving.Open(o, r.copies)
}

// archive returns the options of what uses the object store, without Replicas.
func (b *Broker) archive(r *components) archiving.Options {
	return archiving.Options{
		FS: vfs.OS(), Conf: &r.conf.Archive, Tiers: &r.conf.Tiers, Node: r.conf.NodeID, Version: b.version, Member: r.member.Cluster,
		Found:   r.found,
		Applier: r.applier, Controller: r.control, Registry: b.reg, Health: b.health, Push: b.stack.push,
		Places: b.share.Of(share.Batches), Log: b.log.Named("archive"),
		Topic: func(img *metadata.Image, t *metadata.Topic) *configdef.Topic { return &r.settings.Of(img, t).Conf },
	}
}

// openServer prepares to accept connections. links is nil without other brokers.
func (b *Broker) openServer(r *components, links network.Handler) error {
	table, err := broker.Table(b.budgets.Decoded)
	if err != nil {
		return err
	}
	r.member.starting = broker.NewStarting(table, r.conf.NodeID, r.member.Features, b.health.Phase)
	var names []string
	for _, l := range b.cfg.Listeners {
		names = append(names, l.Name)
	}
	r.network, r.requests = metrics.NewNetwork(b.reg), metrics.NewRequests(b.reg)
	server, err := network.New(network.Options{
		Observer:    guard.WithAudit(observe.NewNetwork(r.network, r.requests, names, table, b.guard.Refusals), b.guard.Audit()),
		LocalPlaces: localPlaces, Connecting: b.guard.Quotas.Connect, Accepting: b.limits.rates.Take,
		Handler: r.member.starting, Quotas: r.member.starting.Quotas(),
		Link: links, Table: table, Log: b.log.Named("network"), AdminAddress: b.AdminAddr(),
		MaxFrame: int(r.conf.MaxRequestBytes), ProduceBytes: b.budgets.Produce, OtherBytes: b.budgets.Other,
		ConnectionBytes: b.budgets.Connection, ConnectionRequests: b.cfg.Produce.ConnectionRequests,
		Limits: b.networkLimits(r, b.limits.now.Load()), Idle: r.conf.ConnectionIdle,
		Authenticator: b.guard.Logins.Authenticator(), LoginTimeout: b.cfg.Security.LoginTimeout, LoginBytes: b.cfg.Security.LoginBytes,
		Places:             b.share.Of(share.Logins),
		MaxUnauthenticated: b.cfg.Security.MaxUnauthenticated, MaxUnauthenticatedPerIP: b.cfg.Security.MaxUnauthenticatedPerIP,
	})
	if err != nil {
		return err
	}
	r.server.Store(server)
	b.health.Add(b.showRefusals(r))
	b.certs.OnChange(server.EndUntrusted)
	return nil
}

// serve accepts connections on the listeners whose names are chosen.
func (b *Broker) serve(server *network.Server, r *components, chosen func(name string) bool) error {
	for i, l := range b.cfg.Listeners {
		if !chosen(l.Name) {
			continue
		}
		listener := listenerOf(l, b.certs)
		listener.Brokers = r.linked() && l.Name == resolve.InterListener(b.cfg, &r.conf)
		from := b.bound.clients[i]
		if i == 0 && b.bound.local != nil {
			from = append(slices.Clone(from), b.bound.local)
		}
		for _, x := range from {
			if err := server.Serve(listener, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// byteBudgets reads the byte budgets.
func (r *components) byteBudgets(s *network.Server) func() []view.Budget {
	c := r.coordinators
	return observe.Budgets(s, r.handlers, c.Groups.MemberMemory(), c.Transactions.Memory(), c.Shares.Memory())
}

// openClients serves clients. In a cluster, the listener for brokers is open already.
func (b *Broker) openClients(_ context.Context, r *components) error {
	server := r.server.Load()
	b.limitConnections(r) // the logs are open
	b.stack.push("clients", func(ctx context.Context) error { return stopClients(ctx, r, server) })
	if err := metrics.RegisterQuotas(b.reg, observe.Quotas(b.guard.Quotas)); err != nil {
		return err
	}
	if err := metrics.RegisterBudgets(b.reg, r.byteBudgets(server)); err != nil {
		return err
	}
	if err := metrics.RegisterPlaces(b.reg, observe.Places(b.share)); err != nil {
		return err
	}
	if err := metrics.RegisterLogins(b.reg, observe.Logins(server)); err != nil {
		return err
	}
	if err := r.member.shown(); err != nil {
		return err
	}
	r.member.starting.Serve(r.handlers)
	return b.serve(server, r, func(name string) bool { return !r.linked() || name != resolve.InterListener(b.cfg, &r.conf) })
}
