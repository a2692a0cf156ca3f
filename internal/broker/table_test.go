package broker

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// counted is an Observer that keeps the code with which the latest answer is counted.
type counted struct {
	network.NoObserver
	code atomic.Int32
}

// Answered implements network.Observer.
func (c *counted) Answered(r *network.Request, _ int, _ time.Duration) { c.code.Store(int32(r.Code)) }

// by has the broker count its answers with c.
func (c *counted) by(o *nodeOptions) { o.network = func(opt *network.Options) { opt.Observer = c } }

// check reports an answer that was counted as a success though it has an error, or the reverse.
func (c *counted) check(t *testing.T, resp kmsg.Response) {
	t.Helper()
	failed := false
	errorCodes(reflect.ValueOf(resp), func(code int16) { failed = failed || code != 0 })
	if code := c.code.Load(); failed != (code != 0) {
		t.Errorf("it is counted with the error %d: %+v", code, resp)
	}
}

// ApiVersions promises that each version of each API is answered, in its own format, with errors
// that the protocol knows, and that metrics count.
func TestEveryAdvertisedVersionAnswers(t *testing.T) {
	var metric counted
	n := newNode(t, quick, inCluster(&fakeCluster{}), withRules, metric.by)
	id := n.topic(t, "t", 2)
	n.coordinates(t)
	w := n.dial(t)
	for _, a := range n.table.APIs() {
		for v := a.ListedMin(); v <= a.Max; v++ {
			t.Run(fmt.Sprintf("%s/%d", a.Name(), v), func(t *testing.T) {
				req := kmsg.RequestForKey(a.Key)
				req.SetVersion(v)
				fillRequest(req, id)
				if v < a.Min {
					other := n.dial(t)
					must(t, other.send(req))
					if _, err := other.body(); err == nil {
						t.Fatal("an answer to a version that has no handler")
					}
					return
				}
				must(t, w.send(req))
				body, err := w.body()
				must(t, err)
				resp := req.ResponseKind()
				resp.SetVersion(v)
				if resp.IsFlexible() && a.Key != protocol.KeyApiVersions {
					body = body[1:]
				}
				must(t, resp.ReadFrom(body))
				if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
					t.Errorf("the answer is not in the shape of the version:\n%x\n%x", body, again)
				}
				errorCodes(reflect.ValueOf(resp), func(code int16) {
					if e := kerr.TypedErrorForCode(code); code != 0 && (e == nil || e.Code != code || e == kerr.UnknownServerError) {
						t.Errorf("error %d in %+v", code, resp)
					}
				})
				metric.check(t, resp)
			})
		}
	}
}

// fillRequest fills a request so that its handler has something to do.
func fillRequest(r kmsg.Request, id [16]byte) {
	name := "t"
	switch r := r.(type) {
	case *kmsg.ProduceRequest:
		r.Acks, r.TimeoutMillis = 1, 1000
		r.Topics = []kmsg.ProduceRequestTopic{{Topic: name, TopicID: id,
			Partitions: []kmsg.ProduceRequestTopicPartition{{Records: []byte{}}}}}
	case *kmsg.FetchRequest:
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1000
		r.MaxBytes, r.SessionEpoch = 1000, -1
		r.Topics = []kmsg.FetchRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	case *kmsg.ListOffsetsRequest:
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = -1
		r.ReplicaID, r.Topics = -1, []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	case *kmsg.OffsetForLeaderEpochRequest:
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "some-client", "1.0"
	case *kmsg.MetadataRequest:
		r.Topics, r.AllowAutoTopicCreation = nil, false
	case *kmsg.DescribeTopicPartitionsRequest:
		r.ResponsePartitionLimit = 1
	case *kmsg.CreateTopicsRequest:
		r.TimeoutMillis = 120_000
		r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: fmt.Sprint("made-", r.Version), NumPartitions: 1, ReplicationFactor: 1}}
	case *kmsg.DeleteTopicsRequest:
		made := fmt.Sprint("made-", r.Version+1)
		r.TimeoutMillis, r.TopicNames = 120_000, []string{made}
		r.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &made}}
	case *kmsg.CreatePartitionsRequest:
		r.TimeoutMillis = 120_000
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 3 + int32(r.Version)}}
	case *kmsg.DeleteRecordsRequest:
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 0},
			{Partition: 100}}}}
	case *kmsg.AlterReplicaLogDirsRequest:
		r.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/d", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: name,
			Partitions: []int32{0, 100}}}}}
	case *kmsg.ElectLeadersRequest:
		r.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0, 100}}}
	case *kmsg.DescribeQuorumRequest:
		r.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: quorumTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	case *kmsg.UnregisterBrokerRequest:
		r.BrokerID = 7
	case *kmsg.AlterPartitionAssignmentsRequest:
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name,
			Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}, {}}}}
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g", "h"}
	case *kmsg.JoinGroupRequest: // alone in its group, so that it waits for no other member
		r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = fmt.Sprint("joined-", r.Version), 10_000, 10_000,
			"consumer"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{1}}}
	case *kmsg.SyncGroupRequest:
		r.Group, r.MemberID = "joined-0", "unknown"
	case *kmsg.HeartbeatRequest:
		r.Group, r.MemberID = "joined-0", "unknown"
	case *kmsg.LeaveGroupRequest:
		r.Group, r.MemberID, r.Members = "joined-0", "unknown", []kmsg.LeaveGroupRequestMember{{MemberID: "unknown"}}
	case *kmsg.OffsetCommitRequest:
		r.Group, r.Generation = "g", -1
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: name, TopicID: id,
			Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}, {Partition: 100}}}}
	case *kmsg.OffsetFetchRequest:
		r.Group, r.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: name, Partitions: []int32{0, 1}}}
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group, one.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: name, TopicID: id, Partitions: []int32{0, 1}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{one}
	case *kmsg.OffsetDeleteRequest:
		r.Group, r.Topics = "g", []kmsg.OffsetDeleteRequestTopic{{Topic: name,
			Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}, {Partition: 100}}}}
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		r.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "u", Mechanism: 1}}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group, r.MemberID, r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = fmt.Sprint("consumers-", r.Version), "m", 10_000,
			[]string{name}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	case *kmsg.InitProducerIDRequest:
		r.ProducerID, r.ProducerEpoch = -1, -1
	case *kmsg.StreamsGroupHeartbeatRequest:
		r.Group, r.MemberID = "streams", "unknown"
	case *kmsg.StreamsGroupDescribeRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.DescribeConfigsRequest:
		r.IncludeDocumentation, r.IncludeSynonyms = true, true
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name},
			{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}, {ResourceType: kmsg.ConfigResourceTypeBroker}}
	case *kmsg.AlterConfigsRequest:
		r.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
			Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: kmsg.StringPtr("1000")}}}}
	case *kmsg.IncrementalAlterConfigsRequest:
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Op: kmsg.IncrementalAlterConfigOpDelete}}}}
	default:
		fillTransactional(r, id)
	}
}

