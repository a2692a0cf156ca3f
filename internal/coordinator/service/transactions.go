package service

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/pkg/durability"
)

// TransactionsTopic holds transactional ids and their transactions.
const TransactionsTopic = "__transaction_state"

// TransactionsOptions configure Transactions.
type TransactionsOptions struct {
	Options
	Configs  *configdef.Registry
	Settings *replica.TopicSettings
	// Static has the broker configs that the configuration file sets, by name.
	Static map[string]string
	// ProducerID returns an unused producer id. It may block until its context ends.
	ProducerID func(context.Context) (int64, error)
	// Version returns the cluster's transaction.version under an image.
	Version func(*metadata.Image) int16
	// Send is that of coordinator.Options: it carries out txn.WriteMarker and txn.Flush.
	Send func(partition, epoch int32, request any, batch *groupcommit.Batch, done func(result any))
	// OpenBytes bounds the memory for the partitions of open transactions. 0 is 16 MiB.
	OpenBytes int64
	// IDMemory bounds the memory for transactional ids; nil: 64 MiB.
	IDMemory *coordinator.MemoryBudget
	// Decided, Marked, Refused and Crowded are those of txn.Config.
	Decided func(commit bool, reason txn.Reason, open time.Duration)
	Marked  func(commit bool, took time.Duration)
	Refused func(*kerr.Error)
	Crowded func(removed int, idle time.Duration)
}

// Transactions is the transaction coordinator of this broker. Its methods may be called
// concurrently, and only Close blocks.
type Transactions struct {
	*Service
	opt    TransactionsOptions
	memory *coordinator.MemoryBudget

	maxTimeout time.Duration
	tagged     atomic.Bool // what the shards know, or are about to be notified of

	raised    atomic.Uint64
	raisingMu sync.Mutex
	raising   map[int32]bool // partitions whose leader epoch is being raised
}

// NewTransactions returns a coordinator without partitions; Apply adds them.
func NewTransactions(opt TransactionsOptions) (*Transactions, error) {
	conf, err := opt.Configs.ResolveBroker(opt.Static)
	if err != nil {
		return nil, fmt.Errorf("transaction configs: %w", err)
	}
	cfg := shardConfig(&conf.Transactions)
	cfg.ProducerID, cfg.Decided, cfg.Marked, cfg.Refused = opt.ProducerID, opt.Decided, opt.Marked, opt.Refused
	if opt.OpenBytes > 0 {
		cfg.OpenMemory = coordinator.NewMemoryBudget(opt.OpenBytes)
	}
	if opt.IDMemory != nil {
		cfg.IDMemory = opt.IDMemory
	}
	t := &Transactions{opt: opt, memory: cfg.OpenMemory, maxTimeout: cfg.MaxTimeout, raising: map[int32]bool{}}
	cfg.Crowded = t.crowded
	cfg.Overtaken = func(id string, p txn.Partition) {
		opt.Logger.Warn("a partition has a later producer epoch than "+TransactionsTopic+", which may have lost records; "+
			"the producer's open transaction there is aborted, and the transactional id gets another producer id",
			zap.String("transactional_id", id), zap.String("topic", p.Topic), zap.Int32("partition", p.Index))
	}
	c := &conf.Transactions
	t.Service = New(opt.Options, Definition{
		Topic: TransactionsTopic, Serves: "transactional ids",
		Partitions: c.Partitions, ReplicationFactor: c.ReplicationFactor, MinISR: c.MinISR,
		SegmentBytes: c.SegmentBytes, New: func(int32) coordinator.Machine { return txn.New(cfg) }, Send: opt.Send,
		InitialEvent: func(img *metadata.Image) any { return t.topics(img) },
		ChangeEvent:  t.changeEvent,
	})
	return t, nil
}

// Memory returns the memory budget of open transactions.
func (t *Transactions) Memory() *coordinator.MemoryBudget { return t.memory }

func shardConfig(c *configdef.Transactions) txn.Config {
	cfg := txn.DefaultConfig()
	cfg.MaxTimeout, cfg.Expiration, cfg.ExpirationCheck, cfg.MaxIDs = c.MaxTimeout, c.Expiration, c.ExpirationCheck, c.MaxIDs
	return cfg
}

// crowded logs and counts what a shard does about too many transactional ids.
func (t *Transactions) crowded(removed int, idle time.Duration) {
	const remedy = "; does an application make a new transactional id for each transaction? Otherwise raise " +
		"transactional.id.max.per.partition"
	if removed > 0 {
		t.opt.Logger.Warn("transactional ids were removed before transactional.id.expiration.ms, because there are too many"+remedy,
			zap.Int("removed", removed), zap.Duration("idle_for_at_least", idle))
	} else {
		t.opt.Logger.Warn("new transactional ids are refused, because there are too many that were used recently" + remedy)
	}
	if t.opt.Crowded != nil {
		t.opt.Crowded(removed, idle)
	}
}

// topics returns the event that shows an image to a shard.
func (t *Transactions) topics(img *metadata.Image) txn.TopicsChanged {
	return txn.TopicsChanged{Topics: topicView{img, t.opt.Settings}, Tagged: t.opt.Version(img) >= 1}
}

