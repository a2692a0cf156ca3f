package broker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/security/quota"
)

// keeperOf returns a Keeper with one quota, for all users that have none of their own.
func keeperOf(l quota.Limit, rate float64, clock func() time.Duration) *quota.Keeper {
	k := quota.NewKeeper(clock)
	q := quota.Quota{Entity: quota.Entity{User: quota.Any}}
	q.Limits[l] = rate
	k.Set(quota.Compile(slices.Values([]quota.Quota{q})))
	return k
}

// indebted returns a Keeper whose clock stands still, and under which the clients of tests have to
// wait for d.
func indebted(d time.Duration) *quota.Keeper {
	k := keeperOf(quota.RequestTime, 100, func() time.Duration { return time.Hour })
	k.Tenant(nil, "ANONYMOUS", "").ChargeTime(d + 250*time.Millisecond)
	return k
}

// virtual is a Keeper's clock in a bubble of synctest.
func virtual() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// A producer over its quota is answered at once and its connection is not read for the time that
// the answer names, so that it gets its rate; another one does not wait.
func TestAProducerGetsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100_000
		n := newNode(t, func(o *nodeOptions) {
			o.pipe, o.broker = true, func(b *Options) { b.Quotas = keeperOf(quota.Produced, rate, virtual()) }
		})
		id := n.topic(t, "t", 1)
		w := n.dial(t)
		defer w.Close()
		began, sent := time.Now(), 0
		batch := batchOf(t, record.BatchOptions{}, 1, strings.Repeat("x", 10_000))
		for time.Since(began) < 10*time.Second {
			req := produceRequest("t", id, 1, batch)
			req.Version = 9
			sent += len(req.AppendTo(nil))
			at := time.Now()
			resp := ask[*kmsg.ProduceResponse](t, w, 9, req)
			if waited := time.Since(at); resp.ThrottleMillis > 0 && waited > 200*time.Millisecond {
				t.Fatalf("the answer came after %v", waited)
			}
		}
		share := float64(sent) / rate / time.Since(began).Seconds()
		if share < 0.95 || share > 1.05 {
			t.Errorf("the producer got %.3f of its rate", share)
		}
	})
}
