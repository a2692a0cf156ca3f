package raftstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/chronik-io/chronik/internal/metadata"
)

// answered is the outcome of a read or a write.
type answered struct {
	found   string // of a read
	ok      bool   // the write was made
	unknown bool   // the write was made, is made later, or never
}

// register is the sequential meaning: a value, and a write that succeeds if the value is the one
// that its writer read.
var register = porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		in, out := input.(write), output.(answered)
		fits := in.expects == state
		switch {
		case in.value == "" && out.found == state, out.unknown && !fits, in.value != "" && !out.unknown && !out.ok && !fits:
			return []any{state}
		case out.unknown:
			return []any{state, in.value}
		case out.ok && fits:
			return []any{in.value}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a == b },
}

// write is an operation; without a value, a read.
type write struct{ value, expects string }

// Clients on every member read and write one key while members are cut off and come back. A read is
// a Get that a transaction confirms; after a conflict it waits for the revision that decided it.
// The history is linearizable.
func TestTransactionsAreLinearizable(t *testing.T) {
	for seed := range walks(4) {
		synctest.Test(t, func(t *testing.T) { linearizable(t, seed) })
	}
}

func linearizable(t *testing.T, seed uint64) {
	c, stores := voters(t, 3, nil)
	defer c.close(t)
	ready(t, stores...)
	h := &recorder{began: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() { h.client(ctx, i, stores[i%3], rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	faults := rand.New(rand.NewPCG(seed, 99))
	for ctx.Err() == nil {
		time.Sleep(time.Duration(faults.IntN(2000)) * time.Millisecond)
		s := stores[faults.IntN(3)]
		c.isolate(s, true)
		time.Sleep(time.Duration(faults.IntN(3000)) * time.Millisecond)
		c.isolate(s, false)
	}
	clients.Wait()
	done := 0
	for _, o := range h.operations {
		if out := o.Output.(answered); out.ok || out.found != "" {
			done++
		}
	}
	if done < 50 {
		t.Errorf("seed %d: only %d operations", seed, done)
	}
	model := register.ToModel()
	if !porcupine.CheckOperations(model, h.operations) {
		t.Errorf("seed %d: %d operations are not linearizable", seed, len(h.operations))
	}
}

// recorder collects the history of all clients.
type recorder struct {
	began      time.Time
	mu         sync.Mutex
	count      int64
	operations []porcupine.Operation
}

// moment orders calls: virtual time stands still while goroutines run.
func (h *recorder) moment() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	return h.count
}

func (h *recorder) add(o porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
}

func (h *recorder) client(ctx context.Context, id int, s *Store, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		op := porcupine.Operation{ClientId: id, Input: write{}, Call: h.moment()}
		kv, err := read(ctx, s)
		if err != nil {
			continue
		}
		op.Output, op.Return = answered{found: string(kv.Value)}, h.moment()
		h.add(op)
		if r.IntN(2) == 0 {
			continue
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		w := write{fmt.Sprintf("%d-%d", id, n), string(kv.Value)}
		op = porcupine.Operation{ClientId: id, Input: w, Call: h.moment()}
		_, err = s.Txn(ctx, metadata.Txn{If: []metadata.Compare{{Key: "/a", ModRevision: kv.ModRevision}},
			Put: []metadata.KV{{Key: "/a", Value: []byte(w.value)}}})
		op.Return = h.moment()
		switch {
		case err == nil:
			op.Output = answered{ok: true}
		case errors.Is(err, metadata.ErrConflict):
			op.Output = answered{}
		case errors.Is(err, metadata.ErrUnavailable):
			continue
		default: // it may be made long after the call returned
			op.Output, op.Return = answered{unknown: true}, 1<<60
		}
		h.add(op)
	}
}

// read returns the key as it is at some moment during the call.
func read(ctx context.Context, s *Store) (metadata.KV, error) {
	for {
		kv, _, err := s.Get(ctx, "/a")
		if err != nil {
			return kv, err
		}
		_, err = s.Txn(ctx, metadata.Txn{If: []metadata.Compare{{Key: "/a", ModRevision: kv.ModRevision}}})
		var conflict *metadata.ConflictError
		if !errors.As(err, &conflict) {
			return kv, err
		}
		if err := s.WaitFor(ctx, conflict.Revision); err != nil {
			return kv, err
		}
	}
}
