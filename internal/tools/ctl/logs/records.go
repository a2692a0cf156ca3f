package logs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// had has the offsets of the records that the logs have, by partition, in order; nil: what only
	// replaced logs have is not asked for.
	had map[int32][]extent
	// replaced: the items are those of replaced logs. Records that a log has are not printed.
	replaced bool
	// counts reports whether recovery would replay the last frame from the journal.
	counts bool
	damage int
}

// extent is a range of offsets, [from, next).
type extent struct{ from, next int64 }

// forProduce prints the records of a topic: those in segments, then those that are only in the
// journal. With Replaced, it prints the records of replaced logs that are in neither.
func forProduce(ctx context.Context, a *app.App, at inspect.Options, o inspect.DumpOptions) error {
	w := &writer{a: a, out: bufio.NewWriterSize(a.Out, 64<<10), next: map[int32]int64{}}
	replaced := o.Replaced
	if o.Replaced = false; replaced {
		w.had = map[int32][]extent{}
	}
	o.Records, o.Checkpoint = true, false
	var err error
	for _, journal := range []bool{false, true} {
		o.Segments, o.Journal = !journal, journal
		if err == nil {
			err = inspect.Dump(ctx, at, o, w.item)
		}
	}
	if err == nil && replaced {
		w.replaced, o.Replaced = true, true
		err = inspect.Dump(ctx, at, o, w.item)
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
	case it.What == "damage" && w.had != nil && !w.replaced: // what only replaced logs have is asked for
	case it.What == "damage":
		w.damage++
		w.a.Note("warning: %s", line(it))
	case it.Batch != nil:
		w.counts = true // a batch of a segment
	case it.Frame != nil:
		w.counts = it.Frame.Counts
	case it.Record != nil && w.counts && (w.replaced || *it.Offset >= w.next[*it.Partition]):
		w.next[*it.Partition] = *it.Next
		if it.Record.Control || w.known(*it.Partition, *it.Offset) {
			return nil
		}
		return w.record(it)
	}
	return nil
}

// known reports whether a record is not to be printed: what is asked for is what only replaced logs
// have, and a log has it, or another replaced log that was printed before. It notes the record.
func (w *writer) known(partition int32, offset int64) bool {
	if w.had == nil {
		return false
	}
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
	return !w.replaced
}

func (w *writer) record(it *inspect.Item) error {
	raw := it.Record.Raw
	r := output.RecordOf(it.Topic, *it.Partition, *it.Offset, time.UnixMilli(raw.Timestamp), raw.Key, raw.Value)
	for h := range raw.Headers.All() {
		r.AddHeader(string(h.Key), h.Value)
	}
	text, err := r.Line()
	if err != nil {
		return err
	}
	if _, err := w.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
