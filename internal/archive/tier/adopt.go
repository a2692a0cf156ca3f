package tier

import (
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/storage"
)

// The local log may begin above the end of what the metadata name, for one of two reasons:
//
//   - The metadata were recovered from an older state: the store has more than they name. Its
//     manifests of the partition are listed, and the one that reaches furthest back is named, of
//     those that the log continues. Also manifests of snapshots are such copies. If there is none,
//     the operator decides: chronikctl topic trim deletes the records below the local log. The same
//     applies if they name objects that a collection has deleted since, or records that the log
//     does not continue.
//   - Elections have lost the records between. Nothing can bring them back, and the log begins
//     where the local one does.

// bridge finds what the store has of the records below the local log, if that does not continue
// what the metadata name, or the store has lost it.
func (s *step) bridge(ends storage.Ends) error {
	if s.was.Generation == metadata.ID(s.img.Generation()) {
		return s.restart(s.was.Start, ends.LogStart)
	}
	if start := s.start(ends); start >= ends.LogStart { // the log has all records
		none := s.none(start)
		return s.alter(&none)
	}
	next, err := s.adopt(ends, s.was.Start)
	if err != nil {
		return err
	}
	if next == nil && s.was.Empty() { // nothing says that there ever was a copy
		none := s.none(ends.LogStart)
		return s.alter(&none)
	}
	if next == nil {
		return fmt.Errorf("metadata were recovered from an older state: they name records of %d to %d in the object store, the log on "+
			"this disk begins at %d, and the store has no whole list of those below; copy the objects back to the store, or delete all "+
			"records below %d: chronikctl topic trim %s --partition %d --before %d",
			s.was.Start, s.was.End, ends.LogStart, ends.LogStart, s.p.Log().Topic(), s.tp.Partition, ends.LogStart)
	}
	s.c.opt.Logger.Warn("found records in the object store that the metadata did not name", zap.Stringer("partition", s.p),
		zap.Int64("from", next.Start), zap.Int64("to", next.End))
	return s.alter(next)
}

// first names the copy of a log for the first time: none, unless the log is older than the
// metadata, which were recovered.
func (s *step) first(ends storage.Ends) error {
	next := s.none(ends.LogStart)
	if ends.LogStart > 0 && s.p.RiseSince(s.p.Log().EpochAt(ends.LogStart)) > 0 {
		found, err := s.adopt(ends, 0)
		if err != nil {
			return err
		}
		if found != nil {
			next = *found
		}
	}
	return s.alter(&next)
}

// adopt returns the best copy that the store has of a log that begins at an offset or above; nil:
// none.
func (s *step) adopt(ends storage.Ends, start int64) (best *metadata.Tier, err error) {
	store, prefix := s.up.Store, s.up.Prefix
	var names []format.Name
	if err := store.List(s.ctx, prefix+format.Folder(objects.Manifest, s.id()), func(in objects.Info) error {
		if n, err := format.Parse(strings.TrimPrefix(in.Name, prefix)); err == nil {
			names = append(names, n)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list the manifests of %s: %w", s.p, err)
	}
	for _, n := range names {
		m, err := format.ReadManifest(s.ctx, store, prefix, s.id(), n.Nonce)
		if errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		from := max(m.Base, start)
		if best != nil && (from > best.Start || from == best.Start && m.End <= best.End) {
			continue
		}
		next, err := s.candidate(m, n.Nonce, ends, from)
		switch {
		case format.Unusable(err): // one of a snapshot that was deleted
		case err != nil:
			return nil, err
		case next != nil && (best == nil || next.Start < best.Start || next.Start == best.Start && next.End > best.End):
			best = next
		}
	}
	return best, nil
}

// candidate returns what a manifest has from start on that the log continues, nil if there is
// nothing.
func (s *step) candidate(m *format.Manifest, at objects.Nonce, ends storage.Ends, start int64) (*metadata.Tier, error) {
	if m.End < ends.LogStart || m.Base > ends.LogStart {
		return nil, nil
	}
	a := s.b.ArchivedIn(&format.Partition{ID: s.id(), State: format.Kept, Start: start, End: m.End, Manifest: at, Archived: m.End})
	parts, err := s.b.Parts(s.ctx, s.id(), a)
	if err != nil {
		return nil, err
	}
	known, err := format.Epochs(s.ctx, s.up.Store, s.up.Prefix, s.id(), parts)
	if err != nil {
		return nil, err
	}
	has, err := s.present(parts, 0) // all: another list may be whole
	if err != nil {
		return nil, err
	}
	known = s.p.KnownWith(known)
	t := &upload.Target{ID: s.id(), Log: s.hold(), Start: start, End: min(ends.LogEnd, has)}
	if a, err = s.b.Agree(s.ctx, t, &known, a); err != nil || a.End() < ends.LogStart || a.End() <= start {
		return nil, err
	}
	if a.End() < m.End {
		if a, err = s.b.List(s.ctx, t, a); err != nil {
			return nil, err
		}
	}
	next, err := s.withEpochs(a, start, &known)
	return &next, err
}
