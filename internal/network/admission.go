package network

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// A request's memory is charged in two places, one after the other: to the line of frames
// under way while its bytes arrive, and to a budget from when it is whole until it is
// answered. What a client announces costs nothing; what it sends costs in proportion.
//
//	buffered ──1 KiB there, more to come──▶ under way ──whole──▶ with the handler
//	    └───────────────all of it there────────────────────────────────▲
//
// A frame under way has memory for at most wholeAt times what has arrived of it, taken
// in steps. There are two classes of frames under way, by the size that they announce:
// small ones, of at most smallArrival bytes, and large ones. Both may use the memory of
// the kind, except that large frames leave the smallShare'th part of it to small ones, so
// that large frames that trickle in don't delay small ones. A frame that needs a step for
// which its class has no room waits in the line of its class, first come, first served,
// and keeps what it holds: bytes that were read can't be put back into a socket. Frames
// that hold and wait would stand still for ever, so one frame of each class, the exempt
// one, gets every step at once, room or not.
//
// That ends every wait, by two facts, and they hold for each class whatever the other one
// does. The line of a class is empty unless a frame of the class is exempt, since its head
// becomes exempt when there is no other. And the exempt frame waits for nothing but its
// client, whom the rule below bounds, and then for the budget of whole requests, whose
// holders are with the handler and wait for no frame. When it is through, what it held is
// free and the next in line is exempt. A large frame that exceeds the memory of the kind is
// exempt from the step on at which it no longer fits; then other large frames that need a
// step wait, small ones have their part, and requests that arrive whole pass. All memory of
// a kind is bounded by the size, one frame of each class, and the budget.
//
// The rule: while there is a line, a frame under way that gets less than lagBytes in a
// lagTime loses its connection (ClosedLagging). So a client that sends 64 KiB in every
// second never does, and one that stops holds up others for twice lagTime and a bit.
// Time in line does not count.
type admission struct {
	name  string
	whole *bufpool.Budget // requests that have arrived and are not answered
	size  int64           // bytes that frames under way may hold together, except the exempt ones
	most  int             // bytes of the largest frame

	mu           sync.Mutex
	receiving    map[*arrival]struct{}
	small, large arrivalClass
	watch        *time.Timer // runs while there is a line
	stats        bufpool.BudgetStats
	lagged       uint64
}

// arrivalClass is the frames under way of one class.
type arrivalClass struct {
	held   int64
	exempt *arrival
	queue  []*arrival
}

const (
	// stepFactor times what has arrived of a frame is what it gets memory for. Each step
	// copies what the steps before have: a fifteenth of all bytes, and half of them
	// where a step is just short of the frame. wholeAt avoids the latter.
	stepFactor = 16
	wholeAt    = 2 * stepFactor
	// A client that sends lagBytes each second, in one piece, passes wherever a lagTime
	// begins.
	lagTime  = 1500 * time.Millisecond
	lagBytes = 64 << 10
	// Most requests of ordinary clients have at most smallArrival bytes.
	smallArrival = 64 << 10
	smallShare   = 8
)

// arrival is a frame under way; a connection has one at a time.
type arrival struct {
	c       *conn
	got     atomic.Int64 // bytes that the connection has read in its life
	lagging atomic.Bool  // its connection is to end

	// Guarded by intake.mu.
	class   *arrivalClass
	held    int64
	wants   int64         // in line for so many more; 0 otherwise
	granted chan struct{} // of the present wait
	since   time.Time     // when its rate was looked at last
	mark    int64         // got, then
}

func newAdmission(name string, budget int64, maxFrame, least int) *admission {
	return &admission{
		name: name, whole: bufpool.NewBudget(budget), size: max(budget/2, 1), receiving: make(map[*arrival]struct{}),
		most: int(min(int64(maxFrame), max(2*budget, int64(least)))),
	}
}

// How large a request may be however small the budgets are: a Produce has a batch for each of
// many partitions, and of other requests none that is useful is so large.
const (
	leastProduce = 8 << 20
	leastOther   = 4 << 20
)

// step returns how many bytes of memory a frame of which some have arrived gets.
func step(arrived, size int) int {
	if size/wholeAt <= arrived {
		return size
	}
	return stepFactor * arrived
}

// begin registers a frame of so many bytes.
func (k *admission) begin(a *arrival, size int, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.class = &k.large; size <= smallArrival {
		a.class = &k.small
	}
	a.since, a.mark = now, a.got.Load()
	a.lagging.Store(false)
	k.receiving[a] = struct{}{}
}

// arrived takes a frame that is whole from those whose clients are waited for. It holds
// what it has until end, when the budget has it.
func (k *admission) arrived(a *arrival) {
	k.mu.Lock()
	k.finish(a)
	k.mu.Unlock()
}

