package deadletter

import (
	"context"
	"fmt"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sharegroup/window"
	"github.com/chronik-io/chronik/internal/shareleader"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// oneEpoch returns the leader epochs of a log with records of one.
func oneEpoch() (known epochs.Cache, err error) {
	known.Assign(0, 0)
	return known, nil
}

// oneBatch is a log of one batch. It shows what was inflated and what was copied.
type oneBatch struct {
	*Desk
	batch  record.Batch
	reads  int
	copies map[int64]string
}

func (w *oneBatch) find(string, [16]byte, int32) (Topic, error) {
	return Topic{Target{Topic: [16]byte{2}}, 1 << 20}, nil
}

func (w *oneBatch) name([16]byte) string { return "jobs" }

func (w *oneBatch) read(_ context.Context, _ *shareleader.Source, from, _ int64, fn func(record.Record) int64) error {
	w.reads++
	_, _, err := w.each(&replica.ReadResult{Slice: storage.Slice{Parts: [][]byte{w.batch}}}, from, fn)
	return err
}

func (w *oneBatch) append(_ context.Context, _ Target, _ int64, b record.Batch) (Last, bool, error) {
	list, leader, err := lettersOf(b)
	if err != nil {
		return none, false, err
	}
	i := 0
	err = b.Each(record.Limits{}, func(r record.Record) error {
		w.copies[list[i].Offset] = string(r.Value)
		i++
		return nil
	})
	return Last{Offset: b.LastOffset(), Sequence: b.LastSequence(), Leader: leader}, true, err
}

// A member may reject every other record of a batch. The batch is read and inflated once for all
// that fit into a batch of copies, not once for each.
func TestABatchIsInflatedOnceForItsDeadLetters(t *testing.T) {
	const records = 400
	zstd, err := record.CompressWith(record.Zstd, 3)
	if err != nil {
		t.Fatal(err)
	}
	w := record.NewBuilder(record.BatchOptions{Compression: zstd})
	for i := range records {
		w.Append(1000, nil, fmt.Append(nil, i), nil)
	}
	log := &oneBatch{Desk: New(Options{}), copies: map[int64]string{}}
	if log.batch, err = w.Build(); err != nil {
		t.Fatal(err)
	}
	letters := []window.Letters{{First: 1, Last: 1, Count: 1}}
	for o := int64(3); o < records+4; o += 2 { // the last ones have no records
		letters = append(letters, window.Letters{First: o, Last: o, Count: int(o%3) + 1})
	}
	c := newCopier(log, shareleader.Source{Epochs: oneEpoch}, Broken{})
	got, err := c.Copy(context.Background(), shareleader.LettersTo{Topic: "dlq", Whole: true, Deliveries: 5}, letters)
	if err != nil || log.reads != 1 || len(got) != len(letters) || len(log.copies) != len(letters) {
		t.Errorf("%d letters, %d copies, %d reads: %v", len(got), len(log.copies), log.reads, err)
	}
	for o, value := range log.copies {
		if want := fmt.Sprint(o); value != want && (o < records || value != "") {
			t.Errorf("the copy of offset %d is %q", o, value)
		}
	}
}
