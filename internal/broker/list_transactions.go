package broker

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/protocol"
)

// ListTransactions (key 66), versions 0 to 2: the transactional ids that this broker coordinates.
// If one shard can't be asked, the whole request fails, because an incomplete list looks like a
// complete one.
func listTransactionsAPI() api {
	return apiDef[*kmsg.ListTransactionsRequest]{
		API:        protocol.API{Key: int16(kmsg.ListTransactions), Max: 2},
		needs:      func(_ *kmsg.ListTransactionsRequest, n *needs) { n.cluster(opDescribe) },
		overloaded: kerr.CoordinatorNotAvailable,
		handle:     listTransactions,
	}.api()
}

func listTransactions(c call, req *kmsg.ListTransactionsRequest) {
	resp := respondTo(c.r, kmsg.NewPtrListTransactionsResponse())
	resp.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	filter, unknown, err := transactionFilter(req)
	resp.UnknownStateFilters = unknown
	if err != nil || len(unknown) > 0 && len(filter.States) == 0 { // unknown states match nothing
		setCode(c.r, &resp.ErrorCode, err)
		c.respond(resp)
		return
	}
	var mu sync.Mutex
	shards := c.b.opt.Transactions.Partitions()
	all := newGather(len(shards), func() {
		if resp.ErrorCode != 0 {
			resp.TransactionStates = nil
		}
		slices.SortFunc(resp.TransactionStates, func(a, b kmsg.ListTransactionsResponseTransactionState) int {
			return strings.Compare(a.TransactionalID, b.TransactionalID)
		})
		c.r.Code = resp.ErrorCode
		c.respond(resp)
	})
	for _, p := range shards {
		c.b.opt.Transactions.SubmitTo(p, filter, func(answer any, err error) {
			list, ok := answer.([]txn.Description)
			mu.Lock()
			if errors.Is(err, coordinator.ErrNotCoordinator) {
				// Another broker lists them.
			} else if failed := c.b.coordinatorError(answer, ok, err); failed != nil {
				resp.ErrorCode = failed.Code
			}
			for i := range list {
				one := kmsg.NewListTransactionsResponseTransactionState()
				one.TransactionalID, one.ProducerID, one.TransactionState = list[i].ID, list[i].ProducerID, list[i].State.String()
				resp.TransactionStates = append(resp.TransactionStates, one)
			}
			mu.Unlock()
			all.finish()
		})
	}
	all.finish()
}

// transactionFilter returns the filters of a request, and the states that it names and that do not
// exist.
func transactionFilter(req *kmsg.ListTransactionsRequest) (f txn.List, unknown []string, err *kerr.Error) {
	f = txn.List{ProducerIDs: req.ProducerIDFilters, Longer: -1}
	for _, name := range req.StateFilters {
		if s, ok := txn.ParseState(name); ok {
			f.States = append(f.States, s)
		} else if name != "Dead" { // Kafka knows it, and no id is in it
			unknown = append(unknown, name)
		}
	}
	if len(req.StateFilters) > 0 && len(unknown) == 0 && len(f.States) == 0 {
		f.States = []txn.State{-1} // matches nothing
	}
	if req.DurationFilterMillis >= 0 {
		f.Longer = time.Duration(min(req.DurationFilterMillis, maxMillis)) * time.Millisecond
	}
	if p := req.TransactionalIDPattern; p != nil && *p != "" {
		re, bad := regexp.Compile("^(?:" + *p + ")$")
		if bad != nil {
			return f, unknown, kerr.InvalidRegularExpression
		}
		f.Pattern = re
	}
	return f, unknown, nil
}

// maxMillis is the longest duration in ms that a time.Duration can hold.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)
