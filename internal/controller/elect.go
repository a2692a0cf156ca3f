package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

// Usable reports whether a broker runs and the log directory of its replica of a partition works,
// as far as the controller knows.
func Usable(img *metadata.Image, tp metadata.TopicPartition, broker int32) bool {
	v := knowledge{img: img}.of(tp)
	return v.Running(broker) && v.Online(broker)
}

// decision decides about one partition. Its error is an *Error.
type decision func(metadata.TopicPartition, *metadata.Partition) (metadata.Partition, error)

// round prepares decisions about partitions on an image.
type round func(img *metadata.Image, list []metadata.TopicPartition) decision

// changeEach changes the records of partitions, each in a transaction of its own. A change that is
// refused because the partition or one of its brokers has changed is decided again. So is the first
// decision that nothing has to change: it may be of an image that is behind. The image of the next
// one has what the leader has acknowledged. It returns an error or nil for each partition, and a
// revision that shows the result. what is for errors.
func changeEach(ctx context.Context, store writer, images *metadata.Applier, what string, list []metadata.TopicPartition, begin round) (
	revision int64, errs []error) {
	errs = make([]error, len(list))
	pending := make([]int, len(list))
	for i := range list {
		pending[i] = i
	}
	for attempt := 0; len(pending) > 0; attempt++ {
		img := images.Image()
		revision = max(revision, img.Version())
		asked := make([]metadata.TopicPartition, len(pending))
		for k, i := range pending {
			asked[k] = list[i]
		}
		decide := begin(img, asked)
		var changes []change
		var again []int
		for _, i := range pending {
			next, err := decideOne(img, list[i], decide)
			var refused *Error
			switch {
			case errors.Is(err, errUnchanged) && attempt > 0:
			case errors.Is(err, errUnchanged):
				again = append(again, i)
			case attempt > 0 && errors.As(err, &refused) && refused.done(): // by the former attempt
			case err != nil:
				errs[i] = err
			case attempt == maxAttempts:
				errs[i] = fmt.Errorf("%s: %w", what, metadata.ErrConflict)
			default:
				changes, again = append(changes, newChange(img, list[i], img.Partition(list[i]), next)), append(again, i)
			}
		}
		pending = again
		at, err := submit(ctx, store, changes)
		if err == nil && len(pending) > 0 && len(changes) == 0 {
			at, err = store.Txn(ctx, metadata.Txn{})
		}
		if err == nil {
			err = images.WaitShown(ctx, at)
		}
		if err != nil {
			for _, i := range pending {
				errs[i] = fmt.Errorf("%s: %w", what, err)
			}
			break
		}
		revision = max(revision, at)
	}
	return revision, errs
}

func decideOne(img *metadata.Image, tp metadata.TopicPartition, decide decision) (metadata.Partition, error) {
	p := img.Partition(tp)
	if p == nil {
		return metadata.Partition{}, refuse(UnknownTopic, "The partition does not exist.")
	}
	return decide(tp, p)
}

// ElectPreferred makes the first replicas of partitions their leaders. It returns an error or nil
// for each partition, and a revision that shows the result. Any broker may call it.
func (c *Controller) ElectPreferred(ctx context.Context, images *metadata.Applier, list []metadata.TopicPartition) (revision int64,
	errs []error) {
	return changeEach(ctx, c.opts.Store, images, "elect a leader", list, func(img *metadata.Image, _ []metadata.TopicPartition) decision {
		return func(tp metadata.TopicPartition, p *metadata.Partition) (metadata.Partition, error) {
			if p.Leader == p.Replicas[0] {
				return *p, refuse(ElectionNotNeeded, "Leader election not needed for topic partition.")
			}
			next, changed := election.Decider{View: c.known(img).of(tp)}.Prefer(*p)
			if !changed {
				return *p, refuse(PreferredLeaderNotAvailable, "The preferred leader was not available.")
			}
			return next, nil
		}
	})
}

// ConfirmLosses records that an operator knows of the losses of partitions: those that are not
// confirmed are a finding of every broker. The first one raises the feature level. It returns an
// error or nil for each partition, and a revision that shows the result. Any broker may call it.
func (c *Controller) ConfirmLosses(ctx context.Context, images *metadata.Applier, list []metadata.TopicPartition) (revision int64,
	errs []error) {
	img := images.Image()
	some := slices.ContainsFunc(list, func(tp metadata.TopicPartition) bool { p := img.Partition(tp); return p != nil && p.Lost() })
	if some {
		at, err := c.Raise(ctx, metadata.ConfirmLevel)
		if err == nil {
			err = images.WaitShown(ctx, at)
		}
		if err != nil {
			return 0, slices.Repeat([]error{err}, len(list))
		}
	}
	return changeEach(ctx, c.opts.Store, images, "confirm a loss", list, func(now *metadata.Image, _ []metadata.TopicPartition) decision {
		return func(_ metadata.TopicPartition, p *metadata.Partition) (metadata.Partition, error) {
			if !p.Lost() {
				return *p, refuse(ElectionNotNeeded, "The partition has no loss to confirm.")
			}
			if now.FeatureLevel() < metadata.ConfirmLevel { // the loss was not there when the level was raised
				return *p, refuse(InvalidFeature, "the loss is newer than the request: read the findings again, and confirm it")
			}
			next := *p
			next.Confirmed = p.Unclean
			next.PartitionEpoch++
			return next, nil
		}
	})
}

