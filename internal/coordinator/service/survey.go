package service

import (
	"context"
	"fmt"

	"github.com/chronik-io/chronik/internal/coordinator/txn"
	"github.com/chronik-io/chronik/internal/view"
)

// Collect asks all shards that a service leads, and returns the answers. If a shard gives none, or
// not before ctx ends, some are missing, and err is why. An answer must be a T.
func Collect[T any](ctx context.Context, s *Service, event any) (answers []T, err error) {
	return collect[T](ctx, s, s.Partitions(), event)
}

func collect[T any](ctx context.Context, s *Service, shards []int32, event any) (answers []T, err error) {
	type outcome struct {
		answer any
		err    error
	}
	done := make(chan outcome, len(shards)) // responses may come after ctx has ended
	for _, p := range shards {
		s.SubmitTo(p, event, func(answer any, err error) { done <- outcome{answer, err} })
	}
	for range shards {
		select {
		case x := <-done:
			answer, ok := x.answer.(T)
			switch {
			case x.err != nil:
				err = x.err
			case !ok:
				err = fmt.Errorf("BUG: the answer to a %T is a %T", event, x.answer)
			default:
				answers = append(answers, answer)
			}
		case <-ctx.Done():
			return answers, ctx.Err()
		}
	}
	return answers, err
}

// Survey adds up what all shards know. It omits those that are loading or do not answer before ctx
// ends.
func (t *Transactions) Survey(ctx context.Context) view.Transactions {
	all := view.Transactions{IDs: map[string]int{}, Shards: t.States(), Raised: t.raised.Load(), MaxTimeout: t.maxTimeout}
	known, _ := Collect[view.Transactions](ctx, t.Service, txn.Survey{})
	for i := range known {
		for state, n := range known[i].IDs {
			all.IDs[state] += n
		}
		all.Parked += known[i].Parked
		all.Undone = append(all.Undone, known[i].Undone...)
	}
	for i := range all.Undone {
		if u := &all.Undone[i]; u.Partition == "" {
			p, _ := t.Partition(u.ID)
			u.Partition = fmt.Sprintf("%s-%d", t.Topic(), p)
		}
	}
	return all
}

// States counts the shards by their state.
func (s *Service) States() map[string]int {
	states := map[string]int{}
	for _, x := range s.Stats() {
		states[x.State]++
	}
	return states
}
