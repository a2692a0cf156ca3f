package txncases

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// producer is one instance of a transactional producer.
type producer struct {
	id    string
	pid   int64
	epoch int16
}

// at returns the producer with an epoch that differs by n.
func (p producer) at(n int16) producer { p.epoch += n; return p }

// topic creates a topic and returns its name.
func (w *world) topic(name string, partitions int32) string {
	w.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = w.prefix+name, partitions, 1
	r.Topics, r.TimeoutMillis = append(r.Topics, t), 60_000
	made := ask[*kmsg.CreateTopicsResponse](w, r, 7).Topics[0]
	w.is("CreateTopics", code(made.ErrorCode), none)
	w.topicIDs[t.Topic] = made.TopicID
	m := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &t.Topic
	m.Topics = append(m.Topics, mt)
	w.until("topic "+t.Topic+" is led", func() bool {
		got := ask[*kmsg.MetadataResponse](w, m, 12).Topics[0]
		for _, p := range got.Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
		return len(got.Partitions) == int(partitions)
	})
	for i := range partitions {
		w.until(fmt.Sprintf("%s-%d is led", t.Topic, i), func() bool { return w.endOf(t.Topic, i, 0).ErrorCode == 0 })
	}
	return t.Topic
}

// delete deletes a topic.
func (w *world) delete(topic string) {
	w.Helper()
	r := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	r.Topics, r.TimeoutMillis = append(r.Topics, t), 60_000
	w.is("DeleteTopics", code(ask[*kmsg.DeleteTopicsResponse](w, r, 6).Topics[0].ErrorCode), none)
}

// transient reports whether a coordinator's answer asks the client to come back.
func transient(answer string) bool {
	switch answer {
	case "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS":
		return true
	}
	return false
}

// start returns a new transactional producer: InitProducerId v5, asked until it succeeds.
func (w *world) start(name string) producer { return w.startFor(name, 600_000) }

// startFor is start with a transaction timeout in milliseconds.
func (w *world) startFor(name string, timeout int32) producer {
	w.Helper()
	return w.again(producer{id: w.prefix + name, pid: -1, epoch: -1}, timeout)
}

// alter is IncrementalAlterConfigs of one config of a topic or, with the name "", of all brokers.
func (w *world) alter(kind kmsg.ConfigResourceType, resource, name, value string) string {
	w.Helper()
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	x.ResourceType, x.ResourceName, x.Configs = kind, resource, append(x.Configs, c)
	r.Resources = append(r.Resources, x)
	return code(ask[*kmsg.IncrementalAlterConfigsResponse](w, r, 1).Resources[0].ErrorCode)
}

// again is InitProducerId v5 of p, asked until it succeeds.
func (w *world) again(p producer, timeout int32) producer {
	w.Helper()
	var got initiated
	w.until("the coordinator of "+p.id+" answers", func() bool {
		w.coordinator(1, p.id)
		got = w.init(5, p, timeout)
		return !transient(got.code)
	})
	w.is("InitProducerId", got.code, none)
	return producer{id: p.id, pid: got.pid, epoch: got.epoch}
}

// coordinator waits until the coordinator of a group (kind 0) or a transactional id (1) is known.
func (w *world) coordinator(kind int8, key string) {
	w.Helper()
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorType, r.CoordinatorKeys = kind, []string{key}
	w.until("the coordinator of "+key+" is known", func() bool {
		return ask[*kmsg.FindCoordinatorResponse](w, r, 6).Coordinators[0].ErrorCode == 0
	})
}

// group waits until the coordinator of a group serves it.
func (w *world) group(group, topic string) {
	w.Helper()
	w.coordinator(0, group)
	w.until("the coordinator of "+group+" serves it", func() bool { return !transient(w.committed(group, topic, false)) })
}

// initiated is an answer to InitProducerId or EndTxn.
type initiated struct {
	code  string
	pid   int64
	epoch int16
}

func (i initiated) String() string { return fmt.Sprintf("%s pid %d epoch %d", i.code, i.pid, i.epoch) }

