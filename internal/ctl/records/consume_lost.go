package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

// A partition that cannot be read does not end the reading of the others: it is set
// aside, and its error is reported at the end. A reader that follows reports it at once
// and tries again, because the broker may recover.

// retryGap is how long a partition is not fetched after an error.
const retryGap = time.Second

// unreadable reports whether an error says that a partition's records cannot be read.
func unreadable(err error) bool {
	return errors.Is(err, kerr.KafkaStorageError) || errors.Is(err, kerr.CorruptMessage)
}

// lose sets a partition aside with the error to report.
func (r *reader) lose(p int32, err error) {
	delete(r.left, p)
	if r.lost[p] != nil {
		return
	}
	r.lost[p] = err
	if r.follow {
		r.note("note: %v; the other partitions are read, this one is tried again", err)
	}
}

// found takes a partition back that can be read again.
func (r *reader) found(p int32) {
	if r.lost[p] != nil {
		delete(r.lost, p)
		r.note("note: %s is read again", app.PartitionName(r.topic, p))
	}
}

// failed decides about an error of one partition: it is lost, or fetched again later.
// Any other error is returned.
func (r *reader) failed(ctx context.Context, p int32, err error) error {
	switch k := (*kerr.Error)(nil); {
	case r.skipDamaged && errors.Is(err, kerr.CorruptMessage) && r.skip(ctx, p):
		return nil
	case unreadable(err):
		if r.lost[p] == nil {
			err = r.explain(ctx, p, err)
		}
		r.lose(p, err)
	case !errors.As(err, &k) || !k.Retriable:
		return app.Refused(app.PartitionName(r.topic, p), err, "")
	}
	// Without a pause the client would ask again at once, for ever.
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: {p}})
	r.paused[p] = time.Now().Add(retryGap)
	return nil
}

// resume fetches partitions again whose pause is over. Those that are lost stay so,
// except for a reader that follows.
func (r *reader) resume() {
	now := time.Now()
	for p, until := range r.paused {
		if now.After(until) && (r.follow || r.lost[p] == nil) {
			delete(r.paused, p)
			r.client.ResumeFetchPartitions(map[string][]int32{r.topic: {p}})
		}
	}
}

// explain adds to the error of a damaged batch where the partition can be read again, and the command that does it.
func (r *reader) explain(ctx context.Context, p int32, err error) error {
	message := ""
	s, known := r.left[p]
	if end := r.ends[r.topic][p].End; known && s.next < end && errors.Is(err, kerr.CorruptMessage) {
		message = fmt.Sprintf("nothing can be read from offset %d on", s.next)
		if next, err := r.beyond(ctx, p, s.next, end); err == nil && next < end {
			message = fmt.Sprintf("offsets %d to %d cannot be read; ", s.next, next-1) + r.goOn(p, next)
		}
	}
	return app.Refused(app.PartitionName(r.topic, p), err, message)
}

// goOn is how to read a partition from an offset on.
func (r *reader) goOn(p int32, next int64) string {
	at := strconv.FormatInt(next, 10)
	if r.group != "" {
		return health.Command("chronikctl", "group", "reset", r.group, "--topic", fmt.Sprintf("%s:%d", r.topic, p), "--to-offset", at) +
			", without members, makes the group go on behind them"
	}
	return health.Command("chronikctl", "consume", r.topic, "--partition", strconv.Itoa(int(p)), "--from", at) + " reads what follows, --skip-damaged all other records"
}

// skip goes on behind the damage that a partition's next record lies in, reports what it
// passes over, and reports whether it could find out where the damage ends.
func (r *reader) skip(ctx context.Context, p int32) bool {
	s, known := r.left[p]
	end := r.ends[r.topic][p].End
	if !known || s.next >= end {
		return false
	}
	probe, err := r.probe(ctx, p)
	if err != nil {
		return false
	}
	next := s.next
	if _, err := probe.next(ctx, next); errors.Is(err, kerr.CorruptMessage) { // otherwise the answer is of before the last skip
		if next, err = r.beyond(ctx, p, next, end); err != nil {
			return false
		}
		r.note("note: %s: offsets %d to %d cannot be read and are skipped, at most %s", app.PartitionName(r.topic, p), s.next, next-1, text.Count(int(next-s.next), "record"))
	}
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: {p: {Epoch: -1, Offset: next}}})
	if r.left[p] = (span{next, s.end}); next >= s.end && !r.endless() {
		delete(r.left, p)
	}
	return true
}

// beyond finds an offset after from, below end, that can be read although the one before
// it cannot: where the damage ends, unless there is more of it; end if there is none. It
// doubles the distance until a fetch succeeds and then halves the interval, with some
// twenty small fetches.
func (r *reader) beyond(ctx context.Context, p int32, from, end int64) (int64, error) {
	probe, err := r.probe(ctx, p)
	if err != nil {
		return 0, err
	}
	damaged, readable := from, end
	for step := int64(1); damaged+step < end; step *= 2 {
		_, err := probe.next(ctx, damaged+step)
		if err == nil {
			readable = damaged + step
			break
		}
		if !unreadable(err) {
			return 0, err
		}
		damaged += step
	}
	for damaged+1 < readable {
		at := damaged + (readable-damaged)/2
		switch _, err := probe.next(ctx, at); {
		case err == nil:
			readable = at
		case unreadable(err):
			damaged = at
		default:
			return 0, err
		}
	}
	return readable, nil
}

// unread is what could not be read, an error for each partition; nil for nothing.
func (r *reader) unread() error {
	var all []error
	for _, p := range slices.Sorted(maps.Keys(r.lost)) {
		all = append(all, r.lost[p])
	}
	return errors.Join(all...)
}
