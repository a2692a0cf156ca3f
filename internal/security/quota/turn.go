package quota

import "time"

// Turn is the place of one request behind what those who share its quotas have used before. A
// client in debt waits for it, on whichever connection, so that it wins nothing with a new one. The
// zero Turn waits for nothing.
//
// A request whose size is known is charged when its Turn begins, so that those behind it wait for
// it, too. Charges of others that Leave has removed are not waited for: a Turn comes at the latest
// when all that is charged, except for its own request, is paid.
type Turn struct {
	tenant *Tenant
	limit  Limit
	n      float64 // charged to limit
	// When the balances of limit and of RequestTime are not below 0. Those who wait for the time
	// of requests pass together: what they use is known afterwards.
	paid, free time.Duration
	asked      time.Duration // when Wait last returned a wait; 0: never
}

// Turn charges n to a limit, and returns the place behind what was charged before.
func (t *Tenant) Turn(l Limit, n int64) (turn Turn) {
	if t == nil {
		return Turn{}
	}
	turn = Turn{tenant: t, limit: l, n: float64(max(n, 0))}
	if b := t.buckets[l]; b != nil {
		turn.paid, turn.n = b.charge(turn.n, t.keeper.clock())
	}
	if b := t.buckets[RequestTime]; b != nil {
		turn.free = time.Duration(b.zero.Load())
	}
	return turn
}

// Wait returns for how long the request still waits, 0 if it may begin. A change of quotas applies
// to those who wait when they ask again. What has passed since the last call counts as waited.
func (p *Turn) Wait() time.Duration {
	if p.tenant == nil {
		return 0
	}
	p.follow()
	if p.tenant == nil {
		return 0
	}
	now := p.tenant.keeper.clock()
	var of *bucket
	var until time.Duration
	if b := p.tenant.buckets[p.limit]; b != nil {
		p.paid = min(p.paid, time.Duration(b.zero.Load())-b.cost(p.n))
		of, until = b, p.paid
	}
	if b := p.tenant.buckets[RequestTime]; b != nil {
		if p.free = min(p.free, time.Duration(b.zero.Load())); of == nil || p.free > until {
			of, until = b, p.free
		}
	}
	if of == nil {
		return 0
	}
	if p.asked > 0 {
		of.waits.Add(int64(now - p.asked))
	} else if until > now {
		p.tenant.held(of, until-now)
	}
	if p.asked = now; until <= now {
		p.asked = 0
		return 0
	}
	return until - now
}

// follow begins again if other quotas apply by now.
func (p *Turn) follow() {
	t := p.tenant
	next := t.keeper.Tenant(t, t.user, t.client)
	if next == t {
		return
	}
	if next == nil || next.buckets != t.buckets {
		p.Leave()
		asked := p.asked
		*p = next.Turn(p.limit, int64(p.n))
		p.asked = asked
		return
	}
	p.tenant = next
}

// Leave removes what was charged, because the request did not arrive.
func (p *Turn) Leave() {
	if p.tenant != nil && p.tenant.buckets[p.limit] != nil {
		p.tenant.buckets[p.limit].refund(p.n)
	}
}
