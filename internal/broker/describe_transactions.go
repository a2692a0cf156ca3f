package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// DescribeTransactions (key 65), version 0: the state of transactional ids that this broker
// coordinates.
func describeTransactionsAPI() api {
	return apiDef[*kmsg.DescribeTransactionsRequest]{
		API: protocol.API{Key: int16(kmsg.DescribeTransactions), Max: 0},
		asks: asks[*kmsg.DescribeTransactionsRequest]{parts: each(
			func(req *kmsg.DescribeTransactionsRequest) *[]string { return &req.TransactionalIDs },
			func(m rights, _ *kmsg.DescribeTransactionsRequest, id *string) *kerr.Error {
				return m.transaction(acl.Describe, *id)
			})},
		refuse: func(r *network.Request, req *kmsg.DescribeTransactionsRequest, code *kerr.Error) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrDescribeTransactionsResponse())
			for _, id := range req.TransactionalIDs {
				resp.TransactionStates = append(resp.TransactionStates, describedTransaction(rights{}, &txn.Description{ID: id, Err: code}))
			}
			return resp
		},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toTransactions(func(req *kmsg.DescribeTransactionsRequest) []string { return req.TransactionalIDs }),
		handle:     later(atTransactions, describeTransactions),
	}.api()
}

func describeTransactions(c call, req *kmsg.DescribeTransactionsRequest) {
	failed := func(id string, err *kerr.Error) txn.Description { return txn.Description{ID: id, Err: err} }
	event := func(ids []string) any { return txn.Describe{IDs: ids} }
	m := c.b.rights(c.r)
	perKey(c.b, c.b.opt.Transactions, req.TransactionalIDs, event, failed, func(list []txn.Description) {
		resp := respondTo(c.r, kmsg.NewPtrDescribeTransactionsResponse())
		for i := range list {
			one := describedTransaction(m, &list[i])
			if one.ErrorCode != 0 {
				c.r.Code = one.ErrorCode
			}
			resp.TransactionStates = append(resp.TransactionStates, one)
		}
		c.respond(resp)
	})
}

// describedTransaction leaves out topics that the client may not describe.
func describedTransaction(m rights, d *txn.Description) kmsg.DescribeTransactionsResponseTransactionState {
	one := kmsg.NewDescribeTransactionsResponseTransactionState()
	if one.TransactionalID = d.ID; d.Err != nil {
		one.ErrorCode = d.Err.Code
		return one
	}
	one.State, one.TimeoutMillis, one.StartTimestamp = d.State.String(), d.TimeoutMs, d.StartMs
	one.ProducerID, one.ProducerEpoch = d.ProducerID, d.Epoch
	for _, p := range d.Partitions { // sorted
		if !m.mayTopic(acl.Describe, p.Topic) {
			continue
		}
		if n := len(one.Topics); n == 0 || one.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
			t.Topic = p.Topic
			one.Topics = append(one.Topics, t)
		}
		last := &one.Topics[len(one.Topics)-1]
		last.Partitions = append(last.Partitions, p.Index)
	}
	return one
}
