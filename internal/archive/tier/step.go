package tier

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/cleaner"
	"github.com/chronik-io/chronik/internal/storage/epochs"
)

// step is one change of what the store has of one partition.
type step struct {
	c   *Copier
	ctx context.Context
	up  upload.Options
	b   *upload.Batch
	p   *replica.Partition
	tp  metadata.TopicPartition
	img *metadata.Image // what the step relies on, except for the log
	was *metadata.Tier  // of the image; nil: none

	held   *storage.Hold   // of the log; nil: none
	listed map[string]bool // the log objects of the store; nil: not listed
	copied bool            // an object was copied
}

// run does the next thing that is due. more reports that another may be.
func (s *step) run() (more bool, err error) {
	topic := s.img.TopicByID(s.tp.Topic)
	if topic == nil || !s.c.leads(s.img, s.p) {
		return false, nil
	}
	conf := s.c.opt.Topic(s.img, topic)
	s.was = s.img.Tier(s.tp)
	switch {
	case s.was == nil && !conf.Remote:
		return false, nil
	case s.was != nil && conf.DropRemote:
		return false, s.drop()
	case s.was == nil:
		return true, s.first(s.p.Log().Ends())
	}
	if done, err := s.compare(); err != nil || done {
		return true, err
	}
	if done, err := s.retain(conf); err != nil || done {
		return true, err
	}
	if !conf.Remote || conf.NoCopies {
		return false, nil
	}
	return s.copy()
}

// dropWait is how long drop waits for other replicas. One that may be elected may be down for days;
// then the next round tries again.
const dropWait = time.Second

// drop removes the key. From then on the logs of the replicas say where the partition begins, so
// they must know it before.
func (s *step) drop() error {
	ctx, cancel := context.WithTimeout(s.ctx, dropWait)
	defer cancel()
	if _, err := s.p.DeleteRecords(ctx, s.p.Ends().LogStart); err != nil {
		return err
	}
	return s.alter(nil)
}

// alter changes the Tier, and waits until this broker knows it.
func (s *step) alter(next *metadata.Tier) error {
	x := metadata.TierChange{TopicPartition: s.tp, Next: next, Record: s.img.Partition(s.tp).Revision, Collection: s.img.Collection()}
	if s.was != nil {
		x.Was = s.was.Revision
	}
	if s.c.opt.Broken.Has(AnyCollection) {
		x.Collection = -1
	}
	revision, err := s.c.opt.Alter(s.ctx, &x)
	if err == nil {
		err = s.c.opt.Applied(s.ctx, revision)
	}
	if err != nil {
		return fmt.Errorf("name what the object store has of %s: %w", s.p, err)
	}
	return nil
}

func (s *step) id() format.ID { return format.ID{Topic: s.tp.Topic, Partition: s.tp.Partition} }

// archived returns what the store has.
func (s *step) archived() *upload.Archived {
	return s.b.ArchivedIn(&format.Partition{ID: s.id(), State: format.Kept, Start: s.was.Start, End: s.was.End,
		Manifest: objects.Nonce(s.was.Manifest), Archived: s.archivedEnd()})
}

func (s *step) archivedEnd() int64 {
	if s.was.Empty() {
		return 0
	}
	return s.was.End
}

