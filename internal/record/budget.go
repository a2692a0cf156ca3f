package record

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/share"
)

// decodeBudget bounds the resources that inflating uses in the whole process.
//
// Memory: zstd's windows and the blocks of lz4 and snappy, of all batches being inflated, together
// may use a part of the Go runtime's memory limit. Each is allocated at once, so a client that
// declares a large window must not exhaust a small broker.
//
// The limit is the process's, so brokers of one process share the budget. Processors:
// Limits.Places.
type decodeBudget struct {
	size   int64 // bytes; a batch that needs more is rejected
	budget *bufpool.Budget
	wide   wideDecoders
	best   bool // zstd's best compressors fit in a quarter of the memory
}

const (
	// The budget is 1/budgetShare of the memory limit, within bounds. RFC 8878 asks every reader of
	// zstd to support 8 MiB; 128 MiB is the limit of zstd's command line and of Java's reader.
	budgetShare          = 8
	minBudget, maxBudget = 8 << 20, 128 << 20
	// unbudgeted is not counted: batches that are not Heavy need no more and must not wait.
	unbudgeted = 128 << 10
)

// newDecodeBudget returns the budget of a process with so many bytes of memory.
func newDecodeBudget(memory int64) *decodeBudget {
	size := min(max(memory/budgetShare, minBudget), maxBudget)
	return &decodeBudget{size: size, budget: bufpool.NewBudget(size), best: memory/4 >= int64(share.Half())*zstdBestBytes}
}

// Limits bound what inflating one batch may use.
type Limits struct {
	// Bytes bounds its inflated size; 0 or less: DefaultMaxInflated.
	Bytes int64
	// Places are where a batch with a large inflated size is inflated: it waits for a place and has
	// it until the end. nil: it takes none, because the caller has one, or shares the processors
	// with no requests.
	Places *share.Places
}

// zstdBestBytes is the memory of one compressor of zstd's best level; the level below needs 6 MiB.
const zstdBestBytes = 36 << 20

// zstdLevel returns the library's level for one of zstd's. A broker with little memory uses the
// second best level instead of the best, so that a topic's config cannot exhaust its memory.
func (r *decodeBudget) zstdLevel(level int) zstd.EncoderLevel {
	return min(zstd.EncoderLevelFromZstd(level), r.bestLevel())
}

func (r *decodeBudget) bestLevel() zstd.EncoderLevel {
	if r.best {
		return zstd.SpeedBestCompression
	}
	return zstd.SpeedBetterCompression
}

// sharedBudget returns the budget of the process. It reads the memory limit once, when the first
// batch is inflated or compressed with zstd, which is after the limit was set.
var sharedBudget = sync.OnceValue(func() *decodeBudget { return newDecodeBudget(debug.SetMemoryLimit(-1)) })

// budgetError is the error for a batch that needs more memory than the whole budget.
type budgetError struct{ need, most int64 }

func (e budgetError) Error() string {
	return fmt.Sprintf("inflating it takes %s of memory, the limit of this broker is %s; "+
		"send smaller batches or give the broker more memory", mib(e.need), mib(e.most))
}

// mib formats a number of bytes in MiB, rounded up.
func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }

// decodeHold is the memory that one batch has acquired; the zero value holds nothing.
type decodeHold struct {
	of    *decodeBudget
	taken int64
}

// take acquires n bytes. It waits only for holders that are computing. On an error, a budgetError,
// nothing was acquired.
func (h *decodeHold) take(r *decodeBudget, n int64) error {
	if n > r.size {
		return budgetError{n, r.size}
	}
	if n <= unbudgeted {
		return nil
	}
	if err := r.budget.Acquire(context.Background(), n); err != nil {
		return err
	}
	h.of, h.taken = r, n
	return nil
}

// release releases the memory. It may be called more than once.
func (h *decodeHold) release() {
	if h.taken > 0 {
		h.of.budget.Release(h.taken)
	}
	*h = decodeHold{}
}
