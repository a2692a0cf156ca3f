package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/audit/changes"
	"github.com/chronik-io/chronik/internal/broker"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/purgatory"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Names below the data directory.
const (
	lockName    = ".lock"
	metadataDir = "metadata"
	logsDir     = "logs"
)

// components holds what open has built so far; each step uses the results of the steps before it.
type components struct {
	static       map[string]string
	conf         configdef.Broker
	locations    []storage.Location // of the log directories
	owners       owners             // of the logs in them
	settings     *replica.TopicSettings
	store        metadata.Store
	member       *member
	control      *controller.Controller
	logins       *logins // nil if no listener has SASL
	storage      *storage.Manager
	dirs         *observe.Dirs
	cluster      *observe.Cluster
	logs         *observe.Logs
	fenced       bool // no partition is led in a leader epoch of an unclean stop (I9)
	measured     *metrics.Storage
	network      *metrics.Network
	requests     *metrics.Requests
	park         *purgatory.Purgatory
	replicas     *replica.Manager
	applier      *metadata.Applier
	groups       *service.Groups
	transactions *service.Transactions
	exchange     *exchange.Exchange
	gate         *gate.Gate
	handlers     *broker.Handler
	rules        func() *acl.Rules // nil without authorization
	audit        *audit.Log        // nil if it is off
	quotas       *quota.Keeper
	// server is set last; storage's journals, which are opened earlier, ask its Producers.
	server atomic.Pointer[network.Server]
	// minFree follows the metadata, because the free-space threshold can change at run time.
	minFree  atomic.Int64
	cleaning atomic.Pointer[storage.Cleaning] // as applySettings set it last
	loaded   atomic.Pointer[metadata.Image]   // as openLogs found it, nil since the applier has a later one
}

