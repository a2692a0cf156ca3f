package broker

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// authWorld makes what the requests of the cases name, and things that they do not name.
func (g *guarded) authWorld(t *testing.T) *authWorld {
	t.Helper()
	w := &authWorld{batch: inTransaction(t, 7, 0, 0, "v"), id: g.topic(t, "t", 2), hidden: g.topic(t, hiddenTopic, 1)}
	g.topic(t, "u", 1)
	g.coordinates(t)
	c := g.dial(t)
	eventually(t, "transactions have a coordinator", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorType, find.CoordinatorKeys = transactionCoordinator, []string{"tx"}
		describe := kmsg.NewPtrDescribeTransactionsRequest()
		describe.TransactionalIDs = []string{"tx"}
		return ask[*kmsg.FindCoordinatorResponse](t, c, 4, find).Coordinators[0].ErrorCode == 0 &&
			ask[*kmsg.DescribeTransactionsResponse](t, c, 0, describe).TransactionStates[0].ErrorCode == kerr.TransactionalIDNotFound.Code
	})
	for _, group := range []string{"g", hiddenGroup} {
		commit(t, c, 9, group, w.id, "t", 0)
		commit(t, c, 9, group, w.hidden, hiddenTopic, 0)
	}
	for _, id := range []string{"tx", hiddenTxn} {
		var made *kmsg.InitProducerIDResponse
		eventually(t, "the producer has an id", func() bool {
			made = ask[*kmsg.InitProducerIDResponse](t, c, 4, producerIDRequest(&id, -1, -1))
			return made.ErrorCode == 0
		})
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch = id, made.ProducerID, made.ProducerEpoch
		for _, topic := range []string{"t", hiddenTopic} {
			add.Topics = append(add.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: topic, Partitions: []int32{0}})
		}
		for _, topic := range ask[*kmsg.AddPartitionsToTxnResponse](t, c, 3, add).Topics {
			if code := topic.Partitions[0].ErrorCode; code != 0 {
				t.Fatal(kerr.ErrorForCode(code))
			}
		}
	}
	return w
}

// authCases are the kinds of requests that need rights, and what each needs.
func authCases() []authCase {
	return slices.Concat(dataCases(), groupCases(), shareCases(), adminCases())
}

