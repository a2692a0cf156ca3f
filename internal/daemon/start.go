package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/chronik-io/chronik/internal/admin"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/logtail"
	"github.com/chronik-io/chronik/internal/memory"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/observe"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/vfs"
)

// StopTime is how long a stop may take, without the time in which leaderships move; see
// Broker.Close.
func StopTime() time.Duration { t := stopTimes(); return t.drain + t.disk }

// stopTimes returns the limits of a stop. Within the first, accepted requests are answered and the
// components above the disk end; within the second, log directories and metadata are closed.
// Together with the grace period and the time for which leaderships move, they stay below the
// TimeoutStopSec of our unit.
func stopTimes() times {
	return times{drain: 20 * time.Second, disk: 40 * time.Second, grace: time.Second}
}

// Options configure a broker.
type Options struct {
	// Config is the result of Load.
	Config *config.Config
	// FS holds the data directory.
	FS vfs.FS
	// Net, if set, replaces the network of the operating system. Tests need it.
	Net Network
	// Local, if set, delivers further connections to the first listener, in addition to those of
	// its addresses: those that a program makes to its own broker. The broker closes it.
	Local net.Listener
	// Log receives all messages. Level is its level, which the admin port and clients can change;
	// the zero Level makes it fixed.
	Log   *zap.Logger
	Level zap.AtomicLevel
	// Version is shown by metrics and to clients.
	Version string
	// JournalFileSize and JournalBytes are those of storage.Options; 0 selects the defaults there.
	// A broker in memory needs small values.
	JournalFileSize, JournalBytes int64

	// Reload, if set, delivers requests to check the files of certificates at once. Reread, if set,
	// then reads the sources of Config again. Without TLS, requests are not received.
	Reload <-chan struct{}
	Reread func() (*config.Config, error)

	// Begun, if set, receives the broker before its components are opened, which can take as long
	// as a recovery.
	Begun func(*Broker)

	// slowChecks, if set, is the interval at which slow health sources are queried.
	slowChecks time.Duration
	// diskPatience, if set, replaces the constant.
	diskPatience time.Duration
	// stop, if set, replaces stopTimes in tests.
	stop times
}

// Broker is a running broker. It serves clients until Close.
type Broker struct {
	cfg        *config.Config
	configs    *configdef.Registry
	fs         vfs.FS
	net        Network
	log        *zap.Logger
	level      zap.AtomicLevel
	version    string
	reg        *prometheus.Registry
	health     *checks.Monitor
	probes     *observe.Probes
	bound      *bound
	certs      *guard.Certificates
	guard      *guard.Guard
	share      *share.Share // of the processors
	stack      *stack
	ending     *ending
	budgets    memory.Budgets
	limits     *connectionLimits
	memory     int64       // bytes of memory available; see memory.Available
	components *components // complete when health has left its last start phase

	serving  atomic.Bool            // the start is complete
	waitsFor atomic.Pointer[string] // see waits

	times        times // of the stop
	slowChecks   time.Duration
	diskPatience time.Duration

	journalFile, journalBytes int64
	// failed receives the first error that the broker cannot continue after. endStart ends the
	// start with it, which may wait for what has failed.
	failed   chan error
	endStart context.CancelCauseFunc
}

// logTailBytes is the size of the log tail that a broker keeps in memory for GET /v1/log.
const logTailBytes = 512 << 10

// Start starts a broker and returns when it serves clients. The order is: addresses (if one is
// taken, nothing on disk has changed), checks, admin port, components from the disk upwards,
// clients. ctx applies only to the start: if it ends early, a recovery ends too and leaves the
// directory as a kill at that moment would. If the exit code is not exit.Failed, the error is an
// *exit.Error. After an error, Start has stopped everything that it had started.
func Start(ctx context.Context, o Options) (*Broker, error) {
	begin := time.Now()
	if o.Net == nil {
		o.Net = &kernel{}
	}
	addresses, err := bind(ctx, o.Config, o.Net, o.Local)
	if err != nil {
		return nil, err
	}
	if o.Level == (zap.AtomicLevel{}) {
		o.Level = zap.NewAtomicLevel()
	}
	opened, err := guard.OpenCertificates(o.Config, o.Log.Named("certificates"))
	if err != nil {
		return nil, errors.Join(err, addresses.close())
	}
	token, err := guard.AdminToken(o.Config)
	if err != nil {
		return nil, errors.Join(err, addresses.close())
	}
	reg, tail := prometheus.NewRegistry(), logtail.New(logTailBytes)
	o.Log = tail.Follow(o.Log, o.Level)
	decides, err := guard.New(o.Config, o.Log)
	if err != nil {
		return nil, errors.Join(err, addresses.close())
	}
	b := &Broker{cfg: o.Config, configs: resolve.Registry(o.Config.Durability), fs: o.FS, net: o.Net, log: o.Log, level: o.Level, reg: reg,
		bound: addresses, certs: opened, guard: decides, share: share.New(),
		times: cmp.Or(o.stop, stopTimes()), journalFile: o.JournalFileSize, journalBytes: o.JournalBytes,
		stack: &stack{log: o.Log}, ending: newEnding(), failed: make(chan error, 1), probes: &observe.Probes{}, slowChecks: o.slowChecks,
		diskPatience: cmp.Or(o.diskPatience, datadir.Patience),
		version:      o.Version}
	starting, endStart := context.WithCancelCause(ctx)
	defer endStart(nil)
	b.endStart = endStart
	b.stack.push("addresses", func(context.Context) error { return addresses.close() })
	if err := b.startHealth(o.Version, readyGauge(metrics.NewProcess(reg, o.Version)), o.Log.Named("health")); err != nil {
		return nil, errors.Join(err, b.abort())
	}
	b.watchCertificates(o.Reload, o.Reread)
	if addresses.admin != nil {
		a := admin.Start(addresses.admin, admin.Options{Access: access(o.Config, token, opened), TLS: opened.AdminTLS(),
			Places: b.share.Of(share.Logins), Batches: b.share.Of(share.Batches), Registry: reg, Level: o.Level, Health: b.health,
			Memory: b.memory, Audit: b.guard.Audit, View: b.view, Probe: b.probe, Tail: tail, Log: o.Log.Named("admin")})
		b.stack.push("admin", func(ctx context.Context) error { a.Stop(ctx); return nil })
	}
	if o.Begun != nil {
		o.Begun(b)
	}
	if err := b.open(starting); err != nil {
		// What was waiting only says that it was canceled.
		if cause := context.Cause(starting); ctx.Err() == nil && cause != nil {
			err = cause
		}
		return nil, errors.Join(err, b.abort())
	}
	b.serving.Store(true)
	b.health.Enter("")
	if err := b.health.Speak(ctx); err != nil { // the start was canceled
		return nil, errors.Join(err, b.abort())
	}
	o.Log.Info("ready", zap.String("version", o.Version), zap.Strings("listen", b.Addrs()), zap.String("admin", b.AdminAddr()),
		zap.String("data", o.Config.DataDir), zap.String("profile", o.Config.WALProfile), zap.Duration("took", time.Since(begin)))
	return b, nil
}

