package brokers

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/testing/check"
)

// refunds is a topic that is deleted and created again all the time while transactions write to it.
// What they wrote goes with it. But none may stay open in it, and what readers see of it was
// committed.
const refunds = "refunds"

// refundTopic is the present topic of that name, with what was written to any.
type refundTopic struct {
	mu    sync.Mutex
	now   *partition // nil: there is none, or it is not known which
	wrote map[string]*check.Transaction
}

func (r *refundTopic) get() *partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *refundTopic) set(p *partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = p
}

// renewRefunds deletes the topic and creates it again.
func (c *clients) renewRefunds() {
	random := c.random(860)
	a := kadm.NewClient(c.admin)
	for {
		within, cancel := context.WithTimeout(c.ctx, 15*time.Second)
		r, err := a.CreateTopic(within, 1, min(3, int16(c.w.holders())), nil, refunds)
		if err == nil {
			c.refunds.set(&partition{topic: refunds, id: r.ID})
		}
		more := c.pace(random, 3*time.Second)
		if more {
			c.refunds.set(nil)
			_, _ = a.DeleteTopic(within, refunds) // the next CreateTopic shows whether it is away
			more = c.pace(random, 200*time.Millisecond)
		}
		cancel()
		if !more {
			return
		}
	}
}

// refund writes a record to refunds, whichever topic has the name. It reports whether the
// transaction can continue.
func (t *transactor) refund(x *check.Transaction, n int64) bool {
	r := &t.c.refunds
	p := r.get()
	if p == nil {
		return true
	}
	value := t.value(n, p)
	r.mu.Lock()
	if r.wrote == nil {
		r.wrote = map[string]*check.Transaction{}
	}
	r.wrote[value] = x
	r.mu.Unlock()
	if !t.add(p) || t.send(p, value) != nil {
		return false
	}
	t.next[p]++
	return true
}

// judgeRefunds waits until no transaction is open in the last topic, and judges what is visible.
func (c *clients) judgeRefunds() {
	p := c.refunds.get()
	all, _ := c.state(1)
	if p == nil || len(all[refunds]) == 0 {
		return
	}
	for _, broker := range all[refunds][0] {
		var list []check.Record
		why := ""
		if until(patience, func() bool { list, _, why = c.committedLog(broker, p); return why == "" }) != nil {
			c.w.problem("%v at broker %d: %s", p, broker, why)
		}
		for _, r := range list {
			if x := c.refunds.wrote[r.Value]; x == nil || !x.MayShow() {
				c.w.problem("%v at broker %d: %q is visible", p, broker, r.Value)
			}
		}
	}
}
