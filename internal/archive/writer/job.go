package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
)

var errStalls = fmt.Errorf("no byte was read or put for %v: the object store or a disk hangs", stallTime)

// job is the upload for one snapshot.
type job struct {
	Job
	w      *Writer
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed by the job's goroutine, as its last act
	timers []*time.Timer // of its bounds

	bytes, objects, left atomic.Int64
	pace                 pause.Pace // of the bytes read

	// Of the job's goroutine: the partition that is being uploaded, and what the store has of those
	// that are.
	at  *task
	put map[format.ID]format.Partition

	mu      sync.Mutex // guards the following fields
	logs    []*task
	over    bool
	err     error
	notes   []string
	expired few // partitions that begin later than at the cut, and where
	gone    few // partitions whose logs were closed
	results []format.Partition
}

// task is a partition of a job.
type task struct {
	cut      replica.Cut
	tier     *Tier // nil: the log has all records
	id       format.ID
	held     Held  // nil if nothing is to be read
	estimate int64 // of the bytes that are not uploaded
	a        *upload.Archived
	result   format.Partition
}

func newJob(w *Writer, x Job) *job {
	j := &job{Job: x, w: w, ended: make(chan struct{}), pace: pause.Pace{Idle: upload.IdlePace}, put: map[format.ID]format.Partition{}}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	j.timers = []*time.Timer{time.AfterFunc(stallTime, func() { j.cancel(errStalls) }), time.AfterFunc(holdTime, j.ease)}
	context.AfterFunc(j.ctx, func() {
		for _, t := range j.timers {
			t.Stop()
		}
		j.loosen() // the goroutine may wait for a disk
	})
	return j
}

// moved notes that a byte was read or put.
func (j *job) moved() {
	if j.timers[0].Stop() { // otherwise it has fired
		j.timers[0].Reset(stallTime)
	}
}

// take takes the logs of the cuts that have records.
func (j *job) take() error {
	tiers := map[metadata.TopicPartition]*Tier{}
	for i := range j.Tiers {
		tiers[j.Tiers[i].TopicPartition] = &j.Tiers[i]
	}
	for _, c := range j.Cuts {
		t := &task{cut: c, id: format.ID{Topic: c.Topic, Partition: c.Partition}, tier: tiers[c.TopicPartition]}
		if !c.Offline && c.Start < c.End {
			h, err := j.w.opt.Partitions.Take(c)
			if err != nil {
				return err
			}
			t.held = h
		}
		j.logs = append(j.logs, t)
	}
	return nil
}

// each calls fn for each log that is still held.
func (j *job) each(fn func(Held)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.logs {
		if t.held != nil {
			fn(t.held)
		}
	}
}

func (j *job) ease() { j.each(Held.Ease) }

func (j *job) loosen() { j.each(Held.Loosen) }

func (j *job) release() { j.each(Held.Release) }

// end notes the result.
func (j *job) end(err error) {
	if err != nil && j.ctx.Err() != nil {
		err = context.Cause(j.ctx)
	}
	for _, t := range j.logs {
		if t.a != nil && t.a.Stored() {
			j.has(t, t.a)
		}
	}
	j.w.leave(&j.Job, j.put)
	j.mu.Lock()
	j.over, j.err = true, err
	j.mu.Unlock()
	j.cancel(nil)
	switch l := j.w.opt.Logger; {
	case err == nil:
		l.Debug("uploaded the partitions of a snapshot that this broker leads", zap.Int64("snapshot", j.Number),
			zap.Int("partitions", len(j.logs)), zap.Int64("bytes", j.bytes.Load()), zap.Int64("objects", j.objects.Load()))
	case !errors.Is(err, ErrOlder) && !errors.Is(err, errClosed):
		l.Warn("the upload for a snapshot failed; the next snapshot continues it, unless this broker is restarted first",
			zap.Int64("snapshot", j.Number), zap.Int64("bytes", j.bytes.Load()), zap.Error(err))
	}
}

// has notes what the store has of a partition.
func (j *job) has(t *task, a *upload.Archived) {
	p := format.Partition{ID: t.id}
	a.Fill(&p)
	j.put[t.id] = p
}

