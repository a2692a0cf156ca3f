// Package coordinators opens the coordinators of a broker, of groups, of transactions and of share
// groups, and connects them with the partitions of all brokers, the metadata, metrics and findings.
//
// It decides nothing: packages coordinator/service, txn/exchange, txn/gate and sharestate/desk do.
// Open pushes what stops each part in the order of the starts, also before an error. The daemon
// says when they start and stop.
package coordinators

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/desk"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/shareleader/deadletter"
	"github.com/chronik-io/chronik/internal/view"
)

// Options are what coordinators use of a broker. All fields are needed, unless noted.
type Options struct {
	Conf       *configdef.Broker
	Replicas   *replica.Manager
	Controller *controller.Controller
	Configs    *configdef.Registry
	Settings   *replica.TopicSettings
	Static     map[string]string
	Share      *share.Share
	Log        *zap.Logger

	MemberBytes, TransactionBytes, StateBytes int64

	Lease      func() bool
	Visible    func(group.Viewer) func(topic string) bool // as in service.GroupsOptions; may be nil
	ProducerID func(ctx context.Context) (int64, error)
	// Ask sends a request of the exchange to another broker.
	Ask func(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error)
	// AskShares sends a request of the desk to another broker.
	AskShares func(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error)
	// AskLetters sends a request about dead letters to another broker.
	AskLetters func(ctx context.Context, img *metadata.Image, broker int32, body []byte) ([]byte, error)

	// Registry and Partitions are for metrics: whether there are series for each partition.
	Registry   prometheus.Registerer
	Partitions bool
	Health     *checks.Monitor
	// Push takes what stops a part, in the order of the starts.
	Push func(name string, stop func(context.Context) error)
}

// Coordinators are those of one broker.
type Coordinators struct {
	Groups       *service.Groups
	Transactions *service.Transactions
	Exchange     *exchange.Exchange
	Gate         *gate.Gate
	// Shares is the share coordinator, and Desk reaches those of all brokers. Letters copies dead
	// letters.
	Shares  *service.Shares
	Desk    *desk.Desk
	Letters *deadletter.Desk

	leaders atomic.Pointer[func() view.Shares]
}

// ServeShares sets what has the share partitions that this broker leads, for metrics and findings.
func (c *Coordinators) ServeShares(leaders func() view.Shares, reg prometheus.Registerer) error {
	c.leaders.Store(&leaders)
	return metrics.RegisterShares(reg, leaders)
}

// led returns the share groups whose share partitions this broker leads.
func (c *Coordinators) led() view.Shares {
	if f := c.leaders.Load(); f != nil {
		return (*f)()
	}
	return view.Shares{}
}

// Open subscribes the coordinators to the metadata. After an error, what was pushed until then must
// be stopped.
func Open(o Options, applier *metadata.Applier) (*Coordinators, error) {
	c := &Coordinators{}
	if err := c.openShares(&o, applier); err != nil {
		return nil, err
	}
	var err error
	c.Groups, err = service.NewGroups(service.GroupsOptions{
		Options: o.service("groups"), Configs: o.Configs, Static: o.Static, MemberBytes: o.MemberBytes, Visible: o.Visible,
		States: c.Desk,
	})
	if err != nil {
		return nil, err
	}
	applier.Subscribe("groups", c.Groups.Apply)
	o.Push("groups", func(context.Context) error { c.Groups.Close(); return nil })
	if err := metrics.RegisterGroups(o.Registry, o.Partitions, observe.Groups(c.Groups, c.led)); err != nil {
		return nil, err
	}
	err = c.openTransactions(&o, applier)
	return c, err
}

// service returns what the coordinators have in common.
func (o *Options) service(name string) service.Options {
	return service.Options{Self: o.Conf.NodeID, Replicas: o.Replicas, Controller: o.Controller, Lease: o.Lease,
		Brokers: len(o.Conf.Cluster.Seeds), Share: o.Share, Logger: o.Log.Named(name)}
}

