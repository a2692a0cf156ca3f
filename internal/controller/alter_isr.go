package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/chronik-io/chronik/internal/metadata"
)

// AlterISR requests changes of the ISR and the ELR of partitions, each in a transaction of its own,
// so that a conflict concerns one partition. A change without an error was accepted. If its error
// matches metadata.ErrConflict, and is a *metadata.ConflictError, it was refused: retrying cannot
// help, because its revisions are in the past. If its error is an *Error, it is invalid and was not
// made. After any other error it may have been accepted. AlterISR blocks until all changes have an
// outcome or the context ends.
func (c *Controller) AlterISR(ctx context.Context, changes []metadata.ISRChange) []error {
	errs := make([]error, len(changes))
	var all sync.WaitGroup
	free := make(chan struct{}, submitters)
	for i := range changes {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			errs[i] = c.alterISR(ctx, &changes[i])
		})
	}
	all.Wait()
	return errs
}

func (c *Controller) alterISR(ctx context.Context, x *metadata.ISRChange) error {
	key := metadata.PartitionKey(x.Topic, x.Partition)
	kv, revision, err := c.opts.Store.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case revision < x.Revision:
		return fmt.Errorf("this node shows revision %d, and the change depends on %d", revision, x.Revision)
	case kv.ModRevision != x.Revision:
		return &metadata.ConflictError{Revision: revision, Key: key, Found: kv.ModRevision, Expected: x.Revision}
	}
	kv.Key = key
	p, err := metadata.DecodePartition(kv)
	if err != nil {
		return err
	}
	p.ISR, p.ELR = slices.Clone(x.ISR), slices.Clone(x.ELR)
	p.PartitionEpoch++
	msg := p.Check()
	if msg == "" && len(p.ISR) == 0 {
		msg = "no replica would be in sync"
	}
	if msg != "" {
		return refuse(InvalidRequest, "invalid ISR %v and ELR %v of a partition with the replicas %v: %s", x.ISR, x.ELR, p.Replicas, msg)
	}
	txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}, Put: []metadata.KV{{Key: key, Value: p.Encode()}}}
	for _, m := range x.Members {
		txn.If = append(txn.If, metadata.Compare{Key: metadata.BrokerKey(m.Broker), ModRevision: m.Epoch},
			metadata.Compare{Key: metadata.LivenessKey(m.Broker), ModRevision: m.Liveness})
	}
	_, err = c.opts.Store.Txn(ctx, txn)
	return err
}
