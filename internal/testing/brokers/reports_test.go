package brokers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
)

// knownWithin is the time within which a finding of any broker is known at every other one.
const knownWithin = 5 * time.Second

// reports returns the finding of a broker about a check, as another one reports it; nil for none.
func (w *world) reports(at, of int32, check string) *health.Finding {
	p := w.process(at)
	if p == nil {
		return nil
	}
	list := p.broker.Health().Report(context.Background()).Findings
	for i := range list {
		if list[i].Check == check && list[i].Broker == of {
			return &list[i]
		}
	}
	return nil
}

// within waits until a condition holds, and reports a problem if it does not in time.
func (w *world) within(most time.Duration, what string, ok func() bool) {
	if until(most, ok) != nil {
		w.problem("not within %v: %s", most, what)
	}
}

// plant gives a broker a fault, which it finds itself, until heal is called.
func (w *world) plant(id int32) (heal func()) {
	var healed atomic.Bool
	w.process(id).broker.Health().Add(func(f *checks.Facts) {
		if !healed.Load() {
			f.Files = checks.Files{Limit: 100, Open: 85}
		}
	})
	return func() { healed.Store(true) }
}

// Whatever broker finds a fault of itself, all others report it within 5 s, with its number, until
// it is resolved.
func TestEveryBrokerReportsTheFaultsOfAll(t *testing.T) {
	history(t, 31, func(w *world, c *clients) {
		c.inSync()
		w.healthy()
		for id := int32(1); id <= 3; id++ {
			heal := w.plant(id)
			for at := int32(1); at <= 3; at++ {
				w.within(knownWithin, fmt.Sprintf("broker %d reports the fault of broker %d", at, id), func() bool {
					return w.reports(at, id, "files") != nil
				})
			}
			heal()
			w.within(2*knownWithin, fmt.Sprintf("no broker reports the former fault of broker %d", id), func() bool {
				return w.reports(1, id, "files") == nil && w.reports(2, id, "files") == nil && w.reports(3, id, "files") == nil
			})
		}
		w.healthy()
	})
}

// Brokers tell each other what they find also while there is no controller. When one of them is
// killed, what it reported last is part of the finding about it, and is no finding of its own.
func TestReportsWithoutAController(t *testing.T) {
	history(t, 32, func(w *world, c *clients) {
		c.inSync()
		w.healthy()
		for id := int32(1); id <= 3; id++ {
			w.failDisk(id, "/data/metadata/", time.Hour)
		}
		w.within(patience, "there is no controller", func() bool {
			f := w.reports(1, 1, "quorum")
			return f != nil && strings.Contains(f.Problem, "no metadata leader")
		})
		w.plant(3)
		w.within(knownWithin, "broker 1 reports the fault of broker 3", func() bool { return w.reports(1, 3, "files") != nil })
		w.heal()
		c.inSync()
		w.within(patience, "broker 3 knows the controller, and has nothing else to report", func() bool {
			return w.reports(1, 3, "files") != nil && !slices.ContainsFunc(w.findings(1), func(f health.Finding) bool {
				return f.Broker == 3 && f.Check != "files" && f.Severity != health.Note
			})
		})
		w.kill(3)
		w.within(patience, "broker 1 reports what broker 3 had, as old", func() bool {
			for _, f := range w.findings(1) {
				if f.Subject == health.BrokerSubject(3) && strings.Contains(f.Problem, "its own report is") {
					return strings.Contains(f.Problem, "85 of 100 files") && w.reports(1, 3, "files") == nil
				}
			}
			return false
		})
		w.start(3)
		w.healthy()
	})
}
