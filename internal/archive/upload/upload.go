// Package upload puts what a log has since its last upload into an object store.
//
// From 64 MiB on, records become log objects, which a manifest lists. Fewer records are a piece of
// a pack, together with those of other partitions. Pieces that have become many are uploaded again
// as one, until they are enough for a log object (merge). What an archive has of a log is used
// again as far as the log has it too: by leader epochs, or if the log is compacted, by its bytes.
//
// A Batch is one round of all partitions that a broker leads, for one snapshot. It changes nothing
// that it is given: if the round fails, what it put is named nowhere, and the next round begins
// from the former state. It reads logs through an interface, and knows neither leaders nor the
// metadata: its caller ensures that the log is that of the snapshot.
package upload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/breakrules"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/pause"
)

// Target is a log that is archived, as a snapshot cuts it.
type Target struct {
	ID  format.ID
	Log Log
	// Start is the log start and End the cut. Both are between two batches, except that Start may
	// be within one.
	Start, End int64
}

// Options are a Batch's.
type Options struct {
	Store  objects.Store
	Prefix string // of the cluster's objects
	// ObjectBytes is from how many bytes on records become a log object that is not merged any
	// more, and PackBytes from how many on a pack is put. Both are also about the largest size.
	ObjectBytes, PackBytes int64
	// PieceBytes is from how many bytes on a piece is an object of its own: packs are built in
	// memory.
	PieceBytes int64
	// ManifestParts is how many parts a manifest has at most. If there are more, the oldest move to
	// manifests of their own with half as many.
	ManifestParts int
	// Again reports whether a piece is uploaded again because its pack is old; nil: none is.
	Again func(*format.Part) bool
	// Spend is called with the bytes of each read of a log, and ends the round if it fails; nil: it
	// is not. It may wait.
	Spend func(ctx context.Context, n int) error
	// Duty is that of what is done with the bytes of logs; nil: no rests.
	Duty *pause.Duty
	// Stage is called after each StageParts log objects of one log, if it has more: the store has
	// the archive then, and lists it. Stage must not keep it, and is nil if it is not needed.
	Stage      func(*Archived)
	StageParts int
	// Broken are the rules that a test has removed.
	Broken breakrules.Removed[Rule]
}

// The sizes that are used outside of tests: those of Options with the same names.
const (
	ObjectBytes   = 64 << 20
	ManifestParts = 1000
	StageParts    = 16
)

// IdlePace is how long a rate of Spend is made up for: log objects are read at the rate, and then
// verified and put.
const IdlePace = 2 * time.Second

// Batch is one round of uploads. It must not be used concurrently.
type Batch struct {
	opt     Options
	store   objects.Store // opt.Store for what is in memory, and for reads
	pack    format.Pack
	waiting []slot // of the pieces in pack, in their order
}

// slot is where a piece of the pack goes: to the pieces of a log.
type slot struct {
	a *Archived
	i int
	// aborted is the least offset of a record of an aborted transaction whose marker the piece has.
	aborted int64
}

// NewBatch returns a Batch without uploads. All sizes must be set.
func NewBatch(o Options) *Batch { return &Batch{opt: o, store: objects.Resting(o.Store, o.Duty)} }

// errHole: the log has no batch before its end, but offsets.
var errHole = errors.New("the log ends with offsets that have no records")

// Add uploads what the log has and former, the beginning of it, lacks. The result is valid after
// Close. A log that ends with offsets without records, because it was compacted once, becomes a
// compacted one. Add fails if the log or the store does; then the batch must not be used any
// longer, except that after an error of the log others can be added.
func (b *Batch) Add(ctx context.Context, t *Target, former *Archived, compacted bool) (*Archived, error) {
	next, err := b.add(ctx, t, former, compacted)
	if errors.Is(err, errHole) {
		next, err = b.add(ctx, t, &Archived{}, true)
	}
	if err != nil {
		return nil, fmt.Errorf("archive %x-%d: %w", t.ID.Topic, t.ID.Partition, err)
	}
	next.manifest = nil // it may be large, and the next round reads it if it needs it
	return next, nil
}

