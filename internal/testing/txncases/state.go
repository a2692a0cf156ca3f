package txncases

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// described is a transaction as DescribeTransactions shows it.
type described struct {
	code, state string
	producer
	topics int
}

func (d described) String() string {
	return fmt.Sprintf("%s %s pid %d epoch %d topics %d", d.code, d.state, d.pid, d.epoch, d.topics)
}

func (w *world) describe(id string) described {
	w.Helper()
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{id}
	got := ask[*kmsg.DescribeTransactionsResponse](w, r, 0).TransactionStates[0]
	return described{code: code(got.ErrorCode), state: got.State, producer: producer{id, got.ProducerID, got.ProducerEpoch},
		topics: len(got.Topics)}
}

// decided waits until no marker of an id's last transaction is missing, and describes it.
func (w *world) decided(id string) (d described) {
	w.Helper()
	w.until("the transaction of "+id+" is complete", func() bool {
		d = w.describe(id)
		return d.state == "Empty" || strings.HasPrefix(d.state, "Complete")
	})
	return d
}

// active is what DescribeProducers shows of p in partition 0 of a topic.
type active struct {
	epoch, sequence, coordinator int32
	start                        int64
}

func (a active) String() string {
	return fmt.Sprintf("epoch %d sequence %d coordinator %d start %d", a.epoch, a.sequence, a.coordinator, a.start)
}

// producing returns the state of p in partition 0 of a topic, nil if it is not there.
func (w *world) producing(topic string, p producer) *active {
	w.Helper()
	r := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	r.Topics = append(r.Topics, t)
	got := ask[*kmsg.DescribeProducersResponse](w, r, 0).Topics[0].Partitions[0]
	w.is("DescribeProducers", code(got.ErrorCode), none)
	for _, a := range got.ActiveProducers {
		if a.ProducerID == p.pid {
			return &active{a.ProducerEpoch, a.LastSequence, a.CoordinatorEpoch, a.CurrentTxnStartOffset}
		}
	}
	return nil
}

// ends returns the high watermark and the last stable offset of a partition.
func (w *world) ends(topic string, partition int32) (high, stable int64) {
	w.Helper()
	var got [2]int64
	for isolation := range got {
		// A broker that was killed leads its partitions some time after it answers.
		w.until(fmt.Sprintf("%s-%d is led", topic, partition), func() bool {
			answer := w.endOf(topic, partition, int8(isolation))
			got[isolation] = answer.Offset
			return answer.ErrorCode == 0
		})
	}
	return got[0], got[1]
}

// endOf asks for the end of a partition at an isolation level.
func (w *world) endOf(topic string, partition int32, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	w.Helper()
	r := kmsg.NewPtrListOffsetsRequest()
	r.IsolationLevel, r.ReplicaID = isolation, -1
	t := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return ask[*kmsg.ListOffsetsResponse](w, r, 7).Topics[0].Partitions[0]
}

// offsets is ends as text.
func (w *world) offsets(topic string) string {
	w.Helper()
	high, stable := w.ends(topic, 0)
	return fmt.Sprintf("end %d stable %d", high, stable)
}

// stable waits until every transaction of a partition has ended.
func (w *world) stable(topic string, partition int32) {
	w.Helper()
	w.until(fmt.Sprintf("%s-%d has no open transaction", topic, partition), func() bool {
		high, stable := w.ends(topic, partition)
		return high == stable
	})
}

// shown returns how many records a read_committed reader sees in a partition without an open
// transaction.
func (w *world) shown(topic string, partition int32) (n int) {
	w.Helper()
	w.stable(topic, partition)
	high, _ := w.ends(topic, partition)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.peer.Address), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		w.Fatal(err)
	}
	defer cl.Close()
	ctx, stop := context.WithTimeout(w.Context(), patience)
	defer stop()
	for at := int64(0); at < high; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			w.Fatalf("%s-%d at offset %d of %d: %v", topic, partition, at, high, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				n++
			}
		})
	}
	return n
}

// age is how long a case lets a transaction stand that must time out, and its timeout.
const age = time.Second