func dataCases() []authCase {
	byID := func(op acl.Operation) []need { return []need{needs(kerr.UnknownTopicID, topicRight(op, "t"))} }
	described := []right{topicRight(acl.Describe, "t")}
	transactional := func(w *authWorld, r kmsg.Request) {
		fillRequest(r, w.id)
		r.(*kmsg.ProduceRequest).TransactionID, r.(*kmsg.ProduceRequest).Acks = kmsg.StringPtr("tx"), -1
		r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records = w.batch
	}
	return []authCase{
		{key: protocol.KeyProduce, to: 12, needs: []need{anyTopic(acl.Write)}},
		{name: "Produce by id", key: protocol.KeyProduce, from: 13, needs: byID(acl.Write)},
		{name: "Produce by id that is described", key: protocol.KeyProduce, from: 13, base: described, needs: []need{anyTopic(acl.Write)}},
		{name: "Produce in a transaction", key: protocol.KeyProduce, to: 12, fill: transactional,
			needs: []need{anyTxn(acl.Write, "tx"), anyTopic(acl.Write)}},
		{key: int16(kmsg.Fetch), to: 12, needs: []need{anyTopic(acl.Read)}},
		{name: "Fetch by id", key: int16(kmsg.Fetch), from: 13, needs: byID(acl.Read)},
		{name: "Fetch by id that is described", key: int16(kmsg.Fetch), from: 13, base: described, needs: []need{anyTopic(acl.Read)}},
		{key: int16(kmsg.ListOffsets), needs: []need{anyTopic(acl.Describe)}},
		{key: int16(kmsg.OffsetForLeaderEpoch), needs: []need{
			needs(kerr.TopicAuthorizationFailed, topicRight(acl.Describe, "t"), clusterRight(acl.ClusterAction)),
		}},
		{name: "Metadata of all topics", key: int16(kmsg.Metadata), needs: []need{leftOut(topicRight(acl.Describe, "t"))}},
		{name: "Metadata of a topic", key: int16(kmsg.Metadata), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.MetadataRequest).Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}, {Topic: kmsg.StringPtr("none")}}
		}, needs: []need{anyTopic(acl.Describe), needs(kerr.TopicAuthorizationFailed, topicRight(acl.Describe, "none"))}},
		{name: "Metadata of an id", key: int16(kmsg.Metadata), from: 12, fill: func(w *authWorld, r kmsg.Request) {
			r.(*kmsg.MetadataRequest).Topics = []kmsg.MetadataRequestTopic{{TopicID: w.id}}
		}, needs: byID(acl.Describe)},
		{key: int16(kmsg.DeleteRecords), needs: []need{anyTopic(acl.Delete)}},
		{key: int16(kmsg.InitProducerID), needs: []need{
			needs(kerr.ClusterAuthorizationFailed, clusterRight(acl.IdempotentWrite), topicRight(acl.Write, acl.Wildcard)),
		}},
		{name: "InitProducerID of a transactional id", key: int16(kmsg.InitProducerID), fill: func(_ *authWorld, r kmsg.Request) {
			*r.(*kmsg.InitProducerIDRequest) = *producerIDRequest(kmsg.StringPtr("ty"), -1, -1)
		}, needs: []need{anyTxn(acl.Write, "ty")}},
		{key: int16(kmsg.AddPartitionsToTxn), to: 3, fill: func(_ *authWorld, r kmsg.Request) {
			x := r.(*kmsg.AddPartitionsToTxnRequest)
			x.TransactionalID, x.ProducerID = "tx", 7
			x.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0}}, {Topic: "u", Partitions: []int32{0}}}
		}, needs: []need{
			anyTxn(acl.Write, "tx"), anyTopic(acl.Write), needs(kerr.TopicAuthorizationFailed, topicRight(acl.Write, "u")),
		}},
		{name: "AddPartitionsToTxn of a broker", key: int16(kmsg.AddPartitionsToTxn), from: 4, needs: []need{inCommand(acl.ClusterAction)}},
		{key: int16(kmsg.AddOffsetsToTxn), needs: []need{anyTxn(acl.Write, "tx"), anyGroup(acl.Read, "g")}},
		{key: int16(kmsg.EndTxn), needs: []need{anyTxn(acl.Write, "tx")}},
		{key: int16(kmsg.WriteTxnMarkers), needs: []need{inCommand(acl.Alter, acl.ClusterAction)}},
		{key: int16(kmsg.TxnOffsetCommit), to: 5,
			needs: []need{anyTxn(acl.Write, "tx"), anyGroup(acl.Read, "g"), anyTopic(acl.Read)}},
		{name: "TxnOffsetCommit by id", key: int16(kmsg.TxnOffsetCommit), from: 6,
			needs: append([]need{anyTxn(acl.Write, "tx"), anyGroup(acl.Read, "g")}, byID(acl.Read)...)},
		{key: int16(kmsg.DescribeProducers), needs: []need{anyTopic(acl.Read)}},
		{key: int16(kmsg.DescribeTransactions), needs: []need{
			anyTxn(acl.Describe, "tx"), anyTxn(acl.Describe, "ty"), leftOut(topicRight(acl.Describe, "t")),
		}},
		{key: int16(kmsg.ListTransactions), needs: []need{leftOut(txnRight(acl.Describe, "tx"))}},
	}
}

