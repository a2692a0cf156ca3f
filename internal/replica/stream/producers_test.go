package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// idempotent appends a batch of a producer with a sequence number.
func (n *node) idempotent(producer int64, sequence int32) *outcome {
	b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: producer, Sequence: sequence}})
	b.Append(1, nil, []byte("v"), nil)
	data, err := b.Build()
	must(n.w.t, err)
	d := &outcome{ended: make(chan struct{})}
	d.LeaderEpoch, d.Acks = -1, replica.AcksAll
	d.Batches = record.Accepted{Bytes: data, Batches: 1, Records: 1}
	d.Done = func(*replica.Append) { close(d.ended) }
	n.partition(0).Append(&d.Append, nil)
	return d
}

// A log that begins at its leader's start knows the producers whose last batches are below: it may
// lead when one of these is sent again. It knows them, too, after a loss of power and a truncation.
func TestALogThatBeginsAgainKnowsItsProducers(t *testing.T) {
	bubble(t, func(t *testing.T) { must(t, beginsAgain(t, 0, 10, 0)) })
}

// Their state may be larger than a frame.
func TestStateOfManyProducersTakesSeveralFrames(t *testing.T) {
	bubble(t, func(t *testing.T) { must(t, beginsAgain(t, 0, frame.MaxPiece/47+100, 0)) }) // a producer takes 47 bytes
}

// A follower asks again if a part of the state is lost, or arrives twice.
func TestStateOfProducersThatIsNotWhole(t *testing.T) {
	for name, copies := range map[string]int{"lost": -1, "twice": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { must(t, beginsAgain(t, 0, frame.MaxPiece/47+100, copies)) })
		})
	}
}

// beginsAgain lets one of three logs begin where others have deleted the batches of many producers.
// more is how often the first frame with their state arrives besides once.
func beginsAgain(t testing.TB, broken rule, count, more int) error {
	w := newWorld(t, 1)
	w.broken = broken
	defer w.close()
	frames := 0
	w.fault = func(_, _ int32, kind frame.Kind, raw []byte) (all [][]byte) {
		n := 1
		if kind == frame.PR {
			if frames++; frames == 1 {
				n += more
			}
		}
		for range n {
			all = append(all, raw)
		}
		return all
	}
	w.assign(1, 1, 1, 2)
	l := w.start(1)
	w.start(2)
	var all []*outcome
	for id := range count {
		all = append(all, l.idempotent(int64(id), 0))
	}
	for _, d := range all {
		must(t, d.wait(t))
	}
	must(t, l.produce(0, replica.AcksAll, 1, 10).wait(t))
	low, err := l.partition(0).DeleteRecords(context.Background(), int64(count))
	must(t, err)
	w.start(3)
	w.converge(1, 2, 3)
	if e := w.nodes[3].partition(0).Ends(); low != int64(count) || e.LogStart != low {
		return fmt.Errorf("the log begins at %d, %+v", low, e)
	}
	must(t, l.produce(0, replica.AcksAll, 1, 10).wait(t))
	w.converge(1, 2, 3)
	w.stop(3, true)
	n := w.start(3)
	w.assign(3, 2, 1, 2, 3)
	w.converge(3, 1, 2)
	for id := range int64(count) {
		all[id] = n.idempotent(id, 0)
	}
	for id, d := range all {
		if err := d.wait(t); err != nil || d.BaseOffset != int64(id) {
			return fmt.Errorf("what producer %d has sent again is at %d, %w", id, d.BaseOffset, err)
		}
	}
	synctest.Wait()
	if e := n.partition(0).Ends(); e.LogEnd != int64(count)+2 {
		return fmt.Errorf("the log has ended at %d, and ends at %d", count+2, e.LogEnd)
	}
	must(t, n.idempotent(0, 1).wait(t))
	return nil
}

// sentIn returns the kinds of frames of one write, and the answers in it.
func sentIn(t testing.TB, o *outgoing) (kinds []frame.Kind, answers []frame.Verdict) {
	t.Helper()
	v := &vector{}
	o.Fill(v)
	for _, raw := range v.frames {
		h, err := frame.ParseHeader(raw, frame.MinVersion)
		must(t, err)
		kinds = append(kinds, h.Kind)
		if h.Kind == frame.VD {
			add := func(x frame.Verdict) { answers = append(answers, x) }
			must(t, each(raw[frame.HeaderSize:], frame.VerdictSize, frame.ParseVerdict, add))
		}
	}
	return kinds, answers
}

