package restore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/vfs"
)

const (
	// copiers is how many partitions are read at a time.
	copiers = 4
	// createAtOnce is how many logs are created with one checkpoint.
	createAtOnce = 500
	// closeTime bounds the end of the log directories. A disk may hang.
	closeTime = time.Minute
)

// Options are those of Write.
type Options struct {
	FS   vfs.FS
	Dirs *datadir.Dirs // those of the configuration
	Node int32         // the only broker of the new cluster
	// Configs and Static are those of the broker, see replica.SettingsOptions.
	Configs *configdef.Registry
	Static  map[string]string
	Log     *zap.Logger
	// Tiered: the new cluster uses the store of the snapshot, so that old records can stay there.
	Tiered bool

	// For tests: the configuration of all logs, and that of storage.Options.
	config          *storage.Config
	journalFileSize int64
}

// Unread is a partition without records, and the offset at which it begins.
type Unread struct {
	Topic     string
	Partition int32
	Start     int64
}

// Result is what a restore has made.
type Result struct {
	Cluster string // id of the new cluster
	Topics  int    // without the internal ones
	// Partitions are all of them, and Offline those that have no record because no broker could
	// read their log at the cut.
	Partitions int
	Offline    []Unread
	Bytes      int64 // of batches, in all logs
	Tiered     int64 // those of Bytes that only the store has
	// Records are those of clients and coordinators that this call has copied. An earlier call may
	// have copied others.
	Records int64
	Users   int
	ACLs    int
}

// Progress is how far Verify or Write is. Its fields may be read at any time.
type Progress struct {
	Bytes, Records atomic.Int64
	Partitions     atomic.Int64
}

// Verify reads all batches of a snapshot.
func (s *Snapshot) Verify(ctx context.Context, done *Progress) (*Result, error) {
	img, _, err := s.image(s.Index)
	if err != nil {
		return nil, err
	}
	w := &writer{s: s, done: done, img: img}
	if err := w.all(ctx, func(p *format.Partition) (*appender, error) { return &appender{w: w, p: p}, nil }); err != nil {
		return nil, s.failed(err)
	}
	return w.result("")
}

// failed adds the remedy to an error of objects that were there when the snapshot was chosen.
func (s *Snapshot) failed(err error) error {
	if !NotWhole(err) {
		return err
	}
	return exit.With(exit.Data, fmt.Errorf("snapshot %d is not whole: %w; empty the data directory and the log directories, "+
		"and restore an earlier snapshot with --snapshot", s.At.Number, err))
}

// Write makes the directories of a broker. They must be empty, or have what an earlier call for the
// same snapshot has left.
func (s *Snapshot) Write(ctx context.Context, o Options, done *Progress) (_ *Result, err error) {
	id, generation := metadata.NewID(), metadata.NewID()
	u, lock, err := o.Dirs.BeginRestore(datadir.Unfinished{Cluster: s.Cluster, Number: s.At.Number, Nonce: s.At.Nonce.String(),
		Into: metadata.FormatID(id), Generation: hex.EncodeToString(generation[:]), Node: o.Node, Topics: s.topics})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	successor := controller.Successor{Cluster: u.Into, Node: u.Node}
	if n, err := hex.Decode(successor.Generation[:], []byte(u.Generation)); err != nil || n != len(successor.Generation) {
		return nil, o.Dirs.Error(fmt.Errorf("generation %q of an unfinished restore: %w", u.Generation, err))
	}
	w := &writer{s: s, o: &o, done: done}
	w.settings = replica.NewTopicSettings(replica.SettingsOptions{Self: o.Node, Configs: o.Configs, Static: o.Static,
		Logger: zap.NewNop()})
	keys, _, err := s.chosen(s.Index)
	if err != nil {
		return nil, err
	}
	keys, revision, err := controller.Restored(keys, s.Index.Number, successor)
	if err == nil {
		w.img, err = metadata.Load(keys, revision)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMetadata, err)
	}
	has, err := w.hasMetadata(successor.Generation)
	if err != nil {
		return nil, err
	}
	if !has {
		if err := w.plan(ctx); err != nil {
			return nil, s.failed(err)
		}
		if err := w.logs(ctx); err != nil {
			return nil, err
		}
		if keys, err = w.copyTiers(ctx, keys, revision, successor); err != nil {
			return nil, s.failed(err)
		}
		dir := o.Dirs.Metadata()
		if err := vfs.MakeDir(o.FS, dir); err != nil {
			return nil, o.Dirs.Error(err)
		}
		if err := raftstore.Begin(o.FS, dir, successor.Generation, keys, revision); err != nil {
			return nil, o.Dirs.Error(err)
		}
	}
	if err := o.Dirs.EndRestore(); err != nil {
		return nil, err
	}
	return w.result(u.Into)
}

