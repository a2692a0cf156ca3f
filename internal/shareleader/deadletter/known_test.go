package deadletter

import (
	"context"
	"fmt"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// letterTopic is a topic of dead letters that all leaders of a share partition reach. Each append
// is committed at once.
type letterTopic struct {
	last   Last
	copies map[int64]int
	lose   bool // the answer to the next append
}

func (t *letterTopic) find(string, [16]byte, int32) (Topic, error) {
	return Topic{Target{Topic: [16]byte{9}}, 1 << 20}, nil
}
func (t *letterTopic) exists(Target) bool   { return true }
func (t *letterTopic) name([16]byte) string { return "jobs" }

func (t *letterTopic) read(context.Context, *shareleader.Source, int64, int64, func(record.Record) int64) error {
	return nil
}

func (t *letterTopic) append(_ context.Context, to Target, after int64, b record.Batch) (Last, bool, error) {
	q := &request{Target: to, producer: b.ProducerID(), after: after, batch: b}
	if !q.follows(t.last, Broken{}) {
		return t.last, false, nil
	}
	l := Last{Offset: t.last.Offset + 1, Sequence: b.LastSequence()}
	var err error
	if l.Letters, l.Leader, err = lettersOf(b); err != nil {
		return none, false, err
	}
	for _, x := range l.Letters {
		t.copies[x.Offset]++
	}
	t.last = l
	if t.lose {
		t.lose = false
		return none, false, errLost
	}
	return Last{Offset: l.Offset, Sequence: l.Sequence, Leader: -1}, true, nil
}

// A record is copied, and its mark is not stored. Of the two leaders, one does not know the leader
// epoch of the record any more. The log has lost nothing, so there is no second copy.
func TestACopyIsKnownWhateverTheLogStartIs(t *testing.T) {
	known := func(e int32, list ...epochs.Entry) func() (epochs.Cache, error) {
		return func() (epochs.Cache, error) {
			of, err := epochs.Of(append([]epochs.Entry(nil), list...))
			of.Assign(e, 40)
			return of, err
		}
	}
	for name, x := range map[string]struct{ first, next func() (epochs.Cache, error) }{
		"deleted at the next": {known(5, epochs.Entry{Epoch: 3, Start: 0}, epochs.Entry{Epoch: 4, Start: 15}),
			known(6, epochs.Entry{Epoch: 4, Start: 15})},
		// Compaction has removed all up to 12, and the next one has copied the log since.
		"hole at the start": {known(5, epochs.Entry{Epoch: 3, Start: 0}),
			known(6, epochs.Entry{Epoch: 3, Start: 13})},
	} {
		t.Run(name, func(t *testing.T) {
			topic := &letterTopic{last: none, copies: map[int64]int{}, lose: true}
			to := shareleader.LettersTo{Topic: "dlq", Deliveries: 5}
			letters := []window.Letters{{First: 10, Last: 10, Count: 1}}
			a := newCopier(topic, shareleader.Source{Epoch: 5, Epochs: x.first}, Broken{})
			if _, err := a.Copy(t.Context(), to, letters); err == nil {
				t.Fatal("the answer is not lost")
			}
			b := newCopier(topic, shareleader.Source{Epoch: 6, Epochs: x.next}, Broken{})
			got, err := b.Copy(t.Context(), to, letters)
			if err != nil || fmt.Sprint(topic.copies) != "map[10:1]" {
				t.Errorf("copies: %v, archives %v, %v", topic.copies, got, err)
			}
		})
	}
}
