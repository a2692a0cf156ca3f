package service

import (
	"context"
	"sync"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
)

// Survey adds up the figures of all shards. It omits those that are loading or do not answer before
// ctx ends.
func (t *Transactions) Survey(ctx context.Context) txn.Figures {
	var mu sync.Mutex
	sum := txn.Figures{IDs: map[txn.State]int{}}
	shards := t.Partitions()
	left, all := len(shards), make(chan struct{})
	for _, p := range shards {
		t.SubmitTo(p, txn.Survey{}, func(answer any, _ error) {
			mu.Lock()
			defer mu.Unlock()
			if f, ok := answer.(txn.Figures); ok {
				for state, n := range f.IDs {
					sum.IDs[state] += n
				}
				sum.Parked += f.Parked
				sum.Undone = append(sum.Undone, f.Undone...)
			}
			if left--; left == 0 {
				close(all)
			}
		})
	}
	if len(shards) > 0 {
		select {
		case <-all:
		case <-ctx.Done():
		}
	}
	mu.Lock()
	defer mu.Unlock()
	known := txn.Figures{IDs: sum.IDs, Parked: sum.Parked, Undone: sum.Undone}
	sum.IDs = map[txn.State]int{} // late answers do not change what the caller has
	return known
}
