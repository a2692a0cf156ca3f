package records

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/ctl/output"
)

// writer produces lines. The client calls back from its own goroutine, hence
// the lock.
type writer struct {
	client *kgo.Client
	topic  string
	o      *produceOptions
	bar    *output.Bar
	said   *verdicts
	// patience is how long nothing may be answered while something is asked.
	patience time.Duration

	broken chan struct{} // closed by the first failure

	mu    sync.Mutex
	acked int64
	err   error // the first failure
	idle  stall
}

// errUnanswered is what became of a record that nobody acknowledged in time.
var errUnanswered = errors.New("it was not acknowledged in time, and may or may not be written")

// lines writes until the input ends, a record fails or ctx does, waits for every
// answer, and returns how many records were acknowledged.
func (w *writer) lines(ctx context.Context, in io.Reader) (int64, error) {
	// An interrupt ends the reading; what was read has its time to be answered.
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	w.mu.Lock()
	w.idle.begin(w.patience, func() { cancel(errUnanswered) })
	w.mu.Unlock()
	// A read of a terminal or a pipe cannot be cut short: the reader is left to
	// itself where it waits for a line that nobody wants any more.
	end := make(chan struct{})
	go func() {
		defer close(end)
		w.read(ctx, sending, in)
	}()
	select {
	case <-end:
	case <-w.broken:
	case <-ctx.Done():
		w.fail(errors.New("interrupted before the end of the input"))
	}
	// Every record is answered or given up: its context ends with the patience.
	if err := w.client.Flush(context.WithoutCancel(ctx)); err != nil {
		w.fail(fmt.Errorf("wait for acknowledgements: %w", err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked, w.err
}

// read hands each line to the client until the input ends, one is none, or a
// record has failed.
func (w *writer) read(ctx, sending context.Context, in io.Reader) {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 64<<10), maxLine)
	scan.Split(wholeLines)
	headers, pace := w.o.common, newPace(w.o.rate)
	for line := 1; scan.Scan(); line++ {
		rec, err := w.o.record(scan.Bytes())
		if line == 1 && !w.o.chosen && output.IsRecord(scan.Bytes()) {
			err = errors.New("it is a record as consume -o json and log dump --for-produce print it: add --input json, or --input lines to write its text as a value")
		}
		if err != nil {
			w.fail(fmt.Errorf("line %d: %w; nothing of it was written", line, err))
			return
		}
		rec.Headers = append(rec.Headers, headers...)
		if pace.wait(ctx) != nil {
			return // interrupted
		}
		size := int64(len(scan.Bytes())) + 1
		if !w.sent(ctx) {
			return
		}
		w.client.Produce(sending, rec, func(_ *kgo.Record, err error) {
			if errors.Is(err, context.Canceled) {
				err = context.Cause(sending)
			}
			w.done(line, size, rec, err)
		})
	}
	if err := scan.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		w.fail(fmt.Errorf("read the input: %w", err))
	}
}

// record turns a line, which is only lent, into a record.
func (o *produceOptions) record(line []byte) (*kgo.Record, error) {
	if o.input == "json" {
		rec, err := output.DecodeRecord(line)
		if err != nil {
			return nil, fmt.Errorf("no record in JSON: %w", err)
		}
		if o.partition >= 0 {
			rec.Partition = o.partition
		}
		if o.keepPlace && rec.Partition < 0 {
			return nil, errors.New("it names no partition, which --same-partition needs")
		}
		return rec, nil
	}
	rec := &kgo.Record{Partition: o.partition, Value: append([]byte{}, line...), Timestamp: o.at}
	if o.tombstone {
		rec.Key, rec.Value = rec.Value, nil
		return rec, nil
	}
	if o.separator != "" {
		key, rest, ok := bytes.Cut(rec.Value, []byte(o.separator))
		if !ok {
			return nil, fmt.Errorf("there is no key separator %q", o.separator)
		}
		rec.Key, rec.Value = key, rest
	}
	if o.emptyNull && len(rec.Value) == 0 {
		rec.Value = nil
	}
	return rec, nil
}

// sent notes that a record is about to be sent; false says that none is wanted
// any more.
func (w *writer) sent(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil || w.err != nil {
		return false
	}
	w.idle.sent()
	return true
}

func (w *writer) done(line int, size int64, rec *kgo.Record, err error) {
	w.mu.Lock()
	w.idle.answered()
	w.mu.Unlock()
	if err != nil {
		w.fail(w.o.refused(line, w.topic, rec, err, w.said.of(rec.Partition)))
		return
	}
	w.bar.Add(size)
	w.mu.Lock()
	w.acked++
	w.mu.Unlock()
}

// fail keeps the first failure.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		close(w.broken)
	}
}

// pace spreads records over time.
type pace struct {
	gap  time.Duration
	next time.Time
}

func newPace(rate float64) *pace {
	if rate <= 0 {
		return &pace{}
	}
	return &pace{gap: max(1, time.Duration(float64(time.Second)/rate)), next: time.Now()}
}

// wait returns when the next record's time has come.
func (p *pace) wait(ctx context.Context) error {
	if p.gap == 0 {
		return nil
	}
	late := time.Until(p.next)
	p.next = p.next.Add(p.gap)
	if late <= 0 {
		return nil
	}
	t := time.NewTimer(late)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wholeLines is bufio.ScanLines that keeps a carriage return: it is data.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