// success returns the answer to a request that leaves a producer as p.
func (p producer) success() initiated { return initiated{none, p.pid, p.epoch} }

// refused returns an answer without a producer.
func refused(code string) initiated { return initiated{code, -1, -1} }

// init asks once for the producer id of p; pid -1 and epoch -1 name none.
func (w *world) init(version int16, p producer, timeout int32) initiated {
	w.Helper()
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = &p.id, timeout, p.pid, p.epoch
	got := ask[*kmsg.InitProducerIDResponse](w, r, version)
	return initiated{code(got.ErrorCode), got.ProducerID, got.ProducerEpoch}
}

func endTxn(p producer, commit bool) *kmsg.EndTxnRequest {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = p.id, p.pid, p.epoch, commit
	return r
}

// end asks once to end the transaction of p.
func (w *world) end(version int16, p producer, commit bool) initiated {
	w.Helper()
	got := ask[*kmsg.EndTxnResponse](w, endTxn(p, commit), version)
	return initiated{code(got.ErrorCode), got.ProducerID, got.ProducerEpoch}
}

// endSoon is end of a transaction that was left open by an answer that got lost: it is asked until
// it is not CONCURRENT_TRANSACTIONS.
func (w *world) endSoon(version int16, p producer, commit bool) (got initiated) {
	w.Helper()
	w.until("the transaction of "+p.id+" ends", func() bool {
		got = w.end(version, p, commit)
		return !transient(got.code)
	})
	return got
}

