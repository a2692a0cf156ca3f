package exchange

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/errcode"
	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
)

// question is a question on its way. done is called once and must not block.
type question struct {
	gate.Question
	done func(gate.Answer)
}

// asker is what the questions have in common that one event asks.
type asker struct {
	id    string
	pid   int64
	epoch int16
}

// askHere asks coordinators of this broker and does not wait for their answers. Adds of one
// producer are one event, so that they are one record.
func (x *Exchange) askHere(list []*question) {
	adds := map[asker][]*question{}
	for _, q := range list {
		if !q.Add {
			x.verify(q)
			continue
		}
		by := asker{q.ID, q.ProducerID, q.Epoch}
		adds[by] = append(adds[by], q)
	}
	for _, q := range list {
		by := asker{q.ID, q.ProducerID, q.Epoch}
		if together := adds[by]; q.Add && len(together) > 0 { // in the order of the first of each
			delete(adds, by)
			x.add(together)
		}
	}
}

// add asks for the partitions of all questions, which are of one producer.
func (x *Exchange) add(list []*question) {
	e := txn.Add{ID: list[0].ID, ProducerID: list[0].ProducerID, Epoch: list[0].Epoch, Version: 2, Deadline: list[0].Deadline}
	for _, q := range list {
		e.Partitions = append(e.Partitions, q.Partitions...)
		if q.Deadline.Before(e.Deadline) {
			e.Deadline = q.Deadline
		}
	}
	x.opt.Submit(e.ID, e, func(answer any, err error) {
		a := gate.Answer{Err: errcode.OfCoordinator(err)}
		if err == nil {
			added := answer.(txn.Added)
			a.Err, a.CoordinatorEpoch = added.Err, added.CoordinatorEpoch
		}
		if a.Err == kerr.UnknownTopicOrPartition && len(list) > 1 { // it concerns one of them
			for _, q := range list {
				x.add([]*question{q})
			}
			return
		}
		for _, q := range list {
			q.done(a)
		}
	})
}

// verify asks whether the partitions of a question are in the transaction.
func (x *Exchange) verify(q *question) {
	e := txn.Verify{ID: q.ID, ProducerID: q.ProducerID, Epoch: q.Epoch, Partitions: q.Partitions}
	x.opt.Submit(e.ID, e, func(answer any, err error) {
		if err != nil {
			q.done(gate.Answer{Err: errcode.OfCoordinator(err)})
			return
		}
		v := answer.(txn.Verified)
		q.done(gate.Answer{Partitions: v.Errs, CoordinatorEpoch: v.CoordinatorEpoch})
	})
}

// parkTime is how long a question of another broker may wait for the end of the transaction before:
// the answers of a call go out together.
const parkTime = 100 * time.Millisecond

// limitedTo returns the earlier of a deadline and the time after a while from now.
func limitedTo(deadline time.Time, while time.Duration) time.Time {
	if end := time.Now().Add(while); end.Before(deadline) {
		return end
	}
	return deadline
}
