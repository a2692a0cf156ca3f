// Package archiving opens what takes snapshots of the cluster, and what copies records to the
// object store and reads them there. It connects them with partitions, the metadata, metrics and
// findings. A broker starts without the object store, which is opened only when a snapshot, a copy
// or a read needs it, and is known by its mark. The package does not know requests, nor who leads
// the metadata.
package archiving

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/access"
	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/snapshots"
	"github.com/chronik-io/chronik/internal/archive/tier"
	"github.com/chronik-io/chronik/internal/archive/tierread"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/bufpool"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metrics"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/share"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/internal/view"
)

// Options are what Open connects.
type Options struct {
	FS      vfs.FS
	Conf    *configdef.Archive
	Tiers   *configdef.Tiers
	Node    int32
	Version string
	Member  *cluster.Cluster
	// Found is the revision of the metadata that this process has found on its disk.
	Found      int64
	Applier    *metadata.Applier
	Controller *controller.Controller
	Replicas   *replica.Manager
	Registry   prometheus.Registerer
	Health     *checks.Monitor
	// Push adds what ends a component to the stop of the broker.
	Push func(name string, stop func(context.Context) error)
	// Topic returns the settings of a topic under an image.
	Topic func(*metadata.Image, *metadata.Topic) *configdef.Topic
	// Places bounds the batches that are inflated at a time.
	Places *share.Places
	Log    *zap.Logger
}

// OpenReads opens what reads records that only the object store has, which is needed before there
// are partitions. Without archive.url each read fails.
func OpenReads(o Options) (*Reads, error) {
	id, err := metadata.ParseID(o.Member.ID())
	if err != nil {
		return nil, err
	}
	prefix := format.Prefix(id)
	r := tierread.New(tierread.Options{
		Open: access.NewOpener(o.FS, o.Conf).Open, Prefix: func() string { return prefix }, CacheBytes: o.Tiers.CacheBytes,
		Pool: new(bufpool.Pool), Limits: record.Limits{Bytes: 1 << 30, Places: o.Places},
	})
	o.Push("reads from the object store", func(context.Context) error { r.Close(); return nil })
	return &Reads{reader: r, cluster: id, prefix: prefix,
		Watch: &tier.Watch{Reads: tier.Reads{Reader: r}, Logger: o.Log, Name: func(id [16]byte) string {
			if t := o.Applier.Image().TopicByID(id); t != nil {
				return t.Name
			}
			return ""
		}}}, nil
}

// Reads reads records that only the object store has.
type Reads struct {
	*tier.Watch
	reader  *tierread.Reader
	cluster metadata.ID
	prefix  string // of the names of the cluster's objects
}

// Copies copies records of this broker's partitions to the object store.
type Copies struct {
	*tier.Copier
	reads *Reads
}

// NewCopies returns what Open starts.
func NewCopies(o Options, reads *Reads) *Copies {
	open := o.opener(reads.prefix)
	c := tier.New(tier.Options{
		Self: o.Node, Image: o.Applier.Image, Applied: o.Applier.WaitFor, Alter: o.Controller.AlterTier, Raise: raise(o), Topic: o.Topic,
		Partitions: o.Replicas.Partitions, Interval: o.Tiers.Interval, Rate: func() int64 { return o.Conf.Rate }, Duty: pause.NewDuty(),
		Logger: o.Log, Open: func() (objects.Store, string, error) {
			store, err := open()
			return store, reads.prefix, err
		},
	})
	return &Copies{Copier: c, reads: reads}
}

// tiering returns what the broker does about copies and reads.
func (c *Copies) tiering() view.Tiering {
	x, s := c.Tiering(), c.reads.reader.Stats()
	x.Reads = view.TierReads{Bytes: s.Bytes, Failures: s.Errors, Hits: s.Hits, Misses: s.Misses, Running: s.Running, Waiting: s.Waiting,
		Cached: s.CacheBytes}
	return x
}

