package broker

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// AddPartitionsToTxn (key 24), versions 0 to 5: producers send 0 to 3 with one transaction, brokers
// send 4 and 5 with many, to add partitions or to ask whether they were added.
func addPartitionsToTxnAPI() api {
	return apiDef[*kmsg.AddPartitionsToTxnRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AddPartitionsToTxn), Max: 5, Quick: true},
		// The rights to topics are asked inside: without one of them nothing is added.
		asks: asks[*kmsg.AddPartitionsToTxnRequest]{whole: func(m rights, req *kmsg.AddPartitionsToTxnRequest) *kerr.Error {
			if req.Version >= 4 {
				return m.cluster(acl.ClusterAction)
			}
			return m.transaction(acl.Write, req.TransactionalID)
		}},
		refuse:     refuseAdd,
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toTransactions(transactionsAddedTo),
		handle: later(atAddedTo, func(c call, req *kmsg.AddPartitionsToTxnRequest) {
			if req.Version >= 4 {
				addForBroker(c, req)
			} else {
				addForClient(c, req)
			}
		}),
	}.api()
}

// atAddedTo is where a request waits: a client names one transactional id, a broker several.
func atAddedTo(b *Handler, req *kmsg.AddPartitionsToTxnRequest) (*network.Waiter, string) {
	switch {
	case req.Version < 4:
		return b.at.transaction, req.TransactionalID
	case len(req.Transactions) == 1:
		return b.at.transaction, req.Transactions[0].TransactionalID
	}
	return b.at.transactions, ""
}

// refuseAdd answers a request as a whole: versions below 4 have no field for that.
func refuseAdd(r *network.Request, req *kmsg.AddPartitionsToTxnRequest, code *kerr.Error) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrAddPartitionsToTxnResponse())
	resp.ErrorCode = code.Code
	for i := range req.Topics {
		t := &req.Topics[i]
		resp.Topics = append(resp.Topics, addedTopic(t.Topic, t.Partitions, func(int32) *kerr.Error { return code }))
	}
	return resp
}

func addedTopic(topic string, partitions []int32, of func(int32) *kerr.Error) kmsg.AddPartitionsToTxnResponseTopic {
	out := kmsg.NewAddPartitionsToTxnResponseTopic()
	out.Topic = topic
	for _, p := range partitions {
		one := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
		one.Partition, one.ErrorCode = p, errorCode(of(p))
		out.Partitions = append(out.Partitions, one)
	}
	return out
}

// addForClient adds all partitions of a request, or none. If one is unknown, the others get
// OPERATION_NOT_ATTEMPTED, as in Kafka.
func addForClient(c call, req *kmsg.AddPartitionsToTxnRequest) {
	img, m := c.b.opt.Transactions.Image(), c.b.rights(c.r)
	e := txn.Add{ID: req.TransactionalID, ProducerID: req.ProducerID, Epoch: req.ProducerEpoch, Version: 1}
	bad := map[txn.Partition]*kerr.Error{}
	for i := range req.Topics {
		denied := m.topic(acl.Write, req.Topics[i].Topic)
		for _, p := range partitionsOf(req.Topics[i].Topic, req.Topics[i].Partitions) {
			e.Partitions = append(e.Partitions, txn.AddedPartition{Partition: p})
			if err := cmp.Or(denied, addable(img, p)); err != nil {
				bad[p] = err
			}
		}
	}
	answer := func(of func(txn.Partition) *kerr.Error) {
		resp := respondTo(c.r, kmsg.NewPtrAddPartitionsToTxnResponse())
		for i := range req.Topics {
			t := &req.Topics[i]
			resp.Topics = append(resp.Topics, addedTopic(t.Topic, t.Partitions, func(p int32) *kerr.Error {
				err := of(txn.Partition{Topic: t.Topic, Index: p})
				if err != nil {
					c.r.Code = err.Code
				}
				return err
			}))
		}
		c.respond(resp)
	}
	switch {
	case len(bad) > 0:
		answer(func(p txn.Partition) *kerr.Error {
			if err := bad[p]; err != nil {
				return err
			}
			return kerr.OperationNotAttempted
		})
		return
	case len(e.Partitions) == 0:
		answer(nil)
		return
	}
	askTransaction(c.b, e.ID, e, func(a txn.Added, err *kerr.Error) {
		if err == nil {
			err = abortableBefore(5, req.Version, fencedBefore(2, req.Version, a.Err))
		}
		answer(func(txn.Partition) *kerr.Error { return err })
	})
}

// addForBroker serves the versions of brokers. chronik's own brokers ask each other on links
// instead; tools may ask for this.
func addForBroker(c call, req *kmsg.AddPartitionsToTxnRequest) {
	resp := respondTo(c.r, kmsg.NewPtrAddPartitionsToTxnResponse())
	resp.Transactions = make([]kmsg.AddPartitionsToTxnResponseTransaction, len(req.Transactions))
	all := newGather(len(req.Transactions), func() {
		for i := range resp.Transactions {
			for _, t := range resp.Transactions[i].Topics {
				for _, p := range t.Partitions {
					if p.ErrorCode != 0 {
						c.r.Code = p.ErrorCode
					}
				}
			}
		}
		c.respond(resp)
	})
	for i := range req.Transactions {
		x, out := &req.Transactions[i], &resp.Transactions[i]
		out.TransactionalID = x.TransactionalID
		c.addOrVerify(x, func(errs []*kerr.Error) {
			out.Topics = addedTopics(x, errs)
			all.finish()
		})
	}
	all.finish()
}

// addedTopics answers for the partitions of a transaction, in the order of the request.
func addedTopics(x *kmsg.AddPartitionsToTxnRequestTransaction, errs []*kerr.Error) []kmsg.AddPartitionsToTxnResponseTransactionTopic {
	var topics []kmsg.AddPartitionsToTxnResponseTransactionTopic
	for _, t := range x.Topics {
		out := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			one := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			one.Partition, one.ErrorCode = p, errorCode(errs[0])
			errs = errs[1:]
			out.Partitions = append(out.Partitions, one)
		}
		topics = append(topics, out)
	}
	return topics
}

// addOrVerify asks the coordinator of one transaction. done gets an error, or nil, for each
// partition.
func (c call) addOrVerify(x *kmsg.AddPartitionsToTxnRequestTransaction, done func([]*kerr.Error)) {
	var added []txn.AddedPartition
	for _, t := range x.Topics {
		for _, p := range partitionsOf(t.Topic, t.Partitions) {
			added = append(added, txn.AddedPartition{Partition: p})
		}
	}
	each := func(err *kerr.Error) []*kerr.Error {
		errs := make([]*kerr.Error, len(added))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if x.VerifyOnly {
		e := txn.Verify{ID: x.TransactionalID, ProducerID: x.ProducerID, Epoch: x.ProducerEpoch, Partitions: added}
		askTransaction(c.b, e.ID, e, func(v txn.Verified, err *kerr.Error) {
			if err != nil {
				v.Errs = each(err)
			}
			done(v.Errs)
		})
		return
	}
	if len(added) == 0 {
		done(nil)
		return
	}
	e := txn.Add{ID: x.TransactionalID, ProducerID: x.ProducerID, Epoch: x.ProducerEpoch, Version: 2,
		Partitions: added}
	askTransaction(c.b, e.ID, e, func(a txn.Added, err *kerr.Error) {
		if err == nil {
			err = a.Err
		}
		done(each(err))
	})
}
