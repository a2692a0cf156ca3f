package brokers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/check"
)

// payments is the topic of the transactional producers.
const payments = "payments"

const (
	// payers is the number of transactional ids. Those with an odd number use the protocol before
	// KIP-890, the last one only in some transactions.
	payers     = 4
	payTimeout = 10 * time.Second
	// payPatience bounds the repetitions of one request, so that a producer gives up and another
	// instance begins.
	payPatience = 20 * time.Second
)

// transactor is one instance of a transactional producer. It speaks the protocol itself, so that it
// can do what clients should not: send late requests, and continue after it was fenced.
type transactor struct {
	c       *clients
	id      string
	version int16         // 1 or 2, as txn.Add
	both    bool          // the version of each transaction is random
	timeout time.Duration // of its transactions; 0: payTimeout
	random  *rand.Rand
	cl      [3]*kgo.Client // by version
	pid     int64
	epoch   int16
	next    map[*partition]int32 // sequence numbers
	// unsure: a request of this epoch has no answer and may arrive later. Before KIP-890, it would
	// reach the next transaction, which has the same epoch.
	unsure bool
}

// transact runs the instances of a transactional id, one after the other, some of them at the same
// time.
func (c *clients) transact(i int) {
	random := c.random(uint64(800 + i))
	var number int64
	for c.pace(random, time.Second) {
		t := &transactor{c: c, id: c.w.payer(i), version: 2 - int16(i%2), both: i == payers-1, random: random}
		for v := int16(1); v <= 2; v++ {
			t.cl[v] = c.w.client(kgo.RequestRetries(0), kgo.MaxVersions(versions(v)))
		}
		if t.init() {
			for t.transaction(&number) && c.pace(random, 500*time.Millisecond) {
			}
		}
		c.work.Go(func() { // what it has sent may still arrive
			time.Sleep(2 * payPatience)
			t.cl[1].Close()
			t.cl[2].Close()
		})
	}
}

// coordinatedWithout waits until one of the other brokers coordinates each transactional id.
func (c *clients) coordinatedWithout(paused int32) {
	began, missing := time.Now(), ""
	if until(patience, func() bool {
		missing = ""
		for i := range payers {
			coordinated := false
			for id := int32(1); id <= c.w.size(); id++ {
				coordinated = coordinated || id != paused && c.coordinates(id, c.w.payer(i))
			}
			if !coordinated {
				missing += " " + c.w.payer(i)
			}
		}
		return missing == ""
	}) != nil {
		c.w.problem("no other broker than %d coordinates%s after %v", paused, missing, time.Since(began))
	}
}

// coordinates reports whether a broker answers for a transactional id.
func (c *clients) coordinates(broker int32, id string) bool {
	return c.try(func(ctx context.Context) bool {
		q := kmsg.NewPtrDescribeTransactionsRequest()
		q.TransactionalIDs = []string{id}
		resp, err := c.admin.Broker(int(broker)).Request(ctx, q)
		if err != nil {
			return false
		}
		code := resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].ErrorCode
		return code == 0 || code == kerr.TransactionalIDNotFound.Code
	})
}

// versions are those of a client with one of the two protocols.
func versions(version int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3) // later ones are for brokers
	v.SetMaxKeyVersion(int16(kmsg.Produce), 10+version)
	v.SetMaxKeyVersion(int16(kmsg.EndTxn), 3+version)
	v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 3+version)
	return v
}

// verdict is what the answers to the repetitions of a request say.
type verdict struct {
	err    error // the last one
	tries  int
	unsure bool // an attempt had no answer, or one that leaves open whether it had an effect
}

// ask sends a request until it succeeds or is refused for good. code returns the error of a
// response.
func (t *transactor) ask(req kmsg.Request, code func(kmsg.Response) int16) verdict {
	var v verdict
	for end := time.Now().Add(payPatience); ; {
		within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		resp, err := t.cl[t.version].Request(within, req)
		cancel()
		v.tries++
		if err == nil {
			err = kerr.ErrorForCode(code(resp))
		} else {
			v.unsure, t.unsure = true, true
		}
		if v.err = err; err == nil {
			return v
		}
		again := !isAnswer(err) || kerr.IsRetriable(err) || err == kerr.ConcurrentTransactions //nolint:errorlint // of ErrorForCode
		if !again || time.Now().After(end) {
			return v
		}
		v.unsure = v.unsure || err != kerr.ConcurrentTransactions //nolint:errorlint // of ErrorForCode
		time.Sleep(100 * time.Millisecond)
	}
}