// stage notes what the store has of the partition that is being uploaded.
func (j *job) stage(a *upload.Archived) {
	if j.at.held.Void() == nil || j.w.opt.Broken.Has(KeepVoid) {
		j.has(j.at, a)
	}
}

func (j *job) progress(from int) Progress {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := Progress{Done: j.over, Note: j.noted(), Bytes: j.bytes.Load(), Objects: j.objects.Load(), Next: from}
	x.TotalBytes = x.Bytes + j.left.Load()
	err := j.err
	if !j.over && j.ctx.Err() != nil { // its goroutine waits for a disk
		x.Done, err = true, context.Cause(j.ctx)
	}
	if err != nil {
		x.Err = err.Error()
	}
	if !x.Done || err != nil || from < 0 {
		return x
	}
	for size := 0; x.Next < len(j.results) && (size == 0 || size < pageBytes); x.Next++ {
		p := j.results[x.Next]
		x.Partitions = append(x.Partitions, p)
		size += 80 + 128*len(p.Parts) // a bit more than they have encoded
	}
	return x
}

// mostNotes bounds the notes of a job, and the partitions that another one names.
const mostNotes = 4

// few are the partitions of one note: how many, and the names of the first ones.
type few struct {
	n     int
	names []string
}

func (f *few) add(name string) {
	if f.n++; len(f.names) < mostNotes {
		f.names = append(f.names, name)
	}
}

