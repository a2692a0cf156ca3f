package brokers

import (
	"context"
	"regexp"
	"slices"

	"github.com/chronik-io/chronik/internal/health"
)

// former matches the finding about a replaced log that may have records which no replica has.
var former = regexp.MustCompile(`records that no replica has.* are in (/\S+-replaced)$`)

// removeFormer follows the remedy for replaced logs whose records may be lost: the operator removes
// their directories while their broker is stopped.
func (w *world) removeFormer(list []health.Finding) {
	for _, f := range list {
		m := former.FindStringSubmatch(f.Problem)
		if m != nil && f.Check == "partition" && w.process(f.Broker) != nil && w.exists(f.Broker, m[1]) {
			w.note("an operator removes %s of broker %d", m[1], f.Broker)
			w.stop(f.Broker)
			w.remove(w.at(f.Broker), m[1])
			w.start(f.Broker)
		}
	}
}

// exists reports whether a broker's disk has a directory; other brokers report it a while longer.
func (w *world) exists(id int32, dir string) bool {
	_, err := w.at(id).List(dir)
	return err == nil
}

// healthy waits until no broker has a finding about the present state.
func (w *world) healthy() {
	var list []health.Finding
	at := int32(1)
	if until(patience, func() bool {
		for ; at <= w.size(); at++ {
			if list = w.findings(at); len(list) > 0 {
				w.removeFormer(list)
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