// hasMetadata reports whether an earlier call has made everything. It makes the names of the
// metadata durable: that call may have ended before its sync.
func (w *writer) hasMetadata(generation [16]byte) (bool, error) {
	dir := w.o.Dirs.Metadata()
	there, err := raftstore.Exists(w.o.FS, dir)
	if err != nil || !there {
		return false, err
	}
	c, err := raftstore.Read(w.o.FS, dir)
	if err != nil {
		return false, w.o.Dirs.Error(err)
	}
	if c.Generation != generation {
		return false, exit.With(exit.Data, fmt.Errorf("directory %s has the metadata of another cluster; move it away", path.Clean(dir)))
	}
	if err := w.o.FS.SyncDir(dir); err != nil {
		return false, w.o.Dirs.Error(err)
	}
	return true, nil
}

// writer is one call of Verify or Write.
type writer struct {
	s       *Snapshot
	o       *Options
	done    *Progress
	img     *metadata.Image
	storage *storage.Manager
	// settings are those of the topics of img.
	settings *replica.TopicSettings
	tiers    map[format.ID]*tiered // what stays in the store
}

// logs makes the log directories and closes them.
func (w *writer) logs(ctx context.Context) (err error) {
	if err := w.room(); err != nil {
		return err
	}
	w.storage, err = storage.Open(w.o.Dirs.Locations(), storage.Options{
		FS: w.o.FS, Holder: datadir.Holder(), Logger: w.o.Log, Cleaning: storage.Cleaning{Scrub: -1}, Interrupted: ctx.Err,
		JournalFileSize: w.o.journalFileSize,
		Config:          func(_ string, id storage.ID) storage.Config { return w.config(w.img.TopicByID(id.Topic)) },
	})
	if err != nil {
		return w.o.Dirs.Errors(err)
	}
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		if closed := w.storage.Shutdown(limited); closed != nil && err == nil {
			err = w.o.Dirs.Errors(closed)
		}
	}()
	if failed := w.storage.Failed(); len(failed) > 0 {
		return w.o.Dirs.Errors(failed[0])
	}
	if err := w.create(); err != nil {
		return w.o.Dirs.Errors(err)
	}
	if err := w.all(ctx, w.open); err != nil {
		if disk := (*storage.DirError)(nil); errors.As(err, &disk) {
			return w.o.Dirs.Errors(err)
		}
		return w.s.failed(err)
	}
	return w.complete(ctx)
}

// room refuses a restore for which the disks have too little space. It does not know which log
// directories share a disk, so it may pass one that fails later.
func (w *writer) room() error {
	free := uint64(0)
	for _, loc := range w.o.Dirs.Locations() {
		if err := vfs.MakeDir(w.o.FS, loc.Path); err != nil {
			return w.o.Dirs.ErrorOf(loc.Path, err)
		}
		has, _, err := w.o.FS.Free(loc.Path)
		if err != nil {
			return w.o.Dirs.ErrorOf(loc.Path, err)
		}
		for _, in := range w.used(loc.Path) {
			has += uint64(in)
		}
		free += has
	}
	if need := w.s.Bytes - w.kept(); uint64(need) > free {
		return exit.With(exit.Data, fmt.Errorf("the logs of the snapshot have %d bytes, and the disks of the log directories %d; "+
			"free space, or add directories to log.dirs", need, free))
	}
	return nil
}

// used returns the sizes of the files of logs that an earlier call has copied.
func (w *writer) used(dir string) (sizes []int64) {
	infos, err := w.o.FS.List(dir)
	if err != nil {
		return nil
	}
	for _, in := range infos {
		if in.Dir {
			sizes = append(sizes, w.used(path.Join(dir, in.Name))...)
		} else {
			sizes = append(sizes, in.Size)
		}
	}
	return sizes
}

// config is the configuration of a topic's logs while they are copied: nothing is deleted or
// compacted, and the logs are synced at the end.
func (w *writer) config(t *metadata.Topic) storage.Config {
	var c storage.Config
	if w.o.config != nil {
		c = *w.o.config
	} else {
		c = w.settings.Of(w.img, t).Log
	}
	c.Profile = copied
	c.Cleanup = storage.Cleanup{Internal: true, DeleteDelay: c.Cleanup.DeleteDelay}
	return c
}