func isAnswer(err error) bool { _, ok := err.(*kerr.Error); return ok } //nolint:errorlint // of ErrorForCode

// init gives the instance its id and epoch, and fences the ones before.
func (t *transactor) init() bool {
	q := kmsg.NewPtrInitProducerIDRequest()
	q.TransactionalID, q.TransactionTimeoutMillis = &t.id, int32(cmp.Or(t.timeout, payTimeout).Milliseconds())
	v := t.ask(q, func(r kmsg.Response) int16 {
		a := r.(*kmsg.InitProducerIDResponse)
		t.pid, t.epoch = a.ProducerID, a.ProducerEpoch
		return a.ErrorCode
	})
	t.next, t.unsure = map[*partition]int32{}, false
	return v.err == nil
}

// transaction runs one transaction. It reports whether the instance can begin another one.
func (t *transactor) transaction(number *int64) bool {
	*number++
	n := *number
	if t.both {
		t.version = 1 + int16(t.random.IntN(2))
	}
	x := t.c.payments.Begin(t.id, n)
	parts := t.c.paid
	first, many := t.random.IntN(len(parts)), 1+t.random.IntN(len(parts))
	for i := range many {
		if !t.write(x, n, parts[(first+i)%len(parts)], 1+t.random.IntN(3)) {
			return t.end(x, false)
		}
		time.Sleep(time.Duration(t.random.Int64N(int64(300 * time.Millisecond))))
	}
	if t.random.IntN(4) == 0 && !t.refund(x, n) {
		return t.end(x, false)
	}
	if t.random.IntN(3) == 0 && !t.commitOffset(x, n) {
		return t.end(x, false)
	}
	switch t.random.IntN(12) {
	case 0:
		return false // the next instance, or the timeout, ends it
	case 1: // the next instance begins while this one continues
		late := *t
		late.next = maps.Clone(t.next)
		late.random = rand.New(rand.NewPCG(t.c.w.seed, uint64(n)))
		t.c.work.Go(func() {
			time.Sleep(time.Duration(late.random.Int64N(int64(2 * time.Second))))
			if late.write(x, n, parts[first], 1) {
				late.end(x, true)
			}
		})
		return false
	case 2:
		return t.end(x, false)
	case 3:
		time.Sleep(payTimeout + time.Duration(t.random.Int64N(int64(3*time.Second))))
	}
	return t.end(x, true)
}

// write adds a partition to the transaction, if the client must, and sends records to it one by
// one.
func (t *transactor) write(x *check.Transaction, n int64, p *partition, records int) bool {
	if !t.add(p) {
		return false
	}
	for range records {
		value := t.value(n, p)
		x.Attempted(p.String(), value)
		if t.send(p, value) != nil {
			return false
		}
		x.Wrote(p.String(), value)
		t.next[p]++
	}
	return true
}

func (t *transactor) value(n int64, p *partition) string {
	return fmt.Sprintf("%s/%d/%d.%d/%v/%d", t.id, n, t.pid, t.epoch, p, t.next[p])
}

// add adds a partition to the transaction, if the client must.
func (t *transactor) add(p *partition) bool {
	if t.version < 2 {
		q := kmsg.NewPtrAddPartitionsToTxnRequest()
		q.TransactionalID, q.ProducerID, q.ProducerEpoch = t.id, t.pid, t.epoch
		q.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: p.topic, Partitions: []int32{p.index}}}
		if t.ask(q, func(r kmsg.Response) int16 {
			return r.(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode
		}).err != nil {
			return false
		}
	}
	return true
}

