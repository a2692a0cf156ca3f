package writer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/groupcommit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/testing/faultstore"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
	"github.com/chronik-io/chronik/pkg/durability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "cluster/"

// partition is a log that others append to, and its role.
type partition struct {
	t   testing.TB
	id  format.ID
	log *storage.Log
	m   *storage.Manager

	mu    sync.Mutex
	epoch int32
	leads bool

	number int
	bytes  []byte // of all batches, as they were appended
	bases  []int64
	at     []int // position of each batch in bytes
	keys   []string
	values []string // "": a tombstone
}

// The methods of storage.Observer.
func (p *partition) Appended(*groupcommit.Batch) {}
func (p *partition) Advanced()                   {}
func (p *partition) Reverted(int64, error)       {}
func (p *partition) Truncated(int64)             {}
func (p *partition) StartMoved()                 {}
func (p *partition) Stable() int64               { return p.log.AckEnd() }
func (p *partition) Copied() int64               { return math.MaxInt64 }
func (p *partition) Deleted() int64              { return 0 }
func (p *partition) High() (int64, int32)        { return p.log.AckEnd(), p.log.LeaderEpoch() }

// held is a log as it was cut.
type held struct {
	*storage.Hold
	p *partition
	c replica.Cut
}

// Log implements Held.
func (h *held) Log() *storage.Log { return h.p.log }

// Known implements Held.
func (h *held) Known() epochs.Cache { return h.p.log.Epochs() }

// Void implements Held as replica.Held does, for a partition whose high watermark is its end.
func (h *held) Void() error {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if err := h.Kept(h.c.End); err != nil {
		return fmt.Errorf("%w: %w", replica.ErrVoid, err)
	}
	if h.p.leads && h.p.epoch == h.c.Epoch || h.p.log.AckEnd() >= h.c.End {
		return nil
	}
	return replica.ErrVoid
}

type sink chan struct{}

func (s sink) OffsetsAssigned(*storage.Append) { close(s) }

// append appends a batch of one record and waits until it is durable.
func (p *partition) append(key, value string, size int) {
	p.t.Helper()
	p.number++
	w := record.NewBuilder(record.BatchOptions{})
	var v []byte
	if value != "" {
		v = append([]byte(value), make([]byte, size)...)
	}
	w.Append(int64(p.number), []byte(key), v, nil)
	b, err := w.Build()
	must.OK(p.t, err)
	end := p.log.Ends().LogEnd
	b.SetBaseOffset(end)
	b.SetLeaderEpoch(p.epoch)
	done := make(sink)
	a := &storage.Append{Kind: storage.Assigned, Batches: b, LeaderEpoch: p.epoch, PrevEnd: end, Sink: done}
	p.log.Append(a, nil)
	<-done
	must.OK(p.t, a.Err)
	eventually(p.t, "the record is durable", func() bool { return p.log.AckEnd() >= a.Next })
	p.at, p.bases, p.bytes = append(p.at, len(p.bytes)), append(p.bases, end), append(p.bytes, b...)
	p.keys, p.values = append(p.keys, key), append(p.values, value)
}

// elect begins a leader epoch: of this broker, or of another one that has the log up to an end.
func (p *partition) elect(leads bool, end int64) {
	p.t.Helper()
	p.mu.Lock()
	p.leads = leads
	p.epoch++
	p.mu.Unlock()
	p.log.SetLeaderEpoch(p.epoch, false)
	cuts := []storage.Truncation{{Log: p.log, End: end}}
	p.m.Truncate(cuts)
	must.OK(p.t, cuts[0].Err)
	end = p.log.Ends().LogEnd
	if n, _ := slices.BinarySearch(p.bases, end); n < len(p.bases) {
		p.bytes, p.bases, p.at, p.keys, p.values = p.bytes[:p.at[n]], p.bases[:n], p.at[:n], p.keys[:n], p.values[:n]
	}
}

func (p *partition) moveStart(to int64) {
	moves := []storage.StartMove{{Log: p.log, To: to}}
	p.log.Dir().MoveStarts(moves)
	must.OK(p.t, moves[0].Err)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Since(begun) > 2*time.Minute { // it only ends a test that hangs
			t.Fatalf("never: %s", what)
		}
	}
}

// world is a broker's partitions, and the store.
type world struct {
	t     testing.TB
	s     *faultstore.Store
	disk  vfs.FS // of m
	m     *storage.Manager
	parts []*partition
	holds map[metadata.TopicPartition]*held
	w     *Writer
	opt   Options
	base  *format.Previous
	n     int64

	collection Collection
}