// ElectUnclean elects leaders for partitions that have none: of their active replicas, the one with
// the most records, although it may lack acknowledged ones. The logs that it chooses from are
// logged; observe.Cluster logs the elections themselves. It returns an error or nil for each
// partition, and a revision that shows the result. Only the broker that leads the metadata may call
// it; otherwise all errors match ErrNotController.
func (l *Loop) ElectUnclean(ctx context.Context, list []metadata.TopicPartition) (revision int64, errs []error) {
	errs = make([]error, len(list))
	l.mu.Lock()
	leads, store := l.sessions != nil, l.store
	l.mu.Unlock()
	var err error
	switch {
	case !leads:
		err = ErrNotController
	case len(list) > MaxPartitions:
		err = refuse(InvalidRequest, "%d partitions are more than the %d of one election", len(list), MaxPartitions)
	case l.opt.LogStates == nil:
		err = refuse(EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
	default:
		return changeEach(ctx, store, l.opt.Images, "elect a leader", list,
			func(img *metadata.Image, list []metadata.TopicPartition) decision { return l.losing(ctx, img, list) })
	}
	for i := range errs {
		errs[i] = err
	}
	return 0, errs
}

// losing asks the active replicas of partitions for their logs, and returns the function that
// elects one of them.
func (l *Loop) losing(ctx context.Context, img *metadata.Image, list []metadata.TopicPartition) decision {
	ask := map[int32][]metadata.TopicPartition{}
	for _, tp := range list {
		if p := img.Partition(tp); p != nil && p.Leader == election.None {
			l.addAsked(ask, knowledge{img: img}.of(tp), p.Replicas)
		}
	}
	reports, silent := l.reports(ctx, img, ask)
	return func(tp metadata.TopicPartition, p *metadata.Partition) (metadata.Partition, error) {
		if p.Leader != election.None {
			return *p, refuse(ElectionNotNeeded, "Leader election not needed for topic partition.")
		}
		if x, missing := silent[tp]; missing && !x.answered { // its log may be the longest
			return *p, refuse(EligibleLeadersNotAvailable, "Broker %d has not reported its log; try again, or stop it first.", x.broker)
		}
		t := img.TopicByID(tp.Topic)
		v := knowledge{img, l.known().shunned}.of(tp)
		d := election.Decider{View: v, MinISR: l.opt.MinISR(img, t, p), ISRLost: true, Generation: img.Generation()}
		next, changed := d.Unclean(*p, reports[tp])
		if !changed || next.Leader == election.None {
			return *p, refuse(EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
		}
		logChoice(l.opt.Log, t, tp, &next, reports[tp], "an operator")
		return next, nil
	}
}

// addAsked adds those of some replicas of a partition that may become its leader to those that are
// asked for their logs.
func (l *Loop) addAsked(ask map[int32][]metadata.TopicPartition, v view, replicas []int32) {
	for _, b := range replicas {
		if v.Active(b) && v.Online(b) {
			ask[b] = append(ask[b], v.tp)
		}
	}
}

// logChoice logs the logs that an unclean election chooses from, before its record is written: a
// controller may never learn whether it was. by names who permits the election.
func logChoice(log *zap.Logger, t *metadata.Topic, tp metadata.TopicPartition, next *metadata.Partition, logs []election.LogState,
	by string) {
	if next.Unclean == next.LeaderEpoch {
		silent := []int32{} // replicas whose logs were not compared
		for _, b := range next.Replicas {
			if logs != nil && !slices.ContainsFunc(logs, func(r election.LogState) bool { return r.Broker == b }) {
				silent = append(silent, b)
			}
		}
		log.Warn("choosing a leader that may lack acknowledged records", zap.String("topic", t.Name), zap.Int32("partition", tp.Partition),
			zap.Int32("leader", next.Leader), zap.Int32("epoch", next.LeaderEpoch), zap.String("permitted_by", by), zap.Any("logs", logs),
			zap.Int32s("not_compared", silent))
	}
}
