package records

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// endTime bounds the wait for the end of a transaction beyond --timeout, so that an answer that
// arrives at the last moment counts.
const endTime = time.Second

// transaction is the open transaction of a writer. The lock is held while a record is passed to the
// client and while a transaction ends, so that no record is sent between two transactions. Without
// a transactional id it does nothing.
type transaction struct {
	client *kgo.Client
	id     string // transactional id; empty: no transactions
	size   int    // records of one transaction; 0: no limit
	wait   time.Duration

	mu          sync.Mutex
	open        bool
	first, last int   // input lines of the open transaction
	committed   int64 // records
	ended       int   // transactions that are committed
}

// send runs produce for the record of a line within a transaction, and commits the transaction if
// it is full. failed reports whether a record of it has failed. produce returns false if nothing
// more is to be sent. ctx bounds the wait for acknowledgements.
func (t *transaction) send(ctx context.Context, line int, produce func() bool, failed func() bool) (more bool, err error) {
	if t.id == "" {
		return produce(), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		if err := t.client.BeginTransaction(); err != nil {
			return false, app.Refused("begin a transaction of "+t.id, err, "")
		}
		t.open, t.first, t.last = true, line, line-1
	}
	if !produce() {
		return false, nil
	}
	t.last = line
	if t.size == 0 || t.last-t.first+1 < t.size {
		return true, nil
	}
	if err := t.client.Flush(ctx); err != nil {
		return false, t.unanswered(err)
	}
	if failed() {
		return false, nil // end aborts it
	}
	return true, t.commit(ctx)
}

// limit returns the context of a wait for acknowledgements: ctx for records of a transaction,
// otherwise one that does not end.
func (t *transaction) limit(ctx context.Context) context.Context {
	if t.id == "" {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// unanswered returns the error of a wait for acknowledgements.
func (t *transaction) unanswered(err error) error {
	if errors.Is(err, context.Canceled) {
		err = context.DeadlineExceeded
	}
	return app.Refused("wait for acknowledgements", err, "")
}

// end ends the open transaction: it commits it, or aborts it if err is not nil. It returns err and
// what became of the records. The caller has waited for all answers, or given up on them.
func (t *transaction) end(ctx context.Context, err error) error {
	if t.id == "" {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.open:
		return err
	case t.last < t.first: // it has no record
		t.open = false
		return errors.Join(err, t.finish(ctx, kgo.TryAbort))
	case err == nil:
		return t.commit(ctx)
	}
	t.open = false
	if aborted := t.finish(ctx, kgo.TryAbort); aborted != nil {
		return errors.Join(err, fmt.Errorf("nothing from line %d on is committed; the transaction could not be aborted, so the broker aborts it "+
			"at its timeout: %w", t.first, aborted))
	}
	return errors.Join(err, fmt.Errorf("nothing from line %d on is committed: the transaction was aborted", t.first))
}

// commit commits the open transaction. All its records are acknowledged.
func (t *transaction) commit(ctx context.Context) error {
	err := t.finish(ctx, kgo.TryCommit)
	t.open = false
	if err == nil {
		t.committed += int64(t.last - t.first + 1)
		t.ended++
		return nil
	}
	if errors.Is(err, kerr.TransactionAbortable) {
		return errors.Join(t.unfinished(err), t.finish(ctx, kgo.TryAbort))
	}
	return t.unfinished(err)
}

// unfinished returns the error of a commit, and says what became of the records. The client repeats
// a commit that got no answer. A broker that fences the repetition does not say how the first one
// ended: the transaction may have been committed before another producer came.
func (t *transaction) unfinished(err error) error {
	refused := app.Refused("commit a transaction of "+t.id, err, "")
	if errors.Is(err, kerr.TransactionAbortable) || errors.Is(err, kerr.InvalidTxnState) {
		return fmt.Errorf("%s not committed: %w", t.lines(), refused)
	}
	return fmt.Errorf("it is not known whether %s committed: %w", t.lines(), refused)
}

func (t *transaction) finish(ctx context.Context, how kgo.TransactionEndTry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.wait+endTime)
	defer cancel()
	if how == kgo.TryAbort {
		if err := t.client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
	}
	return t.client.EndTransaction(ctx, how)
}

// lines names the input lines of the transaction, with the verb: "line 7 is".
func (t *transaction) lines() string {
	if t.first == t.last {
		return fmt.Sprintf("line %d is", t.first)
	}
	return fmt.Sprintf("lines %d to %d are", t.first, t.last)
}

// summary returns how many records are committed.
func (t *transaction) summary(topic string) string {
	return fmt.Sprintf("%s committed to %s in %s", text.Count(t.committed, "record"), topic, text.Count(t.ended, "transaction"))
}
