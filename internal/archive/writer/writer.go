// Package writer uploads what one broker leads, for one snapshot after the other: a Job has the
// cuts of a freeze, and ends with the partitions of the snapshot's index.
//
// A job holds its logs as they were cut until their upload has ended, compares what the last
// complete snapshot has with them, and uploads the rest. It writes no index and changes no
// metadata. What a job has put that fails, or that another one replaces, is continued by the next
// one, and never if it may be deleted by now. It does not decide when a snapshot begins, nor when
// it is complete.
package writer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/label"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// Bounds of a job.
const (
	// stallTime is how long a job lasts in which no byte is read or put. One in which some are may
	// take days: the first snapshot of large logs does, or one at a low rate.
	stallTime = 10 * time.Minute
	// holdTime is how long a job keeps compaction and retention from its logs. If compaction takes
	// what it has not read then, it is void. What retention takes, the snapshot lacks.
	holdTime = 10 * time.Minute
	// closeTime is how long Close waits for a disk that hangs.
	closeTime = time.Second
	// packAge is how old a pack may become: its pieces that are still in use are uploaded again, so
	// that it can be deleted. The age of a pack of another process is unknown; see learn.
	packAge = 24 * time.Hour
	// pageBytes is about how many encoded bytes a page of results has.
	pageBytes = 512 << 10
)

// Held is a log that keeps what it had when it was cut: a *replica.Held.
type Held interface {
	upload.Log
	Log() *storage.Log
	// Known returns the leader epochs of the whole log.
	Known() epochs.Cache
	// Steady, First, Expired, Ease, Loosen and Release are those of a storage.Hold.
	Steady() error
	First() int64
	Expired() int64
	Ease()
	Loosen()
	Release()
	// Void returns an error unless all that was read is what the leader had at the cut.
	Void() error
}

// Partitions are those of a broker.
type Partitions interface {
	// Take returns the log of a cut of the last freeze. The caller releases it.
	Take(c replica.Cut) (Held, error)
}

// Of returns the partitions of a manager.
func Of(m *replica.Manager) Partitions { return ofManager{m} }

type ofManager struct{ m *replica.Manager }

// Take implements Partitions.
func (x ofManager) Take(c replica.Cut) (Held, error) {
	h, err := x.m.Take(c)
	if err != nil {
		return nil, fmt.Errorf("take a log: %w", err)
	}
	return h, nil
}

// Options are a Writer's.
type Options struct {
	// Store has the objects of the cluster below Prefix. Its calls must have deadlines; see
	// objects.Repeat.
	Store      objects.Store
	Prefix     string
	Cluster    [16]byte
	Partitions Partitions
	// Rate returns how many bytes per second are read and uploaded at most, on average over an
	// object; 0: no bound. nil is 0. It must not block.
	Rate func() int64
	// Duty is that of upload.Options.
	Duty   *pause.Duty
	Logger *zap.Logger
	// Sizes replaces the sizes of uploads; zero fields select 64 MiB, 16 MiB, 4 MiB, 1000 and 16
	// log objects. Only tests set it.
	Sizes upload.Options
	// Broken are the rules that a test has removed.
	Broken breakrules.Removed[Rule]
}

// Job is what a broker uploads for a snapshot.
type Job struct {
	// Number is the snapshot's.
	Number int64
	// Probe is an object that the store must have; see format.PutProbe. Zero: none.
	Probe objects.Nonce
	// Base is the index of the last complete snapshot; nil: there is none.
	Base *format.Previous
	// Collection is the last one when the snapshot began. Zero: nothing is used again that no
	// snapshot names.
	Collection Collection
	// Cuts are those of the last freeze that the snapshot has from this broker.
	Cuts []replica.Cut
	// Tiers are what the store had of these partitions at the mark, if it had records below the
	// cut's log start.
	Tiers []Tier
}

// Collection is a deletion of unused objects: the revision of the metadata with which it began, 0
// if there was none, in a generation of the metadata. What was put later, and nothing names, is not
// deleted before the next one. A snapshot during which one begins is never named.
type Collection struct {
	Generation metadata.ID
	Revision   int64
}