func (b *Batch) add(ctx context.Context, t *Target, former *Archived, compacted bool) (*Archived, error) {
	if former.compacted != compacted { // the cleanup policy was changed
		former = &Archived{}
	}
	next := former.from(t.Start)
	next.compacted = compacted
	from := max(next.End(), t.Start)
	if from > t.End {
		return nil, fmt.Errorf("it ends at %d, and its archive at %d", t.End, from)
	}
	s, err := b.scan(ctx, t.Log, from, t.End, b.opt.ObjectBytes)
	if err != nil {
		return nil, err
	}
	bytes := make([]int64, len(next.pieces))
	for i, p := range next.pieces {
		bytes[i] = p.Bytes()
	}
	stay := len(bytes)
	switch {
	case sum(bytes)+s.size >= b.opt.ObjectBytes:
		stay = 0
	case s.size > 0:
		stay = merge(bytes, s.size)
	case from < t.End && stay > 0 && !compacted: // only its last piece can reach the end
		stay--
	}
	if err := b.renew(ctx, t, next, stay); err != nil {
		return nil, err
	}
	if stay < len(next.pieces) {
		from, s = max(next.pieces[stay].Base, t.Start), nil
		next.pieces = next.pieces[:stay]
	}
	fresh, err := b.rest(ctx, t, next, from, s)
	if err == nil && (len(fresh) > 0 || next.changed) {
		err = b.extend(ctx, t, next, fresh)
	}
	if err == nil && !compacted && max(next.End(), t.Start) < t.End {
		err = errHole
	}
	return next, err
}

// Extend uploads the beginning of [former.End, t.End), or of [t.Start, t.End) if nothing is
// archived, as one log object of about ObjectBytes, whether there is as much or less. The result
// has it in its manifest, without parts below t.Start. It is former's End if the range has no
// batch. No transaction below t.End may be open.
func (b *Batch) Extend(ctx context.Context, t *Target, former *Archived) (*Archived, error) {
	next := former.from(t.Start)
	s, err := b.scan(ctx, t.Log, max(next.End(), t.Start), t.End, b.opt.ObjectBytes)
	if err != nil || s.size == 0 {
		return next, err
	}
	if err := b.load(ctx, t.ID, next); err != nil { // before an object that no manifest could list
		return nil, err
	}
	// All that is below t.End is stable: a reader of the records in the object needs no other one
	// to know which transactions were aborted. A replica that begins its log after them would not
	// know.
	s.aborted = append(s.aborted, s.later...)
	part, err := b.object(ctx, t.ID, s)
	if err == nil {
		err = b.list(ctx, t, next, []format.Part{part})
	}
	if err != nil {
		return nil, fmt.Errorf("archive %x-%d: %w", t.ID.Topic, t.ID.Partition, err)
	}
	return next, nil
}

// List puts the manifest of what is archived, if it is not that which the store has: after Agree,
// or because parts are below t.Start.
func (b *Batch) List(ctx context.Context, t *Target, a *Archived) (*Archived, error) {
	next := a.from(t.Start)
	if err := b.load(ctx, t.ID, next); err != nil {
		return nil, err
	}
	if err := b.list(ctx, t, next, nil); err != nil {
		return nil, fmt.Errorf("archive %x-%d: %w", t.ID.Topic, t.ID.Partition, err)
	}
	return next, nil
}

// Manifest puts a manifest of log objects that the store has. Parts must follow each other.
func (b *Batch) Manifest(ctx context.Context, id format.ID, parts []format.Part) (*Archived, error) {
	a := &Archived{}
	return a, b.list(ctx, &Target{ID: id}, a, parts)
}

// Parts returns the parts of a log that is not compacted, up to the end of the manifest: those of
// the manifest, after those with older ones that it names.
func (b *Batch) Parts(ctx context.Context, id format.ID, a *Archived) ([]format.Part, error) {
	if err := b.load(ctx, id, a); err != nil || a.manifest == nil {
		return nil, err
	}
	return a.manifest.All(ctx, b.store, b.opt.Prefix)
}

