package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// EndTxn (key 26), versions 0 to 5: commits or aborts a transaction. The answer comes when the
// decision is durable; markers follow. From version 5 on, the producer gets a new epoch with each
// transaction (KIP-890).
func endTxnAPI() api {
	return apiDef[*kmsg.EndTxnRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.EndTxn), Max: 5, Quick: true},
		asks: asks[*kmsg.EndTxnRequest]{whole: func(m rights, req *kmsg.EndTxnRequest) *kerr.Error {
			return m.transaction(acl.Write, req.TransactionalID)
		}},
		refuse: func(r *network.Request, _ *kmsg.EndTxnRequest, code *kerr.Error) kmsg.Response {
			resp := respondTo(r, kmsg.NewPtrEndTxnResponse())
			resp.ErrorCode = code.Code
			return resp
		},
		overloaded: kerr.CoordinatorNotAvailable,
		route:      toTransaction(func(req *kmsg.EndTxnRequest) string { return req.TransactionalID }),
		handle:     later(atTransaction(func(req *kmsg.EndTxnRequest) string { return req.TransactionalID }), endTxn),
	}.api()
}

func endTxn(c call, req *kmsg.EndTxnRequest) {
	e := txn.End{ID: req.TransactionalID, ProducerID: req.ProducerID, Epoch: req.ProducerEpoch, Commit: req.Commit, Version: 1}
	if req.Version >= 5 {
		e.Version = 2
	}
	askTransaction(c.b, e.ID, e, func(next txn.Identity, err *kerr.Error) {
		resp := respondTo(c.r, kmsg.NewPtrEndTxnResponse())
		if err == nil {
			err = abortableBefore(4, req.Version, fencedBefore(2, req.Version, next.Err))
		}
		if setCode(c.r, &resp.ErrorCode, err); err == nil {
			resp.ProducerID, resp.ProducerEpoch = next.ProducerID, next.Epoch
		}
		c.respond(resp)
	})
}
