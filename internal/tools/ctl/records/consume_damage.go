package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// A partition that cannot be read does not stop the others: the reader skips it and reports its
// error at the end. A following reader reports the error at once and keeps trying, because the
// broker may recover.

// retryGap is how long the reader pauses a partition after an error.
const retryGap = time.Second

// unreadable reports whether an error means that the records of a partition cannot be read.
func unreadable(err error) bool {
	return errors.Is(err, kerr.KafkaStorageError) || errors.Is(err, kerr.CorruptMessage)
}

// lose stops reading a partition and records the error to report.
func (r *reader) lose(p partition, err error) {
	delete(r.left, p)
	if r.lost[p] != nil {
		return
	}
	r.lost[p] = err
	if r.follow {
		r.note("note: %v; reading the other partitions and retrying this one", err)
	}
}

// recovered resumes a lost partition that can be read again.
func (r *reader) recovered(p partition) {
	if r.lost[p] != nil {
		delete(r.lost, p)
		r.note("note: %v can be read again", p)
	}
}

// failed handles an error of one partition: the partition is lost, or paused and fetched again. It
// returns any other error.
func (r *reader) failed(ctx context.Context, p partition, err error) error {
	switch k := (*kerr.Error)(nil); {
	case r.skipDamaged && errors.Is(err, kerr.CorruptMessage) && r.skip(ctx, p):
		return nil
	case unreadable(err):
		if r.lost[p] == nil {
			err = r.explain(ctx, p, err)
		}
		r.lose(p, err)
	case !errors.As(err, &k) || !k.Retriable:
		return app.Refused(p.String(), app.Needs(err, app.OnTopic("read", p.topic)), "")
	}
	// Without a pause the client would fetch again at once, forever.
	r.client.PauseFetchPartitions(p.asMap())
	r.paused[p] = time.Now().Add(retryGap)
	return nil
}

// resume fetches partitions whose pause is over. Only a following reader retries lost partitions.
func (r *reader) resume() {
	now := time.Now()
	for p, until := range r.paused {
		if now.After(until) && (r.follow || r.lost[p] == nil) {
			delete(r.paused, p)
			r.client.ResumeFetchPartitions(p.asMap())
		}
	}
}

// explain adds to the error of a damaged batch the next offset that can be read, and the command
// for it.
func (r *reader) explain(ctx context.Context, p partition, err error) error {
	message := ""
	s, known := r.left[p]
	if end := r.ends[p.topic][p.index].End; known && s.next < end && errors.Is(err, kerr.CorruptMessage) {
		message = fmt.Sprintf("nothing can be read from offset %d on", s.next)
		if next, err := r.endOfDamage(ctx, p, s.next, end); err == nil && next < end {
			message = fmt.Sprintf("offsets %d to %d cannot be read; ", s.next, next-1) + r.howToContinue(p, next)
		}
	}
	return app.Refused(p.String(), err, message)
}

// howToContinue returns how to continue reading a partition at an offset.
func (r *reader) howToContinue(p partition, next int64) string {
	at := strconv.FormatInt(next, 10)
	if r.group != "" {
		return health.Command("chronikctl", "group", "reset", r.group, "--topic", fmt.Sprintf("%s:%d", p.topic, p.index), "--to-offset",
			at) +
			", while the group has no members, moves the group past them"
	}
	return health.Command("chronikctl", "consume", p.topic, "--partition", strconv.Itoa(int(p.index)), "--from", at) +
		" reads the records after them, --skip-damaged all others"
}

// skip continues after the damage at a partition's next offset and reports the skipped offsets. It
// returns false if it cannot find the end of the damage.
func (r *reader) skip(ctx context.Context, p partition) bool {
	s, known := r.left[p]
	end := r.ends[p.topic][p.index].End
	if !known || s.next >= end {
		return false
	}
	probe, err := r.probe(ctx, p)
	if err != nil {
		return false
	}
	next := s.next
	if _, err := probe.next(ctx, next); errors.Is(err, kerr.CorruptMessage) { // if it succeeds, the error is older than the last skip
		if next, err = r.endOfDamage(ctx, p, next, end); err != nil {
			return false
		}
		r.note("note: %v: offsets %d to %d cannot be read and are skipped, at most %s", p, s.next, next-1,
			text.Count(int(next-s.next), "record"))
	}
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {p.index: {Epoch: -1, Offset: next}}})
	if r.left[p] = (span{next, s.end}); next >= s.end && !r.endless() {
		delete(r.left, p)
	}
	return true
}

// endOfDamage returns an offset after from and below end that can be read although the one before
// it cannot: the end of the damage, or of one of several damaged ranges. It returns end if there is
// none. It doubles the distance until a fetch succeeds, then halves the interval: about twenty
// small fetches.
func (r *reader) endOfDamage(ctx context.Context, p partition, from, end int64) (int64, error) {
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

// lostErrors returns an error for each partition that could not be read, or nil.
func (r *reader) lostErrors() error {
	var all []error
	for _, p := range sorts.Sorted(maps.Keys(r.lost), partition.compare) {
		all = append(all, r.lost[p])
	}
	return errors.Join(all...)
}
