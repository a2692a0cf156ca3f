package brokers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/check"
	"github.com/chronik-io/chronik/internal/testing/race"
)

// topic is the one whose setting changes.
const topic = "orders"

// partition is a partition whose records are judged.
type partition struct {
	topic   string
	index   int32
	id      [16]byte // of the topic
	history *check.History
	group   check.Group // of the members that consume it
	acks    atomic.Int64
	key     func(value string) string // of a compacted topic; nil for others
	final   []check.Record            // what is committed in the end
}

func (p *partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.index) }

// clients are programs that use the brokers until stop is called.
type clients struct {
	w     *world
	parts []*partition
	admin *kgo.Client
	work  sync.WaitGroup
	ctx   context.Context // ends when they shall stop
	stop  context.CancelFunc

	paid     []*partition // those of payments
	payments *check.Transactions
	refunds  refundTopic
	shares   shares

	offset, config check.Register // of the group; of the topic's setting
	changing       chan struct{}  // full while a client changes the setting, or must not
	leaders        check.Leaders

	mu       sync.Mutex
	acks     int
	reads    int
	consumed int
	unclean  int             // elections
	forgot   bool            // one of them was of a topic of coordinators, which may not know transactions any more
	unpaid   map[string]bool // partitions of payments and refunds that may have lost records
	topics   map[string]existence
	restores int // of metadata
}

// existence is the known state of a topic.
type existence uint8

const (
	unsure existence = iota
	exists
	deleted
)

// addresses returns the addresses of all brokers.
func (w *world) addresses() (list []string) {
	for id := range w.size() {
		list = append(list, ip(id+1)+":9092")
	}
	return list
}

// oneAddress is the address of all brokers. A balancer there passes each connection to one of them,
// at forwardPort.
const oneAddress, forwardPort = "10.0.0.99:9093", "9093"

// dial connects a client.
func (w *world) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	within, cancel := context.WithTimeout(ctx, 10*time.Second) // as the client's own dialer
	defer cancel()
	if address != oneAddress {
		return fronted{w.host, w.fronts}.DialContext(within, network, address)
	}
	for range w.size() { // one that refuses has no process
		at := ip(1+int32(w.balanced.Add(1)+int64(w.seed))%w.size()) + ":" + forwardPort
		if conn, err = w.host.DialContext(within, network, at); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return conn, err
}

// direct makes a client know all brokers: it asks each of them what it knows.
func (w *world) direct() kgo.Opt { return kgo.SeedBrokers(w.addresses()...) }

// client returns a client that knows all brokers, or the one address of all.
func (w *world) client(more ...kgo.Opt) *kgo.Client {
	seeds := w.addresses()
	if (w.clients.Add(1)+int64(w.seed))%2 == 0 {
		seeds = []string{oneAddress}
	}
	o := []kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.Dialer(w.dial),
		kgo.RequestTimeoutOverhead(5 * time.Second), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}
	if !w.strict {
		// A broker that is killed before its first answer looks to this client like one with SASL.
		o = append(o, kgo.AlwaysRetryEOF())
	}
	c, err := kgo.NewClient(append(o, more...)...)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// newClients creates the topics and starts the clients.
func newClients(w *world) *clients {
	c := &clients{w: w, admin: w.client(w.direct()), topics: map[string]existence{}, payments: check.NewTransactions(),
		unpaid: map[string]bool{}, changing: make(chan struct{}, 1)}
	w.Cleanup(c.admin.Close)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.parts = append(c.create(topic, 2, 3, w.tier()...), c.create(w.moving(), 1, 2)...)
	trimmed, compacted := c.trimmed(), c.compacted()
	c.parts = append(c.parts, trimmed, compacted)
	c.paid = c.create(payments, 3, 3, w.tier()...)
	c.newShares()
	w.mu.Lock()
	w.lose = c.lose
	w.mu.Unlock()
	for i, p := range c.parts {
		c.work.Go(func() { c.produce(p, uint64(100+i)) })
	}
	c.work.Go(func() { c.trim(trimmed) })
	c.work.Go(c.produceLoosely)
	c.work.Go(c.read)
	c.work.Go(c.commit)
	c.work.Go(func() { c.consume(700) })
	c.work.Go(func() { c.consume(701) })
	for i := range payers {
		c.work.Go(func() { c.transact(i) })
	}
	c.work.Go(c.readCommitted)
	c.work.Go(c.renewRefunds)
	c.work.Go(c.configure)
	c.work.Go(c.makeTopics)
	c.shares.start()
	return c
}

