package daemon

import (
	"context"
	"errors"

	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn/exchange"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
)

// openTransactions subscribes the transaction coordinator to the metadata, and connects it with the
// partitions of all brokers.
func (b *Broker) openTransactions(r *components) error {
	opt := exchange.Options{
		Self: r.conf.NodeID, Topic: service.TransactionsTopic, Offsets: service.OffsetsTopic, Logger: b.log.Named("transactions"),
		Image: func() *metadata.Image { return r.transactions.Image() },
		Submit: func(id string, event any, done func(any, error)) {
			r.transactions.Submit(id, event, done)
		},
		Partition: func(topic [16]byte, index int32) (exchange.Partition, error) {
			return r.replicas.Partition(topic, index)
		},
		WriteOffsets: func(index int32, m exchange.Marker, done func(error)) {
			r.groups.WriteMarker(index, group.Marker(m), done)
		},
		Fenced: func(partition, epoch, known int32) { r.transactions.Fenced(partition, epoch, known) },
		Call: func(ctx context.Context, broker int32, body []byte) ([]byte, error) {
			return r.member.AskTransactions(ctx, r.transactions.Image(), broker, body)
		},
	}
	r.exchange = exchange.New(opt)
	b.stack.push("transaction exchange", func(context.Context) error { r.exchange.Close(); return nil })
	r.gate = gate.New(gate.Options{Coordinators: r.exchange})
	ends := metrics.NewTransactionEnds(b.reg)
	var err error
	r.transactions, err = service.NewTransactions(service.TransactionsOptions{
		Self: r.conf.NodeID, Replicas: r.replicas, Controller: r.control, Configs: b.configs, Settings: r.settings, Static: r.static,
		ProducerID: func(ctx context.Context) (int64, error) { return r.handlers.ProducerID(ctx) },
		Version:    (*metadata.Image).TransactionVersion, Send: r.exchange.Send,
		Lease: r.member.Lease, Brokers: len(r.conf.Cluster.Seeds), Share: b.share, Logger: b.log.Named("transactions"),
		Decided: observe.Decided(ends), Marked: observe.Marked(ends), Refused: observe.Refused(ends),
		Crowded: observe.Crowded(ends), OpenBytes: b.budgets.Transactions(),
	})
	if err != nil {
		return err
	}
	r.applier.Subscribe("transactions", r.transactions.Apply)
	b.stack.push("transactions", func(context.Context) error { r.transactions.Close(); return nil })
	r.member.ServeTransactions(r.exchange.Handle)
	open := &observe.OpenTransactions{Self: r.conf.NodeID, Image: r.applier.Image, Replicas: r.replicas, Gate: r.gate,
		Limit: r.transactions.MaxTimeout()}
	b.health.Add(open.Facts)
	return errors.Join(metrics.RegisterTransactions(b.reg, observe.Transactions(r.transactions, r.exchange, r.gate)),
		metrics.RegisterOpenTransactions(b.reg, b.cfg.MetricsPartitions, open.View))
}
