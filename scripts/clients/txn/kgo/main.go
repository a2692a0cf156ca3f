// Command kgo makes transactions with franz-go: commits, aborts, a zombie, and a
// GroupTransactSession. scripts/clients/txn.sh runs it against a broker; it speaks the protocol
// from outside, and starts no broker of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

const partitions = 2

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "comma-separated HOST:PORT")
	prefix := flag.String("prefix", "kgo", "how the names of topics, groups and transactions begin")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	var err error
	for name, opts := range map[string][]kgo.Opt{"tv2": nil, "tv1": {kgo.MaxVersions(kversion.V3_8_0())}} {
		s := scenario{brokers: strings.Split(*brokers, ","), name: *prefix + "-" + name, opts: opts}
		if e := s.run(ctx); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
		}
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scenario is what one version of the protocol must do.
type scenario struct {
	brokers []string
	name    string
	opts    []kgo.Opt
}

func (s scenario) topic() string { return s.name + "-topic" }

func (s scenario) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(s.all(opts...)...)
}

func (s scenario) all(opts ...kgo.Opt) []kgo.Opt {
	return slices.Concat([]kgo.Opt{kgo.SeedBrokers(s.brokers...), kgo.DefaultProduceTopic(s.topic()),
		kgo.RecordPartitioner(kgo.ManualPartitioner())}, s.opts, opts)
}

func (s scenario) run(ctx context.Context) error {
	plain, err := s.client()
	if err != nil {
		return err
	}
	defer plain.Close()
	for _, topic := range []string{s.topic(), s.topic() + "-out"} {
		if _, err := kadm.NewClient(plain).CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
	}
	if err := s.instances(ctx); err != nil {
		return err
	}
	if err := s.seen(ctx, kgo.ReadCommitted(), s.topic(), map[byte]int{'a': 10, 'd': 10}); err != nil {
		return err
	}
	if err := s.seen(ctx, kgo.ReadUncommitted(), s.topic(), map[byte]int{'a': 10, 'b': 10, 'c': 10, 'd': 10}); err != nil {
		return err
	}
	if err := s.transform(ctx); err != nil {
		return err
	}
	return s.seen(ctx, kgo.ReadCommitted(), s.topic()+"-out", map[byte]int{'a': 10, 'd': 10})
}

// instances writes with an instance and its successor, which fences it.
func (s scenario) instances(ctx context.Context) error {
	id := kgo.TransactionalID(s.name + "-id")
	older, err := s.client(id)
	if err != nil {
		return err
	}
	defer older.Close()
	for _, t := range []struct {
		what string
		end  kgo.TransactionEndTry
	}{{"a", kgo.TryCommit}, {"b", kgo.TryAbort}} {
		if err := write(ctx, older, t.what); err != nil {
			return err
		}
		if err := older.EndTransaction(ctx, t.end); err != nil {
			return fmt.Errorf("end of %s: %w", t.what, err)
		}
	}
	if err := write(ctx, older, "c"); err != nil {
		return err
	}
	newer, err := s.client(id)
	if err != nil {
		return err
	}
	defer newer.Close()
	if err := write(ctx, newer, "d"); err != nil {
		return err
	}
	err = older.EndTransaction(ctx, kgo.TryCommit)
	if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		return fmt.Errorf("the older instance was not fenced: %w", err)
	}
	return newer.EndTransaction(ctx, kgo.TryCommit)
}

// write begins a transaction of ten records.
func write(ctx context.Context, cl *kgo.Client, what string) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	var records []*kgo.Record
	for i := range 10 {
		records = append(records, &kgo.Record{Partition: int32(i % partitions), Value: fmt.Append(nil, what, i)})
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce %s: %w", what, err)
	}
	return nil
}

// transform copies the committed records to another topic, with the offsets in its transactions.
// Every second transaction is aborted first.
func (s scenario) transform(ctx context.Context) error {
	member, err := kgo.NewGroupTransactSession(s.all(kgo.TransactionalID(s.name+"-member"), kgo.ConsumerGroup(s.name+"-group"),
		kgo.ConsumeTopics(s.topic()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DefaultProduceTopic(s.topic()+"-out"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer member.Close()
	for n, done := 0, 0; done < 20; n++ {
		polled := member.PollRecords(ctx, 5)
		if err := polled.Err(); err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		if err := member.Begin(); err != nil {
			return err
		}
		var records []*kgo.Record
		polled.EachRecord(func(r *kgo.Record) { records = append(records, &kgo.Record{Partition: r.Partition, Value: r.Value}) })
		if err := member.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		committed, err := member.End(ctx, kgo.TransactionEndTry(n%2 == 1))
		if err != nil {
			return fmt.Errorf("end: %w", err)
		}
		if committed {
			done += len(records)
		}
	}
	return nil
}

// seen reads a topic and compares how many records begin with which letter.
func (s scenario) seen(ctx context.Context, isolation kgo.IsolationLevel, topic string, want map[byte]int) error {
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := s.client(kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	got, values := map[byte]int{}, map[string]bool{}
	for left := partitions; left > 0; {
		polled := cl.PollFetches(ctx)
		if err := polled.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		polled.EachRecord(func(r *kgo.Record) {
			if end, _ := ends.Lookup(topic, r.Partition); r.Offset == end.Offset-1 {
				left--
			}
			if r.Attrs.IsControl() {
				return
			}
			got[r.Value[0]]++
			values[string(r.Value)] = true
		})
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(values) != 10*len(want) {
		return fmt.Errorf("%s has %v, %d different ones, not %v", topic, got, len(values), want)
	}
	return nil
}