// tier returns the configs of topics whose old records are only in the object store.
func (w *world) tier() []string {
	if !w.tiered {
		return nil
	}
	return []string{"remote.storage.enable=true", "local.retention.ms=1500", "segment.ms=1000"}
}

// create creates a topic whose records are judged, with configs NAME=VALUE.
func (c *clients) create(name string, partitions int32, replicas int16, more ...string) (parts []*partition) {
	var err error
	if c.w.kind.unclean { // with more, the eligible leader replicas make most of these elections clean
		more = append(more, "unclean.leader.election.enable=true", "min.insync.replicas=1")
	}
	configs := map[string]*string{}
	for _, x := range more {
		name, value, _ := strings.Cut(x, "=")
		configs[name] = &value
	}
	admin, tried := kadm.NewClient(c.admin), false
	if until(patience, func() bool {
		var r kadm.CreateTopicResponse
		r, err = admin.CreateTopic(c.ctx, partitions, min(replicas, int16(c.w.holders())), configs, name)
		if tried && errors.Is(err, kerr.TopicAlreadyExists) { // an attempt without an answer has made it
			var list kadm.TopicDetails
			if list, err = admin.ListTopics(c.ctx, name); err == nil {
				r.ID, err = list[name].ID, list[name].Err
			}
		}
		tried = true
		for i := range partitions {
			if err == nil {
				parts = append(parts, &partition{topic: name, index: i, id: r.ID, history: check.NewHistory()})
			}
		}
		return err == nil
	}) != nil {
		c.w.problem("topic %s is never created: %v", name, err)
	}
	return parts
}

// lose notes that records of a partition may be lost.
func (c *clients) lose(topic string, index, epoch int32, since time.Time) {
	c.mu.Lock()
	c.unclean++
	c.forgot = c.forgot || topic == "__transaction_state" || topic == "__consumer_offsets"
	if topic == payments || topic == refunds {
		c.unpaid[fmt.Sprintf("%s-%d", topic, index)] = true
	}
	c.mu.Unlock()
	if topic == payments {
		c.payments.Lose(fmt.Sprintf("%s-%d", topic, index), controller.DefaultSessionTimeout)
	}
	if topic == "__consumer_offsets" {
		c.offset.Lose()
		for _, p := range c.parts {
			p.group.Lose()
		}
	}
	c.shares.lose(topic, index, epoch)
	for _, p := range c.parts {
		if p.topic == topic && p.index == index {
			p.history.Unclean(epoch, since)
			p.group.LoseRecords()
		}
	}
}

