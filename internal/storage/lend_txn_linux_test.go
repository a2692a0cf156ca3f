package storage

import (
	"math"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/producers"
)

// A loan has the aborted transactions of its batches. If these are too many, it is read and cut.
func TestAbortedTransactionsOfALoan(t *testing.T) {
	_, l := lendDir(t, lendConfig(1<<20))
	for id := range int64(12) {
		ok(t, transact(l, inTxn(t, id, 0, 0, 50_000)))
		ok(t, endTxn(l, id, 0, record.Abort, producers.Sender{}))
	}
	toFiles(t, l)
	s, was := hold(t, l, 0)
	r, err := l.Read(0, s.Next(), len(was), true)
	must(t, err)
	defer r.Release()
	want, err := l.AbortedIn(0, &r, math.MaxInt)
	if err != nil || len(want) < 5 || r.Size != s.Size {
		t.Fatalf("%d aborted transactions in %d bytes, the loan has %d: %v", len(want), r.Size, s.Size, err)
	}
	if got, err := l.AbortedIn(0, &s, len(want)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
	again, err := l.Lend(0, math.MaxInt64, 1<<20, true)
	if err != nil || again.Loan == nil {
		t.Fatal(again.Loan, err)
	}
	few, err := l.AbortedIn(0, &again, len(want)-1)
	if err != nil || len(few) == 0 || len(few) >= len(want) || again.Loan != nil || again.Size == 0 || again.Size >= len(was) {
		t.Errorf("too many: %d of %d are known, for %d of %d bytes: %v", len(few), len(want), again.Size, len(was), err)
	}
	again.Release()
}
