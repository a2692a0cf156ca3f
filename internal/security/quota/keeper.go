package quota

import (
	"cmp"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/security/origin"
	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/view"
)

// Bounds of a Keeper.
const (
	// MaxOwners is how many buckets there are at most. All further clients share one bucket for
	// each quota that applies to them.
	MaxOwners = 100_000
	// forgetAfter is how long a bucket is kept that is not used. If there are MaxOwners, every full
	// one is forgotten: a new one of the same owner is also full. So a client that uses ever more
	// client ids takes no bucket from others.
	forgetAfter = time.Hour
	// sweepEvery is the least time between two searches for buckets to forget, and fullEvery if
	// there are MaxOwners.
	sweepEvery = time.Minute
	fullEvery  = time.Second
)

// Keeper has the balances of a broker's clients. Several goroutines may use it. A nil Keeper has no
// quotas.
type Keeper struct {
	// Refusals counts the clients that have to wait; it is set before the Keeper is used. nil: they
	// are not counted.
	Refusals *refusals.Table

	clock func() time.Duration
	rules atomic.Pointer[Rules]

	mu      sync.Mutex
	buckets map[bucketKey]*bucket
	swept   time.Duration
	most    int
}

type bucketKey struct {
	owner Entity
	limit Limit
}

// NewKeeper returns a Keeper without quotas. clock returns the time since some moment; it must not
// go back.
func NewKeeper(clock func() time.Duration) *Keeper {
	return &Keeper{clock: clock, buckets: map[bucketKey]*bucket{}, most: MaxOwners}
}

// Set replaces the rules. Balances stay; clients without a quota are forgotten, and so is that
// clients had to wait for a quota that does not apply to them any more.
func (k *Keeper) Set(r *Rules) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rules.Store(r)
	maps.DeleteFunc(k.buckets, func(key bucketKey, _ *bucket) bool { return r == nil || !r.uses(key.limit, key.owner) })
	for _, kind := range [...]view.RefusalKind{view.RefusedQuota, view.RefusedConnection} {
		k.Refusals.Forget(kind, func(x view.Refused) bool { return !r.refuses(&x) })
	}
}

// Any reports whether there are quotas.
func (k *Keeper) Any() bool { return k != nil && k.rules.Load() != nil }

// Tenant returns the buckets of a client; nil if no quota applies to it. was is a former answer for
// the same user, or nil: it is returned again if it is still right.
func (k *Keeper) Tenant(was *Tenant, user, client string) *Tenant {
	if !k.Any() {
		return nil
	}
	r := k.rules.Load()
	client = Distinct(client)
	if was != nil && was.rules == r && was.client == client {
		return was
	}
	t := &Tenant{keeper: k, rules: r, user: user, client: client}
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range Connections {
		if f, ok := r.Client(l, user, client); ok {
			t.buckets[l] = k.bucket(l, f)
		}
	}
	if t.rules = k.rules.Load(); t.rules != r { // they changed, or buckets were forgotten
		t.rules = nil
	}
	return t
}

// bucket returns the bucket of a quota's owner. The caller holds mu.
func (k *Keeper) bucket(l Limit, f Applied) *bucket {
	now := k.clock()
	key := bucketKey{f.Owner, l}
	b := k.buckets[key]
	if b == nil {
		k.sweep(now)
		if len(k.buckets) >= k.most {
			key.owner = f.Rule
			b = k.buckets[key]
		}
	}
	if b == nil {
		b = newBucket(key.owner, l, f.Rate, now)
		k.buckets[key] = b
	}
	b.setRate(f.Rate, now)
	if was := b.rule.Load(); was == nil || *was != f.Rule {
		b.rule.Store(&f.Rule)
	}
	return b
}

// sweep forgets buckets that were not used for long, or all that are full. Their tenants ask again,
// because the rules are other ones. The caller holds mu.
func (k *Keeper) sweep(now time.Duration) {
	n, every := len(k.buckets), sweepEvery
	full := n >= k.most
	if full {
		every = fullEvery
	}
	if now-k.swept < every {
		return
	}
	k.swept = now
	for key, b := range k.buckets {
		if unused := now - time.Duration(b.zero.Load()); unused > forgetAfter || full && unused >= b.depth {
			delete(k.buckets, key)
		}
	}
	if r := k.rules.Load(); r != nil && len(k.buckets) < n {
		same := *r
		k.rules.Store(&same)
	}
}

// Connect charges a new connection of an address. If it has to wait, nothing is charged, and
// Connect returns for how long.
func (k *Keeper) Connect(ip netip.Addr) time.Duration {
	if k == nil {
		return 0
	}
	r := k.rules.Load()
	if r == nil || !r.has[Connections] {
		return 0
	}
	f, ok := r.Address(ip)
	if !ok {
		return 0
	}
	k.mu.Lock() // asking and charging are one step: connections come on several goroutines
	defer k.mu.Unlock()
	b, now := k.bucket(Connections, f), k.clock()
	if d := min(b.debt(now), MaxWait); d > 0 {
		b.waits.Add(int64(d))
		b.held(k.Refusals, refusals.Who{Address: origin.Text(ip)}, d)
		return d
	}
	b.charge(1, now)
	return 0
}

// Use is what one owner of a quota did.
type Use struct {
	Owner  Entity
	Limit  Limit
	Waited time.Duration // for how long its clients were asked to wait, all together
	Debt   time.Duration // for how long they have to wait now
}

// Most returns the owners whose clients had to wait longest, at most n, and none that never had to.
func (k *Keeper) Most(n int) []Use {
	now := k.clock()
	k.mu.Lock()
	var all []Use
	for key, b := range k.buckets {
		if w := b.waits.Load(); w > 0 {
			all = append(all, Use{Owner: key.owner, Limit: key.limit, Waited: time.Duration(w), Debt: b.debt(now)})
		}
	}
	k.mu.Unlock()
	sorts.Sort(all, func(a, b Use) int {
		if c := cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Limit, b.Limit)); c != 0 {
			return c
		}
		return cmp.Compare(a.Owner.String(), b.Owner.String()) // which takes longer
	})
	return all[:min(n, len(all))]
}
