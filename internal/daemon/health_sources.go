package daemon

import (
	"errors"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/daemon/exit"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/memory"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
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
	dirs := storage.Places(broker.LogDirs, broker.JournalDirs)
	b.memory = memory.Available()
	wanted, cut := memory.Divide(b.memory, b.cfg.Produce, len(dirs), broker.Cleaning.KeyBytes)
	b.budgets = cut
	o := checks.Options{Broker: broker.NodeID, Version: version, Checks: checks.Checks(), SlowEvery: b.slowChecks, Ready: ready, Log: log}
	settings := settingsOf(b.cfg, &broker, &topic)
	o.Sources = []checks.Source{func(f *checks.Facts) {
		f.Settings = settings
		f.Memory.There, f.Memory.Budgets, f.Memory.Wanted = b.memory, cut.Sum(len(dirs)), wanted.Sum(len(dirs))
	}, b.certs.Facts}
	if b.fs == vfs.OS() { // a broker in memory does not depend on the machine
		m := observe.NewMachine(b.cfg.DataDir, dirs, b.limits.most)
		o.Slow = []checks.SlowSource{m.Slow}
		o.Sources = append(o.Sources, m.Quick)
	}
	b.health = checks.Start(o)
	return errors.Join(metrics.RegisterFindings(b.reg, observe.Findings(b.health, o.Checks)),
		metrics.RegisterCertificates(b.reg, b.certs.Expiries))
}

// settingsOf returns what was configured. It does not change while the broker runs.
func settingsOf(cfg *config.Config, b *configdef.Broker, t *configdef.Topic) checks.Settings {
	s := checks.Settings{
		DataDir:    health.Path(cfg.DataDir),
		WorkingDir: health.Path("."),
		Warnings:   cfg.Warnings,
		Admin:      checks.Listener{Name: "admin", Listen: cfg.AdminListen},
	}
	s.Secret = b.Cluster.SecretFile != ""
	s.ACL = cfg.Security.ACL
	s.Admin.TLS = cfg.AdminSecurity.TLS != nil
	s.Admin.Login = cfg.AdminSecurity.TokenFile != "" || s.Admin.TLS && cfg.AdminSecurity.TLS.ClientCA != ""
	s.Admin.Open = cfg.AdminListen != "" && !config.Loopback(cfg.AdminListen)
	for _, l := range cfg.Listeners {
		s.Listeners = append(s.Listeners, checks.Listener{Name: l.Name, Listen: l.Listen, Advertise: l.Advertise,
			TLS: l.TLS != nil, Login: len(l.SASL) > 0 || l.ClientCertificates == config.CertificatesRequire,
			Brokers: b.Cluster.Name != "" && l.Name == resolve.InterListener(cfg, b),
			Open:    !config.Loopback(l.Listen), AdvertisesLoopback: l.Advertise != "" && config.Loopback(l.Advertise)})
	}
	if p, err := cfg.Durability.Lookup(cfg.WALProfile); err == nil {
		s.Profile = view.ProfileOf(p, cfg.WALProfile)
	}
	s.MinISR, s.Replicas = max(int64(t.MinInSyncReplicas), 1), int64(b.DefaultReplicationFactor)
	s.RetentionBytes, s.SegmentBytes = t.RetentionBytes, int64(t.SegmentBytes)
	s.MaxMessage, s.MaxRequest = int64(t.MaxMessageBytes), int64(b.MaxRequestBytes)
	return s
}
