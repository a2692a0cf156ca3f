package logs

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// writer prints the records of a dump as produce --input json reads them, or its batches as a
// repair reads them.
type writer struct {
	a    *app.App
	out  *bufio.Writer
	next map[int32]int64 // first offset that was not printed, by partition
	// counts reports whether the last items are those of a segment, or of a frame that recovery
	// would replay from the journal.
	counts bool
	damage int
	some   bool // the checkpoint has a log of the topic, or a segment or a frame was found

	does task
	had  map[int32][]extent // of the records that the logs have or that were printed, by partition, in order
}

// task is what a writer does with the items of a dump.
type task int

const (
	printing  task = iota // the records of logs, each offset of a partition once, in order
	noting                // which ones the logs have
	replacing             // printing those of replaced logs that were not noted
	batching              // printing the batches
)

// extent is a range of offsets, [from, next).
type extent struct{ from, next int64 }

// forProduce prints the records of a topic: those in segments, then those that are only in the
// journal. With Replaced, it prints instead the records of replaced logs that are in neither.
func forProduce(ctx context.Context, a *app.App, at inspect.Options, o inspect.DumpOptions) error {
	w := newWriter(a)
	o.Records = true
	tasks := []task{printing}
	if o.Replaced {
		tasks = []task{noting, replacing}
	}
	var err error
	for _, t := range tasks {
		w.does, o.Replaced = t, t == replacing
		err = cmp.Or(err, w.dump(ctx, at, o))
	}
	return w.end(err)
}

// forRepair prints the batches of a topic that are in its logs, in the journal and in replaced
// logs, which repair --restore reads.
func forRepair(ctx context.Context, a *app.App, at inspect.Options, o inspect.DumpOptions) error {
	w := newWriter(a)
	w.does, o.Batches = batching, true
	err := w.dump(ctx, at, o)
	o.Replaced = true
	return w.end(cmp.Or(err, w.dump(ctx, at, o)))
}

func newWriter(a *app.App) *writer {
	return &writer{a: a, out: bufio.NewWriterSize(a.Out, 64<<10), had: map[int32][]extent{}}
}

// dump writes what the segments have, then what only the journal has.
func (w *writer) dump(ctx context.Context, at inspect.Options, o inspect.DumpOptions) error {
	w.next = map[int32]int64{}
	logs := inspect.DumpOptions{Checkpoint: true, Topic: o.Topic, Partition: o.Partition}
	err := inspect.Dump(ctx, at, logs, func(it *inspect.Item) error {
		w.some = w.some || it.Log != nil
		return nil
	})
	o.Checkpoint, o.Segments, o.Journal = false, true, false
	if err == nil {
		err = inspect.Dump(ctx, at, o, w.item)
	}
	if o.Segments, o.Journal = false, true; err == nil && !o.Replaced {
		err = inspect.Dump(ctx, at, o, w.item)
	}
	return err
}

// end returns the command's error after an error of a dump, or nil.
func (w *writer) end(err error) error {
	if e := w.out.Flush(); err == nil {
		err = e
	}
	if err != nil {
		return explained("dump", err)
	}
	if !w.some && w.damage == 0 {
		return app.WithCode(app.ExitUnhealthy, errors.New("no log of this topic is in these directories; give the data directory and all "+
			"of log.dirs"))
	}
	if w.damage > 0 {
		return app.WithCode(app.ExitUnhealthy,
			errors.New(text.Count(w.damage, "place")+" cannot be read, see above; the records there are "+
				"missing"))
	}
	return nil
}

func (w *writer) item(it *inspect.Item) error {
	switch {
	case it.What == "damage" && it.Frame != nil: // a skip frame, which holds no records
	case it.What == "damage" && w.does == noting: // not asked for
	case it.What == "damage":
		w.damage++
		w.a.Note("warning: %s", line(it))
	case it.What == "segment":
		w.counts, w.some = true, true
	case it.Frame != nil:
		w.counts, w.some = it.Frame.Counts, true
	case it.Batch != nil && w.counts && w.does == batching:
		return w.batch(it)
	case it.Record != nil && w.counts && (w.does == replacing || *it.Offset >= w.next[*it.Partition]):
		w.next[*it.Partition] = *it.Next
		return w.record(it)
	}
	return nil
}

// noted notes that a record is there, and reports whether it was noted before.
func (w *writer) noted(partition int32, offset int64) bool {
	had := w.had[partition]
	i, found := slices.BinarySearchFunc(had, offset, func(x extent, at int64) int { return cmp.Compare(x.from, at) })
	switch {
	case found || i > 0 && offset < had[i-1].next:
		return true
	case i > 0 && had[i-1].next == offset:
		had[i-1].next++
	default:
		w.had[partition] = slices.Insert(had, i, extent{offset, offset + 1})
	}
	return false
}

func (w *writer) record(it *inspect.Item) error {
	partition, offset := *it.Partition, *it.Offset
	if w.does != printing && w.noted(partition, offset) || w.does == noting || it.Record.Control {
		return nil
	}
	raw := it.Record.Raw
	r := output.RecordOf(it.Topic, partition, offset, time.UnixMilli(raw.Timestamp), raw.Key, raw.Value)
	for h := range raw.Headers.All() {
		r.AddHeader(string(h.Key), h.Value)
	}
	text, err := r.Line()
	if err != nil {
		return err
	}
	return w.write(text)
}

// batch prints a batch.
func (w *writer) batch(it *inspect.Item) error {
	if it.TopicID == "" { // the directory does not have it
		w.damage++
		w.a.Note("warning: %s: its topic id is unknown", line(it))
		return nil
	}
	text, err := json.Marshal(it)
	if err != nil {
		return err
	}
	return w.write(text)
}

func (w *writer) write(text []byte) error {
	if _, err := w.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
