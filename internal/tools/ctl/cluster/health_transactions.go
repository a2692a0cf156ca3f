package cluster

import (
	"context"
	"slices"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/txn"
)

// transactions adds the transactions that hang.
func (x *examination) transactions(ctx context.Context) {
	d, err := txn.Diagnose(ctx, x.a, x.adm, x.cl)
	switch {
	case app.IsUnsupported(err):
		x.Examined("no transactions: this broker cannot describe them")
		return
	case x.lacks("transactions", err):
		return
	case err != nil:
		x.Add("transaction", health.Warn, "transactions", "they could not be examined: "+err.Error(),
			"resolve the findings about __transaction_state, then run it again")
		return
	}
	x.Examined(d.Examined)
	for _, err := range d.Failed {
		if right, ok := app.Missing(err); ok {
			x.lacks("transactions of "+right.Resource, err)
		}
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		// The broker knows for how long it has been open, and the client.
		same := func(other *health.Finding) bool {
			return f.About != nil && slices.ContainsFunc(f.About.Partitions, other.IsAboutLog)
		}
		if !x.has("transaction", same) {
			x.add("transaction", f.Severity, *f, f.Problem, f.Remedy)
		}
	}
}
