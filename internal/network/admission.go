package network

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// A request's memory is charged in two places, one after the other: to the admission of its kind
// while its bytes arrive, and to a budget from its last byte until it is answered. A client pays
// for the bytes it has sent, not for the length it announces.
//
//	buffered ──1 KiB there, more to come──▶ receiving ──whole──▶ with the handler
//	    └───────────────all of it there────────────────────────────────▲
//
// A frame that is being received gets memory in steps, at most wholeAt times what has arrived.
// There are two classes of frames, by announced size: small ones, up to smallArrival bytes, and
// large ones. Both use the memory of the kind, but large frames leave 1/smallShare of it to small
// ones, so that large frames that arrive slowly don't delay small ones. A frame whose next step
// does not fit waits in the queue of its class, first come, first served. It keeps what it holds,
// since bytes that were read can't be put back into a socket. Frames that hold memory and wait for
// more could deadlock. Therefore one frame of each class, the exempt one, gets every step at once,
// whether it fits or not.
//
// Every wait ends, by two facts that hold for each class whatever the other one does. First, the
// queue of a class is empty unless a frame of the class is exempt: if there is none, the head of
// the queue becomes exempt. Second, the exempt frame waits only for its client, which the rule
// below bounds, and then for the budget of whole requests, whose holders are with the handler and
// wait for no frame. When the exempt frame is complete, its memory is free and the next frame in
// the queue becomes exempt. A large frame that exceeds the memory of the kind becomes exempt at the
// first step that does not fit. Meanwhile other large frames wait, small ones use their share, and
// requests that arrive whole pass. The memory of a kind is therefore bounded by size, one frame of
// each class, and the budget.
//
// The rule: while a queue is not empty, a frame that receives fewer than lagBytes in a lagTime
// loses its connection (ClosedLagging). A client that sends 64 KiB every second never does, and one
// that stops sending delays others for little more than twice lagTime. Time in the queue does not
// count.
type admission struct {
	name  string
	whole *bufpool.Budget // complete requests without an answer
	size  int64           // bytes that frames being received may hold together, except the exempt ones
	most  int             // bytes of the largest frame

	mu           sync.Mutex
	receiving    map[*arrival]struct{}
	small, large arrivalClass
	watch        *time.Timer // runs while a queue is not empty
	stats        bufpool.BudgetStats
	lagged       uint64
}

// arrivalClass holds the frames of one class that are being received.
type arrivalClass struct {
	held   int64
	exempt *arrival
	queue  []*arrival
}

const (
	// A frame gets memory for stepFactor times what has arrived of it. Each step copies the bytes
	// of earlier steps: a fifteenth of all bytes, but half of them if a step ends just short of the
	// frame, which wholeAt avoids.
	stepFactor = 16
	wholeAt    = 2 * stepFactor
	// A client that sends lagBytes each second, in one piece, passes wherever a lagTime begins.
	lagTime  = 1500 * time.Millisecond
	lagBytes = 64 << 10
	// Most requests of ordinary clients have at most smallArrival bytes.
	smallArrival = 64 << 10
	smallShare   = 8
)

// arrival is a frame that is being received; a connection has one at a time.
type arrival struct {
	c       *conn
	got     atomic.Int64 // bytes that the connection has read since it was opened
	lagging atomic.Bool  // its connection must end

	// Guarded by admission.mu.
	class   *arrivalClass
	held    int64
	wants   int64         // more bytes that it waits for in the queue; 0 if it does not wait
	granted chan struct{} // closed when the bytes of the present wait are granted
	since   time.Time     // when its rate was last measured
	mark    int64         // got at that time
}

func newAdmission(name string, budget, most int64, maxFrame int) *admission {
	return &admission{
		name: name, whole: bufpool.NewSplitBudget(budget, smallArrival), size: max(budget/2, 1), receiving: make(map[*arrival]struct{}),
		most: int(min(int64(maxFrame), most)),
	}
}

// Minimum of the largest request, however small the budgets are: a Produce request has a batch for
// each of many partitions, and no useful request of another API is that large.
const (
	minProduce = 8 << 20
	minOther   = 4 << 20
)

// step returns the memory, in bytes, that a frame of size bytes gets when arrived of them are
// there.
func step(arrived, size int) int {
	if size/wholeAt <= arrived {
		return size
	}
	return stepFactor * arrived
}

// begin registers a frame of size bytes.
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

// arrived removes a complete frame from those whose clients are checked for lag. The frame keeps
// its memory until end, when the budget has been charged instead.
func (k *admission) arrived(a *arrival) {
	k.mu.Lock()
	k.finish(a)
	k.mu.Unlock()
}

// finish removes a frame from those that are checked for lag. Caller holds mu.
func (k *admission) finish(a *arrival) {
	delete(k.receiving, a)
	a.lagging.Store(false)
}

// holds returns the memory of the frame. Only the reader calls it, which alone changes held.
func (a *arrival) holds() int64 { return a.held }

// tryGrow charges a frame with n more bytes if they fit, and reports whether it did.
func (k *admission) tryGrow(a *arrival, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.class.exempt != a && len(a.class.queue) > 0 || !k.fits(a, n) {
		return false
	}
	k.give(a, n)
	return true
}

// grow is tryGrow that waits until the bytes fit. An error means that ctx ended. The bytes may have
// been charged at the same moment; end releases them.
func (k *admission) grow(ctx context.Context, a *arrival, n int64) error {
	k.mu.Lock()
	a.wants, a.granted = n, make(chan struct{})
	a.class.queue = append(a.class.queue, a)
	k.stats.Waited++
	k.admit() // memory may have been released since tryGrow
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
	if i := slices.Index(a.class.queue, a); i >= 0 {
		a.class.queue = slices.Delete(a.class.queue, i, i+1)
		a.wants = 0
		k.admit()
	}
	return ctx.Err()
}

// end releases the memory of a frame.
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

// held returns the memory of all frames that are being received. Caller holds mu.
func (k *admission) held() int64 { return k.small.held + k.large.held }

// queued returns how many frames wait. Caller holds mu.
func (k *admission) queued() int { return len(k.small.queue) + len(k.large.queue) }

// free returns how many more bytes the frames of a class may hold. Caller holds mu.
func (k *admission) free(class *arrivalClass) int64 {
	free, share := k.size-k.held(), k.size/smallShare
	if class == &k.small {
		return max(free, share-k.small.held)
	}
	return min(free, k.size-share-k.large.held)
}

// fits reports whether a frame may have n more bytes. If they don't fit and its class has no exempt
// frame, fits makes it the exempt one. Caller holds mu.
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

// admit grants steps to the heads of the queues. Caller holds mu.
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

// watchQueue starts the timer that checks for lagging frames while a queue is not empty. Caller
// holds mu.
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

// ArrivalStats describes the frames of one kind that are being received.
type ArrivalStats struct {
	bufpool.BudgetStats
	Frames int    // frames that are being received now
	Lagged uint64 // frames whose connection was closed because others waited
}

func (k *admission) arrivals() ArrivalStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stats
	s.Size, s.Used, s.Waiting = k.size, k.held(), k.queued()
	return ArrivalStats{BudgetStats: s, Frames: len(k.receiving), Lagged: k.lagged}
}

// interruptRead makes a blocked read of the connection fail, so that its reader notices that its
// frame lags.
func (c *conn) interruptRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sock.nc != nil {
		_ = c.sock.nc.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}
