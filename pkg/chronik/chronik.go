// Package chronik runs a broker inside a Go program: on a directory for production, in memory for
// tests.
//
// It is chronikd without the process, with the same components, settings, files and promises. A
// broker on a directory keeps acknowledged records when the program is killed or the power fails,
// as its durability profile promises; a broker in memory keeps them until Close. Any Kafka client
// connects to Addr, or within the program through Dial. A directory may be used by chronikd and by
// a program in turn, but never by two at a time: the second is refused with ErrInUse.
//
// Open starts a broker on a directory, and OpenMemory and StartTest start one in memory:
//
//	broker, err := chronik.Open(ctx, "/var/lib/app/events", chronik.Options{Logger: slog.Default()})
//	...
//	defer broker.Close()
//
// A program may run any number of brokers. They share one thing only: a part of the program's
// memory limit bounds what compressed batches inflate to, in all of them together. Several of them
// form a cluster through the settings that chronikd's documentation names (cluster.name,
// cluster.seeds, node.id).
//
// The package has no logic of its own, and does not know the components of a broker, which
// internal/daemon starts. What it exports is in api.txt, which a test compares with the code: names
// are added and never changed.
package chronik

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/slogcore"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// modulePath is the path of the module that this package is in.
const modulePath = "github.com/chronik-io/chronik"

// memoryDir is the data directory of a broker in memory.
const memoryDir = "/data"

// anyPort is where a broker listens unless the program says otherwise.
const anyPort = "127.0.0.1:0"

// diskMinFree is the setting of the free space that the disk must keep.
const diskMinFree = "chronik.disk.min.free.bytes"

// The sizes of a journal file of brokers in memory and in tests, in bytes, and how many a journal
// may have. Others have what suits the disk.
const (
	fileInMemory = 1 << 20
	fileInTests  = 16 << 20
	journalFiles = 16
)

// Options configures a broker. The zero value is a broker on a free port of 127.0.0.1 that
// acknowledges synced records and logs nothing. Fields may be added in later versions.
type Options struct {
	// Listen is HOST:PORT for clients; empty is what Settings or ConfigFile says, or a free port of
	// 127.0.0.1.
	Listen string
	// Admin is HOST:PORT for metrics, health and the page of the broker; empty is what Settings or
	// ConfigFile says, or none.
	Admin string
	// Profile names the durability profile of topics that set none; empty is what Settings or
	// ConfigFile says, or sync. Profiles adds the program's own profiles to the built-in ones. A
	// topic keeps its profile's name: without that profile it can be read and not written.
	Profile  string
	Profiles []durability.Profile
	// Settings are other settings, by the names in chronikd's documentation: {"num.partitions":
	// "4"}. They override ConfigFile, and one that a field above says as well is an error. In
	// memory and in tests chronik.disk.min.free.bytes defaults to 0, because there the broker need
	// not keep the disk from filling up.
	Settings map[string]string
	// ConfigFile is the path of a YAML file of chronikd's form, for what Settings cannot say, such
	// as several listeners; empty is none. The other options override it.
	ConfigFile string
	// Logger receives the broker's log; nil discards it. Its handler decides what is written, and a
	// log.level of the settings or of an administrator can only reduce that. Whether it takes debug
	// messages is asked once, at the start. It should not block: the broker would wait for it.
	Logger *slog.Logger
}

// Broker is a running broker. Its methods may be called concurrently.
type Broker struct {
	inner *daemon.Broker
	local *pipes
	own   []string // addresses that Dial connects to in process

	stop     sync.Once     // closes stopping
	stopped  sync.Once     // closes done
	stopping chan struct{} // closed by Shutdown
	watched  chan struct{} // closed when failure does not change any longer
	done     chan struct{} // closed when the broker has failed, or has stopped
	failure  error         // why the broker could not continue; guarded by watched
	err      error         // of Err; guarded by done
}

// Open starts a broker on the directory dir, which it creates if it does not exist, and returns
// when it serves clients. After a crash that includes the recovery, which takes the longer the more
// the journal holds; ctx bounds only this start, and ending it leaves the directory as a kill at
// that moment would. A relative dir begins at the working directory of this moment, and so do the
// log directories of settings; names of certificates and other files should be absolute if the
// program changes its working directory. The error is one of those that match the variables below,
// or that of ctx.
func Open(ctx context.Context, dir string, o Options) (*Broker, error) {
	return openDir(ctx, dir, 0, nil, o)
}

// OpenMemory starts a broker whose records, topics and settings exist until Close. It is for tests
// and for what may be lost: nothing that it acknowledges outlives the program.
func OpenMemory(ctx context.Context, o Options) (*Broker, error) {
	cfg, err := o.load(memoryDir, unguarded())
	if err != nil {
		return nil, &startFault{kinds: []error{ErrOptions}, err: err}
	}
	return open(ctx, cfg, vfs.Memory(), fileInMemory, o.Logger)
}

// openDir starts a broker on a directory of the operating system. journalFile and defaults are
// those of open and load.
func openDir(ctx context.Context, dir string, journalFile int64, defaults map[string]string, o Options) (*Broker, error) {
	if dir == "" {
		return nil, &startFault{kinds: []error{ErrOptions}, err: errors.New("the directory has no name; " +
			"name the one in which the broker keeps its records, or call OpenMemory if it need not keep them")}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, &startFault{kinds: []error{ErrDirectory}, err: err}
	}
	cfg, err := o.load(dir, defaults)
	if err != nil {
		return nil, &startFault{kinds: []error{ErrOptions}, err: err}
	}
	return open(ctx, cfg, vfs.OS(), journalFile, o.Logger)
}

