// Package chronik starts a broker inside a Go program or a Go test: in memory or on a directory, on
// a free port.
//
// It is chronikd without the process, with the same components, settings and promises. A broker on
// a directory keeps acknowledged records when the program is killed or the power fails, as its
// durability profile promises; a broker in memory keeps them until Close. Any Kafka client connects
// to Addr.
//
// The package only wraps the daemon and has no logic of its own. A program may run any number of
// brokers; there is no global state.
package chronik

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// memoryDir is the data directory of a broker in memory.
const memoryDir = "/data"

// diskMinFree is the setting of the free space that the disk must keep.
const diskMinFree = "chronik.disk.min.free.bytes"

// Options configures a broker. The zero value is a broker in memory, on a free port of 127.0.0.1,
// that acknowledges synced records.
type Options struct {
	// Dir is the data directory, created if it does not exist; empty keeps everything in memory.
	Dir string
	// Listen is HOST:PORT for clients; empty is a free port of 127.0.0.1.
	Listen string
	// Admin is HOST:PORT for metrics and health; empty is none.
	Admin string
	// Profile names the durability profile of topics that set none; empty is sync. Profiles adds
	// the program's own profiles to the built-in ones.
	Profile  string
	Profiles []durability.Profile
	// Settings are other settings, by the names in chronikd's documentation: {"num.partitions":
	// "4"}. In memory and in StartTest chronik.disk.min.free.bytes defaults to 0, because there the
	// broker need not keep the disk from filling up.
	Settings map[string]string
	// Log receives the broker's log; nil discards it. An administrator who changes the broker's
	// level can reduce the output, but never exceed Log's level.
	Log *zap.Logger
}

// Broker is a running broker.
type Broker struct {
	inner *daemon.Broker
}

// Start starts a broker and returns when it serves clients. ctx bounds only the startup.
func Start(ctx context.Context, o Options) (*Broker, error) {
	in := config.Input{Profiles: o.Profiles, Flags: map[string]string{
		config.KeyDataDir:     memoryDir,
		config.KeyListen:      "127.0.0.1:0",
		config.KeyAdminListen: config.Off,
	}}
	fs, journalFile := vfs.Memory(), int64(1<<20)
	if o.Dir != "" {
		fs, journalFile = vfs.OS(), 16<<20
	} else {
		o = unguarded(o)
	}
	for key, value := range map[string]string{config.KeyDataDir: o.Dir, config.KeyListen: o.Listen,
		config.KeyAdminListen: o.Admin, config.KeyWALProfile: o.Profile} {
		if value != "" {
			in.Flags[key] = value
		}
	}
	for key, value := range o.Settings {
		in.Set = append(in.Set, key+"="+value)
	}
	cfg, err := resolve.Load(in)
	if err != nil {
		return nil, fmt.Errorf("chronik: %w", err)
	}
	log, level := zap.NewNop(), zap.NewAtomicLevel() // the admin port shows the last lines even if Log is nil
	if o.Log != nil {
		level.SetLevel(o.Log.Level())
		log = o.Log.WithOptions(zap.IncreaseLevel(level))
	}
	inner, err := daemon.Start(ctx, daemon.Options{Config: cfg, FS: fs, Log: log, Level: level, Version: "embedded",
		JournalFileSize: journalFile, JournalBytes: 16 * journalFile})
	if err != nil {
		return nil, fmt.Errorf("chronik: %w", err)
	}
	return &Broker{inner: inner}, nil
}

// unguarded sets no free-space threshold unless the options do.
func unguarded(o Options) Options {
	settings := map[string]string{diskMinFree: "0"}
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	return o
}

// Addr returns HOST:PORT of the first listener, for clients.
func (b *Broker) Addr() string { return b.inner.Addrs()[0] }

// AdminAddr returns HOST:PORT of the admin port, empty if there is none.
func (b *Broker) AdminAddr() string { return b.inner.AdminAddr() }

// Close answers accepted requests, marks the directory clean and stops the broker. Its error
// includes the one that stopped the broker earlier, if any. Further calls wait for the first and
// return only the error of the shutdown.
func (b *Broker) Close() error {
	var failure error
	select {
	case failure = <-b.inner.Failed():
	default:
	}
	return errors.Join(failure, b.inner.Close())
}

// TB is the part of *testing.T and *testing.B that StartTest needs.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// StartTest starts a broker that stops when the test ends; the test fails if the broker does not
// start, or stops with an error. Without options the broker is in memory; of several Options, the
// last applies.
func StartTest(t TB, options ...Options) *Broker {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[len(options)-1]
	}
	b, err := Start(t.Context(), unguarded(o))
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("chronik: close: %v", err)
		}
	})
	return b
}
