package broker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/testing/replicatest"
)

// A pattern that asks for millions of instructions is refused, and a list that is incomplete
// because the comparison was ended is an error.
func TestPatternsOfTransactionalIDs(t *testing.T) {
	for pattern, want := range map[string]*kerr.Error{"": nil, "a.*": nil, "(": kerr.InvalidRegularExpression,
		"(" + strings.Repeat("x", 300) + "){1000}": kerr.InvalidRegularExpression} {
		if _, err := transactionPattern(&pattern, nil); err != want {
			t.Errorf("%.20q: %v", pattern, err)
		}
	}
	all := func() []txn.Description { return []txn.Description{{ID: "ab"}, {ID: "b"}, {ID: "ba"}} }
	re := kmsg.StringPtr("b|a.")
	if got, err := matchingTransactions(t.Context(), all(), re); err != nil || len(got) != 2 || got[0].ID != "ab" || got[1].ID != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := matchingTransactions(t.Context(), all(), nil); err != nil || len(got) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	slow := kmsg.StringPtr(strings.Repeat(".?", 3000))
	many := slices.Repeat([]txn.Description{{ID: strings.Repeat("i", 1000)}}, 1000)
	if got, err := matchingTransactions(t.Context(), many, slow); err != kerr.InvalidRegularExpression {
		t.Errorf("%d ids, %v", len(got), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := matchingTransactions(ended, all(), re); err == nil {
		t.Errorf("an incomplete list: %+v", got)
	}
}

// What a broker can't list although it coordinates it is missing in the list, which is an error: a
// transaction without its id would look like one that hangs.
func TestAnIncompleteListIsAnError(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	n.coordinatesTransactions(t)
	n.txns.Stop()
	w := n.dial(t)
	txns := ask[*kmsg.ListTransactionsResponse](t, w, 1, kmsg.NewPtrListTransactionsRequest())
	if txns.ErrorCode != kerr.CoordinatorLoadInProgress.Code || len(txns.TransactionStates) > 0 {
		t.Errorf("%+v", txns)
	}
	n.coordinates(t)
	n.groups.Stop()
	groups := ask[*kmsg.ListGroupsResponse](t, w, 4, kmsg.NewPtrListGroupsRequest())
	if groups.ErrorCode != kerr.CoordinatorLoadInProgress.Code || len(groups.Groups) > 0 {
		t.Errorf("%+v", groups)
	}
}

// The answer for a partition may be a million times as large as its place in the request.
func TestDescribeProducersAnswersOnceForARepeatedPartition(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 2)
	req := kmsg.NewPtrDescribeProducersRequest()
	for range 2 {
		one := kmsg.NewDescribeProducersRequestTopic()
		one.Topic, one.Partitions = "t", []int32{1, 0, 1, 0}
		req.Topics = append(req.Topics, one)
	}
	resp := ask[*kmsg.DescribeProducersResponse](t, n.dial(t), 0, req)
	if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 || len(resp.Topics[1].Partitions) != 0 {
		t.Errorf("%+v", resp.Topics)
	}
}

// An operator compares the producers of the replicas (KIP-664): a follower answers from its log.
func TestAFollowerDescribesItsProducers(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	p, err := n.opt.Replicas.Partition(id, 0)
	must(t, err)
	p.SetRole(replicatest.Role(p, 2, p.LeaderEpoch()+1, []int32{1, 2}, []int32{1, 2}))
	req := kmsg.NewPtrDescribeProducersRequest()
	topic := kmsg.NewDescribeProducersRequestTopic()
	topic.Topic, topic.Partitions = "t", []int32{0}
	req.Topics = append(req.Topics, topic)
	got := ask[*kmsg.DescribeProducersResponse](t, n.dial(t), 0, req).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		t.Errorf("code %d, want 0", got.ErrorCode)
	}
}
