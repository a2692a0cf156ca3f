package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/testing/check"
)

// patience is how long a cluster whose faults have ended may take until everything is in sync.
const patience = 2 * time.Minute

// judge heals everything, stops the clients, and compares what they saw with what the brokers have
// then.
func (c *clients) judge() {
	w := c.w
	w.note("heal")
	w.heal()
	c.inSync()
	w.note("all replicas are in sync")
	for _, p := range c.parts {
		p.history.Agreed()
	}
	w.healthy()
	time.Sleep(time.Second) // the clients continue when all is well
	c.consumes()
	c.stop()
	c.work.Wait()
	c.finishShares()
	if len(w.wrong()) > 0 {
		return // what follows would fail for the same reason
	}
	for _, p := range c.parts {
		c.compareLogs(p)
	}
	c.judgeShares()
	c.judgePayments()
	for _, problem := range c.leaders.Problems() {
		w.problem("%s", problem)
	}
	a := kadm.NewClient(c.admin)
	if until(patience, func() bool { return c.try(func(ctx context.Context) bool { return c.compareReaders(ctx, a) }) }) != nil {
		w.problem("no broker answers for the group %s", w.readers())
	}
	if until(patience, func() bool { return c.try(func(ctx context.Context) bool { return c.compareOffset(ctx, a) }) }) != nil {
		w.problem("no broker answers for the group")
	}
	c.compareMetadata()
}

// inSync waits until every broker shows all replicas in sync, and all seeds vote. If a disk was
// replaced, and others lost what their profile permits to lose before its logs were copied, no
// other replica may have the records: then an operator decides.
func (c *clients) inSync() {
	bad := ""
	recovered := func() bool {
		bad = c.outOfSync()
		return bad == ""
	}
	if until(patience, recovered) == nil {
		return
	}
	if c.w.wiped && c.w.profile != "" && c.electAny() && until(patience, recovered) == nil {
		return
	}
	c.w.problem("the cluster does not recover: %s", bad)
}

// outOfSync says what is not in order, as each broker sees it; "" if all replicas are in sync and
// all members of the quorum answer.
func (c *clients) outOfSync() string {
	for id := int32(1); id <= c.w.size(); id++ {
		if _, bad := c.state(id); bad != "" {
			return bad
		}
	}
	if c.w.size() == 1 {
		return ""
	}
	return c.badQuorum(1)
}

// electAny elects leaders uncleanly, as the remedy for partitions without one says, and reports
// whether it elected any.
func (c *clients) electAny() (some bool) {
	within, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	all, err := kadm.NewClient(c.admin).ElectLeaders(within, kadm.ElectLiveReplica, nil)
	for _, partitions := range all {
		for _, r := range partitions {
			some = some || r.Err == nil
		}
	}
	c.w.note("an operator elects leaders: %v, %v", all, err)
	return some
}

// consumes waits until the members of the group consume.
func (c *clients) consumes() {
	total := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.consumed
	}
	was := total()
	if until(patience, func() bool { return total() > was }) != nil {
		c.w.problem("group %s: no member consumes", c.w.readers())
	}
}

// progress waits until more records of each partition were acknowledged.
func (c *clients) progress(most time.Duration) {
	began := time.Now()
	for _, p := range c.parts {
		if p.topic != topic {
			continue // a replica that is away is one too many for it
		}
		was := p.acks.Load()
		if until(most, func() bool { return p.acks.Load() > was+3 }) != nil {
			c.w.problem("%v: no record is acknowledged for %v", p, time.Since(began))
		}
	}
}

// refusesAcksOfOne asks a broker that has no controller to acknowledge records alone.
func (c *clients) refusesAcksOfOne(broker int32) {
	cl := c.w.client(kgo.SeedBrokers(ip(broker)+":9092"), kgo.MaxVersions(kversion.V3_0_0()), kgo.RequestRetries(0),
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())) // the client sends its own acks in every request
	defer cl.Close()
	for _, p := range c.parts {
		value := fmt.Sprintf("refused-%d-%d", broker, time.Since(c.w.began))
		p.history.Loose(value)
		one := record.NewBuilder(record.BatchOptions{})
		one.Append(time.Now().UnixMilli(), nil, []byte(value), nil)
		batch, err := one.Build()
		if err != nil {
			c.w.Fatal(err)
		}
		q := kmsg.NewPtrProduceRequest()
		q.Acks, q.TimeoutMillis = 1, 1000
		q.Topics = append(q.Topics, kmsg.ProduceRequestTopic{Topic: p.topic, Partitions: []kmsg.ProduceRequestTopicPartition{
			{Partition: p.index, Records: batch}}})
		within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		resp, err := cl.SeedBrokers()[0].Request(within, q)
		cancel()
		if err != nil {
			c.w.problem("%v: broker %d without a controller does not answer acks=1: %v", p, broker, err)
			continue
		}
		if resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			c.w.problem("%v: broker %d without a controller acknowledges acks=1", p, broker)
		}
	}
}

func (c *clients) try(f func(ctx context.Context) bool) bool {
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return f(within)
}

