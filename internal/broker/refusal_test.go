package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/security/acl"
)

// withoutRights makes a broker whose clients may do nothing but describe topic d.
func withoutRights(o *nodeOptions) {
	o.broker = func(opt *Options) {
		rules := acl.Compile([]acl.Binding{{Type: acl.Topic, Name: "d", Pattern: acl.Prefixed, Principal: acl.Everybody, Host: acl.Wildcard,
			Operation: acl.Describe, Permission: acl.Allow}}, acl.Options{})
		opt.Rules = func() *acl.Rules { return rules }
	}
}

// What else Apache Kafka 4.3.1 answers with the code of a missing right.
func TestRefusalsHaveKafkasFields(t *testing.T) {
	n := newNode(t, quick, withoutRights)
	w := n.dial(t)
	text := func(s *string) string {
		if s == nil {
			return "none"
		}
		return *s
	}
	check := func(what, got, want string) {
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}

	remove := &kmsg.DeleteRecordsRequest{Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: "t",
		Partitions: make([]kmsg.DeleteRecordsRequestTopicPartition, 2)}}}
	for _, p := range ask[*kmsg.DeleteRecordsResponse](t, w, 2, remove).Topics[0].Partitions {
		check("low watermark", fmt.Sprint(p.ErrorCode, p.LowWatermark), "29 -1")
	}

	forget := ask[*kmsg.OffsetDeleteResponse](t, w, 0, &kmsg.OffsetDeleteRequest{Group: "g",
		Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 1)}}})
	check("offsets of a group", fmt.Sprint(forget.ErrorCode, len(forget.Topics)), "30 0")

	end := ask[*kmsg.EndTxnResponse](t, w, 5, &kmsg.EndTxnRequest{TransactionalID: "x", ProducerID: 7, ProducerEpoch: 3})
	check("end of a transaction", fmt.Sprint(end.ErrorCode, end.ProducerID, end.ProducerEpoch), "53 -1 -1")

	producers := ask[*kmsg.DescribeProducersResponse](t, w, 0, &kmsg.DescribeProducersRequest{
		Topics: []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}}).Topics[0].Partitions[0]
	check("producers", fmt.Sprint(producers.ErrorCode, " ", text(producers.ErrorMessage)), "29 Topic authorization failed.")

	find := ask[*kmsg.FindCoordinatorResponse](t, w, 3, &kmsg.FindCoordinatorRequest{CoordinatorKey: "g"})
	check("coordinator", fmt.Sprint(find.ErrorCode, " ", text(find.ErrorMessage)), "30 Group authorization failed.")

	cluster := "31 Cluster authorization failed."
	quotas := ask[*kmsg.AlterClientQuotasResponse](t, w, 1, &kmsg.AlterClientQuotasRequest{
		Entries: make([]kmsg.AlterClientQuotasRequestEntry, 1)}).Entries[0]
	check("quotas", fmt.Sprint(quotas.ErrorCode, " ", text(quotas.ErrorMessage)), cluster)
	rule := create(t, w, creation("t"))[0]
	check("a new rule", fmt.Sprint(rule.ErrorCode, " ", text(rule.ErrorMessage)), cluster)
	filter := ask[*kmsg.DeleteACLsResponse](t, w, 3, &kmsg.DeleteACLsRequest{Filters: make([]kmsg.DeleteACLsRequestFilter, 1)}).Results[0]
	check("rules", fmt.Sprint(filter.ErrorCode, " ", text(filter.ErrorMessage)), cluster)
	user := ask[*kmsg.AlterUserSCRAMCredentialsResponse](t, w, 0, &kmsg.AlterUserSCRAMCredentialsRequest{
		Deletions: []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "u", Mechanism: 1}}}).Results[0]
	check("a user", fmt.Sprint(user.ErrorCode, " ", text(user.ErrorMessage)), cluster)
}

// A client learns what it may do with a topic that it may describe, whether or not that exists.
func TestMissingTopicsHaveAuthorizedOperations(t *testing.T) {
	w := newNode(t, quick, withoutRights).dial(t)
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range []string{"d", "d!", "hidden"} {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	var got [][2]int32
	for _, topic := range ask[*kmsg.MetadataResponse](t, w, 13, req).Topics {
		got = append(got, [2]int32{int32(topic.ErrorCode), topic.AuthorizedOperations})
	}
	const none = -1 << 31
	if want := fmt.Sprint([][2]int32{{3, 1 << acl.Describe}, {17, 1 << acl.Describe}, {29, none}}); fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}