// Tier is what the store has of a partition in addition to the log of a cut.
type Tier struct {
	metadata.TopicPartition
	// Manifest lists the parts of [Start, End). Start is where the log begins, and the log of the
	// cut begins at End or below.
	Manifest   objects.Nonce
	Start, End int64
}

// Progress is how far a job is.
type Progress struct {
	// Done: it has ended. Err is why it failed then, "" if it has not.
	Done bool
	Err  string
	// Note says what the operator should know of a job that continues, "" for nothing.
	Note string
	// Bytes and Objects were put. TotalBytes is an estimate of what will be, until Done.
	Bytes, TotalBytes, Objects int64
	// Partitions are results, in increasing order of topic id and partition, if the job has ended
	// without an error. Next is the index of the first that a later page has; there are no more if
	// Partitions is empty.
	Partitions []format.Partition
	Next       int
}

// ErrUnknown means that a Writer has no job of that number: the process has begun again, another
// job has begun, or the job was canceled.
var ErrUnknown = errors.New("this broker has no upload for that snapshot")

// ErrOlder means that a job for a later snapshot has begun.
var ErrOlder = errors.New("an upload for a later snapshot has begun")

var errClosed = errors.New("the broker stops")

// Writer uploads what a broker leads. All methods may be called concurrently, and none waits for
// the store or the disk, except Close.
type Writer struct {
	opt Options

	mu      sync.Mutex          // guards the following fields
	job     *job                // the last one; nil: none, or it was canceled
	latest  int64               // its number
	running chan struct{}       // job.ended of the last one, also if it was canceled; nil: there was none
	known   map[format.ID]known // as of the snapshot number
	number  int64
	seen    map[objects.Nonce]time.Time // when packs were put, or an estimate
	left    left
	closed  bool
}

// left is what jobs of one basis have put. If none of their snapshots was named, because the job
// or that of another broker has failed, the next one continues it. It is lost with the process.
type left struct {
	of    basis
	parts map[format.ID]format.Partition // with what ArchivedIn needs
}

// basis says until when the store has the objects of a job whose snapshot is not named: those that
// it has used again are named by its base, and the next collection deletes those that it has put.
type basis struct {
	base       format.Previous // zero: there is none
	collection Collection
}

func (x *Job) basis() basis {
	o := basis{collection: x.Collection}
	if x.Base != nil {
		o.base = *x.Base
	}
	return o
}

// known is what the last job that ended without an error has uploaded of a log.
type known struct {
	log     *storage.Log
	changes int64 // storage.Log.Changes
	end     int64
}

// New returns a Writer without a job.
func New(o Options) *Writer {
	s := &o.Sizes
	s.ObjectBytes, s.PackBytes = cmp.Or(s.ObjectBytes, upload.ObjectBytes), cmp.Or(s.PackBytes, 16<<20)
	s.PieceBytes, s.ManifestParts = cmp.Or(s.PieceBytes, 4<<20), cmp.Or(s.ManifestParts, upload.ManifestParts)
	s.StageParts = cmp.Or(s.StageParts, upload.StageParts)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return &Writer{opt: o, seen: map[objects.Nonce]time.Time{}}
}

// Begin begins a job, and cancels the former one. It must follow the freeze within seconds, because
// compaction and deletions leave the logs as they were cut only that long; the error matches
// replica.ErrVoid if it was later. It matches ErrOlder after a job of a later snapshot. A
// repetition has no effect.
func (w *Writer) Begin(x Job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return errClosed
	case x.Number == w.latest && w.job != nil:
		return nil
	case x.Number <= w.latest:
		return fmt.Errorf("%w: %d", ErrOlder, w.latest)
	}
	if w.job != nil {
		w.job.cancel(ErrOlder)
		w.job = nil
	}
	j := newJob(w, x)
	if err := j.take(); err != nil {
		j.release()
		j.cancel(err)
		return err
	}
	former := w.running
	w.job, w.latest, w.running = j, x.Number, j.ended
	go func() {
		label.Goroutine("snapshot upload", "")
		defer close(j.ended)
		defer j.release()
		if former != nil {
			select { // one at a time, unless the disk of the former hangs
			case <-former:
			case <-j.ctx.Done():
			}
		}
		j.end(j.run())
	}()
	return nil
}

