package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/place"
	"github.com/chronik-io/chronik/internal/archive/snapshots"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
)

// uploads opens the writer of this broker's logs when the first snapshot needs it: the object store
// may not be there when the broker starts, and the broker does not wait for it.
type uploads struct {
	open func() (*writer.Writer, error)

	mu     sync.Mutex
	writer *writer.Writer
	closed bool
}

func (u *uploads) get() (snapshots.Uploads, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, errors.New("the broker stops")
	}
	if u.writer == nil {
		w, err := u.open()
		if err != nil {
			return nil, err
		}
		u.writer = w
	}
	return u.writer, nil
}

func (u *uploads) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed = true; u.writer != nil {
		u.writer.Close()
	}
}

// openArchive starts what takes snapshots of the cluster.
func (b *Broker) openArchive(_ context.Context, r *components) error {
	c := &r.conf.Archive
	log := b.log.Named("snapshots")
	open := func() (objects.Store, error) { return place.Open(b.fs, c) }
	up := &uploads{open: func() (*writer.Writer, error) {
		if c.URL == "" {
			return nil, errors.New("archive.url is not set on this broker; set it on all brokers")
		}
		store, err := open()
		if err != nil {
			return nil, err
		}
		id, err := metadata.ParseID(r.member.ID())
		if err != nil {
			return nil, err
		}
		return writer.New(writer.Options{Store: store, Prefix: format.Prefix(id), Cluster: id, Partitions: writer.Of(r.replicas),
			Rate: func() int64 { return c.Rate }, Logger: log}), nil
	}}
	desk := snapshots.NewDesk(snapshots.DeskOptions{Self: r.conf.NodeID, Replicas: r.replicas, Applied: r.applier.WaitFor,
		Uploads: up.get, Image: r.applier.Image, Ask: r.member.Ask(cluster.Snapshots)})
	r.snapshots = snapshots.New(snapshots.Options{Conf: *c, Open: open, Store: r.member.Leading(), Image: r.applier.Image,
		Leads: r.member.Leads, Broker: desk.Broker, Release: b.version, Now: time.Now, Log: log,
		Raise: func(ctx context.Context, level int32) error {
			revision, err := r.control.Raise(ctx, level)
			if err == nil {
				err = r.applier.WaitFor(ctx, revision)
			}
			return err
		}})
	r.member.Serve(cluster.Snapshots, desk.Handle)
	r.member.ServeSnapshots(r.snapshots)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.snapshots.Run(ctx) })
	b.stack.push("snapshots", func(context.Context) error {
		cancel()
		running.Wait()
		up.close()
		return nil
	})
	return nil
}