func groupCases() []authCase {
	find := func(kind int8, keys ...string) func(*authWorld, kmsg.Request) {
		return func(_ *authWorld, r kmsg.Request) {
			x := r.(*kmsg.FindCoordinatorRequest)
			x.CoordinatorType, x.CoordinatorKey, x.CoordinatorKeys = kind, keys[0], keys
		}
	}
	fetchAll := func(_ *authWorld, r kmsg.Request) {
		x := r.(*kmsg.OffsetFetchRequest)
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = "g"
		x.Group, x.Groups = "g", []kmsg.OffsetFetchRequestGroup{one}
	}
	return []authCase{
		{key: int16(kmsg.OffsetCommit), to: 9, needs: []need{anyGroup(acl.Read, "g"), anyTopic(acl.Read)}},
		{name: "OffsetCommit by id", key: int16(kmsg.OffsetCommit), from: 10,
			needs: []need{anyGroup(acl.Read, "g"), needs(kerr.UnknownTopicID, topicRight(acl.Read, "t"))}},
		{key: int16(kmsg.OffsetFetch), to: 9, needs: []need{anyGroup(acl.Describe, "g"), anyTopic(acl.Describe)}},
		{name: "OffsetFetch by id", key: int16(kmsg.OffsetFetch), from: 10,
			needs: []need{anyGroup(acl.Describe, "g"), needs(kerr.UnknownTopicID, topicRight(acl.Describe, "t"))}},
		{name: "OffsetFetch of all topics", key: int16(kmsg.OffsetFetch), from: 2, fill: fetchAll,
			needs: []need{anyGroup(acl.Describe, "g"), leftOut(topicRight(acl.Describe, "t"))}},
		{key: int16(kmsg.FindCoordinator), to: 3, fill: find(groupCoordinator, "g"), needs: []need{anyGroup(acl.Describe, "g")}},
		{name: "FindCoordinator of two groups", key: int16(kmsg.FindCoordinator), from: 4, fill: find(groupCoordinator, "g", "h"),
			needs: []need{anyGroup(acl.Describe, "g"), anyGroup(acl.Describe, "h")}},
		{name: "FindCoordinator of a transactional id", key: int16(kmsg.FindCoordinator), from: 1, fill: find(transactionCoordinator, "tx"),
			needs: []need{anyTxn(acl.Describe, "tx")}},
		{name: "FindCoordinator of share state", key: int16(kmsg.FindCoordinator), from: 6, fill: find(shareCoordinator, "g:t:0"),
			needs: []need{inCommand(acl.ClusterAction)}},
		{key: int16(kmsg.JoinGroup), fill: func(w *authWorld, r kmsg.Request) {
			fillRequest(r, w.id)
			r.(*kmsg.JoinGroupRequest).Group, r.(*kmsg.JoinGroupRequest).MemberID = "joining", "unknown"
		}, needs: []need{anyGroup(acl.Read, "joining")}},
		{key: int16(kmsg.SyncGroup), needs: []need{anyGroup(acl.Read, "joined-0")}},
		{key: int16(kmsg.Heartbeat), needs: []need{anyGroup(acl.Read, "joined-0")}},
		{key: int16(kmsg.LeaveGroup), needs: []need{anyGroup(acl.Read, "joined-0")}},
		{key: int16(kmsg.DescribeGroups), needs: []need{anyGroup(acl.Describe, "g"), anyGroup(acl.Describe, "h")}},
		{key: int16(kmsg.ListGroups), needs: []need{leftOut(groupRight(acl.Describe, "g"))}},
		{key: int16(kmsg.DeleteGroups), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.DeleteGroupsRequest).Groups = []string{"none", "none-2"}
		}, needs: []need{anyGroup(acl.Delete, "none"), anyGroup(acl.Delete, "none-2")}},
		{key: int16(kmsg.OffsetDelete), needs: []need{anyGroup(acl.Delete, "g"), anyTopic(acl.Read)}},
		{key: int16(kmsg.ConsumerGroupHeartbeat), fill: func(w *authWorld, r kmsg.Request) {
			fillRequest(r, w.id)
			r.(*kmsg.ConsumerGroupHeartbeatRequest).Group = "consumers"
		}, needs: []need{anyGroup(acl.Read, "consumers"), anyTopic(acl.Describe)}},
		{key: int16(kmsg.ConsumerGroupDescribe), needs: []need{anyGroup(acl.Describe, "g"), anyGroup(acl.Describe, "h")}},
		{key: int16(kmsg.StreamsGroupHeartbeat), fill: func(_ *authWorld, r kmsg.Request) {
			*r.(*kmsg.StreamsGroupHeartbeatRequest) = *streamsBeat("t", "u")
			r.(*kmsg.StreamsGroupHeartbeatRequest).Group = "streams"
		}, needs: []need{
			anyGroup(acl.Read, "streams"), anyTopic(acl.Describe), needs(kerr.TopicAuthorizationFailed, topicRight(acl.Describe, "u")),
		}},
		{key: int16(kmsg.StreamsGroupDescribe), needs: []need{anyGroup(acl.Describe, "g"), anyGroup(acl.Describe, "h")}},
	}
}

