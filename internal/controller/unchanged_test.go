package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// A broker whose state is behind finds nothing to change, and the cluster has something else by
// then. What it acknowledges, the cluster has.
func TestWhatHasNotToChangeIsConfirmed(t *testing.T) {
	ctx := context.Background()
	a, b := binding("a"), binding("b")
	limit := func(name string, v float64) QuotaChange {
		return QuotaChange{Entity: quota.Entity{User: quota.Of(name)}, Set: map[string]float64{"producer_byte_rate": v}}
	}
	both := func(t *testing.T, s metadata.Store) {
		if got := bindings(t, s); !slices.Equal(got, []acl.Binding{a, b}) {
			t.Errorf("the rules are %v", got)
		}
	}
	none := func(t *testing.T, s metadata.Store) {
		if got := bindings(t, s); len(got) != 0 {
			t.Errorf("the rules are %v", got)
		}
	}
	limited := func(t *testing.T, s metadata.Store) {
		for q := range image(t, s).Quotas() {
			if !maps.Equal(q.Limits, map[string]float64{"producer_byte_rate": 1}) {
				t.Errorf("%v has the limits %v", q.Entity, q.Limits)
			}
		}
	}
	create := func(rules ...acl.Binding) func(*Controller) error {
		return func(c *Controller) error { _, _, err := c.CreateACLs(ctx, rules); return err }
	}
	remove := func(c *Controller) error {
		_, _, err := c.DeleteACLs(ctx, []acl.Filter{acl.AllBindings()})
		return err
	}
	alter := func(changes ...QuotaChange) func(*Controller) error {
		return func(c *Controller) error { _, err := c.AlterQuotas(ctx, changes); return err }
	}
	features := func(level int16) func(*Controller) error {
		return func(c *Controller) error {
			_, err := c.SetFeatures(ctx, Features{Transactions: level, Shares: -1}, false)
			return err
		}
	}
	for name, x := range map[string]struct {
		had, meanwhile, asked func(*Controller) error
		want                  func(*testing.T, metadata.Store)
	}{
		"rules that exist":         {create(a, b), remove, create(a, b), both},
		"one of two rules exists":  {create(a), remove, create(a, b), both},
		"no rule is selected":      {create(), create(a), remove, none},
		"one of two is selected":   {create(a), create(b), remove, none},
		"limits that are set":      {alter(limit("kim", 1)), alter(limit("kim", 2)), alter(limit("kim", 1)), limited},
		"one of two limits is set": {alter(limit("kim", 1)), alter(limit("kim", 2)), alter(limit("kim", 1), limit("eve", 1)), limited},
		"the features have a level": {features(1), features(2), features(1), func(t *testing.T, s metadata.Store) {
			if got := image(t, s).TransactionVersion(); got != 1 {
				t.Errorf("the level is %d", got)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := cluster(t, 1)
			if err := x.had(c); err != nil {
				t.Fatal(err)
			}
			behind := &hook{Store: s, before: func() {
				if err := x.meanwhile(c); err != nil {
					t.Fatal(err)
				}
			}}
			if err := x.asked(over(behind)); err != nil || behind.before != nil {
				t.Fatalf("the leader was asked: %v; %v", behind.before == nil, err)
			}
			x.want(t, s)
		})
	}
}

// The same for replicas that a partition has already.
func TestReplicasThatNeedNotMoveAreConfirmed(t *testing.T) {
	ctx := context.Background()
	w := three(t)
	behind := &hook{Store: w.store, before: func() {
		_, errs := New(Options{Store: w.store}).Reassign(ctx, w.applier, []Reassignment{{tpA, []int32{3, 2, 1}, false}})
		w.must(errors.Join(errs...))
	}}
	_, errs := New(Options{Store: behind}).Reassign(ctx, w.applier, []Reassignment{{tpA, []int32{1, 2, 3}, false}})
	if got := w.reassigned(); errs[0] != nil || got != "[1 2 3] adding [] removing []" || behind.before != nil {
		t.Errorf("%v: %s; the leader was asked: %v", errs[0], got, behind.before == nil)
	}
}
