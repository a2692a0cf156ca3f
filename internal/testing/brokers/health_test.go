package brokers

import (
	"context"
	"slices"

	"github.com/chronik-io/chronik/internal/health"
)

// healthy waits until no broker has a finding about the present state.
func (w *world) healthy() {
	var list []health.Finding
	at := int32(1)
	if until(patience, func() bool {
		for ; at <= w.size(); at++ {
			if list = w.findings(at); len(list) > 0 {
				return false
			}
		}
		return true
	}) != nil {
		for _, f := range list {
			w.problem("health of broker %d: %s: %s", at, f.Check, &f)
		}
	}
}

// findings returns what a broker that runs finds, apart from notes and from unclean elections,
// which it shows for a day.
func (w *world) findings(id int32) []health.Finding {
	p := w.process(id)
	if p == nil {
		return []health.Finding{{Check: "process", Severity: health.Bad, Problem: "it does not run"}}
	}
	return slices.DeleteFunc(p.broker.Health().Report(context.Background()).Findings, func(f health.Finding) bool {
		return f.Severity == health.Note || f.Check == "unclean"
	})
}
