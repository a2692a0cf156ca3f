package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/cut"
	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/writer"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/text"
)

const (
	// cutAttempts is how often a cut is taken before a snapshot has failed: elections make it void.
	cutAttempts = 5
	// cutPause is the pause between them. A freeze delays acknowledgements; this is longer.
	cutPause = 2 * time.Second
	// progressEvery is how often brokers are asked for the progress of their uploads, progressFirst
	// the first pause. One that does not answer for silence has failed.
	progressEvery = 250 * time.Millisecond
	progressFirst = 5 * time.Millisecond
	silence       = 30 * time.Second
)

// OfflineError reports that a snapshot would lack partitions.
type OfflineError struct {
	Partitions []string // topic-partition
	// Internal: one of them belongs to an internal topic. Then no snapshot is taken.
	Internal bool
}

// Error implements error.
func (e *OfflineError) Error() string {
	shown := e.Partitions
	if len(shown) > 5 {
		shown = append(slices.Clone(shown[:5]), fmt.Sprintf("%d others", len(e.Partitions)-5))
	}
	text := fmt.Sprintf("no broker can read %s, so a snapshot would lack them", strings.Join(shown, ", "))
	if e.Internal {
		return text + "; one is of an internal topic, without which offsets and transactions would not match the records: bring its broker back"
	}
	return text + "; bring their brokers back, or take a snapshot without them with --allow-offline"
}

// take takes one snapshot, and names it. store has all objects.
func (s *Service) take(ctx context.Context, term uint64, store objects.Store, allowOffline bool) (_ *metadata.Snapshot, err error) {
	defer func() {
		if err != nil {
			s.forget() // a broker may have missed it
		}
		s.distrust(format.Unusable(err))
	}()
	img := s.opt.Image()
	id, err := metadata.ParseID(img.ClusterID())
	if err != nil {
		return nil, fmt.Errorf("the id of the cluster: %w", err)
	}
	if img.FeatureLevel() < metadata.SnapshotLevel {
		if err := s.opt.Raise(ctx, metadata.SnapshotLevel); err != nil {
			return nil, err
		}
	}
	// Before the former index is read: a collection that begins later may delete what it names.
	collection := writer.Collection{Generation: img.Generation(), Revision: img.Collection()}
	x := &taking{s: s, ctx: ctx, term: term, store: store, prefix: format.Prefix(id), cluster: id, collection: collection}
	if err := x.former(img); err != nil {
		return nil, err
	}
	if x.probe, err = s.probe(ctx, store, x.prefix); err != nil {
		return nil, err
	}
	at, err := x.cut(img)
	if err != nil {
		return nil, err
	}
	if err := x.readable(at, allowOffline); err != nil {
		return nil, err
	}
	if x.base != nil && at.Image.Suspect(x.base) {
		s.opt.Log.Warn("a verification has found damage in what the newest snapshot may have; everything is uploaded again",
			zap.Int64("snapshot", x.base.Number))
		x.base = nil
	}
	index := &format.Index{Cluster: id, Number: at.Image.Version(), Time: x.time(img), Release: s.opt.Release, Keys: x.keys}
	s.running(index.Number, index.Time)
	if index.Partitions, err = x.upload(at, index); err != nil {
		return nil, err
	}
	return x.complete(index)
}

// taking is the work on one snapshot.
type taking struct {
	s       *Service
	ctx     context.Context
	term    uint64
	store   objects.Store
	prefix  string
	cluster [16]byte
	// collection is the last one before the former index was read.
	collection writer.Collection

	probe    objects.Nonce
	base     *metadata.Snapshot // the newest snapshot, which this one continues; nil: none
	index    *format.Index      // of the newest snapshot, complete; nil: there is none, or it cannot be read
	keys     []format.Key       // of the mark
	notes    []string           // of the brokers about their uploads
	uploaded int64
}

