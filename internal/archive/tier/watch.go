package tier

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/tierread"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

// Watch notes which partitions' reads from the store fail. It implements replica.Tiers.
type Watch struct {
	Reads replica.Tiers
	// Name returns the name of a topic, empty if it was deleted.
	Name   func(id [16]byte) string
	Logger *zap.Logger

	mu      sync.Mutex // guards the following field
	failing map[asked]*unread
}

// asked is what is read of a partition. Each kind reads objects of its own: that one is read says
// nothing about another.
type asked struct {
	of   metadata.TopicPartition
	what string
}

const (
	askedRecords = "records"
	askedAborted = "aborted transactions"
	askedTimes   = "timestamps"
)

// unread is what no read of a partition has got since the first failure.
type unread struct {
	since, last time.Time
	err         error
	logged      bool
}

// A read may fail because the metadata have changed meanwhile, so the reads of a partition must
// fail for leastUnread until it counts. forgetUnread is how long it counts after the last failure:
// no client asks any longer.
const (
	leastUnread  = 5 * time.Second
	forgetUnread = time.Minute
)

// errSlow replaces the end of a reader's patience, after which the transfer continues.
var errSlow = errors.New("the object store answers later than reads wait (remote.fetch.max.wait.ms, and for searches by time " +
	"remote.list.offsets.request.timeout.ms)")

// note notes the end of a read.
func (w *Watch) note(tp metadata.TopicPartition, what string, err error) {
	if errors.Is(err, storage.ErrOffsetOutOfRange) || errors.Is(err, tierread.ErrClosed) {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	key := asked{tp, what}
	x := w.failing[key]
	if err == nil {
		if x != nil && x.logged {
			w.Logger.Info(what+" can be read from the object store again", zap.String("topic", w.Name(tp.Topic)),
				zap.Int32("partition", tp.Partition))
		}
		delete(w.failing, key)
		return
	}
	if x == nil || now.Sub(x.last) > forgetUnread {
		if w.failing == nil {
			w.failing = map[asked]*unread{}
		}
		x = &unread{since: now}
		w.failing[key] = x
	}
	if x.last, x.err = now, err; !x.logged && now.Sub(x.since) >= leastUnread {
		x.logged = true
		w.Logger.Warn(what+" cannot be read from the object store", zap.String("topic", w.Name(tp.Topic)),
			zap.Int32("partition", tp.Partition), zap.Time("since", x.since), zap.Error(err))
	}
}

// Failures returns the partitions whose reads fail, by topic and partition, each once. Since is the
// first failure after which no read of the kind has succeeded.
func (w *Watch) Failures() (list []Failure) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, x := range w.failing {
		tp, name := key.of, w.Name(key.of.Topic)
		if now.Sub(x.last) > forgetUnread || name == "" {
			delete(w.failing, key)
			continue
		}
		if x.last.Sub(x.since) < leastUnread {
			continue
		}
		err := x.err
		if errors.Is(err, context.DeadlineExceeded) {
			err = errSlow
		}
		list = append(list, Failure{Topic: name, Partition: tp.Partition, Since: x.since, Err: err})
	}
	sorts.Sort(list, func(a, b Failure) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), a.Since.Compare(b.Since),
			strings.Compare(a.Err.Error(), b.Err.Error()))
	})
	return slices.CompactFunc(list, func(a, b Failure) bool { return a.Topic == b.Topic && a.Partition == b.Partition })
}

// Read implements replica.Tiers.
func (w *Watch) Read(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, offset, limit int64, max int, atLeastOne bool) (
	storage.Slice, error) {
	s, err := w.Reads.Read(ctx, tp, t, offset, limit, max, atLeastOne)
	w.note(tp, askedRecords, err)
	return s, err
}

// Aborted implements replica.Tiers.
func (w *Watch) Aborted(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, from, limit int64) (
	list []txnindex.Entry, more bool, err error) {
	list, more, err = w.Reads.Aborted(ctx, tp, t, from, limit)
	w.note(tp, askedAborted, err)
	return list, more, err
}

// FindTime implements replica.Tiers.
func (w *Watch) FindTime(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier, ts int64) (storage.Timestamp, error) {
	found, err := w.Reads.FindTime(ctx, tp, t, ts)
	w.note(tp, askedTimes, err)
	return found, err
}

// MaxTime implements replica.Tiers.
func (w *Watch) MaxTime(ctx context.Context, tp metadata.TopicPartition, t *metadata.Tier) (storage.Timestamp, error) {
	found, err := w.Reads.MaxTime(ctx, tp, t)
	w.note(tp, askedTimes, err)
	return found, err
}
