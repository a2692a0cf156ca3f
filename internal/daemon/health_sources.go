package daemon

import (
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/memory"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

// startHealth starts the checks of a broker that is about to start. Until the broker serves clients
// they use its configuration and the machine only.
func (b *Broker) startHealth(version string, ready func(bool), log *zap.Logger) error {
	conf := resolve.Static(b.cfg)
	broker, err := b.configs.ResolveBroker(conf)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	topic, err := b.configs.ResolveTopic(configdef.Layers{Static: conf})
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	live, err := b.configs.ResolveLive(configdef.Layers{Static: conf})
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	b.limits = newConnectionLimits(b.cfg.Listeners, &live.Connections)
	dirs := storage.Locations(broker.LogDirs, broker.JournalDirs)
	b.memory = memory.Available()
	wanted, cut := memory.Divide(b.memory, b.cfg.Produce, len(dirs), broker.Cleaning.KeyBytes)
	b.budgets = cut
	o := checks.Options{Broker: broker.NodeID, Version: version, Member: len(broker.Cluster.Seeds) > 0, Checks: checks.Checks(),
		SlowEvery: b.slowChecks, Ready: ready, Log: log}
	settings := observe.Settings(b.cfg, &broker, &topic)
	o.Sources = []checks.Source{func(f *checks.Facts) {
		f.Settings = settings
		f.Memory.There, f.Memory.Budgets, f.Memory.Wanted = b.memory, cut.Sum(len(dirs)), wanted.Sum(len(dirs))
	}, b.certs.Facts}
	if b.fs == vfs.OS() { // a broker in memory does not depend on the machine
		m := observe.NewMachine(b.cfg.DataDir, dirs, broker.Archive.URL, b.limits.most)
		o.Slow = []checks.SlowSource{m.Slow}
		o.Sources = append(o.Sources, m.Quick)
	}
	b.health = checks.Start(o)
	return errors.Join(metrics.RegisterFindings(b.reg, observe.Findings(b.health, o.Checks)),
		metrics.RegisterCertificates(b.reg, b.certs.View))
}

// Status returns the broker's state as one line for people: how far startup is, what is served, and
// which findings there are.
func (b *Broker) Status() string {
	report := b.health.Own()
	if !report.Ready {
		return report.Line()
	}
	// The broker is ready, so its components are complete.
	line := fmt.Sprintf("serving %d partitions on %s", len(b.components.storage.Logs()), strings.Join(b.Addrs(), ", "))
	if s := b.components.server.Load(); s != nil {
		line += fmt.Sprintf(", %d connections", s.Stats().Connections)
	}
	if _, weak, _ := strings.Cut(report.Line(), "; "); weak != "" {
		line += "; " + weak
	}
	return line
}

// report returns the health report for clients of a broker that serves them.
func (b *Broker) report() *health.Report {
	r, server := b.health.Last(), b.components.server.Load()
	r.Load = observe.Load(b.components.network, b.components.requests, b.components.measured, server.Stats().Connections)
	return r
}

// Moves grows with every sign of progress of the start.
func (b *Broker) Moves() uint64 { return b.health.Moves() }

// Dirs returns the log directories of a broker that serves clients.
func (b *Broker) Dirs() []*storage.Dir { return b.components.storage.Dirs() }
