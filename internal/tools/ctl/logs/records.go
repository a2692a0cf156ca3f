package logs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// writer prints the records of a dump as produce --input json reads them: each offset of a
// partition once, in order.
type writer struct {
	a    *app.App
	out  *bufio.Writer
	next map[int32]int64 // first offset that was not printed, by partition
	// counts reports whether recovery would replay the last frame from the journal.
	counts bool
	damage int

	does   task
	had    map[int32][]extent // of the records that the logs have, by partition, in order
	lacked map[int32][]held   // records that only replaced logs have, by partition
}

// task is what a writer does with the records of a dump.
type task int

const (
	printing task = iota // them, and those that were held before them
	noting               // which ones the logs have
	holding              // those of replaced logs that the logs lack, in memory
)

// extent is a range of offsets, [from, next).
type extent struct{ from, next int64 }

// held is a record that is printed later.
type held struct {
	offset int64
	line   []byte
}

// forProduce prints the records of a topic: those in segments, then those that are only in the
// journal. With Replaced, it prints instead the records of replaced logs that are in neither, and
// with also, both.
func forProduce(ctx context.Context, a *app.App, at inspect.Options, o inspect.DumpOptions, also bool) error {
	w := &writer{a: a, out: bufio.NewWriterSize(a.Out, 64<<10), had: map[int32][]extent{}, lacked: map[int32][]held{}}
	only := o.Replaced
	o.Records, o.Checkpoint = true, false
	dump := func(t task) (err error) {
		w.does, w.next = t, map[int32]int64{}
		for _, journal := range []bool{false, true} {
			o.Segments, o.Journal, o.Replaced = !journal, journal, t == holding
			if err == nil && !(journal && o.Replaced) {
				err = inspect.Dump(ctx, at, o, w.item)
			}
		}
		return err
	}
	var err error
	if only || also {
		if err = dump(noting); err == nil {
			err = dump(holding)
		}
		for _, list := range w.lacked {
			slices.SortFunc(list, func(x, y held) int { return cmp.Compare(x.offset, y.offset) })
		}
	}
	if err == nil && !only {
		err = dump(printing)
	}
	for _, partition := range slices.Sorted(maps.Keys(w.lacked)) {
		err = cmp.Or(err, w.release(partition, math.MaxInt64))
	}
	if e := w.out.Flush(); err == nil {
		err = e
	}
	if err != nil {
		return explained("dump", err)
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
	case it.What == "damage" && w.does == noting: // said while it prints, or not asked for
	case it.What == "damage":
		w.damage++
		w.a.Note("warning: %s", line(it))
	case it.Batch != nil:
		w.counts = true // a batch of a segment
	case it.Frame != nil:
		w.counts = it.Frame.Counts
	case it.Record != nil && w.counts && (w.does == holding || *it.Offset >= w.next[*it.Partition]):
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
	if w.does == holding {
		w.lacked[partition] = append(w.lacked[partition], held{offset, append(bytes.Clone(text), '\n')})
		return nil
	}
	return cmp.Or(w.release(partition, offset), w.write(append(text, '\n')))
}

// release prints the records of a partition that are held and lie below an offset.
func (w *writer) release(partition int32, below int64) error {
	list := w.lacked[partition]
	for len(list) > 0 && list[0].offset < below {
		if err := w.write(list[0].line); err != nil {
			return err
		}
		list = list[1:]
	}
	w.lacked[partition] = list
	return nil
}

func (w *writer) write(line []byte) error {
	if _, err := w.out.Write(line); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
