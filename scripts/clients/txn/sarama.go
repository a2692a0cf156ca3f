//go:build ignore

// Command sarama makes transactions with sarama; see ../txn.sh, which builds it in a module of its
// own. It starts no broker: the script does.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var topic, group, id = os.Args[1] + "-topic", os.Args[1] + "-group", os.Args[1] + "-id"

func must(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func check(ok bool, what string, got any) {
	if !ok {
		must(what, fmt.Errorf("%v", got))
	}
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V3_6_0_0
	c.Producer.Idempotent = true
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Transaction.ID = id
	c.Producer.Transaction.Retry.Max = 100
	c.Net.MaxOpenRequests = 1
	return c
}

func producer() sarama.SyncProducer {
	p, err := sarama.NewSyncProducer(strings.Split(os.Getenv("BOOTSTRAP"), ","), config())
	must("producer", err)
	return p
}

func write(p sarama.SyncProducer, what string) {
	must("begin", p.BeginTxn())
	for i := range 10 {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: int32(i % 2),
			Value: sarama.StringEncoder(fmt.Sprint(what, i))})
		must("send", err)
	}
}

func read(isolation sarama.IsolationLevel, want int) (values []string) {
	c := sarama.NewConfig()
	c.Version, c.Consumer.IsolationLevel = sarama.V3_6_0_0, isolation
	consumer, err := sarama.NewConsumer(strings.Split(os.Getenv("BOOTSTRAP"), ","), c)
	must("consumer", err)
	defer consumer.Close()
	for p := range int32(2) {
		pc, err := consumer.ConsumePartition(topic, p, sarama.OffsetOldest)
		must("consume", err)
		for range want / 2 {
			select {
			case m := <-pc.Messages():
				values = append(values, string(m.Value))
			case <-time.After(time.Minute):
				check(false, "read", values)
			}
		}
		must("close", pc.Close())
	}
	slices.Sort(values)
	return values
}

func main() {
	brokers := strings.Split(os.Getenv("BOOTSTRAP"), ",")
	admin, err := sarama.NewClusterAdmin(brokers, config())
	must("admin", err)
	must("create topic", admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: -1}, false))
	older := producer()
	write(older, "a")
	must("commit", older.CommitTxn())
	write(older, "b")
	must("abort", older.AbortTxn())
	for _, offset := range []int64{7, 9} {
		must("begin", older.BeginTxn())
		must("offsets", older.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: offset}}}, group))
		if offset == 7 {
			must("commit", older.CommitTxn())
		} else {
			must("abort", older.AbortTxn())
		}
	}
	// sarama sends offsets with the commit, and asks for them whether they are pending or not.
	var got int64
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
		must("offsets", err)
		if got = offsets.GetBlock(topic, 0).Offset; got >= 0 || time.Now().After(deadline) {
			break
		}
	}
	check(got == 7, "the group's offset", got)
	write(older, "c")
	newer := producer()
	write(newer, "d")
	must("commit", newer.CommitTxn())
	check(older.CommitTxn() != nil, "the older instance", "was not fenced")
	seen := read(sarama.ReadCommitted, 20)
	check(!slices.ContainsFunc(seen, func(v string) bool { return v[0] != 'a' && v[0] != 'd' }), "committed records", seen)
	all := read(sarama.ReadUncommitted, 40)
	check(len(all) == 40, "all records", all)
}
