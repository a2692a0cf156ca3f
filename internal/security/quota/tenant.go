package quota

import (
	"math"
	"time"

	"github.com/chronik-io/chronik/internal/security/refusals"
)

// Tenant is the buckets that one client uses, as one of its sessions remembers them. nil has no
// quota. Several goroutines may use it.
type Tenant struct {
	keeper  *Keeper
	rules   *Rules
	user    string
	client  string
	buckets [Connections]*bucket // nil: no quota
}

// Limited reports whether the client has a quota of this limit.
func (t *Tenant) Limited(l Limit) bool { return t != nil && t.buckets[l] != nil }

// Now returns the time of the clock by which the client is charged. The client must have a quota.
func (t *Tenant) Now() time.Duration { return t.keeper.clock() }

// Charge takes n from the client's quota.
func (t *Tenant) Charge(l Limit, n int64) {
	if t.Limited(l) && n > 0 {
		t.buckets[l].charge(float64(n), t.keeper.clock())
	}
}

// ChargeTime takes the time of a request from the client's quota of RequestTime.
func (t *Tenant) ChargeTime(d time.Duration) {
	if t.Limited(RequestTime) && d > 0 {
		t.buckets[RequestTime].charge(d.Seconds()*100, t.keeper.clock())
	}
}

// Wait returns for how long the client has to wait now, because of this limit or of RequestTime: at
// most MaxWait. It counts the time as one for which the client was asked to wait.
func (t *Tenant) Wait(l Limit) time.Duration {
	if t == nil {
		return 0
	}
	now, longest := t.keeper.clock(), time.Duration(0)
	var of *bucket
	for _, x := range [...]Limit{l, RequestTime} {
		if b := t.buckets[x]; b != nil && b.debt(now) > longest {
			longest, of = b.debt(now), b
		}
	}
	if of == nil {
		return 0
	}
	t.held(of, longest)
	longest = min(longest, MaxWait)
	of.waits.Add(int64(longest))
	return longest
}

// Take charges n if the client is not in debt, in one step, and reports whether it did. Nothing may
// be taken in debt, too.
func (t *Tenant) Take(l Limit, n int64) bool {
	if !t.Limited(l) || n <= 0 {
		return true
	}
	now := t.keeper.clock()
	paid, _, ok := t.buckets[l].chargeWithin(float64(n), now, 0)
	if !ok {
		t.held(t.buckets[l], paid-now)
	}
	return ok
}

// held reports that the client has to wait, unless the quotas changed while its request was served:
// Set has removed what was reported of the former ones.
func (t *Tenant) held(by *bucket, wait time.Duration) {
	if t.rules == t.keeper.rules.Load() {
		by.held(t.keeper.Refusals, refusals.Who{User: t.user, ClientID: t.client}, wait)
	}
}

// Second returns how much the client may use in one second, math.MaxInt64 without a quota.
func (t *Tenant) Second(l Limit) int64 {
	if !t.Limited(l) {
		return math.MaxInt64
	}
	return max(1, int64(min(math.Float64frombits(t.buckets[l].rate.Load()), math.MaxInt64/2)))
}