// finish ends the watch over a frame. Caller holds mu.
func (k *admission) finish(a *arrival) {
	delete(k.receiving, a)
	a.lagging.Store(false)
}

// holds is for the reader, which alone has held changed.
func (a *arrival) holds() int64 { return a.held }

// tryGrow charges a frame with n more bytes if there is room for them.
func (k *admission) tryGrow(a *arrival, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.class.exempt != a && len(a.class.queue) > 0 || !k.fits(a, n) {
		return false
	}
	k.give(a, n)
	return true
}

// grow is tryGrow that waits for room; an error means that ctx ended and nothing was charged.
func (k *admission) grow(ctx context.Context, a *arrival, n int64) error {
	k.mu.Lock()
	a.wants, a.granted = n, make(chan struct{})
	a.class.queue = append(a.class.queue, a)
	k.stats.Waited++
	k.admit() // what there was no room for may have found it by now
	if k.queued() > 0 {
		k.watchQueue()
	}
	granted := a.granted
	k.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stats.Canceled++
	if i := slices.Index(a.class.queue, a); i >= 0 { // otherwise it was granted at the same moment, and end releases it
		a.class.queue = slices.Delete(a.class.queue, i, i+1)
		a.wants = 0
		k.admit()
	}
	return ctx.Err()
}

// end gives back what a frame holds.
func (k *admission) end(a *arrival) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finish(a)
	a.class.held -= a.held
	a.held = 0
	if a.class.exempt == a {
		a.class.exempt = nil
	}
	k.admit()
}

// held is what all frames under way hold. Caller holds mu.
func (k *admission) held() int64 { return k.small.held + k.large.held }

// queued is how many frames are in line. Caller holds mu.
func (k *admission) queued() int { return len(k.small.queue) + len(k.large.queue) }

// free returns how many more bytes the frames of a class may hold. Caller holds mu.
func (k *admission) free(class *arrivalClass) int64 {
	free, share := k.size-k.held(), k.size/smallShare
	if class == &k.small {
		return max(free, share-k.small.held)
	}
	return min(free, k.size-share-k.large.held)
}

// fits reports whether a frame may have n more bytes, and makes it the exempt one of its
// class if there is none and it needs to be. Caller holds mu.
func (k *admission) fits(a *arrival, n int64) bool {
	if a.class.exempt == a || n <= k.free(a.class) {
		return true
	}
	if a.class.exempt == nil {
		a.class.exempt = a
		return true
	}
	return false
}

func (k *admission) give(a *arrival, n int64) {
	a.held += n
	a.class.held += n
	k.stats.Acquired++
	k.stats.Peak = max(k.stats.Peak, k.held())
}

// admit grants steps to the heads of the lines. Caller holds mu.
func (k *admission) admit() {
	for _, class := range [...]*arrivalClass{&k.small, &k.large} {
		for len(class.queue) > 0 && k.fits(class.queue[0], class.queue[0].wants) {
			a := class.queue[0]
			class.queue[0] = nil
			class.queue = class.queue[1:]
			k.give(a, a.wants)
			a.wants, a.since, a.mark = 0, time.Now(), a.got.Load()
			close(a.granted)
		}
		if len(class.queue) == 0 {
			class.queue = nil
		}
	}
}

// watchQueue looks after lagging frames while there is a line. Caller holds mu.
func (k *admission) watchQueue() {
	if k.watch == nil {
		k.watch = time.AfterFunc(lagTime/4, k.closeLagging)
	}
}

// closeLagging ends the connections of frames that lag.
func (k *admission) closeLagging() {
	now := time.Now()
	var late []*arrival
	k.mu.Lock()
	for a := range k.receiving {
		if a.wants > 0 || now.Sub(a.since) < lagTime {
			continue
		}
		got := a.got.Load()
		if got-a.mark < lagBytes && !a.lagging.Swap(true) {
			late = append(late, a)
		}
		a.since, a.mark = now, got
	}
	k.lagged += uint64(len(late))
	if k.watch = nil; k.queued() > 0 {
		k.watchQueue()
	}
	k.mu.Unlock()
	for _, a := range late {
		a.c.interruptRead()
	}
}

// ArrivalStats are of the frames of one kind that are under way.
type ArrivalStats struct {
	bufpool.BudgetStats
	Frames int    // under way now
	Lagged uint64 // that lost their connection because others waited
}

func (k *admission) arrivals() ArrivalStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Size, s.Used, s.Waiting = k.size, k.held(), k.queued()
	return ArrivalStats{BudgetStats: s, Frames: len(k.receiving), Lagged: k.lagged}
}

// interruptRead ends a connection whose frame lags; its reader finds out.
func (c *conn) interruptRead() {
	c.mu.Lock()
	nc := c.nc
	c.mu.Unlock()
	if nc != nil {
		_ = nc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}