// send sends one record.
func (t *transactor) send(p *partition, value string) error {
	one := record.NewBuilder(record.BatchOptions{Transactional: true,
		Producer: &record.Producer{ID: t.pid, Epoch: t.epoch, Sequence: t.next[p]}})
	one.Append(time.Now().UnixMilli(), nil, []byte(value), nil)
	batch, err := one.Build()
	if err != nil {
		return err
	}
	q := kmsg.NewPtrProduceRequest()
	q.TransactionID, q.Acks, q.TimeoutMillis = &t.id, -1, 5000
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: p.topic, TopicID: p.id, Partitions: []kmsg.ProduceRequestTopicPartition{
		{Partition: p.index, Records: batch}}}}
	return t.ask(q, func(r kmsg.Response) int16 { return r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode }).err
}

// commitOffset commits the transaction's number as the offset of a group of the id's own.
func (t *transactor) commitOffset(x *check.Transaction, n int64) bool {
	if t.version < 2 {
		q := kmsg.NewPtrAddOffsetsToTxnRequest()
		q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Group = t.id, t.pid, t.epoch, t.id
		if t.ask(q, func(r kmsg.Response) int16 { return r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode }).err != nil {
			return false
		}
	}
	q := kmsg.NewPtrTxnOffsetCommitRequest()
	q.TransactionalID, q.Group, q.ProducerID, q.ProducerEpoch, q.Generation = t.id, t.id, t.pid, t.epoch, -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = n
	q.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: payments, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	if t.ask(q, func(r kmsg.Response) int16 {
		return r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}).err != nil {
		return false
	}
	x.CommitsOffset()
	return true
}

// end commits or aborts. It reports whether the instance can begin another transaction.
func (t *transactor) end(x *check.Transaction, commit bool) bool {
	q := kmsg.NewPtrEndTxnRequest()
	q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = t.id, t.pid, t.epoch, commit
	if commit {
		x.Committing()
	}
	was := t.unsure
	v := t.ask(q, func(r kmsg.Response) int16 {
		a := r.(*kmsg.EndTxnResponse)
		if a.ErrorCode == 0 && t.version >= 2 {
			t.pid, t.epoch, t.next = a.ProducerID, a.ProducerEpoch, map[*partition]int32{}
		}
		return a.ErrorCode
	})
	switch {
	case v.err == nil && commit:
		x.Committed()
	case v.err == nil:
		x.Aborted()
	case commit && v.tries == 1 && !v.unsure:
		x.Refused()
		if v.err == kerr.TransactionAbortable { //nolint:errorlint // of ErrorForCode
			return t.end(x, false)
		}
	}
	// Records that were refused leave a gap in the sequence of an epoch.
	return v.err == nil && commit && (t.version >= 2 || !was && !v.unsure)
}

// readCommitted reads the committed records of payments at random brokers, leaders and followers.
func (c *clients) readCommitted() {
	random := c.random(850)
	cl := c.w.client()
	defer cl.Close()
	for c.pace(random, 300*time.Millisecond) {
		p, broker := c.paid[random.IntN(len(c.paid))], 1+random.Int32N(c.w.size())
		list, _, _, err := c.fetchCommitted(c.ctx, cl, broker, p, random.Int64N(100))
		if err != nil {
			continue
		}
		for _, r := range list {
			c.payments.Read(p.String(), r.Offset, r.Value)
		}
	}
}

// judgePayments waits until all transactions have ended, and judges them.
func (c *clients) judgePayments() {
	c.mu.Lock()
	unpaid, forgot := maps.Clone(c.unpaid), c.forgot
	c.mu.Unlock()
	if forgot {
		return
	}
	if !unpaid[refunds+"-0"] {
		c.judgeRefunds()
	}
	final := map[string][]check.Record{}
	why := ""
	for _, p := range c.paid {
		var lists [][]check.Record
		if until(patience, func() bool { lists, why = c.committedLogs(p); return why == "" }) != nil {
			if !unpaid[p.String()] { // otherwise a lost marker may be missing for good
				c.w.problem("%v: %s", p, why)
			}
			return
		}
		for _, list := range lists {
			if before, ok := final[p.String()]; ok {
				for _, problem := range check.Replicas(before, list) {
					c.w.problem("%v, read_committed: %s", p, problem)
				}
			}
			final[p.String()] = list
		}
	}
	offsets := map[string]int64{}
	for i := range payers {
		if until(patience, func() bool { offsets[c.w.payer(i)], why = c.stableOffset(c.w.payer(i)); return why == "" }) != nil {
			c.w.problem("offset of %s: %s", c.w.payer(i), why)
		}
	}
	for i, problem := range c.payments.Problems(final, offsets) {
		if i < 10 {
			c.w.problem("transactions: %s", problem)
		}
	}
}