// watchCertificates takes changed files until the broker has stopped, and the configuration that
// read returns for each value of now.
func (b *Broker) watchCertificates(now <-chan struct{}, read func() (*config.Config, error)) {
	if !b.certs.Any() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		b.certs.Run(ctx, now, func() bool {
			return read != nil && b.certs.Reread(b.cfg, read, b.log.Named("configuration"))
		})
	})
	b.stack.push("certificates", func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
}

// Addrs returns the addresses for clients, in the order of the configured listeners, with the
// actual ports.
func (b *Broker) Addrs() []string {
	var all []string
	for _, l := range slices.Concat(b.bound.clients...) {
		all = append(all, l.Addr().String())
	}
	return all
}

// LocalAddrs returns the addresses whose listener Options.Local has connections for as well: those
// of the first listener, and the one that it advertises.
func (b *Broker) LocalAddrs() []string {
	var all []string
	for _, l := range b.bound.clients[0] {
		all = append(all, l.Addr().String())
	}
	if at := b.cfg.Listeners[0].Advertise; at != "" {
		all = append(all, at)
	}
	return all
}

// AdminAddr returns the address of the admin port, or "" if it is off.
func (b *Broker) AdminAddr() string {
	if b.bound.admin == nil {
		return ""
	}
	return b.bound.admin.Addr().String()
}

// Metrics returns the broker's metrics. The admin port shows those of the process as well.
func (b *Broker) Metrics() prometheus.Gatherer { return b.reg }

// Failed delivers an error when the broker cannot continue. The caller must still call Close.
func (b *Broker) Failed() <-chan error { return b.failed }

// fail sends err to Failed if it is the first error. It does not block, and components call it from
// their own goroutines.
func (b *Broker) fail(err error) {
	select {
	case b.failed <- err:
	default: // only the first error counts
	}
	b.endStart(err)
}

// watch calls failed in a goroutine when ended is closed, unless unwatch was called before. unwatch
// waits for that goroutine: what the caller ends afterwards was never a failure.
func watch(ended <-chan struct{}, failed func()) (unwatch func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ended:
			failed()
		case <-stop:
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// Close is Shutdown without a limit of the caller's.
func (b *Broker) Close() error { return b.Shutdown(context.Background()) }

// Shutdown answers accepted requests, marks the data directory clean and stops all components,
// within about a minute, or until ctx ends if that is earlier; see stopTimes. It abandons a
// component that does not end by then, such as a log directory whose disk hangs; the next start
// recovers it. Until that component has returned, the data directory stays locked. Further and
// concurrent calls wait for the same stop, and the earliest end of a context counts for all.
func (b *Broker) Shutdown(ctx context.Context) error {
	return b.ending.wait(ctx, b.times.grace, func(ctx context.Context) error { return b.stop(ctx, zapcore.InfoLevel, "draining") })
}

// abort stops what a failed start had started. It logs at debug level: such a start reports only
// its error.
func (b *Broker) abort() error {
	return b.stop(context.Background(), zapcore.DebugLevel, "start failed")
}

// stop stops everything that was started.
func (b *Broker) stop(ctx context.Context, level zapcore.Level, phase string) error {
	b.log.Log(level, phase)
	if b.health != nil {
		b.health.Enter(phase)
		b.leave(ctx)
		// First, because the sources of its facts use all components.
		b.stack.push("health", func(ctx context.Context) error { b.health.Stop(ctx); return nil })
	}
	if err := b.stack.unwind(ctx, b.times); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	b.log.Log(level, "stopped")
	return nil
}
