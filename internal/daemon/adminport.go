package daemon

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/chronik-io/chronik/internal/admin"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/daemon/coordinators"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// access returns the addresses and names that may use the admin port.
func access(cfg *config.Config, token *[sha256.Size]byte, c *guard.Certificates) admin.Access {
	a := admin.Access{Token: token, Certificates: c.AdminTrusts(),
		Addresses: []string{cfg.AdminListen}, Names: cfg.AdminHosts, Remote: cfg.AdminRemote,
		Private: cfg.Security.ACL, NamesSetting: config.KeyAdminHosts, RemoteSetting: config.KeyAdminRemote,
		PrivateSetting: config.KeyAuthorization + ": " + config.WithACLs, TokenSetting: config.KeyAdminTokenFile}
	for _, l := range cfg.Listeners {
		a.Addresses = append(a.Addresses, l.Listen, l.Advertise)
	}
	return a
}

// view returns what the admin port shows of a broker that serves clients.
func (b *Broker) view() *admin.View {
	r := b.components
	server := r.server.Load()
	return &admin.View{Node: r.conf.NodeID, Dirs: r.dirs.List, Cluster: r.cluster.View, Logs: r.logs,
		Replicas: r.replicas, Image: r.applier.Image, Measured: r.measured,
		Network: r.network, Requests: r.requests,
		Connections: server.Connections,
		Waits:       server.Waits,
		Trace:       server.Trace,
		Connected:   func() int { return server.Stats().Connections }, Addresses: b.Addrs(),
		Groups: r.coordinators.Groups,
		Configs: func(img *metadata.Image, t *metadata.Topic) []configdef.Value {
			return b.configs.DescribeTopic(r.settings.Layers(img, t))
		},
		Budgets:  r.byteBudgets(server),
		Profiles: func() view.Profiles { return observe.Profiles(b.cfg.Durability.All(), b.cfg.WALProfile, r.measured) },
		Snapshots: func(ctx context.Context) *view.SnapshotList {
			if r.conf.Archive.URL == "" && len(r.applier.Image().Snapshots()) == 0 {
				return nil
			}
			x := r.handlers.Snapshots(ctx)
			return &x
		},
		Rights: rightsOf(&b.cfg.Security)}
}

// Health returns what GET /v1/health asks.
func (b *Broker) Health() *checks.Monitor { return b.health }

// Coordinators returns the coordinators. Tests need them. The broker must serve clients.
func (b *Broker) Coordinators() *coordinators.Coordinators { return b.components.coordinators }

// Waits returns the oldest requests without an answer, as GET /v1/waits does, at most most. The
// broker must serve clients.
func (b *Broker) Waits(most int) view.Waits {
	all := b.components.server.Load().Waits(most)
	all.Broker = b.components.conf.NodeID
	return all
}

// rightsOf returns the configuration of access rules, as the admin port shows it.
func rightsOf(s *config.Security) view.Rights {
	r := view.Rights{Authorization: config.NoRules, SuperUsers: append([]string{}, s.SuperUsers...), AllowEveryone: s.AllowEveryone,
		InternalTopics: metadata.InternalTopics()}
	if s.ACL {
		r.Authorization = config.WithACLs
	}
	return r
}

// probe measures the disks of all journals, for a few seconds each at most.
func (b *Broker) probe(ctx context.Context) error {
	if b.fs != vfs.OS() {
		return admin.BadRequest("the broker is in memory: there is no disk to measure")
	}
	err := b.probes.Measure(ctx, b.components.storage.Dirs())
	switch {
	case errors.Is(err, observe.ErrProbing):
		return admin.Conflict(err.Error())
	case errors.Is(err, errors.ErrUnsupported):
		return admin.BadRequest("%v; chronik-bench limits --dir DIR measures with files of its own", err)
	}
	return err
}

// readyGauge returns a function that sets the metric chronik_ready.
func readyGauge(p *metrics.Process) func(bool) {
	return func(ready bool) {
		if ready {
			p.Ready.Set(1)
		} else {
			p.Ready.Set(0)
		}
	}
}