// former reads the index of the newest snapshot. If it is missing or damaged, everything is
// uploaded again. If the store does not answer, there is no snapshot: the next one may find the
// index.
func (x *taking) former(img *metadata.Image) error {
	list := img.Snapshots()
	if len(list) == 0 {
		return nil
	}
	newest := list[len(list)-1]
	at := format.Previous{Number: newest.Number, Nonce: objects.Nonce(newest.Nonce)}
	index := x.s.cached(at)
	if index == nil {
		var err error
		if index, err = format.ReadSnapshot(x.ctx, x.store, x.prefix, x.cluster, at); err != nil {
			if !format.Unusable(err) {
				return err
			}
			x.s.opt.Log.Warn("the newest snapshot cannot be continued; everything is uploaded again",
				zap.Int64("snapshot", newest.Number), zap.Error(err))
			return nil
		}
	}
	x.base, x.index = &newest, index
	return nil
}

// time returns the time of a snapshot. It is not smaller than that of the one before, unless a
// clock was wrong by more than a day then.
func (x *taking) time(img *metadata.Image) int64 {
	at := x.s.opt.Now().UnixMilli()
	if list := img.Snapshots(); len(list) > 0 {
		if last := list[len(list)-1].Time; last-at <= day.Milliseconds() {
			at = max(at, last)
		}
	}
	return at
}

// cut takes a cut, several times if it is void.
func (x *taking) cut(img *metadata.Image) (at *cut.Cluster, err error) {
	for attempt := 1; ; attempt++ {
		id := replica.FreezeID{Controller: int64(x.term), Attempt: x.s.attempt.Add(1)}
		at, err = cut.Take(x.ctx, id, img, func(id int32) cut.Participant { return x.s.opt.Peer(id) }, x.mark)
		if err == nil || !errors.Is(err, cut.ErrVoid) || attempt == cutAttempts || pause.Sleep(x.ctx, pause.Spread(cutPause)) != nil {
			return at, err
		}
		x.s.opt.Log.Debug("a cut of the cluster was void", zap.Error(err))
		img = x.s.opt.Image()
	}
}