// state returns the ISRs of all partitions as a broker shows them, and what is not as it should be.
func (c *clients) state(broker int32) (all map[string][][]int32, bad string) {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = nil
	resp, err := c.admin.Broker(int(broker)).Request(within, q)
	if err != nil {
		return nil, fmt.Sprintf("broker %d: %v", broker, err)
	}
	r := resp.(*kmsg.MetadataResponse)
	if len(r.Brokers) != int(c.w.size()) { // one is fenced
		bad = fmt.Sprintf("%d brokers; ", len(r.Brokers))
	}
	all = map[string][][]int32{}
	for _, t := range r.Topics {
		if t.Topic == nil {
			continue
		}
		for _, p := range t.Partitions {
			for len(all[*t.Topic]) <= int(p.Partition) {
				all[*t.Topic] = append(all[*t.Topic], nil)
			}
			all[*t.Topic][p.Partition] = p.ISR
			if slices.ContainsFunc(p.Replicas, func(b int32) bool { return b > c.w.holders() }) {
				c.w.problem("%s-%d has a replica on a broker that only votes: %v", *t.Topic, p.Partition, p.Replicas)
			}
			if p.ErrorCode != 0 || p.Leader < 0 || len(p.ISR) != len(p.Replicas) {
				bad += fmt.Sprintf("%s-%d: leader %d, ISR %v, replicas %v, %v; ", *t.Topic, p.Partition, p.Leader, p.ISR, p.Replicas,
					kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	return all, bad
}

// log reads all committed records of a broker's replica.
func (c *clients) log(broker int32, p *partition) (list []check.Record, high int64, err error) {
	at, err := c.logStart(p)
	for err == nil {
		var part *kmsg.FetchResponseTopicPartition
		part, err = c.fetchOnce(context.Background(), c.admin, broker, p, at, 0)
		if errors.Is(err, kerr.OffsetOutOfRange) && len(list) == 0 && p.history.MayStart(at+1) {
			at, err = at+1, nil // a follower may begin above a leader that had not moved its start so far before it led
			continue
		}
		if err != nil {
			break
		}
		more, next, bad := parse(part.RecordBatches, at)
		if list = append(list, more...); bad != nil || next == at {
			return list, part.HighWatermark, bad
		}
		at = next
	}
	return nil, 0, fmt.Errorf("%v at broker %d: %w", p, broker, err)
}

// compareLogs compares a partition's replicas with each other and with what clients saw.
func (c *clients) compareLogs(p *partition) {
	w := c.w
	all, _ := c.state(1)
	brokers := all[p.topic][p.index]
	logs, why := make([][]check.Record, len(brokers)), ""
	equal := func() bool {
		var highs []int64
		for i, broker := range brokers {
			list, high, err := c.log(broker, p)
			if err != nil {
				why = fmt.Sprintf("broker %d: %v", broker, err)
				return false
			}
			logs[i], highs = list, append(highs, high)
		}
		why = fmt.Sprintf("high watermarks %v", highs)
		return slices.Max(highs) == slices.Min(highs)
	}
	if until(patience, equal) != nil {
		w.problem("%v: the replicas of brokers %v stay different: %s", p, brokers, why)
		return
	}
	p.final = logs[0]
	problems := p.history.Problems(logs[0])
	for _, l := range logs[1:] {
		problems = append(problems, check.Replicas(logs[0], l)...)
		if a, b := common(logs[0], l); len(a) != len(b) && p.key == nil { // brokers compact on their own
			problems = append(problems, fmt.Sprintf("replicas differ: %d and %d records", len(a), len(b)))
		}
	}
	for i, problem := range problems {
		if i == 10 {
			w.problem("%v: and %d more", p, len(problems)-i)
			break
		}
		w.problem("%v: %s", p, problem)
	}
}

// common returns two logs from the larger one of their starts on.
func common(a, b []check.Record) (x, y []check.Record) {
	if len(a) == 0 || len(b) == 0 {
		return a, b
	}
	start := max(a[0].Offset, b[0].Offset)
	below := func(r check.Record) bool { return r.Offset < start }
	return slices.DeleteFunc(slices.Clone(a), below), slices.DeleteFunc(slices.Clone(b), below)
}

// compareMetadata compares what every broker shows with what was acknowledged.
func (c *clients) compareMetadata() {
	w := c.w
	for broker := int32(1); broker <= w.size(); broker++ {
		var bad []string
		if until(patience, func() bool { bad = c.badMetadata(broker); return len(bad) == 0 }) != nil {
			for _, b := range bad {
				w.problem("metadata of broker %d: %s", broker, b)
			}
		}
	}
}

func (c *clients) badMetadata(broker int32) (bad []string) {
	all, why := c.state(broker)
	if why != "" {
		return []string{why}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, e := range c.topics {
		if _, is := all[name]; e != unsure && is != (e == exists) {
			bad = append(bad, fmt.Sprintf("topic %s exists: %t", name, is))
		}
	}
	value, err := c.setting(broker)
	if err != nil {
		return append(bad, err.Error())
	}
	if why := c.config.Read(value); why != "" {
		bad = append(bad, "setting: "+why)
	}
	slices.Sort(bad)
	return bad
}

// setting returns the topic's setting as a broker shows it, 0 if it was never set.
func (c *clients) setting(broker int32) (int64, error) {
	within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	q := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{configKey}
	q.Resources = append(q.Resources, r)
	resp, err := c.admin.Broker(int(broker)).Request(within, q)
	if err != nil {
		return 0, err
	}
	for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return 0, err
		}
		for _, x := range r.Configs {
			if x.Name == configKey && x.Value != nil {
				n, err := strconv.ParseInt(*x.Value, 10, 64)
				if n > 2*configBase { // the default
					n = configBase
				}
				return n - configBase, err
			}
		}
	}
	return 0, errors.New("the setting is missing")
}