// newWorld returns a world with n partitions, of which some are compacted.
func newWorld(t testing.TB, n int, compacts func(i int) bool) *world {
	t.Helper()
	fsys := vfs.Memory()
	must.OK(t, fsys.MkdirAll("/store"))
	s, err := dirstore.Open(fsys, "/store")
	must.OK(t, err)
	set, err := durability.NewSet()
	must.OK(t, err)
	profile, err := set.Lookup("sync")
	must.OK(t, err)
	cfg := storage.Config{Profile: profile,
		Segment: segment.Limits{Bytes: 32 << 10, Ms: 1 << 40, IndexInterval: 4096, IndexBytes: 10 << 20}}
	disk := vfs.Memory()
	m, err := storage.Open([]storage.Location{{Path: "/d"}}, storage.Options{FS: disk, JournalFileSize: 1 << 20, DeferredBytes: 1 << 20,
		Config: func(string, storage.ID) storage.Config { return cfg }})
	must.OK(t, err)
	w := &world{t: t, s: faultstore.New(s), disk: disk, m: m, holds: map[metadata.TopicPartition]*held{},
		collection: Collection{Generation: metadata.ID{9}}}
	specs := make([]storage.Spec, n)
	for i := range specs {
		c := cfg
		if compacts(i) {
			c.Cleanup = storage.Cleanup{Compact: true}
		}
		specs[i] = storage.Spec{ID: storage.ID{Topic: [16]byte{1}, Partition: int32(i)}, Topic: "t", Config: c}
	}
	logs, err := m.CreateIn(m.Dirs()[0], specs)
	must.OK(t, err)
	for i, l := range logs {
		p := &partition{t: t, id: format.ID{Topic: [16]byte{1}, Partition: int32(i)}, log: l, m: m, leads: true}
		l.Observe(p)
		l.SetLeaderEpoch(0, false)
		w.parts = append(w.parts, p)
	}
	m.SetCleaning(storage.Cleaning{Backoff: time.Millisecond})
	w.opt = Options{Store: w.s, Prefix: prefix, Partitions: w,
		Sizes: upload.Options{ObjectBytes: 60 << 10, PackBytes: 40 << 10, PieceBytes: 30 << 10, ManifestParts: 4}}
	w.restart()
	return w
}

// restart replaces the writer.
func (w *world) restart() {
	if w.w != nil {
		w.w.Close()
	}
	w.w = New(w.opt)
}

func (w *world) close() {
	w.w.Close()
	must.OK(w.t, w.m.Close())
}

// Take implements Partitions.
func (w *world) Take(c replica.Cut) (Held, error) {
	h := w.holds[c.TopicPartition]
	if h == nil || h.c != c {
		return nil, replica.ErrVoid
	}
	delete(w.holds, c.TopicPartition)
	return h, nil
}

// want is what a partition had at the cut.
type want struct {
	bytes  []byte // from the log start on
	values map[string]string
}

// cut cuts the partitions.
func (w *world) cut() (job Job, all []want) {
	w.n++
	job = Job{Number: w.n, Base: w.base, Collection: w.collection}
	for _, p := range w.parts {
		h := p.log.Hold()
		c := replica.Cut{TopicPartition: metadata.TopicPartition{Topic: p.id.Topic, Partition: p.id.Partition}, Epoch: p.epoch,
			Start: h.First(), End: p.log.AckEnd()}
		if old := w.holds[c.TopicPartition]; old != nil {
			old.Release()
		}
		w.holds[c.TopicPartition] = &held{h, p, c}
		job.Cuts = append(job.Cuts, c)
		x := want{values: map[string]string{}}
		for i, k := range p.keys {
			if delete(x.values, k); p.values[i] != "" {
				x.values[k] = p.values[i]
			}
		}
		if n, found := slices.BinarySearch(p.bases, c.Start); c.Start < c.End {
			if !found {
				n--
			}
			x.bytes = bytes.Clone(p.bytes[p.at[n]:])
		}
		all = append(all, x)
	}
	return job, all
}

// ended waits until a job has ended and returns its last answer, with all results.
func (w *world) ended(number int64) (x Progress) {
	w.t.Helper()
	eventually(w.t, "the end of the job", func() bool {
		var err error
		x, err = w.w.Progress(number, 0)
		must.OK(w.t, err)
		return x.Done
	})
	for next := x.Next; ; {
		more, err := w.w.Progress(number, next)
		must.OK(w.t, err)
		if len(more.Partitions) == 0 {
			return x
		}
		x.Partitions, next = append(x.Partitions, more.Partitions...), more.Next
	}
}

// snapshot takes a snapshot; meanwhile may do something while it is uploaded.
func (w *world) snapshot(meanwhile func()) (Progress, error) {
	w.t.Helper()
	job, all := w.cut()
	if err := w.w.Begin(job); err != nil {
		return Progress{}, err
	}
	if meanwhile != nil {
		meanwhile()
	}
	x := w.ended(job.Number)
	if x.Err != "" {
		return x, errors.New(x.Err)
	}
	return x, w.verify(job, x.Partitions, all)
}