// fillTransactional is fillRequest for the requests of transactions.
func fillTransactional(r kmsg.Request, id [16]byte) {
	name := "t"
	switch r := r.(type) {
	case *kmsg.AddPartitionsToTxnRequest:
		r.TransactionalID, r.ProducerID = "tx", 7
		r.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: name, Partitions: []int32{0, 100}}}
		r.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: "tx", ProducerID: 7,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: name, Partitions: []int32{0, 100}}}}}
	case *kmsg.AddOffsetsToTxnRequest:
		r.TransactionalID, r.ProducerID, r.Group = "tx", 7, "g"
	case *kmsg.EndTxnRequest:
		r.TransactionalID, r.ProducerID = "tx", 7
	case *kmsg.WriteTxnMarkersRequest:
		r.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: 7,
			Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: name, Partitions: []int32{0, 100}}}}}
	case *kmsg.TxnOffsetCommitRequest:
		r.TransactionalID, r.ProducerID, r.Group = "tx", 7, "g"
		r.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: name, TopicID: id,
			Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 5}, {Partition: 100}}}}
	case *kmsg.DescribeProducersRequest:
		r.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: name, Partitions: []int32{0, 100}}}
	case *kmsg.DescribeTransactionsRequest:
		r.TransactionalIDs = []string{"tx", "ty"}
	default:
		fillRest(r, id)
	}
}

// fillRest is fillRequest for the other requests.
func fillRest(r kmsg.Request, id [16]byte) {
	switch r := r.(type) {
	case *kmsg.AlterClientQuotasRequest:
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{{Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate",
			Value: 1}},
			Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: kmsg.StringPtr("u")}}}}
	case *kmsg.DescribeGroupsRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.ShareGroupDescribeRequest:
		r.GroupIDs = []string{"g", "h"}
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{"g", "h"}
	case *kmsg.DescribeACLsRequest:
		r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 1, 1, 1, 1
	case *kmsg.CreateACLsRequest:
		r.Creations = []kmsg.CreateACLsRequestCreation{creation("t"), {}}
	case *kmsg.DeleteACLsRequest:
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = 1, 1, 1, 1
		r.Filters = []kmsg.DeleteACLsRequestFilter{f, {}}
	default:
		fillShareState(r, id)
	}
}

// errorCodes calls f for each error code in a response.
func errorCodes(v reflect.Value, f func(int16)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			errorCodes(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errorCodes(v.Index(i), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				f(int16(v.Field(i).Int()))
			} else if v.Type().Field(i).IsExported() {
				errorCodes(v.Field(i), f)
			}
		}
	}
}

func TestWhatIsNotInTheTableClosesTheConnection(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct{ key, version int16 }{
		{int16(kmsg.CreateDelegationToken), 1}, {int16(kmsg.Metadata), 14}, {int16(kmsg.CreateTopics), 1}, {math.MaxInt16, 0}, {-1, 0},
	} {
		w := n.dial(t)
		frame := []byte{0, 0, 0, 12, byte(c.key >> 8), byte(c.key), byte(c.version >> 8), byte(c.version), 0, 0, 0, 1, 0xff, 0xff, 0, 0}
		_, err := w.Write(frame)
		must(t, err)
		if _, err := w.body(); err == nil {
			t.Errorf("an answer to API %d version %d", c.key, c.version)
		}
	}
}