// compare lets the Tier say what the log of this leader continues, once in each leader epoch and
// generation of the metadata: it cuts off what an unclean election has undone, and bridges a gap
// below the local log. Of a Tier of another generation it checks that the store has it. Of an empty
// one it moves the offset. It reports whether it has changed the Tier.
func (s *step) compare() (changed bool, err error) {
	_, epoch := s.p.Leader()
	generation := metadata.ID(s.img.Generation())
	s.c.mu.Lock()
	known, ok := s.c.compared[s.tp]
	s.c.mu.Unlock()
	undone := s.was.Epoch < s.img.Partition(s.tp).Unclean // perhaps
	if ok && known == epoch && s.was.Generation == generation && !undone {
		return false, nil
	}
	ends, recovered := s.p.Log().Ends(), s.was.Generation != generation
	if s.was.End < ends.LogStart && (!s.was.Empty() || recovered) {
		return true, s.bridge(ends)
	}
	common := ends.LogEnd
	if recovered && !s.c.opt.Broken.Has(TrustNames) {
		has, err := s.has(ends.LogStart)
		if format.Unusable(err) {
			return true, s.bridge(ends)
		} else if err != nil {
			return false, err
		}
		common = min(common, has)
	}
	start := s.start(ends)
	if undone && s.was.Empty() {
		next := s.none(max(start, ends.LogStart))
		return true, s.alter(&next)
	}
	next := *s.was
	next.Generation, next.Epoch = generation, s.epoch()
	if all := s.p.Known(); !s.agrees(&all, common) && !s.c.opt.Broken.Has(TrustCopy) {
		t := &upload.Target{ID: s.id(), Log: s.hold(), Start: s.was.Start, End: common}
		a, err := s.b.Agree(s.ctx, t, &all, s.archived())
		switch {
		case err != nil:
			return false, err
		case a.End() < ends.LogStart && recovered:
			return true, s.bridge(ends)
		case a.End() > s.was.Start && a.End() < ends.LogStart:
			return true, s.restart(s.was.Start, ends.LogStart)
		}
		if a.End() < s.was.End {
			if a, err = s.b.List(s.ctx, t, a); err != nil {
				return false, err
			}
		}
		if a.End() < s.was.End {
			s.c.opt.Logger.Warn("copies are left out: an election has undone their records, or objects are missing",
				zap.Stringer("partition", s.p), zap.Int64("from", a.End()), zap.Int64("to", s.was.End))
			if a.End() <= start { // the log may end below, and continue there
				start = max(start, ends.LogStart)
			}
			if next, err = s.named(a, start); err != nil {
				return false, err
			}
		}
	}
	if next.End != s.was.End || next.Generation != s.was.Generation || undone {
		return true, s.alter(&next)
	}
	s.c.mu.Lock()
	s.c.compared[s.tp] = epoch
	s.c.mu.Unlock()
	return false, nil
}

// start returns where the log begins, by the Tier. An offset above where the Tier may continue may
// be above records that were appended since.
func (s *step) start(ends storage.Ends) int64 {
	if s.was.Start > s.p.AgreesTo(s.was, ends) {
		return ends.LogStart
	}
	return s.was.Start
}

// has returns up to where the store has what the Tier names, as present does. It fails unless the
// store has all manifests.
func (s *step) has(local int64) (end int64, err error) {
	parts, err := s.b.Parts(s.ctx, s.id(), s.archived())
	if err != nil {
		return 0, err
	}
	return s.present(parts, local)
}

// present returns where the first part begins of which the store lacks the object and the log,
// which begins at local, has records; MaxInt64: none. These are copied again, before local
// retention counts them as copied. What only the store had is lost, and no reason to give up the
// rest. One list is enough for any number of parts. It may be old: the object that it lacks is
// read.
func (s *step) present(parts []format.Part, local int64) (end int64, err error) {
	for i := range parts {
		p := &parts[i]
		if p.End <= local {
			continue
		}
		if s.listed == nil {
			if err := s.list(); err != nil {
				return 0, err
			}
		}
		if s.listed[s.up.Prefix+p.Run.Name(s.id())] {
			continue
		}
		if _, err := format.OpenLog(s.ctx, s.up.Store, s.up.Prefix, s.id(), &p.Run); format.Unusable(err) {
			return p.Base, nil
		} else if err != nil {
			return 0, err
		}
	}
	return math.MaxInt64, nil
}