// pace sleeps for up to a time, or twice as long if the kind is not busy, and reports whether the
// client continues. Under the race detector, clients do a third in the same time, since it makes
// each request ten times as slow.
func (c *clients) pace(random *rand.Rand, most time.Duration) bool {
	switch {
	case race.Detector:
		most *= 3
	case !c.w.kind.busy:
		most *= 2
	}
	select {
	case <-time.After(time.Duration(random.Int64N(int64(most)))):
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *clients) random(n uint64) *rand.Rand { return rand.New(rand.NewPCG(c.w.seed, n)) }

// produce sends records to a partition as one idempotent producer after the other. It ends when all
// of them have an outcome.
func (c *clients) produce(p *partition, seed uint64) {
	random, h := c.random(seed), p.history
	end := func(cl *kgo.Client) {
		defer cl.Close()
		within, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := cl.Flush(within); err != nil {
			c.w.problem("records without an outcome: %v", err)
		}
	}
	cl := c.producer()
	var next chan *kgo.Client // the one that follows, nil as long as it is not due
	for i := 0; c.pace(random, 150*time.Millisecond); i++ {
		if next == nil && i%100 == 30 {
			next = make(chan *kgo.Client, 1)
			c.work.Go(func() { next <- c.producer() })
		}
		select {
		case later := <-next:
			former := cl
			cl, next = later, nil
			c.work.Go(func() { end(former) })
		default:
		}
		value := fmt.Sprintf("%v-%d", p, i)
		h.Attempted(value)
		one := p.record(value)
		cl.Produce(context.Background(), one, func(r *kgo.Record, err error) {
			if err != nil {
				c.w.problem("record %s: %v", value, err) // the client would have repeated it
				return
			}
			h.Acked(r.Offset, value)
			p.acks.Add(1)
			c.mu.Lock()
			c.acks++
			c.mu.Unlock()
		})
	}
	end(cl)
	if next != nil {
		end(<-next)
	}
}

// producer returns an idempotent producer that has its producer id. Before it has one, it must not
// send: this client holds a mutex while it waits for the id, and virtual time stands still as soon
// as two of its goroutines meet there.
func (c *clients) producer() *kgo.Client {
	cl := c.w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	var err error
	if until(patience+time.Minute, func() bool {
		_, _, err = cl.ProducerID(context.Background())
		return err == nil
	}) != nil {
		c.w.problem("no producer id: %v", err)
	}
	return cl
}

// produceLoosely sends records with acks=1 and without a producer id.
func (c *clients) produceLoosely() {
	random := c.random(200)
	cl := c.w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordRetries(3))
	defer cl.Close()
	for i := 0; c.pace(random, 300*time.Millisecond); i++ {
		p := c.parts[random.IntN(len(c.parts))]
		value := "loose-" + strconv.Itoa(i)
		p.history.Loose(value)
		cl.Produce(context.Background(), p.record(value), func(*kgo.Record, error) {})
	}
	within, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := cl.Flush(within); err != nil {
		c.w.problem("records with acks=1 without an outcome at the end: %v", err)
	}
}

// read reads at random brokers, leaders and followers, from random places.
func (c *clients) read() {
	random := c.random(300)
	cl := c.w.client(c.w.direct())
	defer cl.Close()
	for c.pace(random, 200*time.Millisecond) {
		p, broker := c.parts[random.IntN(len(c.parts))], 1+random.Int32N(c.w.size())
		from := int64(0)
		if random.IntN(4) > 0 {
			from = random.Int64N(200)
		}
		known := p.history.Known()
		list, _, err := c.fetch(c.ctx, cl, broker, p, from)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			p.history.OutOfRange(from, known)
		}
		if err != nil {
			continue
		}
		c.mu.Lock()
		c.reads += len(list)
		c.mu.Unlock()
		for _, r := range list {
			p.history.Read(r)
		}
		c.lookUp(cl, 1+random.Int32N(c.w.size()))
	}
}

// lookUp notes the leaders that a broker names.
func (c *clients) lookUp(cl *kgo.Client, broker int32) {
	process := c.w.name(broker)
	within, cancel := context.WithTimeout(c.ctx, 5*time.Second)
	defer cancel()
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = nil
	resp, err := cl.Broker(int(broker)).Request(within, q)
	if err != nil || process == "" || c.w.name(broker) != process {
		return
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		for _, p := range t.Partitions {
			c.leaders.Named(process, fmt.Sprintf("%x-%d", t.TopicID, p.Partition), p.LeaderEpoch, p.Leader)
		}
	}
}

// fetch reads once from a broker.
func (c *clients) fetch(ctx context.Context, cl *kgo.Client, broker int32, of *partition, from int64) (
	list []check.Record, high int64, err error) {
	part, err := c.fetchOnce(ctx, cl, broker, of, from, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%v at broker %d: %w", of, broker, err)
	}
	list, _, err = parse(part.RecordBatches, from)
	return list, part.HighWatermark, err
}

// fetchOnce sends one fetch of one partition, with an isolation level of the protocol.
func (c *clients) fetchOnce(ctx context.Context, cl *kgo.Client, broker int32, of *partition, from int64, isolation int8) (
	*kmsg.FetchResponseTopicPartition, error) {
	q := kmsg.NewPtrFetchRequest()
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch, q.IsolationLevel = 0, 0, 8<<20, -1, isolation
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = of.topic, of.id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = of.index, from, 8<<20
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := cl.Broker(int(broker)).Request(within, q)
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return nil, err
	}
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("an answer for %d topics", len(r.Topics))
	}
	part := &r.Topics[0].Partitions[0]
	return part, kerr.ErrorForCode(part.ErrorCode)
}

