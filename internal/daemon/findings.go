package daemon

import (
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/diagnose"
	"github.com/chronik-io/chronik/internal/diagnose/host"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/topicconf"
	"github.com/chronik-io/chronik/internal/vfs"
)

// findingsEvery is how often the checks run where nobody asks.
const findingsEvery = time.Minute

// diagnosed starts the checks of a broker that is about to start. Before it serves
// they go by its configuration and the machine.
func (b *Broker) diagnosed(log *zap.Logger) error {
	conf := static(b.cfg)
	broker, err := b.configs.ResolveBroker(conf)
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	topic, err := b.configs.ResolveTopic(topicconf.Layers{Static: conf})
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	b.probes = &probes{}
	f := &facts{b: b, conf: broker, probes: b.probes, settings: settingsOf(b.cfg, &broker, &topic)}
	b.node = broker.NodeID
	dirs := len(places(&broker))
	there := memoryThere()
	wanted, cut := divide(there, b.cfg.Produce, dirs, broker.Cleaning.KeyBytes)
	b.budgets, b.memory = cut, there
	f.memory = diagnose.Memory{There: there, Budgets: cut.sum(dirs), Wanted: wanted.sum(dirs)}
	if b.fs == vfs.OS() { // a broker in memory depends on no disk
		f.machine = host.New()
	}
	checks := diagnose.Checks()
	b.watch = diagnose.Start(diagnose.Options{Facts: f.gather, Checks: checks, Every: findingsEvery, Log: log})
	return metrics.RegisterFindings(b.reg, findingsOf(b.watch, checks))
}

// findingsOf shows how much was found last to metrics.
func findingsOf(w *diagnose.Watcher, checks []diagnose.Check) func() []metrics.Findings {
	return func() []metrics.Findings {
		type key struct {
			check    string
			severity diagnose.Severity
		}
		n := map[key]int{}
		for _, f := range w.Last().Findings {
			n[key{f.Check, f.Severity}]++
		}
		var all []metrics.Findings
		for _, c := range checks {
			for _, s := range diagnose.Severities() {
				all = append(all, metrics.Findings{Check: c.Name, Severity: string(s), N: n[key{c.Name, s}]})
			}
		}
		return all
	}
}
