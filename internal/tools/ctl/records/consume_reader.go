package records

import (
	"bufio"
	"cmp"
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
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// partition identifies a partition of one of the topics.
type partition struct {
	topic string
	index int32
}

func (p partition) String() string { return app.PartitionName(p.topic, p.index) }

func (p partition) compare(q partition) int {
	return cmp.Or(cmp.Compare(p.topic, q.topic), cmp.Compare(p.index, q.index))
}

// asMap returns the partition in the form that the client library expects.
func (p partition) asMap() map[string][]int32 { return map[string][]int32{p.topic: {p.index}} }

// span is the unread part of a partition: from next up to, but not including, end.
type span struct{ next, end int64 }

// pollTimeout bounds a poll. After a poll without records the reader asks the broker whether any
// record is left.
const pollTimeout = 500 * time.Millisecond

// reader prints the records of topics.
type reader struct {
	*consumeOptions
	topics []string
	client *kgo.Client
	admin  *kadm.Client
	out    *bufio.Writer
	sink   io.Writer // what out writes to, to notice that it is closed
	bar    *output.Bar
	note   func(format string, args ...any) // prints a line for people
	line   []byte

	left        map[partition]span      // partitions that have unread records, or are followed
	lost        map[partition]error     // partitions that cannot be read, see lose
	paused      map[partition]time.Time // partitions with fetching paused until then, see failed
	ends        app.OffsetRanges        // offsets when the command started
	printed     int64                   // number of records
	lostContact bool                    // the loss of the broker or the group has been reported
	contact     contact
	last        map[partition]*kgo.Record // printed by a group member and not committed yet

	mu            sync.Mutex         // guards the fields that the client's group callbacks write
	newlyAssigned []partition        // assigned, not yet handled by reassign
	newlyRevoked  []partition        // revoked, not yet handled by reassign
	started       bool               // the first assignment has arrived
	assignedNow   map[partition]bool // partitions that the member has now
}

// title names the topics for messages.
func (r *reader) title() string {
	if len(r.topics) == 1 {
		return r.topics[0]
	}
	return text.Count(len(r.topics), "topic")
}

// wanted returns the partitions of each topic that --partition selects, or none for all.
func (r *reader) wanted() map[string][]int32 {
	all := map[string][]int32{}
	for _, topic := range r.topics {
		all[topic] = r.some
	}
	return all
}

// partitions returns all partitions of ranges, sorted.
func (r *reader) partitions(ranges app.OffsetRanges) (all []partition) {
	for _, topic := range slices.Sorted(maps.Keys(ranges)) {
		for _, i := range ranges.Partitions(topic) {
			all = append(all, partition{topic, i})
		}
	}
	return all
}

// plan determines where to start in each partition and fills r.left. It calls lose for partitions
// whose offsets the broker does not return.
func (r *reader) plan(ctx context.Context) (map[string]map[int32]kgo.Offset, error) {
	ranges, failed, err := app.AskOffsets(ctx, r.admin, r.committed(), r.wanted())
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
	from := map[string]map[int32]kgo.Offset{}
	for _, p := range r.partitions(ranges) {
		if r.lost[p] != nil {
			continue
		}
		x, at := ranges[p.topic][p.index], begin[p.topic][p.index]
		if err := within(p, "--from", at, x.Start, x.End); err != nil {
			return nil, err
		}
		end := x.End
		if r.until != "" {
			end = stop[p.topic][p.index]
		}
		if !r.follow {
			end = min(end, x.End)
		}
		if at < end || r.follow && r.until == "" {
			if from[p.topic] == nil {
				from[p.topic] = map[int32]kgo.Offset{}
			}
			from[p.topic][p.index] = kgo.NewOffset().At(at)
			r.left[p] = span{at, end}
		}
	}
	return from, nil
}

// find returns the offset of a position in each partition. It calls lose for partitions without an
// answer.
func (r *reader) find(ctx context.Context, in app.OffsetRanges, at parse.Position) (map[string]map[int32]int64, error) {
	found, failed, err := in.Find(ctx, r.admin, at)
	r.loseAll(failed)
	return found, err
}

func (r *reader) loseAll(failed app.OffsetFailures) {
	for _, topic := range slices.Sorted(maps.Keys(failed)) {
		for _, i := range slices.Sorted(maps.Keys(failed[topic])) {
			r.lose(partition{topic, i}, failed[topic][i])
		}
	}
}

// total returns the number of offsets to read, for the progress bar.
func (r *reader) total() (n int64) {
	for _, s := range r.left {
		n += max(0, s.end-s.next)
	}
	if r.count > 0 && (r.group != "" || r.count < n) {
		return r.count
	}
	return n
}

// endless reports whether only an interrupt ends the command.
func (r *reader) endless() bool { return r.follow && r.until == "" }

// run prints records until it reaches all ends or the count, or ctx ends.
func (r *reader) run(ctx context.Context) error {
	for {
		if r.finished() {
			if more, err := r.awaitsAssignment(ctx); !more || err != nil {
				return err
			}
		}
		r.resume()
		poll, cancel := context.WithTimeout(ctx, pollTimeout)
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
		// Print first, then commit, before waiting for more records.
		if err = errors.Join(err, r.flush()); err == nil {
			err = r.commit(ctx)
		}
		if err != nil || full {
			return err
		}
		if fetches.NumRecords() == 0 && cli.ReaderClosed(r.sink) {
			return fmt.Errorf("standard output: %w", syscall.EPIPE) // the next record would get the same error
		}
		if r.group != "" {
			r.client.AllowRebalance() // all printed records are committed
		}
		if fetches.NumRecords() == 0 && !r.endless() {
			if err := r.skipGaps(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// finished reports whether everything is read.
func (r *reader) finished() bool {
	if r.endless() || len(r.left) > 0 {
		return false
	}
	if r.group == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started && len(r.newlyAssigned) == 0
}

// failure handles the errors of a poll. It returns the first error that ends the command.
func (r *reader) failure(ctx context.Context, fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		switch {
		case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, context.Canceled):
		case r.follow && temporary(e.Err):
			if !r.lostContact {
				r.note("note: %v; retrying until interrupted", e.Err)
			}
			r.lostContact = true
		case e.Topic == "":
			return app.Refused("consume "+r.title(), e.Err, "")
		default:
			if err := r.failed(ctx, partition{e.Topic, e.Partition}, e.Err); err != nil {
				return err
			}
		}
	}
	return nil
}

// temporary reports whether a member has left its group only until a broker is back: the client
// keeps trying, as it does without a group.
func temporary(err error) bool {
	var session *kgo.ErrGroupSession
	var k *kerr.Error
	return errors.As(err, &session) && (!errors.As(err, &k) || k.Retriable)
}

// take prints the fetched records and reports whether the count is reached.
func (r *reader) take(fetches kgo.Fetches) (full bool, err error) {
	for it := fetches.RecordIter(); !it.Done(); {
		if full, err := r.record(it.Next()); err != nil || full {
			return full, err
		}
	}
	return false, nil
}

// record prints one record and reports whether the count is reached.
func (r *reader) record(rec *kgo.Record) (full bool, err error) {
	r.lostContact = r.lostContact && r.group == ""
	p := partition{rec.Topic, rec.Partition}
	r.recovered(p)
	s, waiting := r.left[p]
	if r.endless() {
		r.left[p] = span{rec.Offset + 1, s.end}
	} else {
		if !waiting || rec.Offset >= s.end {
			delete(r.left, p)
			return false, nil // the record is newer than the end at the start of the command
		}
		if s.next = rec.Offset + 1; s.next == s.end {
			delete(r.left, p)
		} else {
			r.left[p] = s
		}
	}
	if r.group != "" {
		r.last[p] = rec
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