// Bytes returns the bytes of the batches of what is listed. It reads no older manifest.
func (b *Batch) Bytes(ctx context.Context, id format.ID, a *Archived) (n int64, err error) {
	if err := b.load(ctx, id, a); err != nil || a.manifest == nil {
		return 0, err
	}
	for i := range a.manifest.Older {
		n += a.manifest.Older[i].Bytes
	}
	return n + format.BytesOf(a.manifest.Parts), nil
}

// Drops reports whether List would leave out something below a log start. Parts must have been
// called.
func (a *Archived) Drops(start int64) bool {
	m := a.manifest
	return m != nil && (len(m.Older) > 0 && m.Older[0].End <= start || len(m.Parts) > 0 && m.Parts[0].End <= start)
}

// Manifest returns the manifest of what is archived, zero if there is none.
func (a *Archived) Manifest() objects.Nonce { return a.at }

// renew uploads again those of the first pieces whose packs are old, as far as the log has them.
func (b *Batch) renew(ctx context.Context, t *Target, a *Archived, stay int) error {
	for i := range a.pieces[:stay] {
		p := a.pieces[i]
		if b.opt.Again == nil || p.Run.Kind != objects.Pack || !b.opt.Again(&p) {
			continue
		}
		s, err := b.scan(ctx, t.Log, max(p.Base, t.Start), p.End, p.Bytes()+1) // one more, so that it reaches the end
		if err == nil && (s.size > p.Bytes() || p.Base >= t.Start && s.size != p.Bytes()) {
			err = fmt.Errorf("%d bytes from offset %d on are %d now", p.Bytes(), p.Base, s.size)
		}
		if err == nil {
			err = b.piece(ctx, t.ID, a, i, s, p.End)
		}
		if err != nil {
			return fmt.Errorf("again: %w", err)
		}
	}
	return nil
}

// rest uploads [from, t.End), which continues a: as log objects while there is enough for them, and
// then as a piece. It returns the parts of the log objects that a does not have yet. s is what was
// scanned from there on, or nil.
func (b *Batch) rest(ctx context.Context, t *Target, a *Archived, from int64, s *source) (fresh []format.Part, err error) {
	for {
		if s == nil {
			if s, err = b.scan(ctx, t.Log, from, t.End, b.opt.ObjectBytes); err != nil {
				return nil, err
			}
		}
		if s.size < b.opt.ObjectBytes || len(a.pieces) > 0 {
			if s.size > 0 {
				a.pieces = append(a.pieces, format.Part{})
				err = b.piece(ctx, t.ID, a, len(a.pieces)-1, s, t.End)
			}
			return fresh, err
		}
		part, err := b.object(ctx, t.ID, s)
		if err != nil {
			return nil, err
		}
		fresh, from, s = append(fresh, part), s.end, nil
		if b.opt.Stage == nil || len(fresh) < b.opt.StageParts || from >= t.End {
			continue
		}
		if err := b.extend(ctx, t, a, fresh); err != nil {
			return nil, err
		}
		b.opt.Stage(a)
		fresh = nil
	}
}

// extend adds log objects to a, with a manifest unless the log is compacted.
func (b *Batch) extend(ctx context.Context, t *Target, a *Archived, fresh []format.Part) error {
	if a.compacted {
		a.large = append(a.large, fresh...)
		return nil
	}
	return b.list(ctx, t, a, fresh)
}

// object puts a log object.
func (b *Batch) object(ctx context.Context, id format.ID, s *source) (format.Part, error) {
	o, err := format.Build(format.Facts{ID: id, Base: s.base, End: s.end, Aborted: s.aborted, Epochs: s.epochs}, s, s.size)
	if err != nil {
		return format.Part{}, err
	}
	written, err := s.log.Written(s.end)
	if err != nil {
		return format.Part{}, fmt.Errorf("%w: when it was written: %w", ErrLog, err)
	}
	run := o.Run(objects.NewNonce())
	run.Written = max(written.UnixMilli(), 0)
	if err := b.opt.Store.Put(ctx, b.opt.Prefix+run.Name(id), o); err != nil { // the source of o rests
		return format.Part{}, fmt.Errorf("[%d, %d): %w", s.base, s.end, err)
	}
	return format.Whole(run, o.Log.Epoch), nil
}