// openTransactions subscribes the transaction coordinator to the metadata, and connects it with the
// partitions of all brokers.
func (c *Coordinators) openTransactions(o *Options, applier *metadata.Applier) error {
	c.Exchange = exchange.New(exchange.Options{
		Self: o.Conf.NodeID, Topic: service.TransactionsTopic, Offsets: service.OffsetsTopic, Logger: o.Log.Named("transactions"),
		Image: func() *metadata.Image { return c.Transactions.Image() },
		Submit: func(id string, event any, done func(any, error)) {
			c.Transactions.Submit(id, event, done)
		},
		Partition: func(topic [16]byte, index int32) (exchange.Partition, error) {
			return o.Replicas.Partition(topic, index)
		},
		WriteOffsets: func(index int32, m exchange.Marker, done func(error)) {
			c.Groups.WriteMarker(index, group.Marker(m), done)
		},
		Fenced: func(partition, epoch, known int32) { c.Transactions.Fenced(partition, epoch, known) },
		Call: func(ctx context.Context, broker int32, body []byte) ([]byte, error) {
			return o.Ask(ctx, c.Transactions.Image(), broker, body)
		},
	})
	o.Push("transaction exchange", func(context.Context) error { c.Exchange.Close(); return nil })
	c.Gate = gate.New(gate.Options{Coordinators: c.Exchange})
	ends := metrics.NewTransactionEnds(o.Registry)
	var err error
	c.Transactions, err = service.NewTransactions(service.TransactionsOptions{
		Options: o.service("transactions"), Configs: o.Configs, Settings: o.Settings, Static: o.Static,
		ProducerID: o.ProducerID, Version: (*metadata.Image).TransactionVersion, Send: c.Exchange.Send,
		Decided: observe.Decided(ends), Marked: observe.Marked(ends), Refused: observe.Refused(ends),
		Crowded: observe.Crowded(ends), OpenBytes: o.TransactionBytes, IDMemory: c.Groups.MemberMemory(),
	})
	if err != nil {
		return err
	}
	applier.Subscribe("transactions", c.Transactions.Apply)
	o.Push("transactions", func(context.Context) error { c.Transactions.Close(); return nil })
	open := &observe.OpenTransactions{Self: o.Conf.NodeID, Replicas: o.Replicas, Gate: c.Gate,
		Limit: c.Transactions.MaxTimeout()}
	o.Health.Add(open.Facts)
	return errors.Join(metrics.RegisterTransactions(o.Registry, observe.Transactions(c.Transactions, c.Exchange, c.Gate)),
		metrics.RegisterOpenTransactions(o.Registry, o.Partitions, open.View))
}

// openShares subscribes the share coordinator to the metadata, and connects it with those of other
// brokers.
func (c *Coordinators) openShares(o *Options, applier *metadata.Applier) error {
	var err error
	c.Shares, err = service.NewShares(service.SharesOptions{
		Options: o.service("shares"), Configs: o.Configs, Static: o.Static, StateBytes: o.StateBytes,
		Changed: func(x sharestate.Changed) { c.Desk.Notify(x) },
	})
	if err != nil {
		return err
	}
	c.Desk = desk.New(desk.Options{
		Self: o.Conf.NodeID, Coordinators: c.Shares, Logger: o.Log.Named("shares"),
		Call: func(ctx context.Context, broker int32, body []byte) ([]byte, error) {
			return o.AskShares(ctx, c.Shares.Image(), broker, body)
		},
	})
	c.Letters = deadletter.New(deadletter.Options{
		Self: o.Conf.NodeID, Image: c.Shares.Image, Settings: o.Settings, Prefix: o.Conf.Groups.DeadLetterPrefix,
		Partition: o.Replicas.Partition, Places: o.Share.Of(share.Batches),
		Call: func(ctx context.Context, broker int32, body []byte) ([]byte, error) {
			return o.AskLetters(ctx, c.Shares.Image(), broker, body)
		},
	})
	o.Push("share desk", func(context.Context) error { c.Desk.Close(); return nil })
	applier.Subscribe("shares", c.Shares.Apply)
	o.Push("shares", func(context.Context) error { c.Shares.Close(); return nil })
	return nil
}

// AddSources adds the sources of health that read partitions, which must have followed the
// metadata. A rebalance that takes longer than patience is a finding.
func (c *Coordinators) AddSources(in *checks.Monitor, patience time.Duration) {
	in.Add(observe.Coordinators(service.OffsetsTopic, c.Groups.Service))
	in.Add(observe.Coordinators(service.TransactionsTopic, c.Transactions.Service))
	in.Add(observe.Coordinators(service.SharesTopic, c.Shares.Service))
	in.Add(func(f *checks.Facts) { f.SlowShares = c.led().Slow })
	in.AddSlow(observe.Rebalances(c.Groups, patience))
	survey := observe.Transactions(c.Transactions, c.Exchange, c.Gate)
	in.AddSlow(func(s *checks.Slow) { s.Undone = survey().Undone })
}

// Stop ends requests that wait for a coordinator: transactions, and members that wait for others.
// Loads need not end first.
func (c *Coordinators) Stop() {
	c.Transactions.Stop()
	c.Gate.Close()
	c.Groups.Stop()
	if c.Shares != nil {
		c.Shares.Stop()
	}
}

// InternalReplicas returns how many replicas the internal topics of a configuration have.
func InternalReplicas(conf *configdef.Broker) map[string]int {
	most := max(len(conf.Cluster.Seeds), 1)
	return map[string]int{
		service.OffsetsTopic:      min(int(conf.Offsets.ReplicationFactor), most),
		service.TransactionsTopic: min(int(conf.Transactions.ReplicationFactor), most),
		service.SharesTopic:       min(int(conf.Shares.ReplicationFactor), most),
	}
}
