// Package chronik starts a broker inside a Go program or a Go test: in memory or
// on a directory, on a free port.
//
// It is chronikd without the process: the same rooms, settings and promises.
// A broker on a directory keeps what it acknowledged when the program is killed
// or the power goes, as its durability profile says; one in memory keeps it
// until Close. Any Kafka client connects to Addr.
//
// The package is a thin door to the daemon and holds no logic of its own. A
// program may run as many brokers as it likes; nothing is global.
package chronik

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/daemon"
	"github.com/chronik-io/chronik/internal/daemon/config"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

// memoryDir is the data directory of a broker in memory.
const memoryDir = "/data"

// diskMinFree is the setting of how full the disk may get.
const diskMinFree = "chronik.disk.min.free.bytes"

// Options say what broker to start. The zero value is one in memory, on a free
// port of 127.0.0.1, that acknowledges what is synced.
type Options struct {
	// Dir is the data directory, made where it is missing; empty keeps all in
	// memory.
	Dir string
	// Listen is HOST:PORT for clients; empty is a free port of 127.0.0.1.
	Listen string
	// Admin is HOST:PORT of metrics and health; empty is none.
	Admin string
	// Profile names the durability profile of topics that set none; empty is
	// sync. Profiles are profiles of the program, beside the built-in ones.
	Profile  string
	Profiles []durability.Profile
	// Settings are any others, by the names that chronikd's documentation lists:
	// {"num.partitions": "4"}. In memory and in StartTest chronik.disk.min.free.bytes
	// is 0 unless it stands here: there the disk is not what is to be looked after.
	Settings map[string]string
	// Log gets what the broker logs; nil is nothing. An administrator who changes
	// the broker's level can have it say less, never more than Log takes.
	Log *zap.Logger
}

// Broker is a running broker.
type Broker struct {
	inner *daemon.Broker
}

// Start starts a broker and returns when it serves clients. ctx bounds the start
// alone.
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
	cfg, err := daemon.Load(in)
	if err != nil {
		return nil, fmt.Errorf("chronik: %w", err)
	}
	log, level := zap.NewNop(), zap.NewAtomicLevel() // the admin port shows the last lines also where Log is nil
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

// unguarded leaves free space alone unless the options say otherwise.
func unguarded(o Options) Options {
	settings := map[string]string{diskMinFree: "0"}
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	return o
}

// Addr is HOST:PORT of the first listener: what a client dials.
func (b *Broker) Addr() string { return b.inner.Addrs()[0] }

// AdminAddr is HOST:PORT of the admin port, empty where there is none.
func (b *Broker) AdminAddr() string { return b.inner.AdminAddr() }

// Close answers what was accepted, marks the directory clean and stops the
// broker. The error includes one that the broker could not go on with before. A
// second call does nothing and returns the error of the stop.
func (b *Broker) Close() error {
	var failure error
	select {
	case failure = <-b.inner.Failed():
	default:
	}
	return errors.Join(failure, b.inner.Close())
}

// TB is what StartTest needs of a *testing.T or *testing.B.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// StartTest starts a broker that ends with the test; the test fails where it
// does not start or stop well. Without options it is in memory; of several, the
// last counts.
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