// open starts the components from the disk upwards: metadata, logs, partitions, handlers and, last,
// connections.
func (b *Broker) open(ctx context.Context) error {
	r := &components{static: static(b.cfg), quotas: newQuotas()}
	b.components = r
	var err error
	if r.conf, err = b.configs.ResolveBroker(r.static); err != nil {
		return &ExitError{ExitUsage, err}
	}
	if r.logins, err = newLogins(b.cfg, b.log.Named("logins")); err != nil {
		return err
	}
	r.settings = replica.NewTopicSettings(replica.SettingsOptions{
		Self: r.conf.NodeID, Configs: b.configs, Static: r.static, KeepAll: !r.conf.Cleaning.Compact, Logger: b.log.Named("replica"),
	})
	for _, step := range []func(context.Context, *components) error{
		b.findHung, b.refuseNewerFormats, b.openMember, b.openLogs, b.register, b.prepareLogins, b.openPartitions, b.openHandlers,
		b.awaitActive, b.openClients,
	} {
		if err := step(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// refuseNewerFormats rejects directories that a newer version wrote, before anything is changed: a
// directory that is converted only in part would suit neither version.
func (b *Broker) refuseNewerFormats(_ context.Context, r *components) error {
	for _, loc := range r.answering() {
		if err := storage.Peek(b.fs, loc); err != nil {
			return dirErrors(b.cfg.Broker, &storage.DirError{Path: loc.Path, Journal: loc.Journal, Err: err})
		}
	}
	dir := path.Join(b.cfg.DataDir, metadataDir)
	if err := raftstore.Peek(b.fs, dir); err != nil {
		return dataError(b.cfg.DataDir, err)
	}
	var err error
	if r.owners, err = readOwners(b.fs, r.answering()); err != nil {
		return &ExitError{ExitData, err}
	}
	if there, err := raftstore.Exists(b.fs, dir); err != nil || there {
		return nil // opening it reports any other error
	}
	return b.checkOwners(r)
}

// linked reports whether there may be other brokers.
func (r *components) linked() bool { return len(r.conf.Cluster.Seeds) > 0 }

// requireMetadata rejects log directories that hold partitions if the metadata that describes them
// is missing: all their topics would be gone, and a new topic of the same name would be a different
// one.
func (b *Broker) requireMetadata(all []storage.Location) error {
	dir := path.Join(b.cfg.DataDir, metadataDir)
	for _, loc := range all {
		if storage.Used(b.fs, loc) {
			lock, err := b.fs.Lock(path.Join(loc.Path, lockName), holder())
			if err != nil { // the broker that holds the lock also has the metadata
				return dirErrors(b.cfg.Broker, &storage.DirError{Path: loc.Path, Journal: loc.Journal, Err: err})
			}
			_ = lock.Close() // the lock ends with the process in any case
			return &ExitError{ExitData, fmt.Errorf("directory %s: the log directory %s holds partitions, and %s has no metadata of them; "+
				"set data.dir (--data-dir) to the directory that has it, or give this broker an empty log directory; if it is lost, %s shows which topics can be restored",
				b.cfg.DataDir, loc.Path, dir, b.repairAll(all, "--dry-run"))}
		}
	}
	return nil
}

// lockData creates and locks the data directory.
func (b *Broker) lockData() error {
	fail := func(err error) error { return dataError(b.cfg.DataDir, err) }
	if err := vfs.MakeDir(b.fs, b.cfg.DataDir); err != nil {
		return fail(err)
	}
	lock, err := b.fs.Lock(path.Join(b.cfg.DataDir, lockName), holder())
	if err != nil {
		return fail(err)
	}
	b.stack.pushDisk("lock", func(context.Context) error { return lock.Close() })
	b.restrict(path.Join(b.cfg.DataDir, metadataDir))
	return nil
}

// restrict makes directories of metadata unreadable for other users: the metadata has the keys with
// which users log in. A directory that stays readable is no reason not to start.
func (b *Broker) restrict(dirs ...string) {
	for _, dir := range dirs {
		switch changed, err := vfs.Restrict(b.fs, dir); {
		case err != nil:
			b.log.Warn("the metadata directory is readable by other users and contains password keys; run chmod -R go= on it",
				zap.String("dir", dir), zap.Error(err))
		case changed:
			b.log.Info("the metadata directory is no longer readable by other users", zap.String("dir", dir))
		}
	}
}

// newController sets what changes the metadata for this broker.
func (r *components) newController(configs *configdef.Registry) {
	r.control = controller.New(controller.Options{
		Store: changes.Watch(r.store, r.audit), Configs: configs, NumPartitions: r.conf.NumPartitions,
		ReplicationFactor: r.conf.DefaultReplicationFactor,
		Groups:            r.conf.Groups, MinISR: r.settings.MinISR,
	})
}

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
	kvs, revision, err := r.store.Range(ctx, "/")
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
	b.health.Enter("recovering logs")
	r.measured = metrics.NewStorage(b.reg)
	r.storage, err = storage.Open(r.locations, storage.Options{
		FS: b.fs, Holder: holder(), Replicated: replicated(img), Logger: b.log.Named("storage"), Metrics: r.measured,
		DeferredBytes: b.budgets.Deferred, JournalFileSize: b.journalFile, JournalBytes: b.journalBytes,
		ProducerExpiry: r.conf.ProducerExpiration, RetentionInterval: r.conf.Cleaning.Interval,
		Progress: b.health.Progress, Interrupted: ctx.Err, MinFree: r.minFree.Load,
		Cleaning: *r.cleaning.Load(),
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
		return dirErrors(b.cfg.Broker, err)
	}
	b.stack.pushDisk("logs", func(ctx context.Context) error {
		if !r.fenced {
			r.storage.Unused()
		}
		return r.storage.Shutdown(ctx)
	})
	r.dirs = observe.NewDirs(r.storage, b.remedyFor, r.measured, b.probes)
	b.health.Add(r.dirs.Facts)
	if b.fs == vfs.OS() {
		b.health.Add(presence(path.Join(b.cfg.DataDir, metadataDir), r.storage.Dirs()).Source)
	}
	b.keepCopy(ctx, r)
	return metrics.RegisterDirs(b.reg, r.dirs.List)
}

// openPartitions subscribes the replicas and the coordinators to the metadata: its content and
// changes create, open and remove logs and give partitions their roles. That begins when
// openHandlers starts the applier.
func (b *Broker) openPartitions(_ context.Context, r *components) error {
	r.park = purgatory.New()
	opt := replica.Options{
		Self: r.conf.NodeID, Storage: r.storage, Cluster: r.control, Park: r.park, Logger: b.log.Named("replica"),
		Config: func(img *metadata.Image, t *metadata.Topic) storage.Config { return r.settings.Of(img, t).Log },
		MinISR: r.settings.MinISR,
	}
	r.member.replicas(&opt, r.control, &r.conf.Cluster.Replica)
	copies := b.newStreams(r, func(t [16]byte, p int32) (*replica.Partition, error) { return r.replicas.Partition(t, p) })
	r.member.streams, opt.RoleChanged = copies, copies.RoleChanged
	r.replicas = replica.NewManager(opt)
	r.applier = metadata.NewApplier(b.log.Named("metadata"))
	r.rules = followRules(&b.cfg.Security, b.log.Named("security"), r.applier) // before what asks them
	followQuotas(r.quotas, r.applier)
	r.applier.Subscribe("settings", func(_ context.Context, _, next *metadata.Image, _ *metadata.Delta) error {
		return b.applySettings(r, next)
	})
	r.applier.Subscribe("topics", r.settings.Follow)
	if r.logins != nil {
		r.applier.Subscribe("logins", r.logins.Follow)
		b.stack.push("keys of tokens", r.logins.run())
		if err := b.watchTokenKeys(r.logins); err != nil {
			return err
		}
	}
	r.applier.Subscribe("streams", copies.Apply) // before the roles that it connects
	r.applier.Subscribe("replicas", r.replicas.Apply)
	r.applier.Finish(r.replicas.AwaitApplied)
	b.stack.push("replicas", r.replicas.Close)
	b.serveStreams(copies)
	var err error
	r.groups, err = service.NewGroups(service.GroupsOptions{
		Self: r.conf.NodeID, Replicas: r.replicas, Controller: r.control, Configs: b.configs,
		Static: r.static, Share: b.share, Logger: b.log.Named("groups"),
		MemberBytes: b.budgets.Members - b.budgets.transactions(), Lease: r.member.Lease, Brokers: len(r.conf.Cluster.Seeds),
		Visible: broker.Visible(r.rules),
	})
	if err != nil {
		return err
	}
	r.applier.Subscribe("groups", r.groups.Apply)
	b.stack.push("groups", func(context.Context) error { r.groups.Close(); return nil })
	if err := metrics.RegisterGroups(b.reg, b.cfg.MetricsPartitions, observe.Groups(r.groups)); err != nil {
		return err
	}
	return b.openTransactions(r)
}

// openHandlers connects the handlers to the components and starts the flow of metadata.
func (b *Broker) openHandlers(ctx context.Context, r *components) error {
	var err error
	var group broker.Cluster
	if r.linked() {
		group = r.member.Operator()
	}
	r.handlers, err = broker.New(broker.Options{
		AnswerBytes: b.budgets.Answers, ParkedBytes: b.budgets.Parked, SessionBytes: b.budgets.Sessions, DecodedBytes: b.budgets.Decoded,
		Self: r.conf.NodeID, Metadata: r.applier, Controller: r.control, Cluster: withAuditedCluster(group, r.audit),
		Replicas: r.replicas, Settings: r.settings,
		Audit:   r.audit,
		Configs: b.configs, Groups: r.groups, Transactions: r.transactions.Service, Coordinators: r.exchange,
		Exchange: r.exchange, Gate: r.gate, Rules: r.rules, Quotas: r.quotas,
		Static: r.static, Share: b.share, Logger: b.log.Named("broker"), Level: b.level,
	})
	if err != nil {
		return err
	}
	if err := b.observeCluster(r); err != nil {
		return err
	}
	r.logs = &observe.Logs{Self: r.conf.NodeID, Image: r.applier.Image, Replicas: r.replicas, Storage: r.storage,
		Settings: r.settings}
	if err := metrics.RegisterLogs(b.reg, b.cfg.MetricsPartitions, r.logs.Each); err != nil {
		return err
	}
	b.stack.push("handlers", r.handlers.Close)
	// The applier lives as long as the broker, not only as long as its start.
	if err := r.applier.Start(context.WithoutCancel(ctx), r.store); err != nil {
		return err
	}
	b.stack.push("applier", func(context.Context) error { r.applier.Stop(); return nil })
	r.member.following.Store(true)
	r.loaded.Store(nil)
	// What the first image requires must be recorded and applied before a client can see the
	// broker.
	if err := r.applier.WaitFor(ctx, r.applier.Image().Version()); err != nil {
		return err
	}
	_, revision, err := r.store.Range(ctx, metadata.ClusterKey)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	if err := r.applier.WaitFor(ctx, revision); err != nil {
		return err
	}
	b.health.Add(r.logs.Facts)
	b.health.Add(observe.Coordinators(service.OffsetsTopic, r.groups.Service))
	b.health.Add(observe.Coordinators(service.TransactionsTopic, r.transactions.Service))
	b.health.AddSlow(observe.Rebalances(r.groups, cmp.Or(b.slowChecks, time.Minute)))
	survey := observe.Transactions(r.transactions, r.exchange, r.gate)
	b.health.AddSlow(func(s *checks.Slow) { s.Undone = survey().Undone })
	b.health.AddSlow(accessSource(b.cfg, r.applier.Image))
	r.fenced = true
	unwatch := watch(r.applier.Done(), func() { b.fail(fmt.Errorf("metadata: %w", r.applier.Err())) })
	b.stack.push("applier watch", func(context.Context) error { unwatch(); return nil })
	return nil
}

// openServer prepares to accept connections. links is nil without other brokers.
func (b *Broker) openServer(r *components, links network.Handler) error {
	table, err := broker.Table(b.budgets.Decoded, links != nil)
	if err != nil {
		return err
	}
	r.member.starting = broker.NewStarting(table, r.member.Features)
	var names []string
	for _, l := range b.cfg.Listeners {
		names = append(names, l.Name)
	}
	r.network, r.requests = metrics.NewNetwork(b.reg), metrics.NewRequests(b.reg)
	server, err := network.New(network.Options{
		Observer:   withAudit(observe.NewNetwork(r.network, r.requests, names, table), r.audit),
		Connecting: r.quotas.Connect, Accepting: b.limits.rates.take,
		Handler: r.member.starting, Link: links, Table: table, Log: b.log.Named("network"), AdminAddress: b.AdminAddr(),
		MaxFrame: int(r.conf.MaxRequestBytes), ProduceBytes: b.budgets.Produce, OtherBytes: b.budgets.Other,
		ConnectionBytes: b.budgets.Connection, ConnectionRequests: b.cfg.Produce.ConnectionRequests,
		Limits: b.networkLimits(r, b.limits.now.Load()), Idle: r.conf.ConnectionIdle,
		Authenticator: r.logins.authenticator(), LoginTimeout: b.cfg.Security.LoginTimeout, LoginBytes: b.cfg.Security.LoginBytes,
		Places:             b.share.Of(share.Logins),
		MaxUnauthenticated: b.cfg.Security.MaxUnauthenticated, MaxUnauthenticatedPerIP: b.cfg.Security.MaxUnauthenticatedPerIP,
	})
	if err != nil {
		return err
	}
	r.server.Store(server)
	b.certs.server.Store(server)
	return nil
}

// serve accepts connections on the listeners whose names are chosen.
func (b *Broker) serve(server *network.Server, r *components, chosen func(name string) bool) error {
	for i, l := range b.cfg.Listeners {
		if !chosen(l.Name) {
			continue
		}
		listener, err := listenerOf(l, b.certs)
		if err != nil {
			return err
		}
		listener.Brokers = r.linked() && l.Name == interListener(b.cfg, &r.conf)
		for _, x := range b.bound.clients[i] {
			if err := server.Serve(listener, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// openClients serves clients. In a cluster, the listener for brokers is open already.
func (b *Broker) openClients(_ context.Context, r *components) error {
	server := r.server.Load()
	b.limitConnections(r) // the logs are open
	b.stack.push("clients", func(ctx context.Context) error { return stopClients(ctx, r, server) })
	if err := metrics.RegisterQuotas(b.reg, quotaMetrics(r.quotas)); err != nil {
		return err
	}
	budgets := observe.Budgets(server, r.handlers, r.groups.MemberMemory(), r.transactions.Memory())
	if err := metrics.RegisterBudgets(b.reg, budgets); err != nil {
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
	return b.serve(server, r, func(name string) bool { return !r.linked() || name != interListener(b.cfg, &r.conf) })
}
