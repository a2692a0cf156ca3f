// Package archiving opens what takes snapshots of the cluster, and connects it with partitions, the
// metadata, metrics and findings. It does not know requests, nor who leads the metadata.
package archiving

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/access"
	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/snapshots"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// Options are what Open connects.
type Options struct {
	FS         vfs.FS
	Conf       *configdef.Archive
	Node       int32
	Version    string
	Member     *cluster.Cluster
	Applier    *metadata.Applier
	Controller *controller.Controller
	Replicas   *replica.Manager
	Registry   prometheus.Registerer
	Health     *checks.Monitor
	// Push adds what ends a component to the stop of the broker.
	Push func(name string, stop func(context.Context) error)
	Log  *zap.Logger
}

// Open starts what takes snapshots. The object store need not be there: it is opened when a
// snapshot needs it.
func Open(o Options) error {
	open := access.NewOpener(o.FS, o.Conf).Open
	up := &uploads{o: o, open: open}
	began := time.Now()
	desk := snapshots.NewDesk(snapshots.DeskOptions{
		Self: o.Node, Replicas: o.Replicas, Applied: o.Applier.WaitFor, Uploads: up.get, Image: o.Applier.Image,
		Ask: o.Member.Ask(cluster.Snapshots),
	})
	service := snapshots.New(snapshots.Options{
		Conf: *o.Conf, Open: open, Store: o.Member.Leading(), Image: o.Applier.Image, Applied: o.Applier.WaitFor, Leads: o.Member.Leads,
		Raise: func(ctx context.Context, level int32) error {
			revision, err := o.Controller.Raise(ctx, level)
			if err == nil {
				err = o.Applier.WaitFor(ctx, revision)
			}
			return err
		},
		Peer: desk.Peer, Release: o.Version, Now: time.Now, Log: o.Log,
	})
	newest := func() (n int, x view.Snapshot) {
		list := o.Applier.Image().Snapshots()
		if n = len(list); n > 0 {
			x = list[n-1].View()
		}
		return n, x
	}
	if err := metrics.RegisterSnapshots(o.Registry, newest); err != nil {
		return err
	}
	o.Health.Add(func(f *checks.Facts) {
		state, err := service.State()
		if err != nil { // another broker leads the metadata
			f.Snapshots = &checks.Snapshots{Unasked: later(began, desk.Asked()),
				Snapshots: view.Snapshots{URL: o.Conf.URL, IntervalMs: o.Conf.Interval.Milliseconds()}}
			return
		}
		f.Snapshots = &checks.Snapshots{Snapshots: state}
		if n, x := newest(); n > 0 {
			f.Snapshots.Newest = &x
		}
	})
	o.Member.Serve(cluster.Snapshots, desk.Handle)
	o.Member.ServeSnapshots(service)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { service.Run(ctx) })
	o.Push("snapshots", func(context.Context) error {
		cancel()
		running.Wait()
		up.close()
		return nil
	})
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// uploads opens the writer of this broker's logs when the first snapshot needs it.
type uploads struct {
	o    Options
	open func() (objects.Store, error)

	mu     sync.Mutex
	writer *writer.Writer
	closed bool
}

// get is snapshots.DeskOptions.Uploads.
func (u *uploads) get() (snapshots.Uploads, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
		return nil, errors.New("the broker stops")
	case u.writer != nil:
		return u.writer, nil
	case u.o.Conf.URL == "":
		return nil, errors.New("archive.url is not set on this broker; set it on all brokers")
	}
	store, err := u.open()
	if err != nil {
		return nil, err
	}
	id, err := metadata.ParseID(u.o.Member.ID())
	if err != nil {
		return nil, err
	}
	u.writer = writer.New(writer.Options{
		Store: store, Prefix: format.Prefix(id), Cluster: id, Partitions: writer.Of(u.o.Replicas),
		Rate: func() int64 { return u.o.Conf.Rate }, Logger: u.o.Log,
	})
	return u.writer, nil
}

func (u *uploads) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed = true; u.writer != nil {
		u.writer.Close()
	}
}