// parse returns the records of batches from an offset on, and the offset after the batches:
// compaction leaves batches without records.
func parse(rest []byte, from int64) (list []check.Record, next int64, err error) {
	next = from
	for len(rest) > 0 {
		b, more, err := record.Next(rest)
		if err != nil {
			return list, next, err
		}
		if err := b.Each(record.Limits{}, func(r record.Record) error {
			if r.Offset >= from {
				list = append(list, check.Record{Offset: r.Offset, Epoch: b.LeaderEpoch(), Value: string(r.Value)})
			}
			return nil
		}); err != nil {
			return list, next, err
		}
		rest, next = more, b.LastOffset()+1
	}
	return list, next, nil
}

const group = "g"

// commit commits growing offsets of a group, and reads them back.
func (c *clients) commit() {
	random := c.random(400)
	cl := c.w.client(kgo.RequestRetries(0)) // an attempt that was repeated may still take effect
	defer cl.Close()
	a := kadm.NewClient(cl)
	for c.pace(random, time.Second) {
		within, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		next := c.offset.Begin()
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, next, -1)
		if err := a.CommitAllOffsets(within, group, offsets); err == nil {
			c.offset.Acked(next)
		}
		if random.IntN(2) == 0 {
			c.compareOffset(within, a)
		}
		cancel()
	}
}

// compareOffset reads the group's offset. It reports whether a broker has answered.
func (c *clients) compareOffset(ctx context.Context, a *kadm.Client) bool {
	all, err := a.FetchOffsets(ctx, group)
	if err != nil {
		return false
	}
	at := int64(0)
	if o, ok := all.Lookup(topic, 0); ok {
		if o.Err != nil {
			return false
		}
		at = max(o.At, 0) // -1 if there is none
	}
	if bad := c.offset.Read(at); bad != "" {
		c.w.problem("offset of the group: %s", bad)
	}
	return true
}

// configKey is a setting that has no effect on these records.
const configKey = "max.compaction.lag.ms"

// configBase is the setting's first value.
const configBase = 1 << 40

// configure gives a setting of the topic growing values.
func (c *clients) configure() {
	random := c.random(500)
	cl := c.w.client(kgo.RequestRetries(0)) // an attempt that was repeated may still take effect
	defer cl.Close()
	a := kadm.NewClient(cl)
	for c.pace(random, 2*time.Second) {
		c.changing <- struct{}{}
		within, cancel := context.WithTimeout(c.ctx, 10*time.Second)
		next := c.config.Begin()
		value := strconv.FormatInt(configBase+next, 10)
		rs, err := a.AlterTopicConfigs(within, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: configKey, Value: &value}}, topic)
		if err == nil && len(rs) == 1 && rs[0].Err == nil {
			c.config.Acked(next)
		}
		cancel()
		<-c.changing
	}
}

// makeTopics creates topics, and deletes some of them.
func (c *clients) makeTopics() {
	random := c.random(600)
	cl := c.w.client()
	defer cl.Close()
	a := kadm.NewClient(cl)
	restores := 0 // before the request: what was acknowledged before a restore may be lost
	put := func(name string, e existence) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch c.topics[name] = e; {
		case e == unsure:
			restores = c.restores
		case restores != c.restores:
			c.topics[name] = unsure
		}
	}
	for i := 0; c.pace(random, 3*time.Second); i++ {
		name := c.w.called(fmt.Sprint("extra-", i), controller.MaxNameLength)
		put(name, unsure)
		within, cancel := context.WithTimeout(c.ctx, 15*time.Second)
		_, err := a.CreateTopic(within, 1, min(int16(2+random.IntN(2)), int16(c.w.holders())), nil, name)
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
			put(name, exists)
		}
		if random.IntN(2) == 0 {
			put(name, unsure)
			if _, err = a.DeleteTopic(within, name); err == nil {
				put(name, deleted)
			}
		}
		cancel()
	}
}
