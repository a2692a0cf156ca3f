package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/broker"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/daemon/cluster"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/vfs"
)

// dirFormat is the format of log directories that this version writes, as registrations show it.
const dirFormat = 1

// member is this broker as a member of its cluster, which may consist of it alone.
type member struct {
	*cluster.Cluster
	incarnation [16]byte
	starting    *broker.Starting // until this broker serves clients
	shown       func() error     // ends what showCluster has started
	streams     *streams
	following   atomic.Bool // the applier has started
}

// openMember opens the metadata directory and waits until this node is a member of its cluster and
// has metadata. Other brokers can connect before that; clients cannot. A broker without seeds
// begins a cluster of its own at its first start.
func (b *Broker) openMember(ctx context.Context, r *components) error {
	if err := b.lockData(); err != nil {
		return err
	}
	if err := b.openAudit(r); err != nil {
		return err
	}
	fail := func(err error) error { return dataError(b.cfg.DataDir, err) }
	dir := path.Join(b.cfg.DataDir, metadataDir)
	if err := vfs.MakeDir(b.fs, dir); err != nil {
		return fail(err)
	}
	listener := interListener(b.cfg, &r.conf)
	endpoints, secrets, peers, err := b.peersOf(r, listener)
	if err != nil {
		return err
	}
	c, err := cluster.Open(cluster.Options{
		FS: b.fs, Dial: peers.dial, Admit: peers.admit, Trusts: peers.trusts,
		Dir: dir, Conf: r.conf.Cluster, Node: r.conf.NodeID, Rack: r.conf.Rack, Endpoints: endpoints,
		InternalReplicas: map[string]int{
			service.OffsetsTopic:      min(int(r.conf.Offsets.ReplicationFactor), max(len(r.conf.Cluster.Seeds), 1)),
			service.TransactionsTopic: min(int(r.conf.Transactions.ReplicationFactor), max(len(r.conf.Cluster.Seeds), 1)),
		},
		Listener: listener, Secrets: secrets, Logs: r.owners.cluster,
		Version: b.version, Progress: b.waits, Fail: b.fail, Log: b.log,
		Refused: recordRefusedLinks(r.audit, listener),
	})
	if err != nil {
		return fail(err)
	}
	b.stack.pushDisk("metadata", c.Close)
	b.certs.cluster.Store(c)
	r.member = &member{Cluster: c, incarnation: metadata.NewID(), shown: func() error { return nil }}
	r.store = c.Store()
	if c.ID() == "" { // a directory without metadata, which an interrupted start left, or none
		if err := b.checkOwners(r); err != nil {
			return err
		}
		b.nameCopy(r.answering(), r.owners.cluster)
	}
	b.health.Add(func(f *checks.Facts) {
		f.Metadata = checks.Metadata{Dir: dir, Failed: observe.Reason(c.Store().Failed()), Hanging: c.Store().Hanging()}
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
	r.newController(b.configs)
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
func (b *Broker) peersOf(r *components, listener string) (endpoints []metadata.Endpoint, secrets []secret.Secret, p *peers, err error) {
	if !r.linked() {
		return nil, nil, &peers{}, nil
	}
	if endpoints, err = b.endpoints(); err == nil {
		secrets, err = readSecrets(r.conf.Cluster.SecretFile)
	}
	if err == nil {
		p, err = newPeers(listener, b.certs, b.net.DialContext)
	}
	return endpoints, secrets, p, err
}

// enter waits until this node has metadata, and refuses those to which its directories or its
// configuration do not fit.
func (b *Broker) enter(ctx context.Context, r *components) error {
	c, dir := r.member.Cluster, path.Join(b.cfg.DataDir, metadataDir)
	err := c.Enter(ctx)
	if err == nil {
		err = c.CheckNode(ctx)
	}
	if err != nil {
		return b.memberError(ctx, r, err)
	}
	if logs := r.owners.cluster; logs != "" && logs != c.ID() {
		return &ExitError{ExitData, fmt.Errorf("the log directories of this broker belong to the cluster %s, and %s to the cluster %s; "+
			"use log directories of the same cluster, or empty ones", logs, dir, c.ID())}
	}
	return b.refuseOlder(r)
}

// showCluster describes the cluster to clients as soon as this node's metadata are as new as its
// start, which may be long before its logs are recovered.
func (b *Broker) showCluster(ctx context.Context, r *components) error {
	images := metadata.NewApplier(b.log.Named("metadata"))
	handlers, err := broker.New(broker.Options{
		Self:        -1, // it has no replicas yet; the others' view of this broker is the right one
		AnswerBytes: b.budgets.Answers, ParkedBytes: b.budgets.Parked, SessionBytes: b.budgets.Sessions, DecodedBytes: b.budgets.Decoded,
		Rules:    followRules(&b.cfg.Security, b.log.Named("security"), images),
		Metadata: images, Controller: r.control, Cluster: r.member.Operator(), Settings: r.settings, Configs: b.configs,
		Static: r.static, Share: b.share, Logger: b.log.Named("broker"), Level: b.level,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() {
		if r.member.Current(ctx) == nil && images.Start(ctx, r.store) == nil {
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
		b.health.Enter(what)
	}
}

// waiting reports whether the start waits for other brokers.
func (b *Broker) waiting() bool {
	what := b.waitsFor.Load()
	return what != nil && *what == b.health.Phase()
}

// memberError explains why this broker can't be a member of its cluster. Without other brokers, its
// data directory is the cause.
func (b *Broker) memberError(ctx context.Context, r *components, err error) error {
	switch refused := errors.Is(err, membership.ErrRefused); {
	case refused && !r.linked():
		return &ExitError{ExitData, fmt.Errorf("directory %s: %w", b.cfg.DataDir, err)}
	case refused:
		return &ExitError{ExitUsage, err}
	case !r.linked() && ctx.Err() == nil:
		return dataError(b.cfg.DataDir, err)
	}
	return err
}

// endpoints returns the addresses that this broker registers: what its listeners advertise, or else
// what they are bound to.
func (b *Broker) endpoints() ([]metadata.Endpoint, error) {
	var list []metadata.Endpoint
	for i, l := range b.cfg.Listeners {
		at := l.Advertise
		if at == "" {
			host, _, err := net.SplitHostPort(l.Listen)
			if err != nil {
				return nil, err
			}
			_, port, err := net.SplitHostPort(b.bound.clients[i][0].Addr().String()) // the actual one if it was 0
			if err != nil {
				return nil, err
			}
			at = net.JoinHostPort(host, port)
		}
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("advertise %s: the port is not a number up to 65535", at)
		}
		list = append(list, metadata.Endpoint{Listener: l.Name, Host: host, Port: int32(n)})
	}
	return list, nil
}

// register makes this process the broker, once its logs are recovered.
func (b *Broker) register(ctx context.Context, r *components) error {
	o := cluster.RegisterOptions{Incarnation: r.member.incarnation, State: r.report, LogEnd: r.logEnd}
	for _, d := range r.storage.Dirs() {
		f := d.Finding()
		o.Dirs = append(o.Dirs, controller.RegisterDir{
			ID: d.ID(), Format: dirFormat, Clean: d.Clean(), Finding: f.ID, Found: f.Seq, Sequence: d.CheckpointSequence(),
		})
		if d.Lossy() {
			b.log.Warn("records that were acknowledged before they were synced may be lost: the machine stopped and the last stop was not clean",
				zap.String("dir", d.Path()), zap.Int("partitions", len(d.LossyLogs())))
			for _, id := range d.LossyLogs() {
				o.Lossy = append(o.Lossy, partitionOf(id))
			}
		}
	}
	for _, l := range r.damaged() {
		o.Damaged = append(o.Damaged, l.TopicPartition)
	}
	if r.linked() {
		b.waits("registering with the controller")
	}
	epoch, err := r.member.Register(ctx, o)
	if err != nil {
		return b.memberError(ctx, r, err)
	}
	if err := r.store.WaitFor(ctx, epoch); err != nil {
		return err
	}
	owner, err := r.member.owner()
	if err != nil {
		return err
	}
	for _, d := range r.storage.Dirs() {
		d.Confirm(owner)
	}
	return nil
}

// replicas adds to the options of the replica manager what a cluster needs.
func (m *member) replicas(o *replica.Options, c *controller.Controller, conf *configdef.Replica) {
	o.LagTime, o.StallTime = conf.Lag, conf.Stall
	o.Incarnation, o.Cluster, o.Lease, o.Resigner = m.incarnation, c.As(m.incarnation), m.Lease, m.Cluster
}

// owner returns what log directories remember of their registration: the cluster whose metadata
// other brokers may have, too.
func (m *member) owner() (o checkpoint.Owner, err error) {
	if !m.Linked() {
		return o, nil
	}
	if o.Cluster, err = metadata.ParseID(m.ID()); err != nil {
		return o, fmt.Errorf("the id of the cluster: %w", err)
	}
	o.Generation = m.Store().Generation()
	return o, nil
}

func partitionOf(id storage.ID) metadata.TopicPartition {
	return metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition}
}

// report returns what a heartbeat says of this broker.
func (r *components) report() membership.BrokerState {
	var out membership.BrokerState
	if r.member.following.Load() { // the partitions are open
		out.Applied = r.applier.Image().Version()
		out.Unable = r.replicas.Unable()
	}
	reportDamage(&out, r.damaged())
	return out
}

// logEnd returns how far a log goes, unless its records can't be read or added to. One of which
// some records can't be read is compared with the others all the same: of a partition with no whole
// log, one must lead.
func (r *components) logEnd(tp metadata.TopicPartition) (epoch int32, end int64, ok bool) {
	l := r.storage.Get(storage.ID{Topic: tp.Topic, Partition: tp.Partition})
	if l == nil || l.Err() != nil {
		return 0, 0, false
	}
	epoch, end = l.LastEpoch()
	return epoch, end, true
}

// reportDamage adds the damaged logs to a report, always in the same order: the controller writes a
// broker's state when a heartbeat differs from it. If they are too many for one, those that are the
// only replica are left out, because no other one can lead. If that is not enough, the directories
// that have the most count as failed: the controller would refuse the heartbeat, and fence a broker
// whose other logs are intact.
func reportDamage(out *membership.BrokerState, damaged []damagedLog) {
	slices.SortFunc(damaged, func(a, b damagedLog) int {
		return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
	})
	if len(damaged) > controller.MaxReportedDamaged {
		damaged = slices.DeleteFunc(damaged, func(l damagedLog) bool { return l.only })
	}
	byDir := map[[16]byte]int{}
	for _, l := range damaged {
		byDir[l.dir]++
	}
	for left := len(damaged); left > controller.MaxReportedDamaged; {
		most := damaged[0].dir
		for _, l := range damaged { // of equal ones always the same: heartbeats must not differ
			if byDir[l.dir] > byDir[most] {
				most = l.dir
			}
		}
		left -= byDir[most]
		delete(byDir, most)
		out.Unable = slices.DeleteFunc(out.Unable, func(d metadata.UnableDir) bool { return d.ID == most })
		out.Unable = append(out.Unable, metadata.UnableDir{ID: most, Why: metadata.DirFailed})
	}
	for _, l := range damaged {
		if byDir[l.dir] > 0 {
			out.Damaged = append(out.Damaged, l.TopicPartition)
		}
	}
}

// damagedLog is a log that lacks what it should have.
type damagedLog struct {
	metadata.TopicPartition
	dir  [16]byte
	only bool // the partition has no other replica
}

// damaged returns the logs that lack what they should have, or are not there.
//
// A leader reports its own log when a member of the ISR follows that can lead instead, or when none
// is left: otherwise the leadership might go to a member that is down, and no client could read
// what is intact here.
func (r *components) damaged() (list []damagedLog) {
	img := r.loaded.Load()
	if img == nil {
		img = r.applier.Image()
	}
	add := func(tp metadata.TopicPartition, dir [16]byte) {
		p := img.Partition(tp)
		list = append(list, damagedLog{tp, dir, p != nil && len(p.Replicas) == 1})
	}
	roles := r.member.following.Load() // the replicas have them
	for _, l := range r.storage.Flawed() {
		id := l.ID()
		if roles {
			if p, err := r.replicas.Partition(id.Topic, id.Partition); err == nil && p.Deserted() {
				continue
			}
		}
		add(partitionOf(id), l.Dir().ID())
	}
	if roles {
		for _, tp := range r.replicas.Missing() {
			dir, _ := r.applier.Image().Placement(r.conf.NodeID, tp)
			add(tp, dir)
		}
	}
	return list
}

// awaitActive waits until the controller counts this broker as active.
func (b *Broker) awaitActive(ctx context.Context, r *components) error {
	if r.linked() {
		b.waits("waiting for the controller to activate this broker")
	}
	return r.member.Agent().AwaitActive(ctx)
}

// leave moves leaderships away before the broker stops: those of partitions as far as its
// configuration says, and then that of the metadata, which moved the others.
func (b *Broker) leave() {
	r := b.components
	if r == nil || r.member == nil {
		return
	}
	if r.member.Agent() != nil && b.serving.Load() && r.conf.Cluster.Drain && len(r.applier.Image().Brokers()) > 1 {
		b.drain(r)
	}
	r.member.HandOver(context.Background())
}

// drain moves the leaderships of partitions away.
func (b *Broker) drain(r *components) {
	ctx, cancel := context.WithTimeout(context.Background(), r.conf.Cluster.DrainTime)
	defer cancel()
	// With nothing to hand over, the others only learn of the stop a moment later if the controller
	// is not reached.
	begun, patience := time.Now(), r.conf.Cluster.Heartbeat
	if shares(r.applier.Image(), r.conf.NodeID) {
		patience = r.conf.Cluster.Session
	}
	if err := r.member.Agent().Drain(ctx, patience); err != nil {
		b.log.Warn("stopping before all leaderships have moved", zap.Error(err), zap.Duration("waited", time.Since(begun)))
	}
}

// shares reports whether a broker is in an ISR with others.
func shares(img *metadata.Image, broker int32) bool {
	for t := range img.Topics() {
		for _, p := range t.Partitions.All() {
			if len(p.ISR) > 1 && slices.Contains(p.ISR, broker) {
				return true
			}
		}
	}
	return false
}