// Progress returns how far a job is, with the results from an index on.
func (w *Writer) Progress(number int64, from int) (Progress, error) {
	w.mu.Lock()
	j := w.job
	w.mu.Unlock()
	if j == nil || j.Number != number {
		return Progress{}, fmt.Errorf("%w: %d", ErrUnknown, number)
	}
	return j.progress(from), nil
}

// Cancel ends a job and forgets its results. It has no effect on another one.
func (w *Writer) Cancel(number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.job; j != nil && j.Number == number {
		j.cancel(errors.New("it was canceled"))
		w.job = nil
	}
}

// Close ends the job, and waits for it and for one that was canceled, but not long for a disk that
// hangs. Begin fails from then on.
func (w *Writer) Close() {
	w.mu.Lock()
	if w.job != nil {
		w.job.cancel(errClosed)
	}
	running := w.running
	w.closed, w.job = true, nil
	w.mu.Unlock()
	if running == nil {
		return
	}
	select {
	case <-running:
	case <-time.After(closeTime):
	}
}

func compare(a, b format.ID) int {
	return cmp.Or(bytes.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}

// learn replaces what the Writer knows of logs and packs by what a job has uploaded in addition to
// base. Only the goroutine of the job calls it.
//
// A pack of base that is seen first is of a former process or of another leader. It gets an age by
// chance, up to packAge. So packs are uploaded again about once a day, however often brokers
// restart or leaders change, and not all at the same time after a start.
func (w *Writer) learn(number int64, logs map[format.ID]known, base map[format.ID]*format.Partition, results []format.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.number = logs, number
	now := time.Now()
	began := map[objects.Nonce]time.Time{}
	for _, p := range base {
		for nonce := range packs(p) {
			if _, ok := began[nonce]; !ok {
				began[nonce] = now.Add(-rand.N(packAge))
			}
		}
	}
	maps.Copy(began, w.seen)
	w.seen = map[objects.Nonce]time.Time{}
	for i := range results {
		for nonce := range packs(&results[i]) {
			at, ok := began[nonce]
			if !ok {
				at = now
			}
			w.seen[nonce] = at
		}
	}
}

// packs returns the packs that have pieces of a partition.
func packs(p *format.Partition) iter.Seq[objects.Nonce] {
	return func(yield func(objects.Nonce) bool) {
		for i := range p.Parts {
			if r := &p.Parts[i].Run; r.Kind == objects.Pack && !yield(r.Nonce) {
				return
			}
		}
	}
}

// leave notes what a job has put. What earlier ones of the same basis have put of other partitions
// is still there.
func (w *Writer) leave(x *Job, put map[format.ID]format.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := x.basis(); w.left.parts == nil || w.left.of != at {
		w.left = left{at, map[format.ID]format.Partition{}}
	}
	maps.Copy(w.left.parts, put)
}

// unnamed returns what former jobs have put, if a job may continue it. A controller of a former
// version does not say which collection was the last one.
func (w *Writer) unnamed(x *Job) map[format.ID]format.Partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := x.basis()
	if known := at.collection.Generation != (metadata.ID{}); known && w.left.of == at || w.opt.Broken.Has(UseDeleted) {
		return maps.Clone(w.left.parts)
	}
	return nil
}

// knows returns whether a log has the archived records of a snapshot, without a comparison: it has
// only grown since it was uploaded for that.
func (w *Writer) knows(base int64, id format.ID, l *storage.Log, end int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.known[id]
	return ok && w.number == base && k.log == l && k.end == end && (k.changes == l.Changes() || w.opt.Broken.Has(TrustKnown))
}

// old reports whether the pack of a piece is old.
func (w *Writer) old(p *format.Part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.seen[p.Run.Nonce]
	return ok && time.Since(at) > packAge
}

// partitions sorts results.
func partitions(list []format.Partition) {
	sorts.Sort(list, func(a, b format.Partition) int { return compare(a.ID, b.ID) })
}
