package observe

import (
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/view"
)

// Settings returns what was configured. It does not change while the broker runs.
func Settings(cfg *config.Config, b *configdef.Broker, t *configdef.Topic) checks.Settings {
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
