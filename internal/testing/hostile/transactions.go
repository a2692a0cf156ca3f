package hostile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
)

// strangersIDs is how many transactional ids a connection uses in turn, so that it fences itself.
const strangersIDs = 100

// transactionAttacks use transactions.
func transactionAttacks() []Attack {
	return []Attack{
		{
			Name: "transactions", Aim: "four clients begin transactions, fence and abandon them, and send wrong producer ids, epochs and markers",
			Holds: some, Keeps: some, Part: 100, prepare: victimTopic,
			run: func(ctx context.Context, m *Attacker) error {
				return m.again(ctx, 4, func(c *Conn, i, turn int) error {
					pause.Wait(ctx.Done(), repeatEvery)
					return c.mistreat(m, fmt.Sprintf("stranger-%d-%d", i, turn%strangersIDs), turn)
				})
			},
		},
	}
}

// mistreat begins a transaction of an id and does one of the things that no producer should.
func (c *Conn) mistreat(m *Attacker, id string, turn int) error {
	pid, epoch, err := c.initialize(m, id)
	if err != nil || pid < 0 {
		return err // there is no coordinator yet
	}
	if err := c.transact(m, id, pid, epoch, 0); err != nil {
		return err
	}
	switch turn % 4 {
	case 0: // abandoned
		return nil
	case 1: // ended by another client
		return errors.Join(c.end(m, id, pid, epoch+7), c.end(m, id, pid+1_000_000, epoch), c.end(m, id+"-unknown", pid, epoch))
	case 2: // fenced, and it continues
		if _, _, err := c.initialize(m, id); err != nil {
			return err
		}
		return errors.Join(c.transact(m, id, pid, epoch, 1), c.end(m, id, pid, epoch))
	}
	return c.mark(m, pid, epoch) // by a client that is no coordinator
}

// initialize returns producer id and epoch of a transactional id; -1 if it gets none.
func (c *Conn) initialize(m *Attacker, id string) (pid int64, epoch int16, err error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &id, idleFor
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := c.Ask(req)
	if err != nil {
		return -1, -1, err
	}
	got := resp.(*kmsg.InitProducerIDResponse)
	m.note(codeName(got.ErrorCode))
	return got.ProducerID, got.ProducerEpoch, nil
}

// transact writes a record to the victim in a transaction.
func (c *Conn) transact(m *Attacker, id string, pid int64, epoch int16, sequence int32) error {
	b := record.NewBuilder(record.BatchOptions{Transactional: true,
		Producer: &record.Producer{ID: pid, Epoch: epoch, Sequence: sequence}})
	b.Append(time.Now().UnixMilli(), nil, []byte("x"), nil)
	batch, err := b.Build()
	if err != nil {
		return err
	}
	req := produceOf(victim, -1, batch)
	req.Version, req.TransactionID = 12, &id
	resp, err := c.Ask(req)
	if err == nil {
		m.note(codeName(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode))
	}
	return err
}

// end commits a transaction.
func (c *Conn) end(m *Attacker, id string, pid int64, epoch int16) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = 4, id, pid, epoch, true
	resp, err := c.Ask(req)
	if err == nil {
		m.note(codeName(resp.(*kmsg.EndTxnResponse).ErrorCode))
	}
	return err
}

// mark sends markers to the victim as a coordinator would, of a present and of a future epoch.
func (c *Conn) mark(m *Attacker, pid int64, epoch int16) error {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 1
	for _, coordinator := range []int32{-1, 1_000} {
		req.Markers = append(req.Markers, kmsg.WriteTxnMarkersRequestMarker{ProducerID: pid, ProducerEpoch: epoch, Committed: true,
			CoordinatorEpoch: coordinator, Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: victim, Partitions: []int32{0, 9}}}})
	}
	resp, err := c.Ask(req)
	if err != nil {
		return err
	}
	for _, of := range resp.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, p := range of.Topics[0].Partitions {
			m.note(codeName(p.ErrorCode))
		}
	}
	return nil
}

// readsCommitted returns an error unless a reader of committed records gets the first ones.
func readsCommitted(r kmsg.Response) error {
	if err := fetched(r); err != nil {
		return err
	}
	if p := r.(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.AbortedTransactions) > 0 {
		return fmt.Errorf("a topic without transactions has aborted ones: %w", kerr.InvalidTxnState)
	}
	return nil
}
