package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/topicconf"
)

// drainTime bounds how long a stop waits for requests that were accepted.
const drainTime = 30 * time.Second

// node is one running broker, as its rooms see it while they start.
type node struct {
	cfg     *config.Config
	configs *topicconf.Registry
	log     *zap.Logger
	reg     *prometheus.Registry
	ready   *readiness
	bound   *bound
	stack   *stack
}

// run starts a broker, serves until ctx ends, drains and stops it. The order:
// addresses (nothing is changed on disk where one is taken), admin port, rooms
// from the disk upwards, clients last; stopping is the same backwards.
func run(ctx context.Context, cfg *config.Config, configs *topicconf.Registry, log *zap.Logger, level zap.AtomicLevel, version string) error {
	begin := time.Now()
	b, err := bind(ctx, cfg)
	if err != nil {
		return err
	}
	reg := metrics.NewRegistry()
	n := &node{cfg: cfg, configs: configs, log: log, reg: reg, bound: b, stack: &stack{log: log},
		ready: newReadiness(metrics.NewProcess(reg, version).Ready)}
	n.stack.push("addresses", func(context.Context) error { return b.close() })
	if b.admin != nil {
		a := newAdmin(b.admin, reg, level, n.ready, log.Named("admin"))
		n.stack.push("admin", func(ctx context.Context) error { a.stop(ctx); return nil })
	}
	if err := n.open(ctx); err != nil {
		return errors.Join(err, n.stop("start failed"))
	}
	n.ready.enter("")
	notify(log, sd.SdNotifyReady)
	log.Info("ready", zap.String("version", version), zap.Strings("listen", addresses(b)), zap.String("admin", cfg.AdminListen),
		zap.String("data", cfg.DataDir), zap.String("profile", cfg.WALProfile), zap.Duration("took", time.Since(begin)))
	<-ctx.Done()
	notify(log, sd.SdNotifyStopping)
	return n.stop("draining")
}

// stop ends all rooms within drainTime.
func (n *node) stop(phase string) error {
	n.ready.enter(phase)
	n.log.Info(phase)
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := n.stack.unwind(ctx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	n.log.Info("stopped")
	return nil
}

// addresses are where clients connect, with the ports that were found.
func addresses(b *bound) []string {
	var all []string
	for _, l := range b.clients {
		all = append(all, l.Addr().String())
	}
	return all
}

// notify tells systemd, where it started this process.
func notify(log *zap.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}