// changeEvent returns the event that tells shards about a metadata change, nil if it affects no
// transaction.
func (t *Transactions) changeEvent(next *metadata.Image, d *metadata.Delta) any {
	e := t.topics(next)
	flips := t.tagged.Swap(e.Tagged) != e.Tagged
	if !flips && len(d.Created)+len(d.Deleted)+len(d.Changed)+len(d.BrokerConfigs) == 0 {
		return nil
	}
	for _, x := range d.Created {
		e.Changed = append(e.Changed, x.Name)
	}
	for _, c := range d.Changed {
		if newLeader(&c) {
			e.Changed = append(e.Changed, c.Next.Name)
		}
	}
	return e
}

// newLeader reports whether a topic has new partitions, or one of them has a new leader epoch.
func newLeader(c *metadata.TopicChange) bool {
	for _, i := range c.Partitions {
		if i >= c.Prev.Partitions.Len() || c.Prev.Partitions.At(i).LeaderEpoch != c.Next.Partitions.At(i).LeaderEpoch {
			return true
		}
	}
	return false
}

// topicView shows an image's topics to the shards. It implements txn.Topics.
type topicView struct {
	img      *metadata.Image
	settings *replica.TopicSettings
}

// Exists implements txn.Topics. For transactions, no internal topic but that of offsets exists: a
// marker has no place between the records of a coordinator.
func (v topicView) Exists(p txn.Partition) bool {
	t := v.img.Topic(p.Topic)
	return t != nil && (!t.Internal || p.Topic == OffsetsTopic) && p.Index >= 0 && p.Index < t.Partitions.Len()
}

// ID implements txn.Topics.
func (v topicView) ID(topic string) [16]byte {
	if t := v.img.Topic(topic); t != nil {
		return t.ID
	}
	return [16]byte{}
}

// Weak implements txn.Topics.
func (v topicView) Weak(topic string) bool {
	t := v.img.Topic(topic)
	return t != nil && v.settings.Of(v.img, t).Log.Profile.Ack == durability.Written
}

// Epochs implements txn.Topics.
func (v topicView) Epochs(p txn.Partition) (leader, lossy int32) {
	t := v.img.Topic(p.Topic)
	if t == nil || p.Index < 0 || p.Index >= t.Partitions.Len() {
		return 0, 0
	}
	part := t.Partitions.At(p.Index)
	return part.LeaderEpoch, part.Unclean
}

const (
	// raiseTime bounds one request for a higher leader epoch, and raisePause is the pause after it.
	raiseTime  = 30 * time.Second
	raisePause = 5 * time.Second
)

// Fenced is called when a partition has refused a marker of the shard that runs in a partition's
// leader epoch, because it has one of a higher coordinator epoch, known. If this broker is the
// coordinator according to its metadata, no coordinator had that epoch: the metadata was restored
// from a copy, or the topic was deleted by hand and created again. No marker would ever be accepted
// then. So Fenced has the controller raise the leader epoch above known. It does not block.
func (t *Transactions) Fenced(partition, epoch, known int32) {
	topic := t.Image().Topic(TransactionsTopic)
	if topic == nil || known <= epoch {
		return
	}
	p := topic.Partitions.At(partition)
	if p == nil || p.Leader != t.opt.Self || p.LeaderEpoch != epoch {
		return // another coordinator leads, or is about to
	}
	t.raisingMu.Lock()
	defer t.raisingMu.Unlock()
	if t.raising[partition] {
		return
	}
	t.raising[partition] = true
	if !t.background(func() { t.raise(metadata.TopicPartition{Topic: topic.ID, Partition: partition}, epoch, known) }) {
		delete(t.raising, partition)
	}
}

// MaxTimeout returns transaction.max.timeout.ms as the coordinator applies it.
func (t *Transactions) MaxTimeout() time.Duration { return t.maxTimeout }

// raise has a leader epoch raised, and pauses before the next attempt.
func (t *Transactions) raise(tp metadata.TopicPartition, epoch, known int32) {
	ctx, cancel := context.WithTimeout(t.ctx, raiseTime)
	_, err := t.opt.Controller.RaiseEpochs(ctx, map[metadata.TopicPartition]metadata.Raise{tp: {From: epoch, Seen: known}})
	cancel()
	fields := []zap.Field{zap.Int32("partition", tp.Partition), zap.Int32("epoch", epoch), zap.Int32("known", known), zap.Error(err)}
	switch {
	case err == nil:
		t.raised.Add(1)
		t.opt.Logger.Warn("a partition knows a later coordinator epoch than that of "+TransactionsTopic+
			", for example because metadata was restored from a copy; the epoch was raised", fields...)
	case t.ctx.Err() == nil:
		t.opt.Logger.Error("a partition knows a later coordinator epoch than that of "+TransactionsTopic+
			", which could not be raised; its transactions do not end until it is, trying again", fields...)
	}
	pause.Wait(t.ctx.Done(), raisePause)
	t.raisingMu.Lock()
	defer t.raisingMu.Unlock()
	delete(t.raising, tp.Partition)
}