// verify writes the index of a snapshot, and compares what the store has with what the partitions
// had. The snapshot becomes the base of the next one.
func (w *world) verify(job Job, list []format.Partition, all []want) error {
	ctx := context.Background()
	sealed, err := (&format.Index{Number: job.Number, Partitions: list}).Encode()
	if err != nil {
		return err
	}
	name := format.Name{Kind: objects.Index, Number: job.Number, Nonce: objects.NewNonce()}
	if err := objects.Write(ctx, w.s, prefix+name.String(), objects.Index, sealed); err != nil {
		return err
	}
	at := format.Previous{Number: job.Number, Nonce: name.Nonce}
	x, err := format.ReadSnapshot(ctx, w.s, prefix, [16]byte{}, at)
	if err != nil {
		return err
	}
	if len(x.Partitions) != len(job.Cuts) {
		return fmt.Errorf("%d partitions of %d", len(x.Partitions), len(job.Cuts))
	}
	for i := range x.Partitions {
		p := &x.Partitions[i]
		if c := job.Cuts[i]; p.Start != c.Start || p.End != c.End || p.Epoch != c.Epoch {
			return fmt.Errorf("partition %+v is cut at %+v", p, c)
		}
		got, err := w.content(p)
		if err != nil {
			return err
		}
		if err := all[i].compare(p, got); err != nil {
			return fmt.Errorf("snapshot %d, partition %d, %d to %d: %w", job.Number, i, p.Start, p.End, err)
		}
	}
	w.base = &at
	return nil
}

// content reads all batches of a partition from the store.
func (w *world) content(p *format.Partition) (got []byte, err error) {
	ctx := context.Background()
	parts := p.Parts
	if p.Manifest != (objects.Nonce{}) {
		m, err := format.ReadManifest(ctx, w.s, prefix, p.ID, p.Manifest)
		if err != nil {
			return nil, err
		}
		all, err := m.All(ctx, w.s, prefix)
		if err != nil {
			return nil, err
		}
		parts = slices.Concat(all, parts)
	}
	for _, part := range parts {
		if part.End <= p.Start {
			continue
		}
		err := format.ReadPart(ctx, w.s, prefix, p.ID, &part, func(b []byte) error { got = append(got, b...); return nil })
		if err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (x *want) compare(p *format.Partition, got []byte) error {
	if p.State == format.Kept {
		if len(x.bytes) == 0 && len(got) == 0 {
			return nil
		}
		if !bytes.HasSuffix(got, x.bytes) { // the first part may begin below the log start
			return fmt.Errorf("the store has %d bytes, the log had %d", len(got), len(x.bytes))
		}
		return nil
	}
	values, last := map[string]string{}, int64(-1)
	for len(got) > 0 {
		b, rest, err := record.Next(got)
		if err != nil {
			return err
		}
		if b.BaseOffset() <= last {
			return fmt.Errorf("offset %d after %d", b.BaseOffset(), last)
		}
		got, last = rest, b.LastOffset()
		if err := b.Each(record.Limits{}, func(r record.Record) error {
			if delete(values, string(r.Key)); r.Value != nil {
				values[string(r.Key)] = string(bytes.TrimRight(r.Value, "\x00"))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for k, v := range x.values {
		if values[k] != v {
			return fmt.Errorf("key %s has %q, not %q", k, values[k], v)
		}
	}
	if len(values) != len(x.values) {
		return fmt.Errorf("%d keys, not %d: %v", len(values), len(x.values), values)
	}
	return nil
}

// Packs of a former process, or of another leader, become old as often as those of this one: a
// broker that restarts each hour does not keep them for ever.
func TestPacksOfOthersBecomeOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 1000
		base, all := map[format.ID]*format.Partition{}, make([]format.Partition, 2*count)
		for i := range all {
			all[i].ID.Partition = int32(i)
			all[i].Parts = []format.Part{{Run: format.Run{Kind: objects.Pack, Nonce: objects.NewNonce()}}}
			if i < count {
				base[all[i].ID] = &all[i]
			}
		}
		w := &Writer{}
		old := func() (others, own int) {
			for i := range all {
				if !w.old(&all[i].Parts[0]) {
					continue
				}
				if i < count {
					others++
				} else {
					own++
				}
			}
			return others, own
		}
		w.learn(1, nil, base, all)
		for _, x := range []struct {
			wait        time.Duration
			others, own int
		}{{0, 0, 0}, {packAge / 4, count / 4, 0}, {packAge / 4, count / 2, 0}, {packAge / 2, count, 0}, {time.Second, count, count}} {
			time.Sleep(x.wait)
			w.learn(2, nil, base, all) // what is known keeps its age
			if others, own := old(); others < x.others-count/10 || others > x.others+count/10 || own != x.own {
				t.Errorf("%v later, %d packs of others and %d of its own are old, expected about %d and %d", x.wait, others, own, x.others,
					x.own)
			}
		}
	})
}