func (f *few) String() string {
	names := strings.Join(f.names, ", ")
	if more := f.n - len(f.names); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

// noted returns all notes. The caller holds mu.
func (j *job) noted() string {
	all := slices.Clone(j.notes)
	if j.expired.n > 0 {
		all = append(all, "retention has removed records before they were read, and partitions begin behind them: "+j.expired.String())
	}
	if j.gone.n > 0 {
		all = append(all, "partitions were deleted, or moved to another broker, before they were read, and the snapshot lacks them: "+
			j.gone.String())
	}
	return strings.Join(all, "; ")
}

// begins notes that a partition begins later than at the cut.
func (j *job) begins(log *storage.Log, at int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expired.add(fmt.Sprintf("%s at %d", log, at))
}

// lacks notes that a partition is not in the snapshot, because of an error of its log.
func (j *job) lacks(log *storage.Log, err error) {
	if !errors.Is(err, storage.ErrClosed) {
		j.note(err, "the snapshot lacks the partition")
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone.add(log.String())
}

func (j *job) note(err error, then string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.notes) < mostNotes {
		j.notes = append(j.notes, fmt.Sprintf("%v: %s", err, then))
	}
}

// store counts what is put.
type store struct {
	objects.Store
	j *job
}

// Put implements objects.Store.
func (s store) Put(ctx context.Context, name string, body objects.Body) error {
	if err := s.Store.Put(ctx, name, watched{body, s.j}); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	s.j.objects.Add(1)
	s.j.uploaded(body.Size())
	s.j.moved()
	return nil
}

// uploaded counts bytes that were put, which are those of the present partition.
func (j *job) uploaded(n int64) {
	j.bytes.Add(n)
	if j.at != nil {
		n = min(n, j.at.estimate)
		j.at.estimate -= n
		j.left.Add(-n)
	}
}

// watched is a body that notes when it is read.
type watched struct {
	objects.Body
	j *job
}

// ReadAt implements objects.Body.
func (b watched) ReadAt(p []byte, off int64) (int, error) {
	b.j.moved()
	n, err := b.Body.ReadAt(p, off)
	return n, err //nolint:wrapcheck // a store expects io.EOF
}

// spend waits as the rate demands after n bytes were read.
func (j *job) spend(ctx context.Context, n int) error {
	j.moved()
	rate := 0.0
	if j.w.opt.Rate != nil {
		rate = float64(j.w.opt.Rate())
	}
	for wait := j.pace.Count(n, rate); wait > 0; wait = j.pace.Count(0, rate) {
		if pause.Sleep(ctx, min(wait, stallTime/2)) != nil {
			return context.Cause(ctx)
		}
		j.moved()
	}
	return nil
}

// base returns what the store has of the job's partitions: what former jobs have put for snapshots
// that failed, and of the others what the last complete snapshot has. If its index cannot be read,
// the job fails: the controller, which has read it, must not continue it either.
func (j *job) base() (map[format.ID]*format.Partition, error) {
	all, wanted := map[format.ID]*format.Partition{}, map[format.ID]bool{}
	for _, t := range j.logs {
		wanted[t.id] = true
	}
	if j.Base != nil {
		o := &j.w.opt
		x, err := format.ReadSnapshot(j.ctx, store{o.Store, j}, o.Prefix, o.Cluster, *j.Base)
		if err != nil {
			return nil, fmt.Errorf("read the index of snapshot %d: %w", j.Base.Number, err)
		}
		for i := range x.Partitions {
			if p := x.Partitions[i]; wanted[p.ID] {
				all[p.ID] = &p
			}
		}
	}
	for id, p := range j.w.unnamed(&j.Job) {
		if wanted[id] {
			all[id] = &p
		}
	}
	return all, nil
}

// probe returns an error if this broker has another store than the controller.
func (j *job) probe() error {
	if j.Probe == (objects.Nonce{}) {
		return nil
	}
	o := &j.w.opt
	err := format.ReadProbe(j.ctx, store{o.Store, j}, o.Prefix, j.Probe)
	if errors.Is(err, objects.ErrNotFound) {
		return fmt.Errorf("this broker has another store than the one that leads the metadata, or its file system is not mounted; "+
			"set archive.url to the same store on all brokers: %w", err)
	}
	if err != nil {
		return fmt.Errorf("read the probe: %w", err)
	}
	return nil
}

// run uploads the partitions: those that are compacted first, because compaction waits for them,
// and then those for which local retention does.
func (j *job) run() error {
	if err := j.probe(); err != nil {
		return err
	}
	base, err := j.base()
	if err != nil {
		return err
	}
	o := j.w.opt.Sizes
	o.Store, o.Prefix, o.Spend, o.Duty, o.Again = store{j.w.opt.Store, j}, j.w.opt.Prefix, j.spend, j.w.opt.Duty, j.w.old
	o.Stage = j.stage
	b := upload.NewBatch(o)
	order := slices.Clone(j.logs)
	first := func(t *task) int {
		switch {
		case t.held == nil:
			return 3
		case compacted(t.held):
			return 0
		case t.held.Log().Config().Cleanup.CopyFirst:
			return 1
		}
		return 2
	}
	sorts.SortStable(order, func(a, b *task) int { return first(a) - first(b) })
	for _, t := range order {
		if t.held != nil {
			t.estimate = t.held.Log().SizeOf(former(b, base, t).End(), t.cut.End)
			j.left.Add(t.estimate)
		}
	}
	logs := map[format.ID]known{}
	for _, t := range order {
		if err := j.upload(b, base, t, logs); err != nil {
			return err
		}
		j.left.Add(-t.estimate)
		t.estimate = 0
	}
	if err := b.Close(j.ctx); err != nil {
		return err
	}
	results := make([]format.Partition, len(order))
	for i, t := range order {
		if t.a != nil {
			t.a.Fill(&t.result)
		}
		results[i] = t.result
	}
	partitions(results)
	j.mu.Lock()
	j.results = results
	j.mu.Unlock()
	j.w.learn(j.Number, logs, base, results)
	return nil
}

func compacted(h Held) bool { return h.Log().Config().Cleanup.Compact }

// former returns what the last complete snapshot has of a partition. Another incarnation of its
// topic has another id.
func former(b *upload.Batch, base map[format.ID]*format.Partition, t *task) *upload.Archived {
	p := base[t.id]
	if t.tier != nil {
		p = t.tier.before(p)
	}
	if p != nil {
		return b.ArchivedIn(p)
	}
	return &upload.Archived{}
}

// before returns what the store has of a partition: the tier, and the parts of the last complete
// snapshot that continue it.
func (x *Tier) before(last *format.Partition) *format.Partition {
	p := &format.Partition{ID: format.ID{Topic: x.Topic, Partition: x.Partition}, State: format.Kept, Start: x.Start, End: x.End,
		Manifest: x.Manifest, Archived: x.End}
	if last == nil || last.State != format.Kept {
		return p
	}
	if i := slices.IndexFunc(last.Parts, func(part format.Part) bool { return part.Base == x.End }); i >= 0 {
		p.Parts = slices.Clone(last.Parts[i:])
		p.End = last.End
	}
	return p
}

// start returns where the log of a partition begins.
func (t *task) start() int64 {
	if t.tier != nil {
		return t.tier.Start
	}
	return t.cut.Start
}

// upload uploads one partition. Each partition's result passes here: what was read of it is what
// the leader had at the cut, or the job fails.
func (j *job) upload(b *upload.Batch, base map[format.ID]*format.Partition, t *task, logs map[format.ID]known) error {
	if err := j.ctx.Err(); err != nil {
		return context.Cause(j.ctx)
	}
	t.result = format.Partition{ID: t.id, State: format.Kept, Epoch: t.cut.Epoch, Start: t.start(), End: t.cut.End}
	if t.cut.Offline {
		t.result.State = format.Offline
	}
	if t.held == nil {
		if t.tier != nil && !t.cut.Offline {
			t.a = former(b, nil, t)
		}
		return nil
	}
	defer func() {
		j.mu.Lock()
		h := t.held
		t.held = nil
		j.mu.Unlock()
		h.Release()
	}()
	j.at = t
	k := known{end: t.cut.End, log: t.held.Log()}
	a, err := j.archive(b, former(b, base, t), t, &k)
	if void := t.held.Void(); void != nil && !j.w.opt.Broken.Has(KeepVoid) {
		return errors.Join(void, err)
	}
	if err != nil && errors.Is(err, upload.ErrLog) && (errors.Is(err, storage.ErrCorrupt) || k.log.Offline() != nil) {
		j.lacks(k.log, err)
		t.result.State, t.result.Start = format.Offline, t.cut.End // which is exact: no position is above it
		return nil
	}
	if err != nil {
		return err
	}
	if at := t.result.Start; at > t.start() {
		j.begins(k.log, at)
	}
	t.a, logs[t.id] = a, k
	return nil
}

// expire moves the log start of a target to where retention has removed what was not read yet, and
// reports whether it has. Records that leave a log in this way are no causes of others. Deletions
// of records do not count, as other logs may show their effects, nor does what the store has.
func (t *task) expire(x *upload.Target) bool {
	start := min(t.held.First(), t.held.Expired(), x.End)
	if start <= x.Start {
		return false
	}
	x.Start, t.result.Start = start, start
	return true
}

// archive uploads what the former snapshot lacks of a log. All that it returns was read before.
func (j *job) archive(b *upload.Batch, former *upload.Archived, t *task, k *known) (*upload.Archived, error) {
	if err := t.held.Steady(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	k.changes = k.log.Changes()
	x := &upload.Target{ID: t.id, Log: t.held, Start: t.start(), End: t.cut.End}
	unchanged := j.Base != nil && t.tier == nil && former.End() <= x.End && j.w.knows(j.Base.Number, t.id, k.log, former.End())
	for {
		// A log that was compacted once has holes, whatever its policy is now.
		compacts := compacted(t.held) || former.IsCompacted()
		agreed, err := former, error(nil)
		switch {
		case unchanged || former.IsCompacted() != compacts:
		case compacts:
			agreed, err = b.Same(j.ctx, x, former)
		default:
			of := t.held.Known()
			agreed, err = b.Agree(j.ctx, x, &of, former)
		}
		if err == nil {
			agreed, err = b.Add(j.ctx, x, agreed, compacts)
		}
		if errors.Is(err, upload.ErrLog) && t.expire(x) {
			continue
		}
		if former.End() == 0 || !format.Unusable(err) || errors.Is(err, upload.ErrLog) {
			return agreed, err
		}
		j.note(err, "the records of the partition are uploaded again")
		former, unchanged = &upload.Archived{}, false
	}
}
