package records

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/ctl/parse"
)

// span is what is still to be read of a partition: next up to, and without, end.
type span struct{ next, end int64 }

// patience is how long nothing may arrive before it is asked whether anything is
// left at all.
const patience = 500 * time.Millisecond

// reader prints one topic.
type reader struct {
	*consumeOptions
	topic  string
	client *kgo.Client
	admin  *kadm.Client
	out    *bufio.Writer
	sink   io.Writer // what out writes to
	bar    *output.Bar
	note   func(format string, args ...any) // tells people
	line   []byte

	left    map[int32]span      // partitions whose end was not reached, or that are followed
	lost    map[int32]error     // partitions that cannot be read, see lose
	paused  map[int32]time.Time // partitions that are not fetched until then, see failed
	ends    app.OffsetRanges    // of the topic when it was asked
	printed int64               // records
	away    bool                // it was reported that the broker, or the member's group, is away
	contact contact
	last    map[int32]*kgo.Record // printed by a group's member and not committed yet

	mu      sync.Mutex     // guards what the group's goroutine tells
	news    []int32        // assigned and not looked at yet
	gone    []int32        // revoked and not looked at yet
	started bool           // a first assignment was made
	own     map[int32]bool // the member's partitions now
}

// plan finds where each partition starts and ends. One that the broker does not know the
// offsets of is lost.
func (r *reader) plan(ctx context.Context) (map[int32]kgo.Offset, error) {
	ranges, failed, err := app.AskOffsets(ctx, r.admin, r.committed, map[string][]int32{r.topic: r.some})
	if err != nil {
		return nil, err
	}
	r.loseAll(failed)
	r.ends = ranges
	if r.group != "" {
		return nil, nil
	}
	begin, err := r.find(ctx, ranges, r.begin)
	if err != nil {
		return nil, err
	}
	stop := begin
	if r.until != "" {
		if stop, err = r.find(ctx, ranges, r.end); err != nil {
			return nil, err
		}
	}
	from := map[int32]kgo.Offset{}
	for _, p := range ranges.Partitions(r.topic) {
		if r.lost[p] != nil {
			continue
		}
		x, at := ranges[r.topic][p], begin[p]
		if err := within(r.topic, p, "--from", at, x.Start, x.End); err != nil {
			return nil, err
		}
		end := x.End
		if r.until != "" {
			end = stop[p]
		}
		if !r.follow {
			end = min(end, x.End)
		}
		if at < end || r.follow && r.until == "" {
			from[p] = kgo.NewOffset().At(at)
			r.left[p] = span{at, end}
		}
	}
	return from, nil
}

// find is where a position is in each partition; those without an answer are lost.
func (r *reader) find(ctx context.Context, in app.OffsetRanges, at parse.Position) (map[int32]int64, error) {
	found, failed, err := in.Find(ctx, r.admin, at)
	r.loseAll(failed)
	return found[r.topic], err
}

func (r *reader) loseAll(failed app.OffsetFailures) {
	for _, p := range slices.Sorted(maps.Keys(failed[r.topic])) {
		r.lose(p, failed[r.topic][p])
	}
}

// total is how many offsets are to be read, for the bar.
func (r *reader) total() (n int64) {
	for _, s := range r.left {
		n += max(0, s.end-s.next)
	}
	if r.count > 0 && (r.group != "" || r.count < n) {
		return r.count
	}
	return n
}

// endless says whether only an interrupt ends the reading.
func (r *reader) endless() bool { return r.follow && r.until == "" }

// run prints until the ends are reached, the count is full or the context ends.
func (r *reader) run(ctx context.Context) error {
	for {
		if r.over() {
			if more, err := r.awaits(ctx); !more || err != nil {
				return err
			}
		}
		r.resume()
		poll, cancel := context.WithTimeout(ctx, patience)
		fetches := r.client.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		r.watchContact()
		if err := r.reassign(ctx); err != nil {
			return err
		}
		if err := r.failure(ctx, fetches); err != nil {
			return err
		}
		full, err := r.take(fetches)
		// What was fetched is shown, and only then committed, before waiting for more.
		if err = errors.Join(err, r.flush()); err == nil {
			err = r.commit(ctx)
		}
		if err != nil || full {
			return err
		}
		if fetches.NumRecords() == 0 && cli.ReaderClosed(r.sink) {
			return fmt.Errorf("standard output: %w", syscall.EPIPE) // as the next record would find it
		}
		if r.group != "" {
			r.client.AllowRebalance() // what was printed is committed
		}
		if fetches.NumRecords() == 0 && !r.endless() {
			if err := r.skipGaps(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// over says whether all is read that was to be read.
func (r *reader) over() bool {
	if r.endless() || len(r.left) > 0 {
		return false
	}
	if r.group == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started && len(r.news) == 0
}

// failure handles the errors of a poll, and returns the first one that ends the reading.
func (r *reader) failure(ctx context.Context, fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		switch {
		case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, context.Canceled):
		case r.follow && passing(e.Err):
			if !r.away {
				r.note("note: %v; trying again until it is interrupted", e.Err)
			}
			r.away = true
		case e.Topic == "":
			return app.Refused("consume "+r.topic, e.Err, "")
		default:
			if err := r.failed(ctx, e.Partition, e.Err); err != nil {
				return err
			}
		}
	}
	return nil
}

// passing says whether a member is only out of its group until a broker is back:
// the client goes on trying, as it does where there is no group.
func passing(err error) bool {
	var session *kgo.ErrGroupSession
	var k *kerr.Error
	return errors.As(err, &session) && (!errors.As(err, &k) || k.Retriable)
}

// take prints what was fetched and reports whether the count is full.
func (r *reader) take(fetches kgo.Fetches) (full bool, err error) {
	for it := fetches.RecordIter(); !it.Done(); {
		if full, err := r.record(it.Next()); err != nil || full {
			return full, err
		}
	}
	return false, nil
}

// record prints one record and reports whether the count is full.
func (r *reader) record(rec *kgo.Record) (full bool, err error) {
	r.away = r.away && r.group == ""
	r.found(rec.Partition)
	s, waiting := r.left[rec.Partition]
	if r.endless() {
		r.left[rec.Partition] = span{rec.Offset + 1, s.end}
	} else {
		if !waiting || rec.Offset >= s.end {
			delete(r.left, rec.Partition)
			return false, nil // it came after this partition's end was asked for
		}
		if s.next = rec.Offset + 1; s.next == s.end {
			delete(r.left, rec.Partition)
		} else {
			r.left[rec.Partition] = s
		}
	}
	if r.group != "" {
		r.last[rec.Partition] = rec
	}
	if rec.Attrs.IsControl() {
		return false, nil
	}
	if err := r.write(r.out, rec); err != nil {
		return false, err
	}
	r.printed++
	r.bar.Add(1)
	return r.count > 0 && r.printed >= r.count, nil
}