// start begins to copy, and shows it.
func (c *Copies) start(o Options) error {
	if err := metrics.RegisterTier(o.Registry, c.tiering); err != nil {
		return err
	}
	o.Health.Add(func(f *checks.Facts) {
		f.Uncopied, f.Unread = facts(c.Failures()), facts(c.reads.Failures())
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	o.Push("copies to the object store", func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
	return nil
}

func facts(list []tier.Failure) (all []checks.TierFailure) {
	for _, x := range list {
		all = append(all, checks.TierFailure{Topic: x.Topic, Partition: x.Partition, Since: x.Since, Error: x.Err.Error()})
	}
	return all
}

// raise returns what raises the cluster to a feature level.
func raise(o Options) func(context.Context, int32) error {
	return func(ctx context.Context, level int32) error {
		revision, err := o.Controller.Raise(ctx, level)
		if err == nil {
			err = o.Applier.WaitFor(ctx, revision)
		}
		return err
	}
}

// Open starts what takes snapshots, and the copies. The object store need not be there: it is
// opened when a snapshot or a copy needs it.
func Open(o Options, copies *Copies) error {
	up := &uploads{o: o, open: o.opener(copies.reads.prefix), reads: copies.reads}
	began := time.Now()
	if err := copies.start(o); err != nil {
		return err
	}
	desk := snapshots.NewDesk(snapshots.DeskOptions{
		Self: o.Node, Replicas: o.Replicas, Applied: o.Applier.WaitFor, Uploads: up.get, Image: o.Applier.Image,
		Ask: o.Member.Ask(cluster.Snapshots),
	})
	duty := pause.NewDuty() // of verifications
	service := snapshots.New(snapshots.Options{
		Conf: *o.Conf, Found: o.Found, Open: func() (objects.Store, error) {
			store, err := up.open()
			if err != nil {
				return nil, err
			}
			return objects.Resting(store, duty), nil
		}, Store: o.Member.Leading(), Image: o.Applier.Image, Applied: o.Applier.WaitFor, Leads: o.Member.Leads,
		Raise: raise(o), Topic: o.Topic, Peer: desk.Peer, Release: o.Version, Now: time.Now, Log: o.Log,
	})
	known := func() (newest, damaged *view.Snapshot, counts [2]int) {
		list := o.Applier.Image().Snapshots()
		for i := range list {
			x := list[i].View()
			newest = &x
			if counts[0]++; x.Damage != "" {
				damaged = &x
				counts[1]++
			}
		}
		return newest, damaged, counts
	}
	interval := o.Conf.Interval
	if o.Conf.URL == "" {
		interval = 0
	}
	if err := metrics.RegisterSnapshots(o.Registry, interval, func() (n, damaged int, newest view.Snapshot) {
		last, _, counts := known()
		if last != nil {
			newest = *last
		}
		return counts[0], counts[1], newest
	}); err != nil {
		return err
	}
	o.Health.Add(func(f *checks.Facts) {
		state, err := service.State()
		if err != nil { // another broker leads the metadata
			f.Snapshots = &checks.Snapshots{Unasked: slices.MaxFunc([]time.Time{began, desk.Asked()}, time.Time.Compare),
				Snapshots: view.Snapshots{URL: o.Conf.URL, IntervalMs: o.Conf.Interval.Milliseconds()}}
			return
		}
		f.Snapshots = &checks.Snapshots{Snapshots: state}
		f.Snapshots.Newest, f.Snapshots.Damaged, _ = known()
		if img := o.Applier.Image(); f.Snapshots.Newest != nil {
			x := img.Snapshot(f.Snapshots.Newest.Number)
			f.Snapshots.Suspect = x != nil && img.Suspect(x)
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
		desk.Wait()
		up.close()
		return nil
	})
	return nil
}

// uploads opens the writer of this broker's logs when the first snapshot needs it.
type uploads struct {
	o     Options
	open  func() (objects.Store, error)
	reads *Reads

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
	}
	store, err := u.open()
	if err != nil {
		return nil, err
	}
	u.writer = writer.New(writer.Options{
		Store: store, Prefix: u.reads.prefix, Cluster: u.reads.cluster, Partitions: writer.Of(u.o.Replicas),
		Rate: func() int64 { return u.o.Conf.Rate }, Duty: pause.NewDuty(), Logger: u.o.Log,
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
