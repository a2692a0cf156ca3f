package quota

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/view"
)

// The size of buckets, as the time in which their rate fills them.
const (
	depth      = 250 * time.Millisecond
	burstDepth = 11 * time.Second // Kafka's default number of windows
)

// MaxWait bounds how long a client waits at a time; a larger debt is paid in several turns. The
// request that the client sends next waits unread for that long, and it has a timeout, in Kafka's
// clients 30 s by default.
const MaxWait = 25 * time.Second

// maxDebt bounds a debt, so that a client that was slowed down by mistake is free after that time.
const maxDebt = time.Hour

// bucket is the token bucket of one owner and limit. All in it may be used by several goroutines.
//
// Its balance is kept as the time at which it is 0: a bucket whose rate is 1,000 bytes a second,
// and whose zero is 2 s ahead, is in debt with 2,000 bytes. So time passes without a write, and a
// charge is one atomic exchange. golang.org/x/time/rate takes a lock, and refuses what is above its
// burst; here any request is served, and its debt delays the next one.
type bucket struct {
	owner Entity
	limit Limit
	depth time.Duration
	rate  atomic.Uint64 // a second, as the bits of a float64
	zero  atomic.Int64  // ns, of the clock that is given
	// waits is for how long clients were asked to wait, in ns.
	waits atomic.Int64
	// rule is whose quota sets the rate: the owner's, or a default.
	rule atomic.Pointer[Entity]
}

func newBucket(owner Entity, l Limit, rate float64, now time.Duration) *bucket {
	b := &bucket{owner: owner, limit: l, depth: depth}
	if l == Mutations || l == Connections {
		b.depth = burstDepth
	}
	b.rate.Store(math.Float64bits(rate))
	b.zero.Store(int64(now - b.depth))
	return b
}

// held reports to the table of refusals that a client has to wait.
func (b *bucket) held(in *refusals.Table, who refusals.Who, wait time.Duration) {
	kind := view.RefusedQuota
	if b.limit.OfAddress() {
		kind = view.RefusedConnection
	}
	rule := ""
	if r := b.rule.Load(); r != nil {
		rule = r.String()
	}
	in.Refused(kind, b.limit.String(), rule, who, wait, func() (text, lift string) {
		return rateText(math.Float64frombits(b.rate.Load())), ""
	})
}

func rateText(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// cost returns the time in which the rate pays for n.
func (b *bucket) cost(n float64) time.Duration {
	return time.Duration(min(n/math.Float64frombits(b.rate.Load())*float64(time.Second), float64(maxDebt)))
}

// charge takes n from the bucket, or less if the debt reaches its bound. It returns when what was
// taken before is paid, and what it took: no more may be refunded.
func (b *bucket) charge(n float64, now time.Duration) (paid time.Duration, took float64) {
	paid, took, _ = b.chargeWithin(n, now, math.MaxInt64)
	return paid, took
}

// chargeWithin is charge, unless the debt is already greater than most.
func (b *bucket) chargeWithin(n float64, now, most time.Duration) (paid time.Duration, took float64, ok bool) {
	cost := b.cost(n)
	for {
		old := b.zero.Load()
		if paid = time.Duration(old); paid-now > most {
			return paid, 0, false
		}
		from := max(paid, now-b.depth)
		zero := min(from+cost, now+maxDebt)
		if !b.zero.CompareAndSwap(old, int64(zero)) {
			continue
		}
		if cost > 0 {
			took = n * max(float64(zero-from), 0) / float64(cost)
		}
		return paid, took, true
	}
}

// refund removes a charge of n.
func (b *bucket) refund(n float64) { b.zero.Add(-int64(b.cost(n))) }

// debt returns how long it takes until the balance is not below 0.
func (b *bucket) debt(now time.Duration) time.Duration {
	return max(0, time.Duration(b.zero.Load())-now)
}

// setRate changes the rate. A debt stays the same number of bytes.
func (b *bucket) setRate(rate float64, now time.Duration) {
	was := math.Float64frombits(b.rate.Swap(math.Float64bits(rate)))
	if was == rate {
		return
	}
	for {
		old := b.zero.Load()
		debt := time.Duration(old) - now
		if debt <= 0 || b.zero.CompareAndSwap(old, int64(now)+int64(min(float64(debt)*was/rate, float64(maxDebt)))) {
			return
		}
	}
}