// piece adds a piece to the pack, or puts it as an object, and it becomes that of a with the index
// i.
func (b *Batch) piece(ctx context.Context, id format.ID, a *Archived, i int, s *source, end int64) (err error) {
	if s.size >= b.opt.PieceBytes {
		s.end = end
		a.pieces[i], err = b.object(ctx, id, s)
		return err
	}
	a.pieces[i] = format.Part{Base: s.base, End: end} // until Close
	batches := make([]byte, s.size)
	if _, err := s.ReadAt(batches, 0); err != nil {
		return err
	}
	if err := b.pack.Add(id, s.base, end, batches); err != nil {
		return err
	}
	if b.waiting = append(b.waiting, slot{a, i, s.firstAborted()}); int64(b.pack.Len()) >= b.opt.PackBytes {
		return b.Close(ctx)
	}
	return nil
}

// list puts the manifest of a with further parts, and without those that are below the log start.
func (b *Batch) list(ctx context.Context, t *Target, a *Archived, fresh []format.Part) error {
	if err := b.load(ctx, t.ID, a); err != nil {
		return err
	}
	m := &format.Manifest{ID: t.ID}
	if a.manifest != nil {
		m.Older = slices.DeleteFunc(slices.Clone(a.manifest.Older), func(o format.Older) bool { return o.End <= t.Start })
		fresh = slices.Concat(a.manifest.Parts, fresh)
	}
	m.Parts = slices.DeleteFunc(fresh, func(p format.Part) bool { return p.End <= t.Start })
	for len(m.Parts) > b.opt.ManifestParts {
		older := m.Parts[:(b.opt.ManifestParts+1)/2]
		base, end := older[0].Base, older[len(older)-1].End
		moved := &format.Manifest{ID: t.ID, Base: base, End: end, Parts: older}
		nonce, err := b.putManifest(ctx, moved)
		if err != nil {
			return err
		}
		m.Older = append(m.Older, format.OlderOf(moved, nonce))
		m.Parts = m.Parts[len(older):]
	}
	switch {
	case len(m.Older) > 0:
		m.Base, m.End = m.Older[0].Base, m.Older[len(m.Older)-1].End
	case len(m.Parts) > 0:
		m.Base = m.Parts[0].Base
	default: // it was cut back to nothing
		a.at, a.end, a.manifest, a.changed = objects.Nonce{}, 0, nil, false
		return nil
	}
	if n := len(m.Parts); n > 0 {
		m.End = m.Parts[n-1].End
	}
	nonce, err := b.putManifest(ctx, m)
	if err != nil {
		return err
	}
	a.at, a.end, a.manifest, a.changed = nonce, m.End, m, false
	return nil
}

func (b *Batch) putManifest(ctx context.Context, m *format.Manifest) (objects.Nonce, error) {
	sealed, err := m.Encode()
	if err != nil {
		return objects.Nonce{}, err
	}
	name := format.Name{Kind: objects.Manifest, Partition: m.ID, Nonce: objects.NewNonce()}
	return name.Nonce, objects.Write(ctx, b.store, b.opt.Prefix+name.String(), objects.Manifest, sealed)
}

// Close puts the pack, if it has pieces. The results of Add are valid then.
func (b *Batch) Close(ctx context.Context) error {
	if len(b.waiting) == 0 {
		return nil
	}
	name := format.Name{Kind: objects.Pack, Nonce: objects.NewNonce()}
	sealed, pieces := b.pack.Seal(name.Nonce)
	if err := objects.Write(ctx, b.store, b.opt.Prefix+name.String(), objects.Pack, sealed); err != nil {
		return err
	}
	for i, at := range b.waiting {
		at.a.pieces[at.i] = pieces[i].Part
		at.a.pieces[at.i].Run.FirstAborted = at.aborted
	}
	b.waiting = nil
	return nil
}
