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

	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// writer produces the lines of the input. The client calls it back on its own goroutines, therefore
// the lock.
type writer struct {
	client     *kgo.Client
	topic      string
	o          *produceOptions
	bar        *output.Bar
	lastErrors *lastErrors
	// timeout is how long the broker may acknowledge nothing while records are in flight.
	timeout time.Duration
	txn     transaction

	broken chan struct{} // closed by the first failure

	mu    sync.Mutex
	acked int64
	err   error // the first failure
	idle  stallTimer
}

// errUnanswered is the error of a record that was not acknowledged in time.
var errUnanswered = errors.New("it was not acknowledged in time, and may or may not be written")

// lines writes until the input ends, a record fails or ctx ends. It waits for all answers, ends the
// open transaction, and returns the number of acknowledged records.
func (w *writer) lines(ctx context.Context, in io.Reader) (int64, error) {
	// An interrupt stops reading; records that were read get their time to be acknowledged.
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	w.mu.Lock()
	w.idle.begin(w.timeout, func() { cancel(errUnanswered) })
	w.mu.Unlock()
	// A read from a terminal or a pipe cannot be interrupted, so lines does not wait for the
	// goroutine that reads.
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
	// Flush returns: every record is acknowledged or fails when its context ends. The client does
	// not let records of a transaction fail, so there the wait itself ends.
	if err := w.client.Flush(w.txn.limit(sending)); err != nil {
		w.fail(w.txn.unanswered(err))
	}
	w.mu.Lock()
	acked, err := w.acked, w.err
	w.mu.Unlock()
	return acked, w.txn.end(ctx, err)
}

// read passes each line to the client until the input ends, a line is invalid, or a record has
// failed.
func (w *writer) read(ctx, sending context.Context, in io.Reader) {
	scan := bufio.NewScanner(in)
	scan.Buffer(make([]byte, 64<<10), maxLine)
	scan.Split(wholeLines)
	headers, pace := w.o.common, pause.Pace{Idle: time.Second}
	for line := 1; scan.Scan(); line++ {
		rec, err := w.o.record(scan.Bytes())
		if line == 1 && !w.o.chosen && output.IsRecord(scan.Bytes()) {
			err = errors.New(
				"it is a record as consume -o json and log dump --for-produce print it: add --input json, or --input lines to write its text as a value")
		}
		if err != nil {
			w.fail(fmt.Errorf("line %d: %w; nothing of it was written", line, err))
			return
		}
		rec.Headers = append(rec.Headers, headers...)
		if pause.Sleep(ctx, pace.Count(0, w.o.rate)) != nil {
			return // interrupted
		}
		pace.Count(1, w.o.rate)
		size := int64(len(scan.Bytes())) + 1
		more, err := w.txn.send(sending, line, func() bool {
			if !w.sent(ctx) {
				return false
			}
			w.client.Produce(sending, rec, func(_ *kgo.Record, err error) {
				if errors.Is(err, context.Canceled) {
					err = context.Cause(sending)
				}
				w.done(line, size, rec, err)
			})
			return true
		}, w.failed)
		if err != nil {
			w.fail(err)
		}
		if err != nil || !more {
			return
		}
	}
	if err := scan.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		w.fail(fmt.Errorf("read the input: %w", err))
	}
}

// record turns a line into a record. It does not keep the line.
func (o *produceOptions) record(line []byte) (*kgo.Record, error) {
	if o.input == "json" {
		rec, err := output.DecodeRecord(line)
		if err != nil {
			return nil, fmt.Errorf("not a record in JSON: %w", err)
		}
		if o.partition >= 0 {
			rec.Partition = o.partition
		}
		if o.samePartition && rec.Partition < 0 {
			return nil, errors.New("--same-partition needs a partition in every record")
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

// sent counts a record that is about to be sent. It returns false if no more records are to be
// sent.
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
		w.fail(w.o.refused(line, w.topic, rec, err, w.lastErrors.of(rec.Partition)))
		return
	}
	w.bar.Add(size)
	w.mu.Lock()
	w.acked++
	w.mu.Unlock()
}

// failed reports whether a record or the input has failed.
func (w *writer) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}

// fail stores the first error.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		close(w.broken)
	}
}

// wholeLines is bufio.ScanLines, but keeps carriage returns, which are data.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