// create creates the logs that do not exist. One whose start may be within a batch begins earlier
// at first.
func (w *writer) create() error {
	var specs []storage.Spec
	flush := func() error {
		byDir, err := w.storage.AssignDirs(specs, nil)
		specs = nil
		if err != nil {
			return err
		}
		for d, some := range byDir {
			if _, err := w.storage.CreateIn(d, some); err != nil {
				return &storage.DirError{Path: d.Path(), Journal: d.JournalPath(), Err: err}
			}
		}
		return nil
	}
	err := each(w.img, w.s.Index, func(t *metadata.Topic, p *format.Partition) error {
		id := storage.ID{Topic: t.ID, Partition: p.ID.Partition}
		if w.storage.Get(id) != nil {
			return nil
		}
		start := w.startOf(p)
		if early, ok := w.s.early[p.ID]; ok && start == p.Start {
			start = early
		} else if p.State == format.Offline {
			start = p.End
		}
		specs = append(specs, storage.Spec{ID: id, Topic: t.Name, Config: w.config(t), LogStart: start})
		if len(specs) < createAtOnce {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// all reads the batches of all partitions, some at a time, and hands them to appenders.
func (w *writer) all(ctx context.Context, open func(*format.Partition) (*appender, error)) error {
	return w.some(ctx, func(ctx context.Context, p *format.Partition) error {
		a, err := open(p)
		if err == nil {
			err = a.copy(ctx)
		}
		w.done.Partitions.Add(1)
		return err
	})
}

// some calls do for all partitions, some at a time, until one fails.
func (w *writer) some(ctx context.Context, do func(context.Context, *format.Partition) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan *format.Partition)
	var work sync.WaitGroup
	for range copiers {
		work.Go(func() {
			label.Goroutine("restore", "")
			for p := range todo {
				if ctx.Err() != nil {
					continue
				}
				if err := do(ctx, p); err != nil {
					cancel(fmt.Errorf("%s: %w", w.name(p), err))
				}
			}
		})
	}
	err := each(w.img, w.s.Index, func(_ *metadata.Topic, p *format.Partition) error {
		select {
		case todo <- p:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(todo)
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (w *writer) name(p *format.Partition) string {
	return fmt.Sprintf("%s-%d", w.img.TopicByID(p.ID.Topic).Name, p.ID.Partition)
}

// log returns the log of a partition.
func (w *writer) log(p *format.Partition) *storage.Log {
	return w.storage.Get(storage.ID{Topic: p.ID.Topic, Partition: p.ID.Partition})
}

// open returns the appender of a log, which an earlier call may have begun.
func (w *writer) open(p *format.Partition) (*appender, error) {
	l := w.log(p)
	if err := l.Err(); err != nil {
		return nil, failure(l, err)
	}
	l.SetLeaderEpoch(p.Epoch, false)
	return &appender{w: w, p: p, log: l, next: l.Ends().LogEnd}, nil
}

// failure is an error of the disk of a log.
func failure(l *storage.Log, err error) error {
	d := l.Dir()
	return &storage.DirError{Path: d.Path(), Journal: d.JournalPath(), Err: fmt.Errorf("%s: %w", l, err)}
}

// complete waits until all logs are durable, and checks where they begin and end.
func (w *writer) complete(ctx context.Context) error {
	return each(w.img, w.s.Index, func(_ *metadata.Topic, p *format.Partition) error {
		l := w.log(p)
		for l.Sync(p.End); l.Ends().Durable < p.End; l.Sync(p.End) {
			if err := l.Err(); err != nil {
				return w.o.Dirs.Errors(failure(l, err))
			}
			if end := l.Ends().LogEnd; end != p.End {
				return fmt.Errorf("the disk has lost records: the log ends at %d and not at %d; repeat the restore", end, p.End)
			}
			if err := pause.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if e := l.Ends(); e.LogEnd != p.End || p.State != format.Offline && e.LogStart != w.startOf(p) {
			return fmt.Errorf("%w: the log has [%d, %d), and the snapshot [%d, %d)", format.ErrContradiction, e.LogStart, e.LogEnd,
				w.startOf(p), p.End)
		}
		return nil
	})
}

// result describes what was restored.
func (w *writer) result(cluster string) (*Result, error) {
	r := &Result{Cluster: cluster, Partitions: w.s.Partitions, Bytes: w.s.Bytes, Tiered: w.kept(),
		Records: w.done.Records.Load(), Users: w.img.NumUsers(), ACLs: w.img.NumACLs()}
	for t := range w.img.Topics() {
		if !t.Internal {
			r.Topics++
		}
	}
	err := each(w.img, w.s.Index, func(t *metadata.Topic, p *format.Partition) error {
		if p.State == format.Offline {
			r.Offline = append(r.Offline, Unread{t.Name, p.ID.Partition, p.End})
		}
		return nil
	})
	return r, err
}
