package daemon

import (
	"cmp"
	"errors"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/health/host"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// startHealth starts the checks of a broker that is about to start. Until the broker serves clients
// they use its configuration and the machine only.
func (b *Broker) startHealth(version string, ready func(bool), log *zap.Logger) error {
	conf := static(b.cfg)
	broker, err := b.configs.ResolveBroker(conf)
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	topic, err := b.configs.ResolveTopic(configdef.Layers{Static: conf})
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	live, err := b.configs.ResolveLive(configdef.Layers{Static: conf})
	if err != nil {
		return &ExitError{ExitUsage, err}
	}
	b.limits = newConnectionLimits(b.cfg.Listeners, &live.Connections)
	dirs := locations(&broker)
	b.memory = availableMemory()
	wanted, cut := divide(b.memory, b.cfg.Produce, len(dirs), broker.Cleaning.KeyBytes)
	b.budgets = cut
	o := checks.Options{Broker: broker.NodeID, Version: version, Checks: checks.Checks(), SlowEvery: b.slowChecks, Ready: ready, Log: log}
	settings := settingsOf(b.cfg, &broker, &topic)
	o.Sources = []checks.Source{func(f *checks.Facts) {
		f.Settings = settings
		f.Memory.There, f.Memory.Budgets, f.Memory.Wanted = b.memory, cut.sum(len(dirs)), wanted.sum(len(dirs))
	}, b.certs.facts}
	if b.fs == vfs.OS() { // a broker in memory does not depend on the machine
		m := observe.NewMachine(b.cfg.DataDir, dirs, b.limits.most)
		o.Slow = []checks.SlowSource{m.Slow}
		o.Sources = append(o.Sources, m.Quick)
	}
	b.health = checks.Start(o)
	return errors.Join(metrics.RegisterFindings(b.reg, observe.Findings(b.health, o.Checks)),
		metrics.RegisterCertificates(b.reg, b.certs.expiries))
}

// settingsOf returns what was configured. It does not change while the broker runs.
func settingsOf(cfg *config.Config, b *configdef.Broker, t *configdef.Topic) checks.Settings {
	s := checks.Settings{
		DataDir:    absolute(cfg.DataDir),
		WorkingDir: absolute("."),
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
			Brokers: b.Cluster.Name != "" && l.Name == interListener(cfg, b),
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

// absolute returns a path for commands that an operator runs in another working directory.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// presence watches the directories in which the broker has open files. meta is that of the
// metadata.
func presence(meta string, dirs []*storage.Dir) *host.Presence {
	used := []host.Used{{Role: checks.RoleMetadata, Path: absolute(meta), Files: "*.log"}}
	for _, d := range dirs {
		used = append(
			used,
			host.Used{Role: checks.RoleLogs, Path: absolute(d.Path()), Files: storage.IdentityFile},
			host.Used{Role: checks.RoleJournal, Path: absolute(d.JournalPath()), Files: "*.journal"},
		)
	}
	return host.NewPresence(used...)
}

// remedyFor returns what to do about a log directory that could not be opened.
func (b *Broker) remedyFor(d *storage.DirError) string {
	return cmp.Or(dirRemedy(b.cfg.Broker, d), "repair it")
}