func shareCases() []authCase {
	list := []authCase{
		{key: int16(kmsg.ShareGroupHeartbeat), fill: func(_ *authWorld, r kmsg.Request) {
			beat := shareBeat("m", 0, "t", "u")
			beat.Version, beat.GroupID = r.GetVersion(), "sharing"
			*r.(*kmsg.ShareGroupHeartbeatRequest) = *beat
		}, needs: []need{
			anyGroup(acl.Read, "sharing"), anyTopic(acl.Describe), needs(kerr.TopicAuthorizationFailed, topicRight(acl.Describe, "u")),
		}},
		{key: int16(kmsg.ShareGroupDescribe), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.ShareGroupDescribeRequest).GroupIDs = []string{"g", "h"}
		}, needs: []need{anyGroup(acl.Describe, "g"), anyGroup(acl.Describe, "h")}},
		// ShareAcknowledge needs a session: TestShareRequestsNeedRights has its topics.
		{key: int16(kmsg.ShareAcknowledge), fill: func(w *authWorld, r kmsg.Request) {
			r.(*kmsg.ShareAcknowledgeRequest).GroupID, r.(*kmsg.ShareAcknowledgeRequest).MemberID = new("g"), new("m")
		}, needs: []need{anyGroup(acl.Read, "g")}},
	}
	offsets := func(_ *authWorld, r kmsg.Request) { fillShareOffsets(r) }
	list = append(list,
		authCase{key: int16(kmsg.DescribeShareGroupOffsets), fill: offsets, needs: []need{anyGroup(acl.Describe, "g"),
			anyTopic(acl.Describe)}},
		authCase{key: int16(kmsg.AlterShareGroupOffsets), fill: offsets, needs: []need{anyGroup(acl.Read, "g"), anyTopic(acl.Read)}},
		authCase{key: int16(kmsg.DeleteShareGroupOffsets), fill: offsets, needs: []need{anyGroup(acl.Delete, "g"), anyTopic(acl.Read)}})
	fetch := authCase{name: "ShareFetch", key: int16(kmsg.ShareFetch), fill: func(w *authWorld, r kmsg.Request) {
		version := r.GetVersion()
		*r.(*kmsg.ShareFetchRequest) = *(&sharer{group: "g", id: "m", topic: w.id, max: 500}).request()
		r.SetVersion(version)
	}, needs: []need{anyGroup(acl.Read, "g"), needs(kerr.UnknownTopicID, topicRight(acl.Read, "t"))}}
	list = append(list, fetch)
	fetch.name, fetch.base = "ShareFetch of a topic that is described", []right{topicRight(acl.Describe, "t")}
	fetch.needs = []need{anyGroup(acl.Read, "g"), anyTopic(acl.Read)}
	list = append(list, fetch)
	for key := kmsg.InitializeShareGroupState; key <= kmsg.ReadShareGroupStateSummary; key++ {
		list = append(list, authCase{key: int16(key), fill: func(w *authWorld, r kmsg.Request) { fillShareState(r, w.id) },
			needs: []need{inCommand(acl.ClusterAction)}})
	}
	return list
}