// committedLogs reads all committed records of each replica. why is not empty while a transaction
// is open, or replicas end at different offsets: one of which the judge has found damaged bytes is
// copied again.
func (c *clients) committedLogs(p *partition) (lists [][]check.Record, why string) {
	all, _ := c.state(1)
	end := int64(-1)
	for _, broker := range all[payments][p.index] {
		list, at, why := c.committedLog(broker, p)
		if why != "" {
			return nil, fmt.Sprintf("at broker %d: %s", broker, why)
		}
		if end >= 0 && at != end {
			return nil, fmt.Sprintf("broker %d ends at %d, another one at %d", broker, at, end)
		}
		end, lists = at, append(lists, list)
	}
	if lists == nil {
		why = "its replicas are not known"
	}
	return lists, why
}

// committedLog reads all committed records of a broker's replica, and returns its end. why is not
// empty while a transaction is open.
func (c *clients) committedLog(broker int32, p *partition) (all []check.Record, end int64, why string) {
	for {
		list, next, ends, err := c.fetchCommitted(context.Background(), c.admin, broker, p, end)
		if err != nil {
			return nil, end, err.Error()
		}
		all = append(all, list...)
		if next == end {
			if ends.stable != ends.high || end < ends.high {
				return nil, end, fmt.Sprintf("read up to %d, last stable offset %d, high watermark %d", end, ends.stable, ends.high)
			}
			return all, end, ""
		}
		end = next
	}
}

// stableOffset returns the offset of a payer's group, when no transaction has a pending one.
func (c *clients) stableOffset(id string) (offset int64, why string) {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	q := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = id, []kmsg.OffsetFetchRequestGroupTopic{{Topic: payments, TopicID: c.paid[0].id, Partitions: []int32{0}}}
	q.RequireStable, q.Groups = true, append(q.Groups, g)
	resp, err := c.admin.Request(within, q)
	if err != nil {
		return 0, err.Error()
	}
	one := resp.(*kmsg.OffsetFetchResponse).Groups[0]
	if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
		return 0, err.Error()
	}
	p := one.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return 0, err.Error()
	}
	return max(p.Offset, 0), ""
}

// ends are two ends of a partition as a fetch shows them.
type ends struct{ stable, high int64 }

// fetchCommitted reads once from a broker, as a consumer of committed records does. next is the
// offset after what was read.
func (c *clients) fetchCommitted(ctx context.Context, cl *kgo.Client, broker int32, of *partition, from int64) (
	list []check.Record, next int64, e ends, err error) {
	part, err := c.fetchOnce(ctx, cl, broker, of, from, 1)
	if err != nil {
		return nil, from, e, err
	}
	e = ends{part.LastStableOffset, part.HighWatermark}
	list, next, err = committedRecords(part, from)
	return list, max(next, from), e, err
}

// committedRecords returns the records of an answer without those of aborted transactions, as
// clients find them: a transaction begins at an entry of the list and ends at a marker.
func committedRecords(part *kmsg.FetchResponseTopicPartition, from int64) (list []check.Record, next int64, err error) {
	aborted := slices.SortedFunc(slices.Values(part.AbortedTransactions),
		func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
			return cmp.Compare(a.FirstOffset, b.FirstOffset)
		})
	aborting, rest := map[int64]bool{}, part.RecordBatches
	for len(rest) > 0 {
		b, more, err := record.Next(rest)
		if err != nil {
			return list, next, err
		}
		rest, next = more, b.LastOffset()+1
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			aborting[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if b.Control() {
			if kind, _, err := b.EndTxn(); err == nil && kind == record.Abort {
				delete(aborting, b.ProducerID())
			}
			continue
		}
		if b.Transactional() && aborting[b.ProducerID()] {
			continue
		}
		if err := b.Each(record.Limits{}, func(r record.Record) error {
			if r.Offset >= from {
				list = append(list, check.Record{Offset: r.Offset, Epoch: b.LeaderEpoch(), Value: string(r.Value)})
			}
			return nil
		}); err != nil {
			return list, next, err
		}
	}
	return list, next, nil
}
