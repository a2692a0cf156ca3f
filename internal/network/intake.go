package network

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/membuf"
)

// A request's memory is charged in two places, one after the other: to the line of frames
// under way while its bytes arrive, and to a budget from when it is whole until it is
// answered. What a client announces costs nothing; what it sends costs in proportion.
//
//	buffered ──1 KiB there, more to come──▶ under way ──whole──▶ with the handler
//	    └───────────────all of it there────────────────────────────────▲
//
// A frame under way has memory for at most wholeAt times what has arrived of it, taken
// in steps. A frame that needs a step for which there is no room waits in line, first
// come, first served, and holds what it has: bytes that were read can't be put back into
// a socket. Frames that hold and wait would stand still for ever, so one of them, the
// exempt one, gets every step at once, room or not.
//
// That ends every wait, by two facts. The line is empty unless a frame is exempt, since
// its head becomes exempt when there is no other. And the exempt frame waits for nothing
// but its client, whom the rule below bounds, and then for the budget of whole requests,
// whose holders are with the handler and wait for no frame. When it is through, what it
// held is free and the next in line is exempt. A frame larger than the line's size is
// exempt from the step on at which it no longer fits; it holds up other frames that need
// a step, and no request that arrives whole. All memory of a kind is bounded by the size
// of the line, one frame, and the budget.
//
// The rule: while there is a line, a frame under way that gets less than lagBytes in a
// lagTime loses its connection (ClosedLagging). So a client that sends 64 KiB in every
// second never does, and one that stops holds up others for twice lagTime and a bit.
// Time in line does not count.
type intake struct {
	name  string
	whole *membuf.Budget // requests that have arrived and are not answered
	size  int64          // bytes that frames under way may hold together, but for the exempt one's
	most  int            // bytes of the largest frame

	mu     sync.Mutex
	held   int64
	under  map[*arrival]struct{}
	exempt *arrival
	line   []*arrival
	watch  *time.Timer // runs while there is a line
	stats  membuf.BudgetStats
	lagged uint64
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
)

// arrival is a frame under way; a connection has one at a time.
type arrival struct {
	c       *conn
	got     atomic.Int64 // bytes that the connection has read in its life
	lagging atomic.Bool  // its connection is to end

	// Guarded by intake.mu.
	held    int64
	wants   int64         // in line for so many more; 0 otherwise
	granted chan struct{} // of the present wait
	since   time.Time     // when its rate was looked at last
	mark    int64         // got, then
}

func newIntake(name string, budget int64, maxFrame int) *intake {
	return &intake{
		name: name, whole: membuf.NewBudget(budget), size: max(budget/2, 1), under: make(map[*arrival]struct{}),
		most: int(min(int64(maxFrame), max(4*budget, leastFrame))),
	}
}

// leastFrame is how large a request may be however small the budgets are.
const leastFrame = 8 << 20

// step returns how many bytes of memory a frame of which some have arrived gets.
func step(arrived, size int) int {
	if size/wholeAt <= arrived {
		return size
	}
	return stepFactor * arrived
}

// begin registers a frame.
func (k *intake) begin(a *arrival, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.since, a.mark = now, a.got.Load()
	a.lagging.Store(false)
	k.under[a] = struct{}{}
}

// arrived takes a frame that is whole from those whose clients are waited for. It holds
// what it has until end, when the budget has it.
func (k *intake) arrived(a *arrival) {
	k.mu.Lock()
	k.leave(a)
	k.mu.Unlock()
}

// leave ends the watch over a frame. Caller holds mu.
func (k *intake) leave(a *arrival) {
	delete(k.under, a)
	a.lagging.Store(false)
}

// holds is for the reader, which alone has held changed.
func (a *arrival) holds() int64 { return a.held }

// tryGrow charges a frame with n more bytes if there is room for them.
func (k *intake) tryGrow(a *arrival, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.exempt != a && len(k.line) > 0 || !k.fits(a, n) {
		return false
	}
	k.give(a, n)
	return true
}

// grow is tryGrow for who waits; an error means that ctx ended and nothing was charged.
func (k *intake) grow(ctx context.Context, a *arrival, n int64) error {
	k.mu.Lock()
	a.wants, a.granted = n, make(chan struct{})
	k.line = append(k.line, a)
	k.stats.Waited++
	k.admit() // what there was no room for may have found it by now
	if len(k.line) > 0 {
		k.watchLine()
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
	for i, w := range k.line {
		if w == a {
			k.line = append(k.line[:i], k.line[i+1:]...)
			a.wants = 0
			k.admit()
			break
		} // else it was granted at the same moment, and end gives it back
	}
	return ctx.Err()
}

// end gives back what a frame holds; it may be called for one that did not begin.
func (k *intake) end(a *arrival) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leave(a)
	k.held -= a.held
	a.held = 0
	if k.exempt == a {
		k.exempt = nil
	}
	k.admit()
}

// fits reports whether a frame may have n more bytes, and makes it the exempt one where
// that takes it. Caller holds mu.
func (k *intake) fits(a *arrival, n int64) bool {
	if k.exempt == a || n <= k.size-k.held {
		return true
	}
	if k.exempt == nil {
		k.exempt = a
		return true
	}
	return false
}

func (k *intake) give(a *arrival, n int64) {
	a.held += n
	k.held += n
	k.stats.Acquired++
	k.stats.Peak = max(k.stats.Peak, k.held)
}

// admit grants steps to the head of the line. Caller holds mu.
func (k *intake) admit() {
	for len(k.line) > 0 && k.fits(k.line[0], k.line[0].wants) {
		a := k.line[0]
		k.line[0] = nil
		k.line = k.line[1:]
		k.give(a, a.wants)
		a.wants, a.since, a.mark = 0, time.Now(), a.got.Load()
		close(a.granted)
	}
	if len(k.line) == 0 {
		k.line = nil
	}
}

// watchLine looks after lagging frames while there is a line. Caller holds mu.
func (k *intake) watchLine() {
	if k.watch == nil {
		k.watch = time.AfterFunc(lagTime/4, k.look)
	}
}

// look ends the connections of frames that lag.
func (k *intake) look() {
	now := time.Now()
	var late []*arrival
	k.mu.Lock()
	for a := range k.under {
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
	if k.watch = nil; len(k.line) > 0 {
		k.watchLine()
	}
	k.mu.Unlock()
	for _, a := range late {
		a.c.hurry()
	}
}

// ArrivalStats are of the frames of one kind that are under way.
type ArrivalStats struct {
	membuf.BudgetStats
	Frames int    // under way now
	Lagged uint64 // that lost their connection because others waited
}

func (k *intake) arrivals() ArrivalStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Size, s.Used, s.Waiting = k.size, k.held, len(k.line)
	return ArrivalStats{BudgetStats: s, Frames: len(k.under), Lagged: k.lagged}
}

// hurry ends a connection whose frame lags; its reader finds out.
func (c *conn) hurry() {
	c.mu.Lock()
	nc := c.nc
	c.mu.Unlock()
	if nc != nil {
		_ = nc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}
