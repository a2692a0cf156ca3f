package stream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/chronik-io/chronik/internal/link/frame"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
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
