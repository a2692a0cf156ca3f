package desk

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/coordinator/errcode"
	"github.com/chronik-io/chronik/internal/coordinator/outbound"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate"
	"github.com/chronik-io/chronik/internal/coordinator/sharestate/format"
)

// answerTime is how long the receiver of a call waits for its items. Those without a result then
// get an error, and their sender repeats them: one coordinator whose disk hangs must not hold up
// the items of others.
const answerTime = 2 * time.Second

// shard is what has the items that one event asks for.
type shard struct {
	partition int32
	op        op
}

// submit hands items, which are located, to the shards of this broker: all that are for one shard
// and ask for the same are one event. It calls done once for each event, with the indexes of its
// items and their results. Those for leaders are together, too.
func (d *Desk) submit(list []*request, done func(of []int, results []response)) {
	var order []shard
	of := map[shard][]int{}
	var led []int
	for i, q := range list {
		if q.op == opInspect {
			led = append(led, i)
			continue
		}
		if q.op.ofLeader() {
			d.operated(q, func(r response) { done([]int{i}, []response{r}) })
			continue
		}
		at := shard{q.at, q.op}
		if of[at] == nil {
			order = append(order, at)
		}
		of[at] = append(of[at], i)
	}
	if len(led) > 0 {
		done(led, mapped(led, func(i int) response { return d.inspected(list[i].key) }))
	}
	for _, at := range order {
		indexes := of[at]
		event := eventOf(at.op, mapped(indexes, func(i int) *request { return list[i] }))
		d.opt.Coordinators.SubmitTo(at.partition, event, func(answer any, err error) {
			results := responsesOf(answer)
			if err != nil || len(results) != len(indexes) {
				results = mapped(indexes, func(int) response { return response{err: d.refusalOf(answer, err)} })
			}
			done(indexes, results)
		})
	}
}

// inspected returns what this broker has of a share partition as the leader.
func (d *Desk) inspected(k format.Key) response {
	inspect := d.inspect.Load()
	if inspect == nil {
		return response{err: kerr.NotLeaderForPartition}
	}
	led := (*inspect)(k)
	return response{err: led.Err, led: led}
}

// operated hands an operator's request to this broker as the leader.
func (d *Desk) operated(q *request, done func(response)) {
	operate := d.operate.Load()
	if operate == nil {
		done(response{err: kerr.NotLeaderForPartition})
		return
	}
	(*operate)(sharestate.Operating{Key: q.key, Body: q.body}, q.op == opOperate, func(o sharestate.Operated) {
		done(response{err: o.Err, body: o.Body})
	})
}

// refusalOf returns the error for a coordinator that has not handled an event.
func (d *Desk) refusalOf(answer any, err error) *kerr.Error {
	if err == nil { // a bug; the request is not repeated
		d.opt.Logger.Error("BUG: a share coordinator has sent an unknown answer", zap.Any("answer", answer))
		return kerr.UnknownServerError
	}
	return errcode.OfCoordinator(err)
}

// Handle handles a call of another broker's Desk, until ctx ends. body is not kept.
func (d *Desk) Handle(ctx context.Context, _ int32, body []byte) ([]byte, error) {
	items, err := decodeCall(body)
	if err == nil {
		err = ctx.Err() // the sender does not wait any longer, and repeats the items
	}
	if err != nil {
		return nil, err
	}
	var requests []*request
	var at []int // of the requests in items
	for i := range items {
		if q := &items[i]; q.op == opChanged {
			d.leaderChanged(sharestate.Changed{Key: q.key, ID: q.id, Leader: q.leader})
		} else {
			if !q.op.ofLeader() {
				d.locate(q)
			}
			requests, at = append(requests, q), append(at, i)
		}
	}
	results := outbound.NewCollector[response](len(requests))
	d.submit(requests, func(of []int, list []response) {
		for i, r := range list {
			results.Set(of[i], r)
		}
	})
	results.Wait(ctx, answerTime)
	all := make([]response, len(items))
	for i, r := range results.Take(response{err: kerr.RequestTimedOut}) {
		all[at[i]] = r
	}
	return encodeAnswer(items, all), nil
}
