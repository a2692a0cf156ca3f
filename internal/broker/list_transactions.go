package broker

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/coordinator/service"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/pattern"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
)

// ListTransactions (key 66), versions 0 to 2: the transactional ids that this broker coordinates.
// If one shard can't be asked, the whole request fails, because an incomplete list looks like a
// complete one. Those that the client may not describe are left out. Kafka's admin client repeats
// this request after COORDINATOR_LOAD_IN_PROGRESS only.
func listTransactionsAPI() api {
	return apiDef[*kmsg.ListTransactionsRequest]{
		API:        protocol.API{Key: int16(kmsg.ListTransactions), Max: 2},
		asks:       asks[*kmsg.ListTransactionsRequest]{inside: true},
		overloaded: kerr.CoordinatorLoadInProgress,
		route:      route[*kmsg.ListTransactionsRequest]{by: byAll, join: joinTransactions},
		handle:     inBackground(atTransactions, listTransactions),
	}.api()
}

func listTransactions(ctx context.Context, b *Handler, r *network.Request, req *kmsg.ListTransactionsRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrListTransactionsResponse())
	resp.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	filter, unknown := transactionFilter(req)
	resp.UnknownStateFilters = unknown
	_, err := transactionPattern(req.TransactionalIDPattern, nil)
	if err != nil || len(unknown) > 0 && len(filter.States) == 0 { // unknown states match nothing
		setCode(r, &resp.ErrorCode, err)
		return resp
	}
	lists, failed := service.Collect[[]txn.Description](ctx, b.opt.Transactions, filter)
	if failed != nil {
		err = b.listError(r, failed)
	}
	list, m := slices.Concat(lists...), b.rights(r)
	list = slices.DeleteFunc(list, func(d txn.Description) bool { return !m.may(acl.Describe, acl.TransactionalID, d.ID) })
	if err == nil {
		list, err = matchingTransactions(ctx, list, req.TransactionalIDPattern)
	}
	if err != nil {
		setCode(r, &resp.ErrorCode, err)
		resp.TransactionStates = nil
		return resp
	}
	sorts.Sort(list, func(a, b txn.Description) int { return strings.Compare(a.ID, b.ID) })
	for i := range list {
		one := kmsg.NewListTransactionsResponseTransactionState()
		one.TransactionalID, one.ProducerID, one.TransactionState = list[i].ID, list[i].ProducerID, list[i].State.String()
		resp.TransactionStates = append(resp.TransactionStates, one)
	}
	return resp
}

// matchingTransactions returns those whose ids match a pattern; nil matches any. It is not called
// on a shard's goroutine, where it would keep transactions from ending.
func matchingTransactions(ctx context.Context, list []txn.Description, p *string) ([]txn.Description, *kerr.Error) {
	pattern, err := transactionPattern(p, list)
	if err != nil || pattern == nil {
		return list, err
	}
	list = slices.DeleteFunc(list, func(d txn.Description) bool { return ctx.Err() != nil || !pattern.MatchString(d.ID) })
	if ctx.Err() != nil { // the list may lack some
		return nil, kerr.CoordinatorNotAvailable
	}
	return list, nil
}

// transactionFilter returns the filters of a request that shards apply, and the states that it
// names and that do not exist.
func transactionFilter(req *kmsg.ListTransactionsRequest) (f txn.List, unknown []string) {
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
	return f, unknown
}

// transactionPattern compiles the pattern of a request for the ids in a list, nil if it has none.
func transactionPattern(p *string, list []txn.Description) (*regexp.Regexp, *kerr.Error) {
	if p == nil || *p == "" {
		return nil, nil
	}
	ids := 0
	for i := range list {
		ids += len(list[i].ID)
	}
	re, _, err := pattern.Compile(*p, ids)
	if err != nil {
		return nil, kerr.InvalidRegularExpression
	}
	return re, nil
}

// maxMillis is the longest duration in ms that a time.Duration can hold.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)