// batch returns a batch of one record. A pid of -1 is a plain producer's.
func batch(p producer, sequence int32, transactional bool, value string) []byte {
	r := kmsg.Record{Value: []byte(value)}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: p.pid, ProducerEpoch: p.epoch, FirstSequence: sequence,
		NumRecords: 1, FirstTimestamp: now, MaxTimestamp: now, Records: r.AppendTo(nil)}
	if transactional {
		b.Attributes = 1 << 4
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// produceAs sends a batch in the name of a transactional id, "" for none, and returns the code.
func (w *world) produceAs(version int16, id, topic string, partition int32, raw []byte) string {
	w.Helper()
	return w.produceAcks(version, id, topic, partition, raw, -1)
}

func (w *world) produceAcks(version int16, id, topic string, partition int32, raw []byte, acks int16) string {
	w.Helper()
	r := kmsg.NewPtrProduceRequest()
	if id != "" {
		r.TransactionID = &id
	}
	r.Acks, r.TimeoutMillis = acks, 60_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, w.topicIDs[topic]
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, raw
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return code(ask[*kmsg.ProduceResponse](w, r, version).Topics[0].Partitions[0].ErrorCode)
}

// write produces one transactional record of p and returns the code. A transaction before that is
// still being ended makes Kafka's broker ask the client to come back, and so does a broker that was
// just started.
func (w *world) write(version int16, p producer, topic string, partition, sequence int32) (got string) {
	w.Helper()
	w.until("the next transaction of "+p.id+" can begin", func() bool {
		got = w.produceAs(version, p.id, topic, partition, batch(p, sequence, true, "v"))
		return !transient(got) && got != "NOT_ENOUGH_REPLICAS" && got != "NOT_LEADER_FOR_PARTITION"
	})
	return got
}

// add is AddPartitionsToTxn v0–3 of partition 0 of topics. It returns each topic's code, without
// the prefix of the names.
func (w *world) add(version int16, p producer, topics ...string) string {
	w.Helper()
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = p.id, p.pid, p.epoch
	for _, name := range topics {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = name, []int32{0}
		r.Topics = append(r.Topics, t)
	}
	got := map[string]string{}
	for _, t := range ask[*kmsg.AddPartitionsToTxnResponse](w, r, version).Topics {
		got[t.Topic] = code(t.Partitions[0].ErrorCode)
	}
	var list []string
	for _, name := range topics {
		list = append(list, got[name])
	}
	return strings.Join(list, " ")
}

// addSoon is add to a transaction that may follow another one at once.
func (w *world) addSoon(version int16, p producer, topics ...string) (got string) {
	w.Helper()
	w.until("the next transaction of "+p.id+" can begin", func() bool {
		got = w.add(version, p, topics...)
		return !transient(got)
	})
	return got
}

// addPartition adds one partition of a topic, by AddPartitionsToTxn v3.
func (w *world) addPartition(p producer, topic string, partition int32) {
	w.Helper()
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = p.id, p.pid, p.epoch
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	r.Topics = append(r.Topics, t)
	var got string
	w.until("the next transaction of "+p.id+" can begin", func() bool {
		got = code(ask[*kmsg.AddPartitionsToTxnResponse](w, r, 3).Topics[0].Partitions[0].ErrorCode)
		return !transient(got)
	})
	w.is("AddPartitionsToTxn", got, none)
}

// addAsBroker is AddPartitionsToTxn v4–5 of partition 0 of a topic.
func (w *world) addAsBroker(version int16, p producer, verifyOnly bool, topic string) string {
	w.Helper()
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.VerifyOnly = p.id, p.pid, p.epoch, verifyOnly
	q := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	q.Topic, q.Partitions = topic, []int32{0}
	t.Topics = append(t.Topics, q)
	r.Transactions = append(r.Transactions, t)
	got := ask[*kmsg.AddPartitionsToTxnResponse](w, r, version)
	if len(got.Transactions) == 0 {
		return code(got.ErrorCode)
	}
	return code(got.Transactions[0].Topics[0].Partitions[0].ErrorCode)
}

// addOffsets is AddOffsetsToTxn.
func (w *world) addOffsets(version int16, p producer, group string) string {
	w.Helper()
	r := kmsg.NewPtrAddOffsetsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = p.id, p.pid, p.epoch, group
	return code(ask[*kmsg.AddOffsetsToTxnResponse](w, r, version).ErrorCode)
}

// member is the sender of a TxnOffsetCommit; outsider is none of the group.
type member struct {
	id         string
	generation int32
}

var outsider = member{generation: -1}

// offset is TxnOffsetCommit of an offset of partition 0 of a topic.
func (w *world) offset(version int16, p producer, group string, m member, topic string, offset int64) string {
	w.Helper()
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch, r.Generation, r.MemberID = p.id, group, p.pid, p.epoch, m.generation, m.id
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	q := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	q.Offset = offset
	t.Topic, t.Partitions = topic, append(t.Partitions, q)
	r.Topics = append(r.Topics, t)
	return code(ask[*kmsg.TxnOffsetCommitResponse](w, r, version).Topics[0].Partitions[0].ErrorCode)
}

// committed is OffsetFetch of partition 0 of a topic: the code and the offset.
func (w *world) committed(group, topic string, stable bool) string {
	w.Helper()
	r := kmsg.NewPtrOffsetFetchRequest()
	r.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = topic, []int32{0}
	g.Group, g.Topics = group, append(g.Topics, t)
	r.Groups = append(r.Groups, g)
	got := ask[*kmsg.OffsetFetchResponse](w, r, 9).Groups[0]
	if got.ErrorCode != 0 {
		return code(got.ErrorCode)
	}
	p := got.Topics[0].Partitions[0]
	return fmt.Sprintf("%s %d", code(p.ErrorCode), p.Offset)
}

// marker is WriteTxnMarkers for one partition, as an administrator's tool sends it.
func (w *world) marker(version int16, p producer, commit bool, coordinator int32, topic string, partition int32) string {
	w.Helper()
	r := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch = p.pid, p.epoch, commit, coordinator
	if version >= 2 {
		m.TransactionVersion = 2
	}
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	m.Topics = append(m.Topics, t)
	r.Markers = append(r.Markers, m)
	return code(ask[*kmsg.WriteTxnMarkersResponse](w, r, version).Markers[0].Topics[0].Partitions[0].ErrorCode)
}
