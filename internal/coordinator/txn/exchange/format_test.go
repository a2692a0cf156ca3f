package exchange

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/coordinator/txn/gate"
	"github.com/chronik-io/chronik/internal/testing/golden"
)

// Exact bytes of the calls and answers, so that no change of the format goes unnoticed.
func TestFormatIsFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the time stands still
		orders, asks := someOrders(), someAsks()
		verdicts := []verdict{{}, {err: kerr.TransactionCoordinatorFenced, known: 12}}
		codes := []*kerr.Error{nil, kerr.TransactionAbortable}
		answers := []gate.Answer{{CoordinatorEpoch: 4, Partitions: codes}, {Err: kerr.ProducerFenced}}
		got := fmt.Sprintf("orders %x\n\nverdicts %x\n\nquestions %x\n\nanswers %x\n",
			orders.encode(), encodeVerdicts(verdicts), asks.encode(), encodeAnswers(answers))
		golden.File(t, "testdata/calls.hex", got, "go test ./internal/coordinator/txn/exchange -run FormatIsFixed")
	})
}
