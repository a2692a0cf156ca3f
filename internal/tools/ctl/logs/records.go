package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
}

// forProduce prints the records of a topic: those in segments, then those that are only in the
// journal.
func forProduce(ctx context.Context, a *app.App, at inspect.Options, o inspect.DumpOptions) error {
	w := &writer{a: a, out: bufio.NewWriterSize(a.Out, 64<<10), next: map[int32]int64{}}
	o.Records, o.Checkpoint = true, false
	var err error
	for _, journal := range []bool{false, true} {
		o.Segments, o.Journal = !journal, journal
		if err == nil && !(journal && o.Replaced) {
			err = inspect.Dump(ctx, at, o, w.item)
		}
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
	case it.What == "damage":
		w.damage++
		w.a.Note("warning: %s", line(it))
	case it.Batch != nil:
		w.counts = true // a batch of a segment
	case it.Frame != nil:
		w.counts = it.Frame.Counts
	case it.Record != nil && w.counts && *it.Offset >= w.next[*it.Partition]:
		w.next[*it.Partition] = *it.Next
		if it.Record.Control {
			return nil
		}
		return w.record(it)
	}
	return nil
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
