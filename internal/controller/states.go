package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/metadata"
)

// judge returns the states of brokers that have to change.
func (l *Loop) judge(now time.Duration) (*metadata.Image, map[int32]metadata.BrokerState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	img, next := l.imageLocked(), map[int32]metadata.BrokerState{}
	var kept [16]byte
	if l.opt.Leadership.Sole() { // no other controller can exist, and this process runs
		kept = l.opt.Own
	}
	for _, id := range l.sessions.expired(now, l.opt.Interval, kept) {
		if state, _ := img.State(id); state.Liveness != metadata.Fenced {
			state.Liveness = metadata.Fenced
			next[id] = state
		} else {
			l.sessions.fenced(id, now)
		}
	}
	for _, b := range img.Brokers() {
		incarnation, last, ok := l.sessions.live(b.ID)
		state, _ := img.State(b.ID)
		l.noteRunning(b.ID, state.Liveness, now)
		if _, ends := next[b.ID]; ends || !ok || incarnation != b.Incarnation || state.Incarnation != b.Incarnation {
			continue
		}
		if state.Liveness != metadata.Draining {
			delete(l.draining, b.ID)
		} else if _, known := l.draining[b.ID]; !known {
			l.draining[b.ID] = now
		}
		late := now-l.draining[b.ID] >= l.opt.DrainTime
		to := nextState(img, &b, state, last, l.sessions.proof(b.ID, now), late)
		if !to.Equal(&state) {
			next[b.ID] = to
		}
	}
	l.noteShunnedLocked(img, now)
	return img, next
}

// noteShunnedLocked keeps which brokers are shunned. If they change, every partition is
// examined: a leadership of such a broker moves if another replica in sync can lead. One that can
// be reached again leads again by the election of preferred leaders. The caller holds mu.
func (l *Loop) noteShunnedLocked(img *metadata.Image, now time.Duration) {
	shunned := l.sessions.shunned(img, l.shunned, func(b int32) bool { return now-l.running[b] < 2*l.opt.Timeout })
	if slices.Equal(shunned, l.shunned) {
		return
	}
	l.opt.Log.Warn("brokers to which most others cannot connect have changed: they get no leadership that another replica can have",
		zap.Int32s("brokers", shunned), zap.Int32s("before", l.shunned))
	l.shunned, l.all = shunned, true
}

// known returns what decisions follow from.
func (l *Loop) known() knowledge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.knownLocked()
}

func (l *Loop) knownLocked() knowledge { return knowledge{l.imageLocked(), l.shunned} }

// noteRunning keeps since when a broker runs.
func (l *Loop) noteRunning(broker int32, is metadata.Liveness, now time.Duration) {
	if !running(is) {
		delete(l.running, broker)
	} else if _, known := l.running[broker]; !known {
		l.running[broker] = now
		l.balanceAt = min(l.balanceAt, now+settleTime)
		l.asked = min(l.asked, now-reportInterval) // its logs may be those that a comparison waits for
	}
}

// steady reports whether a broker has been running for a session timeout without a break.
func (l *Loop) steady(broker int32, now time.Duration) bool {
	since, running := l.running[broker]
	return running && now-since >= l.opt.Timeout
}

// nextState returns the state of a broker with a session, from its newest heartbeat. What earlier
// ones said does not count: a directory that works again can have its replicas in sync again. That
// is safe, because a replica left ISR and ELR with its directory or its damage, or stayed eligible
// with a log that has all it acknowledged, and joins the ISR by its end, as every follower does.
// proof reports that it knows the metadata since its session began, and late that it has drained
// for too long.
func nextState(img *metadata.Image, b *metadata.Broker, state metadata.BrokerState, last Heartbeat, proof, late bool) metadata.BrokerState {
	if last.Sequence == 0 || last.Epoch != b.Epoch {
		return state // nothing was heard from this registration yet
	}
	to := state
	to.Unable, to.Damaged = last.Unable, last.Damaged
	if last.Applied >= b.Epoch { // before, it does not know what the registration has recorded
		to.Uncompared, to.UncomparedLogs = state.Uncompared && last.Uncompared, last.UncomparedLogs
		if !state.Uncompared {
			to.UncomparedLogs = keptOf(state.UncomparedLogs, last.UncomparedLogs)
		}
	}
	if (broken{}).Has(KeepUnable) && len(last.Unable) == 0 {
		to.Unable = state.Unable
	}
	switch {
	case (state.Liveness == metadata.Starting || state.Liveness == metadata.Fenced) && last.Ready && proof:
		to.Liveness = metadata.Active // one that was fenced while it ran does not start again
	case state.Liveness == metadata.Active && last.Drain:
		to.Liveness = metadata.Draining
	case state.Liveness == metadata.Draining && (late || !leads(img, b.ID, last.Applied)):
		to.Liveness = metadata.Drained
	}
	return to
}

// keptOf returns the logs of a list that are also in another one.
func keptOf(list, other []metadata.TopicPartition) (kept []metadata.TopicPartition) {
	for _, tp := range list {
		if slices.Contains(other, tp) {
			kept = append(kept, tp)
		}
	}
	return kept
}

// limitDamaged bounds the damaged logs in the state of a broker, so that its value has a bound. If
// they are too many, those that are the only replica are left out, because no other one can lead;
// and if that is not enough, the directories that they are in count as failed.
func limitDamaged(img *metadata.Image, broker int32, state metadata.BrokerState) metadata.BrokerState {
	if len(state.Damaged) > MaxReportedDamaged {
		state.Damaged = slices.DeleteFunc(slices.Clone(state.Damaged), func(tp metadata.TopicPartition) bool {
			p := img.Partition(tp)
			return p != nil && len(p.Replicas) == 1
		})
	}
	if len(state.Damaged) <= MaxReportedDamaged {
		return state
	}
	damaged := state.Damaged
	state.Damaged = nil
	for _, tp := range damaged {
		if dir, ok := img.Placement(broker, tp); ok && state.Fault(dir) == 0 {
			state.Unable = append(slices.Clip(state.Unable), metadata.UnableDir{ID: dir, Why: metadata.DirFailed})
		}
	}
	return state
}

// leads reports whether a broker leads a partition that another member of its ISR could lead, or
// may believe so: it has applied an earlier revision than that of the partition's record. A drained
// broker leaves the ISR at once, and one that stopped before would stay in it as long as its
// session.
func leads(img *metadata.Image, broker int32, applied int64) bool {
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			switch {
			case !slices.Contains(p.ISR, broker):
			case p.Leader != broker && p.Revision > applied:
				return true
			case p.Leader == broker && knowledge{img: img}.of(metadata.TopicPartition{Topic: t.ID, Partition: i}).replaceable(p):
				return true
			}
		}
	}
	return false
}

// writeStates writes states of brokers, each if it is as in the image.
func (l *Loop) writeStates(ctx context.Context, img *metadata.Image, states map[int32]metadata.BrokerState) (revision int64, err error) {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(states)) {
		state := states[id]
		was, at := img.State(id)
		written, err := l.store.Txn(ctx, metadata.Txn{
			If:  []metadata.Compare{{Key: metadata.LivenessKey(id), ModRevision: at}},
			Put: []metadata.KV{{Key: metadata.LivenessKey(id), Value: state.Encode()}},
		})
		newer, refused := metadata.Refused(err)
		switch {
		case refused:
			revision = max(revision, newer)
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		revision = max(revision, written)
		l.opt.Log.Info("broker state changed", zap.Int32("broker", id), zap.Stringer("from", was.Liveness),
			zap.Stringer("to", state.Liveness))
	}
	return revision, errors.Join(errs...)
}