// mark commits the mark, and reads the metadata.
func (x *taking) mark(ctx context.Context) (load func() (*metadata.Image, error), err error) {
	value := metadata.Mark{Time: x.s.opt.Now().UnixMilli()}.Encode()
	revision, err := x.s.opt.Store.LeaderTxn(ctx, x.term, metadata.Txn{Put: []metadata.KV{{Key: metadata.MarkKey, Value: value}}})
	if err == nil {
		err = x.s.opt.Store.WaitFor(ctx, revision)
	}
	var kvs []metadata.KV
	if err == nil {
		kvs, revision, err = x.s.opt.Store.Range(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	return func() (*metadata.Image, error) {
		if x.keys, err = stored(kvs); err != nil {
			return nil, err
		}
		return metadata.Load(kvs, revision)
	}, nil
}

// stored returns the keys that a snapshot has: all but those about snapshots, which mean nothing to
// a restored cluster.
func stored(kvs []metadata.KV) (list []format.Key, err error) {
	for _, kv := range kvs {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, err
		}
		if k.Kind.Scope() == metadata.OfObjects {
			continue
		}
		list = append(list, format.Key{Key: kv.Key, Value: kv.Value, Revision: kv.ModRevision})
	}
	sorts.Sort(list, func(a, b format.Key) int { return cmp.Compare(a.Key, b.Key) })
	return list, nil
}

// readable returns an *OfflineError unless the snapshot may lack the partitions that it would.
func (x *taking) readable(at *cut.Cluster, allow bool) error {
	var lacking OfflineError
	for i := range at.Logs {
		l := &at.Logs[i]
		if t := at.Image.TopicByID(l.Topic); l.Offline && t != nil {
			lacking.Partitions = append(lacking.Partitions, fmt.Sprintf("%s-%d", t.Name, l.Partition))
			lacking.Internal = lacking.Internal || t.Internal
		}
	}
	if len(lacking.Partitions) == 0 || allow && !lacking.Internal {
		return nil
	}
	return &lacking
}

// upload lets all brokers upload their logs, and returns the partitions of an index that has none.
func (x *taking) upload(at *cut.Cluster, index *format.Index) (list []format.Partition, err error) {
	jobs := map[int32]*writer.Job{}
	for i := range at.Logs {
		l := &at.Logs[i]
		if l.Offline {
			list = append(list, x.offline(at.Image, l, index.Time))
			continue
		}
		job := jobs[l.Leader]
		if job == nil {
			job = &writer.Job{Number: index.Number, Probe: x.probe}
			if !x.s.distrusts() {
				job.Collection = x.collection
			}
			if x.base != nil {
				job.Base = &format.Previous{Number: x.base.Number, Nonce: objects.Nonce(x.base.Nonce)}
			}
			jobs[l.Leader] = job
		}
		job.Cuts = append(job.Cuts, l.Cut)
		if t := at.Image.Tier(l.TopicPartition); !t.Empty() && t.Start < l.Start {
			job.Tiers = append(job.Tiers, writer.Tier{TopicPartition: l.TopicPartition, Manifest: objects.Nonce(t.Manifest), Start: t.Start,
				End: t.End})
		}
	}
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	type ended struct {
		list  []format.Partition
		bytes int64
		note  string
		err   error
	}
	results := make(chan ended)
	for id, job := range jobs {
		go func() {
			var e ended
			e.list, e.bytes, e.note, e.err = x.wait(ctx, id, job)
			results <- e
		}()
	}
	for range jobs {
		e := <-results
		if e.err != nil {
			cancel() // the others' uploads are in vain
			err = cmp.Or(err, e.err)
		}
		list, x.uploaded = append(list, e.list...), x.uploaded+e.bytes
		if e.note != "" {
			x.notes = append(x.notes, e.note)
		}
	}
	if err != nil {
		return nil, err
	}
	sorts.Sort(list, format.Partition.Compare)
	if len(list) != len(at.Logs) {
		return nil, fmt.Errorf("the brokers have uploaded %d logs of %d", len(list), len(at.Logs))
	}
	return list, nil
}

// offline returns a partition whose log no broker could read at the time of the cut. Its last known
// end is that of the last snapshot, what the object store has of the log, or what its leader has of
// a log that went offline.
func (x *taking) offline(img *metadata.Image, l *cut.Log, ms int64) format.Partition {
	id, known := format.ID{Topic: l.Topic, Partition: l.Partition}, l.End
	if x.index != nil {
		if i, ok := slices.BinarySearchFunc(x.index.Partitions, format.Partition{ID: id}, format.Partition.Compare); ok {
			known = max(known, x.index.Partitions[i].KnownEnd())
		}
	}
	if t := img.Tier(l.TopicPartition); t != nil {
		known = max(known, t.End)
	}
	return format.Unread(id, l.Epoch, known, ms)
}

// wait begins the job of a broker and waits for its end. note says which of its partitions are not
// what they were at the cut.
func (x *taking) wait(ctx context.Context, id int32, job *writer.Job) (list []format.Partition, bytes int64, note string, err error) {
	b := x.s.opt.Peer(id)
	defer func() {
		if err != nil { // also that of Begin: only its answer may be lost
			b.Cancel(job.Number)
		}
	}()
	if err := b.Begin(ctx, *job); err != nil {
		return nil, 0, "", err
	}
	heard := x.s.opt.Now()
	between := pause.Backoff{First: progressFirst, Most: progressEvery}
	for asked := 1; ; asked++ {
		p, err := b.Progress(ctx, job.Number, len(list))
		switch {
		case errors.Is(err, writer.ErrUnknown) || ctx.Err() != nil:
			return nil, 0, "", cmp.Or(context.Cause(ctx), err)
		case err != nil && x.s.opt.Now().Sub(heard) > silence:
			return nil, 0, "", err
		case err != nil:
		case p.Err != "":
			return nil, 0, "", fmt.Errorf("broker %d: %s", id, p.Err)
		case p.Done && p.Next <= len(list): // there are no more pages
			if p.Note != "" {
				note = fmt.Sprintf("broker %d: %s", id, p.Note)
			}
			return list, p.Bytes, note, nil
		default:
			heard = x.s.opt.Now()
			x.s.progress(id, p.Bytes, p.TotalBytes)
			list = append(list, p.Partitions...)
		}
		if err == nil && p.Done {
			continue // with the next page, at once
		}
		if pause.Sleep(ctx, between.After(asked)) != nil {
			return nil, 0, "", context.Cause(ctx)
		}
	}
}

// note returns the notes of all brokers, in the order of their texts.
func (x *taking) note() string {
	sorts.Sort(x.notes, strings.Compare)
	return text.Cut(strings.Join(x.notes, "; "), metadata.MaxSnapshotNote)
}

// complete puts the index and names it in the metadata, and removes snapshots that are not kept.
func (x *taking) complete(index *format.Index) (*metadata.Snapshot, error) {
	snapshot := metadata.Snapshot{Number: index.Number, Nonce: metadata.NewID(), Time: index.Time, Partitions: len(index.Partitions),
		Note: x.note()}
	put := index
	if x.base != nil && x.base.Changes < format.MaxChanges {
		snapshot.Changes = x.base.Changes + 1
		put = x.index.Changes(index, objects.Nonce(x.base.Nonce))
	}
	sealed, err := put.Encode()
	if err != nil {
		return nil, err
	}
	img := x.s.opt.Image()
	for i := range index.Partitions {
		p := &index.Partitions[i]
		// What was deleted during the upload is not missed, and no operator can bring it back.
		if p.State == format.Offline && img.TopicByID(p.ID.Topic) != nil {
			snapshot.Offline++
		}
		n, err := x.s.bytesOf(x.ctx, x.store, x.prefix, p)
		if err != nil {
			return nil, err
		}
		snapshot.Bytes += n
	}
	name := format.Name{Kind: objects.Index, Number: index.Number, Nonce: objects.Nonce(snapshot.Nonce)}
	if err := objects.Write(x.ctx, x.store, x.prefix+name.String(), objects.Index, sealed); err != nil {
		return nil, err
	}
	snapshot.Ended, snapshot.Uploaded = max(x.s.opt.Now().UnixMilli(), snapshot.Time), x.uploaded+int64(len(sealed))
	txn := metadata.Txn{
		// A collection that has begun since may delete what the index names.
		If: []metadata.Compare{{Key: metadata.CollectionKey, ModRevision: x.collection.Revision},
			{Key: metadata.SnapshotKey(snapshot.Number)}},
		Put: []metadata.KV{{Key: metadata.SnapshotKey(snapshot.Number), Value: snapshot.Encode()}},
	}
	for _, old := range expired(append(slices.Clone(x.s.opt.Image().Snapshots()), snapshot), x.s.opt.Conf.Keep, x.s.opt.Conf.KeepDays,
		x.s.opt.Now()) {
		txn.Delete = append(txn.Delete, metadata.SnapshotKey(old))
	}
	revision, err := x.s.opt.Store.LeaderTxn(x.ctx, x.term, txn)
	if err != nil {
		return nil, fmt.Errorf("name the snapshot in the metadata: %w", err)
	}
	if err := x.s.opt.Applied(x.ctx, revision); err != nil {
		return nil, err
	}
	if x.s.first == 0 {
		x.s.first = snapshot.Number
	}
	x.s.cache(format.Previous{Number: snapshot.Number, Nonce: objects.Nonce(snapshot.Nonce)}, index)
	return &snapshot, nil
}

const day = 24 * time.Hour

// expired returns the numbers of those snapshots that are not kept: neither among the newest ones,
// nor the newest of one of the last days. list is in the order of numbers. The newest always stays.
// Today is at most a day after the newest but one: one reading of a clock that is ahead makes no
// day old.
func expired(list []metadata.Snapshot, keep, days int, now time.Time) (numbers []int64) {
	if n := len(list); n > 1 {
		now = earlier(now, time.UnixMilli(list[n-2].Time).Add(day))
	}
	today := now.UnixMilli() / day.Milliseconds()
	for i := range list {
		on := list[i].Time / day.Milliseconds()
		newestOfDay := i+1 == len(list) || list[i+1].Time/day.Milliseconds() > on
		if i < len(list)-max(keep, 1) && (!newestOfDay || today-on >= int64(days)) {
			numbers = append(numbers, list[i].Number)
		}
	}
	return numbers
}
