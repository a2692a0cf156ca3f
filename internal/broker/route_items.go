package broker

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the requests of some APIs are about, for their routes.

// everyIn yields the partitions of topics.
func everyIn[T, P any](topics []T, of func(*T) (topicRef, []P), index func(*P) int32) iter.Seq2[topicRef, int32] {
	return func(yield func(topicRef, int32) bool) {
		for i := range topics {
			topic, partitions := of(&topics[i])
			for j := range partitions {
				if !yield(topic, index(&partitions[j])) {
					return
				}
			}
		}
	}
}

func partitionsFetched(req *kmsg.FetchRequest) iter.Seq2[topicRef, int32] {
	return everyIn(req.Topics, func(t *kmsg.FetchRequestTopic) (topicRef, []kmsg.FetchRequestTopicPartition) {
		return topicRef{t.Topic, t.TopicID}, t.Partitions
	}, func(p *kmsg.FetchRequestTopicPartition) int32 { return p.Partition })
}

func offsetsListed(req *kmsg.ListOffsetsRequest) iter.Seq2[topicRef, int32] {
	return everyIn(req.Topics, func(t *kmsg.ListOffsetsRequestTopic) (topicRef, []kmsg.ListOffsetsRequestTopicPartition) {
		return topicRef{name: t.Topic}, t.Partitions
	}, func(p *kmsg.ListOffsetsRequestTopicPartition) int32 { return p.Partition })
}

func epochsAsked(req *kmsg.OffsetForLeaderEpochRequest) iter.Seq2[topicRef, int32] {
	type partition = kmsg.OffsetForLeaderEpochRequestTopicPartition
	return everyIn(req.Topics, func(t *kmsg.OffsetForLeaderEpochRequestTopic) (topicRef, []partition) {
		return topicRef{name: t.Topic}, t.Partitions
	}, func(p *partition) int32 { return p.Partition })
}

func recordsDeleted(req *kmsg.DeleteRecordsRequest) iter.Seq2[topicRef, int32] {
	return everyIn(req.Topics, func(t *kmsg.DeleteRecordsRequestTopic) (topicRef, []kmsg.DeleteRecordsRequestTopicPartition) {
		return topicRef{name: t.Topic}, t.Partitions
	}, func(p *kmsg.DeleteRecordsRequestTopicPartition) int32 { return p.Partition })
}

func numbered(p *int32) int32 { return *p }

func producersDescribed(req *kmsg.DescribeProducersRequest) iter.Seq2[topicRef, int32] {
	return everyIn(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) (topicRef, []int32) {
		return topicRef{name: t.Topic}, t.Partitions
	}, numbered)
}

func markersWritten(req *kmsg.WriteTxnMarkersRequest) iter.Seq2[topicRef, int32] {
	var topics []kmsg.WriteTxnMarkersRequestMarkerTopic
	for i := range req.Markers {
		topics = append(topics, req.Markers[i].Topics...)
	}
	return everyIn(topics, func(t *kmsg.WriteTxnMarkersRequestMarkerTopic) (topicRef, []int32) {
		return topicRef{name: t.Topic}, t.Partitions
	}, numbered)
}

func groupsFetched(req *kmsg.OffsetFetchRequest) []string {
	if req.Version < 8 {
		return []string{req.Group}
	}
	ids := make([]string, len(req.Groups))
	for i := range req.Groups {
		ids[i] = req.Groups[i].Group
	}
	return ids
}

func transactionsAddedTo(req *kmsg.AddPartitionsToTxnRequest) []string {
	if req.Version < 4 {
		return []string{req.TransactionalID}
	}
	ids := make([]string, len(req.Transactions))
	for i := range req.Transactions {
		ids[i] = req.Transactions[i].TransactionalID
	}
	return ids
}

// transactionBegun is empty for a producer without transactions, whose id any broker has.
func transactionBegun(req *kmsg.InitProducerIDRequest) []string {
	if req.TransactionalID == nil {
		return nil
	}
	return []string{*req.TransactionalID}
}

func configsDescribed(req *kmsg.DescribeConfigsRequest) (all []resource) {
	for i := range req.Resources {
		all = append(all, resource{req.Resources[i].ResourceType, req.Resources[i].ResourceName})
	}
	return all
}

func configsAltered(req *kmsg.IncrementalAlterConfigsRequest) (all []resource) {
	for i := range req.Resources {
		all = append(all, resource{req.Resources[i].ResourceType, req.Resources[i].ResourceName})
	}
	return all
}

func joinGroups(to, other kmsg.Response) int16 {
	all, more := to.(*kmsg.ListGroupsResponse), other.(*kmsg.ListGroupsResponse)
	if all.ErrorCode == 0 && more.ErrorCode != 0 {
		all.ErrorCode, all.Groups = more.ErrorCode, nil
	}
	if all.ErrorCode == 0 {
		all.Groups = append(all.Groups, more.Groups...)
	}
	return all.ErrorCode
}

func joinTransactions(to, other kmsg.Response) int16 {
	all, more := to.(*kmsg.ListTransactionsResponse), other.(*kmsg.ListTransactionsResponse)
	if all.ErrorCode == 0 && more.ErrorCode != 0 {
		all.ErrorCode, all.TransactionStates = more.ErrorCode, nil
	}
	if all.ErrorCode == 0 {
		all.TransactionStates = append(all.TransactionStates, more.TransactionStates...)
	}
	return all.ErrorCode
}