// open starts a broker. journalFile is the size of a journal file, 0 for what suits the disk.
func open(ctx context.Context, cfg *config.Config, fs vfs.FS, journalFile int64, logger *slog.Logger) (*Broker, error) {
	b := &Broker{local: newPipes(), stopping: make(chan struct{}), watched: make(chan struct{}), done: make(chan struct{})}
	log, level := zap.NewNop(), zap.NewAtomicLevelAt(zap.DebugLevel)
	if logger != nil {
		log = zap.New(slogcore.New(logger.Handler(), level))
	}
	if logger == nil || !log.Core().Enabled(zap.DebugLevel) {
		level.SetLevel(zap.InfoLevel) // of the last lines, which the admin port shows even without a logger
	}
	if cfg.Source(config.KeyLogLevel) != config.SourceDefault {
		if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
			return nil, &startFault{kinds: []error{ErrOptions}, err: err}
		}
	}
	var err error
	b.inner, err = daemon.Start(ctx, daemon.Options{Config: cfg, FS: fs, Log: log, Level: level, Version: version(),
		Local: b.local, JournalFileSize: journalFile, JournalBytes: journalFiles * journalFile})
	if err != nil {
		return nil, startError(ctx, err)
	}
	b.own = b.inner.LocalAddrs()
	if err := b.local.serve(b.own[0]); err != nil {
		return nil, errors.Join(startError(ctx, err), b.inner.Close())
	}
	go b.watch()
	return b, nil
}

// load returns the configuration of a broker on dir. defaults are below those of all sources.
func (o *Options) load(dir string, defaults map[string]string) (*config.Config, error) {
	in := config.Input{Profiles: o.Profiles, Absolute: true, Flags: map[string]string{config.KeyDataDir: dir},
		Defaults: map[string]string{config.KeyListen: anyPort, config.KeyAdminListen: config.Off}}
	maps.Copy(in.Defaults, defaults)
	if o.ConfigFile != "" {
		in.File, in.ReadFile = o.ConfigFile, os.ReadFile
	}
	if _, set := o.Settings[config.KeyDataDir]; set {
		return nil, errors.New("the setting data.dir is there; the directory is an argument of Open")
	}
	for key, field := range map[string]struct{ name, value string }{config.KeyListen: {"Listen", o.Listen},
		config.KeyAdminListen: {"Admin", o.Admin}, config.KeyWALProfile: {"Profile", o.Profile}} {
		if _, set := o.Settings[key]; set && field.value != "" {
			return nil, fmt.Errorf("the setting %s is there, and the option %s says the same; leave out one of them", key, field.name)
		}
		if field.value != "" {
			in.Flags[key] = field.value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Settings)) {
		in.Set = append(in.Set, key+"="+o.Settings[key])
	}
	return resolve.Load(in)
}

// unguarded returns defaults without a free-space threshold.
func unguarded() map[string]string { return map[string]string{diskMinFree: "0"} }

// version returns the version of this module in the program, "embedded" if the program does not
// know.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "embedded"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "embedded"
}

// watch notes why the broker cannot continue, if that happens before it is closed.
func (b *Broker) watch() {
	select {
	case err := <-b.inner.Failed():
		b.failure = fmt.Errorf("chronik: the broker cannot continue: %w", err)
		b.err = b.failure
		close(b.watched)
		close(b.done)
	case <-b.stopping:
		close(b.watched)
	}
}

// Addr returns HOST:PORT of the first listener, for clients.
func (b *Broker) Addr() string { return b.inner.Addrs()[0] }

// Addrs returns HOST:PORT of all listeners, in the order in which they are configured.
func (b *Broker) Addrs() []string { return b.inner.Addrs() }

// AdminAddr returns HOST:PORT of the admin port, empty if there is none.
func (b *Broker) AdminAddr() string { return b.inner.AdminAddr() }

// Metrics returns the broker's metrics, which docs/metrics.md describes, without those of the Go
// runtime and of the process. A program that has metrics of its own serves both through
// prometheus.Gatherers; with several brokers, each under a path of its own, since their names are
// the same.
func (b *Broker) Metrics() prometheus.Gatherer { return b.inner.Metrics() }

// Done returns a channel that is closed when the broker no longer works: it was closed, or cannot
// continue. Err then has the reason. A program that learns of it still calls Close.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err returns nil while the broker works, ErrClosed after Close, and otherwise the error after
// which the broker could not continue.
func (b *Broker) Err() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

// Close is Shutdown with no limit but the broker's own, about a minute.
func (b *Broker) Close() error { return b.Shutdown(context.Background()) }

// Shutdown answers accepted requests, moves the leaderships of a member of a cluster to others,
// marks the directory clean and stops the broker. If ctx ends earlier, what has not ended is
// abandoned and the error says so: no acknowledged record is lost, the next Open recovers the
// directory, and within this program the directory stays in use until what was abandoned has ended.
// The error includes the one after which the broker could not continue, if any. Several calls wait
// for the same stop, and the earliest end of a ctx counts for all of them: it cuts a Close short.
func (b *Broker) Shutdown(ctx context.Context) error {
	b.stop.Do(func() { close(b.stopping) })
	<-b.watched
	err := b.inner.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("chronik: %w", err)
	}
	b.stopped.Do(func() {
		if b.failure == nil {
			b.err = ErrClosed
			close(b.done)
		}
	})
	return errors.Join(b.failure, err)
}

// Dial connects to an address as net.Dialer does, but without the network if the address is this
// broker's first listener: for clients in the same program, as kgo.Dialer takes it. A listener with
// TLS expects it on such a connection too. Clients appear with the address 127.0.0.1. Such a
// connection has no buffer: a write returns when the broker has read it, and a client that sends
// further requests before the answer reads in a goroutine of its own, as client libraries do.
func (b *Broker) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !slices.Contains(b.own, address) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return b.local.dial(ctx)
}