func adminCases() []authCase {
	create := func(name string, only bool) func(*authWorld, kmsg.Request) {
		return func(_ *authWorld, r kmsg.Request) {
			x := r.(*kmsg.CreateTopicsRequest)
			x.ValidateOnly, x.TimeoutMillis = only, 120_000
			x.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
		}
	}
	creation := func(name string) need {
		return needs(kerr.TopicAuthorizationFailed, clusterRight(acl.Create), topicRight(acl.Create, name))
	}
	configs := func(op acl.Operation) []need { return []need{anyTopic(op), anyGroup(op, "g"), inCommand(op)} }
	return []authCase{
		{key: int16(kmsg.CreateTopics), fill: create("made", false), base: []right{topicRight(acl.DescribeConfigs, "made")},
			needs: []need{creation("made")}},
		{name: "CreateTopics, what it would make", key: int16(kmsg.CreateTopics), from: 5, fill: create("made-up", true),
			needs: []need{creation("made-up"), needs(kerr.TopicAuthorizationFailed, topicRight(acl.DescribeConfigs, "made-up"))}},
		{key: int16(kmsg.DeleteTopics), fill: func(w *authWorld, r kmsg.Request) {
			x := r.(*kmsg.DeleteTopicsRequest)
			x.TopicNames, x.Topics = []string{"none"}, []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("none")}}
		}, needs: []need{needs(kerr.TopicAuthorizationFailed, topicRight(acl.Delete, "none"))}},
		{key: int16(kmsg.CreatePartitions), needs: []need{anyTopic(acl.Alter)}},
		{key: int16(kmsg.DescribeConfigs), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.DescribeConfigsRequest).Resources = []kmsg.DescribeConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"},
				{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"},
				{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"},
			}
		}, needs: configs(acl.DescribeConfigs)},
		{key: int16(kmsg.AlterConfigs), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.AlterConfigsRequest).ValidateOnly = true
			r.(*kmsg.AlterConfigsRequest).Resources = []kmsg.AlterConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"},
				{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"},
				{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"},
			}
		}, needs: configs(acl.AlterConfigs)},
		{key: int16(kmsg.IncrementalAlterConfigs), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.IncrementalAlterConfigsRequest).ValidateOnly = true
			r.(*kmsg.IncrementalAlterConfigsRequest).Resources = []kmsg.IncrementalAlterConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"},
				{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"},
				{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"},
			}
		}, needs: configs(acl.AlterConfigs)},
		{key: int16(kmsg.DescribeUserSCRAMCredentials), needs: []need{inCommand(acl.Describe)}},
		{key: int16(kmsg.AlterUserSCRAMCredentials), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.AlterUserSCRAMCredentialsRequest).Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "bob",
				Mechanism: 1}}
		}, needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.DescribeACLs), needs: []need{inCommand(acl.Describe)}},
		{key: int16(kmsg.CreateACLs), needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.DeleteACLs), needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.DescribeClientQuotas), needs: []need{inCommand(acl.DescribeConfigs)}},
		{key: int16(kmsg.AlterClientQuotas), needs: []need{inCommand(acl.AlterConfigs)}},
		{key: int16(kmsg.AlterReplicaLogDirs), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.AlterReplicaLogDirsRequest).Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/data/logs",
				Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "t", Partitions: []int32{0}}}}}
		}, needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.DescribeLogDirs), needs: []need{inCommand(acl.Describe)}},
		{key: int16(kmsg.ElectLeaders), needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.AlterPartitionAssignments), needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.ListPartitionReassignments), needs: []need{inCommand(acl.Describe)}},
		{key: int16(kmsg.DescribeQuorum), needs: []need{inCommand(acl.Describe)}},
		{key: int16(kmsg.UpdateFeatures), needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.UnregisterBroker), needs: []need{inCommand(acl.Alter)}},
		{key: int16(kmsg.ListConfigResources), needs: []need{inCommand(acl.DescribeConfigs)}},
		{name: "DescribeTopicPartitions of all topics", key: int16(kmsg.DescribeTopicPartitions),
			needs: []need{leftOut(topicRight(acl.Describe, "t"))}},
		{name: "DescribeTopicPartitions of topics", key: int16(kmsg.DescribeTopicPartitions), fill: func(_ *authWorld, r kmsg.Request) {
			r.(*kmsg.DescribeTopicPartitionsRequest).ResponsePartitionLimit = 100
			r.(*kmsg.DescribeTopicPartitionsRequest).Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}, {Topic: "none"}}
		}, needs: []need{anyTopic(acl.Describe), needs(kerr.TopicAuthorizationFailed, topicRight(acl.Describe, "none"))}},
	}
}
