package record

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/chronik-io/chronik/internal/bufpool"
)

// decodeBudget bounds what inflating takes of the whole process.
//
// Memory: zstd's windows and the blocks of lz4 and snappy, of all batches that are inflated at
// the same time, have a part of the Go runtime's memory limit. That memory is allocated at once
// and in one piece, so a client that names a large window must not exhaust a small broker.
//
// Processors: batches that inflate to much take turns, half of the processors at a time. Go's
// scheduler lets each such goroutine run for 10 ms, and small requests would wait for that at each of their steps.
type decodeBudget struct {
	turns  chan struct{}
	size   int64 // bytes; what needs more than all of it is refused
	budget *bufpool.Budget
	wide   wideDecoders
	best   bool // zstd's best compressors have a quarter of the memory at most
}

const (
	// roomShare of the memory limit is for inflating, within bounds: 8 MiB is what RFC 8878
	// asks every reader of zstd for, 128 MiB is the limit of zstd's command line and of Java's reader.
	roomShare           = 8
	leastRoom, mostRoom = 8 << 20, 128 << 20
	// roomFree is not counted. What is not Heavy needs no more and does not wait.
	roomFree = 128 << 10
)

// newDecodeBudget returns the room of a process with so many bytes of memory.
func newDecodeBudget(memory int64) *decodeBudget {
	size := min(max(memory/roomShare, leastRoom), mostRoom)
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	return &decodeBudget{turns: make(chan struct{}, turns), size: size, budget: bufpool.NewBudget(size), best: memory/4 >= int64(turns)*zstdBestBytes}
}

// zstdBestBytes is what one compressor of zstd's best level takes; the level below takes 6 MiB.
const zstdBestBytes = 36 << 20

// zstdLevel returns the library's level for one of zstd's. A broker with little memory uses the
// second best one instead of the best, so that a topic's config cannot exhaust it.
func (r *decodeBudget) zstdLevel(level int) zstd.EncoderLevel {
	return min(zstd.EncoderLevelFromZstd(level), r.bestLevel())
}

func (r *decodeBudget) bestLevel() zstd.EncoderLevel {
	if r.best {
		return zstd.SpeedBestCompression
	}
	return zstd.SpeedBetterCompression
}

// sharedRoom returns the process's room. The memory limit is read once, at the first batch
// that is inflated: it is set before.
var sharedRoom = sync.OnceValue(func() *decodeBudget { return newDecodeBudget(debug.SetMemoryLimit(-1)) })

// roomError is the refusal of a batch that needs more memory than there is for inflating.
type roomError struct{ need, most int64 }

func (e roomError) Error() string {
	return fmt.Sprintf("inflating it takes %s of memory, of which there is %s here; send smaller batches or give the broker more memory",
		mib(e.need), mib(e.most))
}

// mib is a number of bytes in MiB, rounded up.
func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }

// decodeHold is what one batch has taken of a room; the zero value holds nothing.
type decodeHold struct {
	room  *decodeBudget
	taken int64
}

// take waits for n bytes. It waits for holders that compute, and for nothing else. The error
// is a roomError, and nothing was taken.
func (h *decodeHold) take(r *decodeBudget, n int64) error {
	if n > r.size {
		return roomError{n, r.size}
	}
	if n <= roomFree {
		return nil
	}
	if err := r.budget.Acquire(context.Background(), n); err != nil {
		return err
	}
	h.room, h.taken = r, n
	return nil
}

// release gives back what was taken. More than once does nothing.
func (h *decodeHold) release() {
	if h.taken > 0 {
		h.room.budget.Release(h.taken)
	}
	*h = decodeHold{}
}
