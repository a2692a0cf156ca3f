package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/admin"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/logtail"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/vfs"
)

// stopTimes bound a stop: requests that were accepted are answered, and the rooms above the
// disk end, within the first time; log directories and metadata are closed within the second.
// Together with the grace it is less than systemd's and this unit's TimeoutStopSec of 90 s.
func stopTimes() times {
	return times{drain: 20 * time.Second, disk: 40 * time.Second, grace: time.Second}
}

// Options are what a broker is started with.
type Options struct {
	// Config is what Load returned.
	Config *config.Config
	// FS holds the data directory.
	FS vfs.FS
	// Log gets everything; Level is the one that it goes by and that the admin
	// port and clients move. Without one Log's cannot be moved.
	Log   *zap.Logger
	Level zap.AtomicLevel
	// Version is told by metrics and to clients.
	Version string
	// JournalFileSize and JournalBytes are those of storage.Options; 0 is the
	// default there. A broker in memory wants them small.
	JournalFileSize, JournalBytes int64

	// begun, where set, gets the broker before its rooms are opened, which may
	// take as long as a recovery does.
	begun func(*Broker)
	// slowChecks, where set, is how often slow sources of health's facts are asked.
	slowChecks time.Duration
	// stop, where set, is what tests have instead of stopTimes.
	stop times
}

// Broker is a running broker. It is served until Close.
type Broker struct {
	cfg     *config.Config
	configs *configdef.Registry
	fs      vfs.FS
	log     *zap.Logger
	level   zap.AtomicLevel
	reg     *prometheus.Registry
	health  *checks.Monitor
	probes  *observe.Probes
	bound   *bound
	stack   *stack
	ended   sync.Once
	endErr  error // of the stop, set in ended
	budgets budgets
	memory  int64       // bytes that there are; see memoryThere
	rooms   *components // complete once health has no phase any more

	times      times // of the stop
	slowChecks time.Duration

	journalFile, journalBytes int64
	// failed gets the first error that no room can go on with.
	failed chan error
}

// logTailBytes is how much of its log a broker keeps in memory, for GET /v1/log.
const logTailBytes = 512 << 10

// Start starts a broker and returns when it serves clients. The order:
// addresses (nothing is changed on disk where one is taken), checks, admin port,
// rooms from the disk upwards, clients last. ctx is for the start alone: where it
// ends before, so does a recovery, and the directory is as a kill at that moment
// leaves it. An error is an *ExitError where its code is not ExitFailed; what had
// been started is stopped.
func Start(ctx context.Context, o Options) (*Broker, error) {
	begin := time.Now()
	addresses, err := bind(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	if o.Level == (zap.AtomicLevel{}) {
		o.Level = zap.NewAtomicLevel()
	}
	reg, tail := metrics.NewRegistry(), logtail.New(logTailBytes)
	o.Log = tail.Follow(o.Log, o.Level)
	b := &Broker{cfg: o.Config, configs: registry(o.Config.Durability), fs: o.FS, log: o.Log, level: o.Level, reg: reg, bound: addresses,
		times: cmp.Or(o.stop, stopTimes()), journalFile: o.JournalFileSize, journalBytes: o.JournalBytes,
		stack: &stack{log: o.Log}, failed: make(chan error, 1), probes: &observe.Probes{}, slowChecks: o.slowChecks}
	b.stack.push("addresses", func(context.Context) error { return addresses.close() })
	if err := b.startHealth(o.Version, readyGauge(metrics.NewProcess(reg, o.Version)), o.Log.Named("health")); err != nil {
		return nil, errors.Join(err, b.stop(zapcore.DebugLevel, "start failed"))
	}
	if addresses.admin != nil {
		a, err := admin.Start(addresses.admin, admin.Options{Access: access(o.Config), Registry: reg, Level: o.Level, Health: b.health,
			View: b.view, Probe: b.probe, Tail: tail, Log: o.Log.Named("admin")})
		if err != nil {
			return nil, errors.Join(err, b.stop(zapcore.DebugLevel, "start failed"))
		}
		b.stack.push("admin", func(ctx context.Context) error { a.Stop(ctx); return nil })
	}
	if o.begun != nil {
		o.begun(b)
	}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.stop(zapcore.DebugLevel, "start failed"))
	}
	b.health.Enter("")
	if err := b.health.Speak(ctx); err != nil { // the start was given up
		return nil, errors.Join(err, b.stop(zapcore.DebugLevel, "start failed"))
	}
	o.Log.Info("ready", zap.String("version", o.Version), zap.Strings("listen", b.Addrs()), zap.String("admin", b.AdminAddr()),
		zap.String("data", o.Config.DataDir), zap.String("profile", o.Config.WALProfile), zap.Duration("took", time.Since(begin)))
	return b, nil
}

// Addrs are where clients connect, in the order of the configuration's
// listeners, with the ports that were found.
func (b *Broker) Addrs() []string {
	var all []string
	for _, l := range slices.Concat(b.bound.clients...) {
		all = append(all, l.Addr().String())
	}
	return all
}

// AdminAddr is where the admin port is, empty where it is off.
func (b *Broker) AdminAddr() string {
	if b.bound.admin == nil {
		return ""
	}
	return b.bound.admin.Addr().String()
}

// Failed gets an error when the broker cannot go on; Close is still to be
// called.
func (b *Broker) Failed() <-chan error { return b.failed }

// fail tells Failed, once; rooms call it from their goroutines.
func (b *Broker) fail(err error) {
	select {
	case b.failed <- err:
	default: // the first error is the one that counts
	}
}

// Close answers what was accepted, marks the data directory clean and stops all
// rooms, within a minute; see stopTimes. A log directory whose disk is stuck is left behind
// for the next start to recover. Whoever calls it again, also at the same time, gets what the
// first call gets.
func (b *Broker) Close() error {
	b.ended.Do(func() { b.endErr = b.stop(zapcore.InfoLevel, "draining") })
	return b.endErr
}

// stop stops what was started. A start that failed is told by its error alone,
// so it logs at debug.
func (b *Broker) stop(level zapcore.Level, phase string) error {
	b.log.Log(level, phase)
	if b.health != nil {
		b.health.Enter(phase)
		// First, because the sources of its facts use all components.
		b.stack.push("health", func(ctx context.Context) error { b.health.Stop(ctx); return nil })
	}
	if err := b.stack.unwind(b.times); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	b.log.Log(level, "stopped")
	return nil
}