// list lists the log objects of the partition.
func (s *step) list() error {
	s.listed = map[string]bool{}
	err := s.up.Store.List(s.ctx, s.up.Prefix+format.Folder(objects.Log, s.id()), func(in objects.Info) error {
		s.listed[in.Name] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the objects of %s: %w", s.p, err)
	}
	return nil
}

// agrees reports whether the log has, or continues, the last record that was copied, and so those
// before: the metadata have its leader epoch. Otherwise the store says what they have in common.
func (s *step) agrees(all *epochs.Cache, logEnd int64) bool {
	if s.was.Empty() || len(s.was.Epochs) == 0 {
		return s.was.Empty()
	}
	end, ok := all.Ends(s.was.Epochs[len(s.was.Epochs)-1].Epoch)
	return ok && s.was.End <= min(end, logEnd)
}

// restart leaves out what the store has below the local log, since elections have undone what was
// between them: of two unclean ones, the second leader had dropped what the first one lacked.
func (s *step) restart(from, to int64) error {
	s.c.opt.Logger.Error("unclean elections have lost records between those in the object store and the local log: "+
		"the log begins with the latter; restore the older ones from a snapshot if you need them",
		zap.Stringer("partition", s.p), zap.Int64("from", from), zap.Int64("to", to))
	next := s.none(to)
	return s.alter(&next)
}

// hold returns the log for a reader until end. It keeps nothing: what the step has read is compared
// with what has changed by the condition of the transaction, since a log is truncated only by
// another leader.
func (s *step) hold() *storage.Hold {
	if s.held == nil {
		s.held = s.p.Log().Hold()
		s.held.Loosen()
	}
	return s.held
}

// end releases what hold has returned.
func (s *step) end() {
	if s.held != nil {
		s.held.Release()
	}
}

// epoch returns the leader epoch in which this broker leads.
func (s *step) epoch() int32 { return s.img.Partition(s.tp).LeaderEpoch }

// none returns the Tier of a log that begins at an offset and has no copy.
func (s *step) none(start int64) metadata.Tier {
	return metadata.Tier{Start: start, End: start, Generation: metadata.ID(s.img.Generation()), Epoch: s.epoch()}
}

// named returns the Tier of what is archived from an offset on.
func (s *step) named(a *upload.Archived, start int64) (metadata.Tier, error) {
	known := s.p.Known()
	return s.withEpochs(a, start, &known)
}

// withEpochs is named, with the leader epochs of the log.
func (s *step) withEpochs(a *upload.Archived, start int64, known *epochs.Cache) (metadata.Tier, error) {
	next := s.none(start)
	if a.End() <= start {
		return next, nil
	}
	bytes, err := s.b.Bytes(s.ctx, s.id(), a)
	if err != nil {
		return next, err
	}
	next.Manifest, next.End, next.Bytes = metadata.ID(a.Manifest()), a.End(), bytes
	next.Epochs = replica.TierEpochs(known, next.Start, next.End)
	return next, nil
}

// retain moves Start, as the retention of all records says, and drops the parts below it, which
// also a deletion of records has moved. It reports whether it has changed the Tier.
func (s *step) retain(conf *configdef.Topic) (changed bool, err error) {
	if s.was.Empty() {
		return false, nil
	}
	policy, now := policyOf(conf), time.Now()
	s.c.mu.Lock()
	last := s.c.oldest[s.tp]
	s.c.mu.Unlock()
	later := s.p.Log().SizeFrom(s.was.End)
	if last.start == s.was.Start && last.epoch == s.epoch() && last.first != nil && // the settings and the clock may have changed
		removable(last.first, s.was.Start, s.was.Bytes+later-last.bytes, now, policy) == s.was.Start {
		return false, nil
	}
	a := s.archived()
	parts, err := s.b.Parts(s.ctx, s.id(), a)
	if err != nil {
		return false, err
	}
	start := removable(parts, s.was.Start, later, now, policy)
	if start == s.was.Start && !a.Drops(start) {
		x := oldest{start: s.was.Start, epoch: s.epoch()}
		for i := range parts {
			x.bytes += parts[i].Bytes()
			if x.first = slices.Clone(parts[i : i+1]); parts[i].End > start { // older manifests stay whole
				break
			}
		}
		s.c.mu.Lock()
		s.c.oldest[s.tp] = x
		s.c.mu.Unlock()
		return false, nil
	}
	t := &upload.Target{ID: s.id(), Start: start, End: s.was.End}
	if a, err = s.b.List(s.ctx, t, a); err != nil {
		return false, err
	}
	next, err := s.named(a, start)
	if err != nil {
		return false, err
	}
	return true, s.alter(&next)
}

// removable returns the new start of the records of parts, which begin at start: the oldest parts
// go that retention would remove from a disk. later are the bytes of the records above them.
func removable(parts []format.Part, start, later int64, now time.Time, policy cleaner.Policy) int64 {
	list := make([]cleaner.Part, len(parts), len(parts)+1)
	for i := range parts {
		p := &parts[i]
		list[i] = cleaner.Part{Base: p.Base, End: p.End, Bytes: p.To - p.From, Written: writtenOf(p),
			Newest: func() (int64, error) { return p.Run.Newest, nil }}
	}
	end := parts[len(parts)-1].End
	list = append(list, cleaner.Part{Base: end, End: math.MaxInt64, Bytes: later})
	v := cleaner.Retain(now, policy, cleaner.Bounds{Start: start, High: end, Stable: end, Copied: end}, list)
	return v.Start(start)
}

func writtenOf(p *format.Part) func() (time.Time, error) {
	return func() (time.Time, error) { return time.UnixMilli(p.Run.Written), nil }
}

// policyOf returns the retention of all records of a topic.
func policyOf(conf *configdef.Topic) cleaner.Policy {
	p := cleaner.Policy{Delete: conf.Delete, Time: conf.Retention, Bytes: conf.RetentionBytes, Ahead: conf.TimestampAfter}
	if !conf.Delete {
		p.Time, p.Bytes = -1, -1
	}
	return p
}

// copy adds one object, if enough records are there. more reports that another may be due.
func (s *step) copy() (more bool, err error) {
	from, to := s.c.copyable(s.p, s.was)
	if from >= to {
		return false, nil
	}
	start := s.was.Start
	if s.was.Empty() {
		start = from
	}
	t := &upload.Target{ID: s.id(), Log: s.hold(), Start: start, End: to}
	a, err := s.b.Extend(s.ctx, t, s.archived())
	if err != nil || a.End() <= from {
		return false, err
	}
	next, err := s.named(a, start)
	if err != nil {
		return false, err
	}
	s.c.opt.Logger.Debug("copied records to the object store", zap.Stringer("partition", s.p), zap.Int64("from", from),
		zap.Int64("to", a.End()))
	if err := s.alter(&next); err != nil {
		return false, err
	}
	s.copied = true
	s.c.counts.objects.Add(1)
	s.c.counts.bytes.Add(max(next.Bytes-s.was.Bytes, 0))
	return true, nil
}

// copyable returns the range of a partition's records that can be copied now, where t is what the
// store has; it is empty if from is not below to.
func (c *Copier) copyable(p *replica.Partition, t *metadata.Tier) (from, to int64) {
	log, ends := p.Log(), p.Ends()
	limit := min(ends.LastStable, log.Ends().Durable)
	if c.opt.Broken.Has(CopyUnstable) {
		limit = min(ends.HighWatermark, log.Ends().Durable)
	}
	if c.opt.Broken.Has(CopyVolatile) {
		limit = ends.LastStable
	}
	from = ends.LocalStart
	if t != nil {
		from = max(from, t.End)
	}
	to = min(limit, log.SealedEnd())
	if object := c.opt.Sizes.ObjectBytes; log.SizeOf(from, limit) >= object+object/4 { // it is an estimate
		to = limit
	}
	return from, to
}
