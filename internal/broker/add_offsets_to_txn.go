package broker

import (
	"cmp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// AddOffsetsToTxn (key 25), versions 0 to 4: adds a group's offsets to a transaction, which are in
// a partition of the groups' topic.
func addOffsetsToTxnAPI() api {
	return apiDef[*kmsg.AddOffsetsToTxnRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.AddOffsetsToTxn), Max: 4},
		asks: asks[*kmsg.AddOffsetsToTxnRequest]{whole: func(m rights, req *kmsg.AddOffsetsToTxnRequest) *kerr.Error {
			return cmp.Or(m.transaction(acl.Write, req.TransactionalID), m.group(acl.Read, req.Group))
		}},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toTransaction(func(req *kmsg.AddOffsetsToTxnRequest) string { return req.TransactionalID }),
		handle:     later(atTransaction(func(req *kmsg.AddOffsetsToTxnRequest) string { return req.TransactionalID }), addOffsetsToTxn),
	}.api()
}

func addOffsetsToTxn(c call, req *kmsg.AddOffsetsToTxnRequest) {
	answer := func(err *kerr.Error) {
		resp := respondTo(c.r, kmsg.NewPtrAddOffsetsToTxnResponse())
		setCode(c.r, &resp.ErrorCode, abortableBefore(4, req.Version, fencedBefore(2, req.Version, err)))
		c.respond(resp)
	}
	// The first group has no partition yet. Kafka answers success, and kafkajs does not repeat the
	// request, so it waits.
	c.b.opt.Groups.WhenCreated(func(err error) {
		p, ok := c.b.opt.Groups.Partition(req.Group)
		if err != nil || !ok {
			answer(kerr.CoordinatorNotAvailable)
			return
		}
		e := txn.Add{ID: req.TransactionalID, ProducerID: req.ProducerID, Epoch: req.ProducerEpoch, Version: 1,
			Partitions: []txn.AddedPartition{{Partition: txn.Partition{Topic: service.OffsetsTopic, Index: p}}}}
		askTransaction(c.b, e.ID, e, func(a txn.Added, err *kerr.Error) {
			if err == nil {
				err = a.Err
			}
			answer(err)
		})
	})
}