// Data of other partitions do not wait until all logs that begin again have theirs. The state is
// in memory for few of them.
func TestDataPassTheStateOfProducers(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	w.assign(1, 1, 1)
	l := w.start(1)
	const count = 2 * frame.MaxPiece / 47
	for id := range int64(count) {
		l.idempotent(id, 0)
	}
	must(t, l.idempotent(0, 1).wait(t))
	o, b := l.subscriber()
	defer b.part.dropSub(b)
	for i := range 100 {
		o.resetLocked(b.part, 1, uint32(i+2), count)
	}
	o.ready.push(b)
	o.recall()
	if n := len(o.recalled); n == 0 || o.ahead > maxAhead+2*frame.MaxPiece {
		t.Errorf("%d bytes for %d logs are in memory", o.ahead, n)
	}
	if kinds, _ := sentIn(t, o); !slices.Equal(kinds[:2], []frame.Kind{frame.PR, frame.DA}) {
		t.Errorf("the first write has %v", kinds)
	}
	answered := 0
	for range 1000 {
		o.recall()
		_, answers := sentIn(t, o)
		answered += len(answers)
	}
	if answered != 100 || o.ahead != 0 || len(o.resets)+len(o.recalled) > 0 {
		t.Errorf("%d logs have an answer, %d bytes are left", answered, o.ahead)
	}
}

// A broker that leads no longer, or whose log is gone, reports nothing: its own log may have begun
// again, or be empty.
func TestOnlyALeaderReports(t *testing.T) {
	w := newWorld(t, 1)
	defer w.close()
	w.assign(1, 1, 1)
	l := w.start(1)
	for id := range int64(3) {
		must(t, l.idempotent(id, 0).wait(t))
	}
	o, b := l.subscriber()
	defer b.part.dropSub(b)
	o.resetLocked(b.part, 1, 5, 3)
	w.assign(2, 2, 2)
	o.recall()
	if kinds, answers := sentIn(t, o); len(answers) != 1 || answers[0].Decision != frame.NotHere || slices.Contains(kinds, frame.PR) {
		t.Errorf("a former leader sends %v, %+v", kinds, answers)
	}
	w.assign(1, 3, 1)
	o.resetLocked(b.part, 3, 6, 3)
	must(t, b.part.log.Dir().Delete(b.part.log))
	o.recall()
	if kinds, answers := sentIn(t, o); len(answers) != 1 || answers[0].Decision != frame.Busy || slices.Contains(kinds, frame.PR) {
		t.Errorf("a leader without a log sends %v, %+v", kinds, answers)
	}
}

// A log that begins behind a marker refuses those of former coordinators when its broker leads.
func TestALogThatBeginsAgainKnowsCoordinators(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		w.assign(1, 1, 1, 2)
		l := w.start(1)
		w.start(2)
		sequence := int32(-1)
		transaction := func() *outcome {
			sequence++
			b := record.NewBuilder(record.BatchOptions{Producer: &record.Producer{ID: 7, Sequence: sequence}, Transactional: true})
			b.Append(1, nil, []byte("v"), nil)
			data, err := b.Build()
			must(t, err)
			d := &outcome{ended: make(chan struct{})}
			d.LeaderEpoch, d.Acks = -1, replica.AcksAll
			d.Permit = producers.Permit{Guard: l.partition(0).Log().Guard(7), CoordinatorEpoch: 9}
			d.Batches = record.Accepted{Bytes: data, Batches: 1, Records: 1}
			d.Done = func(*replica.Append) { close(d.ended) }
			l.partition(0).Append(&d.Append, nil)
			return d
		}
		marker := func(n *node, kind record.ControlType, coordinator int32) *outcome {
			d := &outcome{ended: make(chan struct{})}
			d.LeaderEpoch, d.Acks, d.Kind, d.Durable = -1, replica.AcksAll, storage.Marker, true
			d.Batches = record.Accepted{Bytes: record.EndTxnMarker(7, 0, kind, coordinator, 1), Batches: 1, Records: 1}
			d.Done = func(*replica.Append) { close(d.ended) }
			n.partition(0).Append(&d.Append, nil)
			return d
		}
		must(t, transaction().wait(t))
		must(t, marker(l, record.Commit, 3).wait(t))
		_, err := l.partition(0).DeleteRecords(t.Context(), 2)
		must(t, err)
		must(t, transaction().wait(t))
		w.start(3)
		w.converge(1, 2, 3)
		w.assign(3, 2, 1, 2, 3)
		w.converge(3, 1, 2)
		if err := marker(w.nodes[3], record.Abort, 2).wait(t); !errors.Is(err, producers.ErrCoordinatorFenced) {
			t.Errorf("the marker of a former coordinator: %v", err)
		}
	})
}
