package controller

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/metadata"
)

const (
	// lossyPatience is how long the controller waits for all replicas of a partition before it
	// elects one of those that may all lack records, for another one with which one that is not
	// compared can be, and then for the report of an active one.
	lossyPatience = 10 * time.Second
	// reportInterval is the pause between two unclean elections, and reportTime the time that
	// brokers have to report their logs.
	reportInterval = time.Second
	reportTime     = time.Second
)

// noteStuck keeps since when a partition has no leader and cannot have one.
func (l *Loop) noteStuck(tp metadata.TopicPartition, p *metadata.Partition, now time.Duration) {
	if p.Leader != election.None {
		delete(l.stuck, tp)
		delete(l.silent, tp)
	} else if _, known := l.stuck[tp]; !known {
		l.stuck[tp] = now
	}
}

// mayLose reports whether a partition that is stuck since a time may get a leader that lacks
// acknowledged records: because its topic permits it (unclean.leader.election.enable), or because
// the replica that was in sync last lost records in the way that its durability profile permits.
func (l *Loop) mayLose(img *metadata.Image, t *metadata.Topic, v view, p *metadata.Partition, waited time.Duration) bool {
	if len(p.ISR)+len(p.ELR) == 0 && p.Last.Lossy {
		idle := slices.ContainsFunc(p.Replicas, func(b int32) bool { return !v.Active(b) })
		return !idle || waited >= lossyPatience
	}
	return waited >= l.opt.Timeout && l.opt.Unclean(img, t)
}

// complete returns the replicas that may have all records of a partition that has no leader. A
// replica that a reassignment adds has an unfinished copy, unless it was the last one in sync.
func complete(p *metadata.Partition) []int32 {
	if slices.Contains(p.Adding, p.Last.Broker) && !p.Last.IsZero() {
		return append(slices.Clone(p.Former()), p.Last.Broker)
	}
	return p.Former()
}

// aloneFor returns for how long a partition has had no leader although one of some replicas, which
// could lead, runs: for so long the others could have returned.
func (l *Loop) aloneFor(able []int32, waited, now time.Duration) time.Duration {
	var longest time.Duration
	for _, b := range able {
		if since, runs := l.running[b]; runs {
			longest = max(longest, now-since)
		}
	}
	return min(waited, longest)
}

// electByLogs elects leaders for partitions of which the logs decide: of the active replicas that
// are not compared, the one that goes furthest; and of a partition that may lose records, the one
// with the most. The logs that an unclean election chooses from are logged.
func (l *Loop) electByLogs(ctx context.Context, now time.Duration) error {
	if l.opt.LogStates == nil || len(l.stuck) == 0 || now-l.asked < reportInterval {
		return nil
	}
	l.asked = now
	known := l.known()
	img := known.img
	ask := map[int32][]metadata.TopicPartition{}
	var due []metadata.TopicPartition
	for tp, since := range l.stuck {
		t, p := img.TopicByID(tp.Topic), img.Partition(tp)
		if p == nil {
			delete(l.stuck, tp)
			delete(l.silent, tp)
			continue
		}
		v := known.of(tp)
		able, loses := l.decider(v, t, p, now).Comparable(p), l.mayLose(img, t, v, p, now-since)
		if p.Leader != election.None || len(able) == 0 && !loses {
			continue
		}
		due = append(due, tp)
		if loses {
			able = append(able, complete(p)...)
			slices.Sort(able)
		}
		l.addAsked(ask, v, slices.Compact(able))
		if len(due) == MaxPartitions {
			break // the others are elected in a later turn
		}
	}
	if len(due) == 0 {
		return nil
	}
	reports, silent := l.reports(ctx, img, ask)
	l.asked = l.opt.Now() // a broker that does not answer delays only every other step
	var changes []change
	alone := 0
	for _, tp := range due {
		t, p := img.TopicByID(tp.Topic), img.Partition(tp)
		v := known.of(tp)
		d, waited := l.decider(v, t, p, now), now-l.stuck[tp]
		_, missing := silent[tp] // the log that is not known may be the longest
		if !missing {
			delete(l.silent, tp)
		}
		missing = missing && l.awaits(tp, now)
		patient := l.aloneFor(d.Comparable(p), waited, now) >= lossyPatience
		next, changed := d.Compare(*p, reports[tp], patient && !missing)
		if changed && len(reports[tp]) < 2 {
			alone++
		}
		if !changed && l.mayLose(img, t, v, p, waited) && !missing {
			d.ISRLost = true
			next, changed = d.Unclean(*p, reports[tp])
		}
		if !changed {
			continue
		}
		logChoice(l.opt.Log, t, tp, &next, reports[tp], "the configuration")
		changes = append(changes, newChange(img, tp, p, next))
	}
	if alone > 0 {
		l.opt.Log.Warn("choosing leaders that came back after an unclean stop, and with whose logs no other one could be compared",
			zap.Int("partitions", alone))
	}
	revision, err := submit(ctx, l.store, changes)
	return errors.Join(err, l.opt.Images.WaitShown(ctx, revision))
}

// awaits reports whether an election still waits for a report that is missing.
func (l *Loop) awaits(tp metadata.TopicPartition, now time.Duration) bool {
	if _, known := l.silent[tp]; !known {
		l.silent[tp] = now
	}
	return now-l.silent[tp] < lossyPatience
}

// silence is why it is not known whether a broker has records of a partition.
type silence struct {
	broker int32
	// answered: the broker cannot use its log now, without known damage: a repair may be under way.
	answered bool
}

// reports asks the brokers that an image shows for the ends of logs, all at once. silent has the
// partitions of which a broker that did not report a log may have records, with one such broker,
// preferably one that failed or did not answer in time.
func (l *Loop) reports(ctx context.Context, img *metadata.Image, ask map[int32][]metadata.TopicPartition) (
	got map[metadata.TopicPartition][]election.LogState, silent map[metadata.TopicPartition]silence) {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	got, silent = map[metadata.TopicPartition][]election.LogState{}, map[metadata.TopicPartition]silence{}
	for broker, list := range ask {
		of, _ := img.Broker(broker) // an active broker is registered
		state, _ := img.State(broker)
		all.Go(func() {
			answer, err := l.opt.LogStates(ctx, &of, list)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				l.opt.Log.Warn("a broker did not report its logs", zap.Int32("broker", broker), zap.Error(err))
			}
			for _, tp := range list {
				r, reported := answer[tp]
				damaged := slices.Contains(state.Damaged, tp)
				_, placed := img.Placement(broker, tp)
				_, known := silent[tp]
				switch {
				case err != nil:
					silent[tp] = silence{broker, false}
				case reported:
					r.Broker, r.Damaged = broker, damaged
					got[tp] = append(got[tp], r)
				case placed && !damaged && !known:
					silent[tp] = silence{broker, true}
				}
			}
		})
	}
	all.Wait()
	return got, silent
}
