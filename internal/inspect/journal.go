package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// journal reads the journal as recovery does, reports its damage, and determines where the logs
// end. If the broker would refuse to start, the logs end where a repair can bring them.
func (d *dir) journal() error {
	jpath := d.location.JournalPath()
	infos, err := journal.Files(d.fs, jpath, d.state.Redo.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if access(err) {
			return fmt.Errorf("journal: %w", err)
		}
		d.find(Unreadable, nil, jpath, -1, "%v", err).Effect = Refuses
		return nil
	}
	d.files = infos
	d.out.JournalFiles, d.out.Checkpoint = len(infos), d.state.Seq
	d.out.CheckpointAt = modified(d.fs, d.path(storage.CheckpointDir))
	d.out.RedoFile, d.out.RedoLSN = d.state.Redo.File, uint64(d.state.Redo.LSN)
	d.out.NextLSN = d.out.RedoLSN
	if d.headers(infos) || d.clean {
		return nil
	}
	if !d.newJournal {
		if err := d.chain(); err != nil {
			return err
		}
	}
	if d.newJournal {
		return d.salvageable()
	}
	return nil
}

// headers checks the headers of the files. It reports whether a newer version wrote the journal.
func (d *dir) headers(infos []journal.FileInfo) (newer bool) {
	own := uint64(0)
	defer func() {
		// A foreign file in the first or last position may have replaced one of ours.
		d.endUnknown = d.endUnknown || len(d.foreign) > 0 && (own < infos[len(infos)-1].Seq || infos[0].ID != d.state.Journal)
	}()
	for _, f := range infos {
		name := path.Join(d.location.JournalPath(), f.Name)
		if f.Valid && f.ID == d.state.Journal {
			own = f.Seq
		}
		switch {
		case f.Newer != nil:
			newer = true
			d.find(FormatNewer, nil, name, 0, "%v", f.Newer)
		case f.Valid && f.ID != d.state.Journal && !d.halfReplaced:
			d.foreign, d.newJournal = append(d.foreign, name), true
			d.find(JournalFileForeign, nil, name, 0, "it belongs to journal %x, but this one is %x", f.ID, d.state.Journal)
		case f.Valid && f.Copies == 1:
			d.find(JournalHeaderCopy, nil, name, 0, "one of the two copies of the header is damaged")
		}
	}
	return newer
}

// chain reads the frames as recovery does.
func (d *dir) chain() error {
	jpath, unknown := d.location.JournalPath(), map[storage.ID]int{}
	ext, err := journal.ScanDir(d.fs, jpath, d.state.Journal, d.state.Redo, func(fr journal.Frame) error {
		d.out.Frames++
		d.opt.Progress(int64(len(fr.Payload)))
		l := d.byID[fr.Stream]
		switch {
		case l == nil:
			unknown[fr.Stream]++
		case l.st.Deleted || l.broken != nil || !l.follow.Counts(&fr):
		default:
			if l.broken = l.follow.Take(&fr); l.broken != nil {
				d.gap(l, &fr)
				return d.ctx.Err()
			}
			l.end = l.follow.End()
			l.frames++
		}
		return d.ctx.Err()
	})
	d.out.NextLSN, d.above = uint64(ext.Next), ext.Above
	if access(err) {
		return fmt.Errorf("journal: %w", err)
	}
	var damage *journal.Damage
	switch {
	case errors.As(err, &damage):
		if err := d.damaged(damage); err != nil {
			return err
		}
	case err != nil:
		d.find(Unreadable, nil, jpath, -1, "%v", err).Effect = Refuses
		return nil
	case ext.Next <= d.state.Durable:
		d.newJournal, d.endUnknown = true, true
		d.find(JournalOlder, nil, jpath, -1, "it ends at LSN %d, but the checkpoint has LSN %d as durable", ext.Next-1, d.state.Durable)
	default:
		if err := d.findTornWrite(ext); err != nil {
			return err
		}
	}
	for id, n := range unknown {
		d.find(FramesUnknown, nil, jpath, -1, "%d frames of partition %d of topic %x", n, id.Partition, id.Topic)
	}
	return nil
}

// gap reports frames that do not continue a log.
func (d *dir) gap(l *log, fr *journal.Frame) {
	f := d.find(FramesGap, l, d.location.JournalPath(), -1, "%v", l.broken)
	if fr.PrevEnd > l.follow.End() {
		f.Lost = []Loss{l.loss(l.follow.End(), fr.PrevEnd)}
	}
	d.newJournal = true
}

// damaged reports damage because of which the broker refuses to start.
func (d *dir) damaged(x *journal.Damage) error {
	d.newJournal = true
	file, kind := path.Join(d.location.JournalPath(), x.File), JournalFrameDamaged
	switch x.Kind {
	case journal.MissingFile, journal.BeginsLate:
		kind = JournalFileMissing
		if d.out.JournalFiles == 0 {
			kind, file = JournalMissing, d.location.JournalPath()
		}
	case journal.NoHeader:
		kind = JournalHeaderLost
	case journal.Foreign:
		return nil // headers has reported it
	case journal.InvalidFrame:
		var err error
		if kind, file, err = d.invalid(x, file); err != nil {
			return err
		}
	}
	pos := int64(-1)
	if kind == JournalFrameDamaged {
		pos = x.Pos
	}
	d.find(kind, nil, file, pos, "%v", x)
	return nil
}

// invalid determines the cause of an invalid frame: the next file is missing or has lost its
// header, or a frame is damaged.
func (d *dir) invalid(x *journal.Damage, file string) (Kind, string, error) {
	at := slices.IndexFunc(d.files, func(f journal.FileInfo) bool { return f.Name == x.File })
	if at >= 0 && !d.files[at].Valid {
		return JournalHeaderLost, file, nil
	}
	if at < 1 || d.files[at].First <= x.LSN {
		return JournalFrameDamaged, file, nil // the missing frame belongs in the file that proves its existence
	}
	// The file begins above the missing frame, which therefore belongs in an earlier file.
	last := d.files[at-1]
	before := path.Join(d.location.JournalPath(), last.Name)
	if !last.Valid {
		return JournalHeaderLost, before, nil
	}
	w, err := journal.Walk(d.fs, d.location.JournalPath(), last.Seq, func(journal.FrameAt) error { return nil })
	if err != nil {
		return "", "", fmt.Errorf("journal: %w", err)
	}
	if last.First <= x.LSN && (w.Tail != nil || last.Seq+1 == d.files[at].Seq) {
		x.Pos = w.End
		return JournalFrameDamaged, before, nil
	}
	return JournalFileMissing, file, nil
}

// findTornWrite reports a torn write after the end at which recovery stops reading.
func (d *dir) findTornWrite(ext journal.Extent) error {
	for _, in := range d.files {
		torn := false
		w, err := journal.Walk(d.fs, d.location.JournalPath(), in.Seq, func(f journal.FrameAt) error {
			torn = torn || f.LSN >= ext.Next
			return d.ctx.Err()
		})
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if torn || w.Tail != nil && w.Tail.LSN == ext.Next {
			d.find(JournalTorn, nil, path.Join(d.location.JournalPath(), in.Name), w.End,
				"the last write is incomplete; the journal ends before LSN %d", ext.Next)
		}
	}
	return nil
}

// salvageable determines where a repair can bring the logs, and which records are lost in any case.
func (d *dir) salvageable() error {
	for _, l := range d.logs {
		if err := l.findTail(); err != nil {
			return err
		}
		l.broken, l.frames, l.seen = nil, 0, 0
		l.begin()
	}
	s := salvage{d: d, lost: map[*log][]Loss{}}
	if err := s.run(func(l *log, _ *journal.Frame) error {
		l.frames++
		l.end = l.follow.End()
		return nil
	}); err != nil {
		return err
	}
	d.above = max(d.above, s.above)
	for _, l := range d.logs {
		losses := s.lost[l]
		if l.journalled() && (d.endUnknown || s.unsure || !s.any || s.gap > 0 && l.seen <= s.gap) {
			losses = append(losses, l.loss(l.end, Unknown))
		}
		l.journalLoss = losses
		l.lost = append(l.lost, losses...)
	}
	d.spread()
	return nil
}

// spread assigns the losses of the journal to the first finding that explains them.
func (d *dir) spread() {
	for i := range d.findings {
		f := &d.findings[i]
		if f.Topic != "" || !slices.Contains([]Kind{JournalMissing, JournalFileMissing, JournalFileForeign, JournalHeaderLost,
			JournalFrameDamaged, JournalOlder, JournalHalfReplaced}, f.Kind) {
			continue
		}
		for _, l := range d.logs {
			f.Lost = append(f.Lost, merged(slices.Clone(l.lost))...)
		}
		return
	}
}

// salvage reads all valid frames that are still needed, regardless of damage between them.
type salvage struct {
	d      *dir
	next   journal.LSN // the expected LSN
	above  journal.LSN
	lost   map[*log][]Loss
	any    bool        // at least one frame was found
	unsure bool        // frames are missing at the end, and nothing shows of which logs
	gap    journal.LSN // frames up to it are missing, of unknown logs; a later frame of a log shows what that log lost
}

// run calls emit for every frame that a log takes, cut to the part that the log lacks.
func (s *salvage) run(emit func(*log, *journal.Frame) error) error {
	d := s.d
	s.next = d.state.Redo.LSN
	for _, in := range d.files {
		if in.Newer != nil || in.Valid && in.ID != d.state.Journal {
			continue
		}
		w, err := journal.Walk(d.fs, d.location.JournalPath(), in.Seq, func(f journal.FrameAt) error {
			if s.above = max(s.above, f.LSN+1); f.LSN < s.next {
				return d.ctx.Err()
			}
			s.missing(f.LSN, f.Before)
			s.next, s.any = f.LSN+1, true
			if f.Skips() {
				return d.ctx.Err()
			}
			if l := d.byID[f.Stream]; l != nil {
				l.seen = f.LSN
			}
			if err := s.take(f.Frame, emit); err != nil {
				return err
			}
			return d.ctx.Err()
		})
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if w.Tail != nil && w.Tail.LSN == s.next && s.claimed(w.Tail) {
			s.next++ // its loss is recorded; it may never have been synced
		}
	}
	if s.next <= d.state.Durable {
		s.unsure = true
	}
	return nil
}

// missing records that the frames up to an LSN are missing.
func (s *salvage) missing(lsn journal.LSN, claim *journal.Frame) {
	if lsn == s.next || lsn == s.next+1 && claim != nil && claim.LSN == s.next && s.claimed(claim) {
		return
	}
	s.gap = lsn - 1
}

// claimed accepts the header of a frame with a wrong checksum if it names the offsets that the log
// needs next. The frame's records are lost.
func (s *salvage) claimed(f *journal.Frame) bool {
	if f.Skips() {
		return true // it holds nothing, and the next frame was found without it
	}
	l := s.d.byID[f.Stream]
	if l == nil || l.st.Deleted || !l.follow.Counts(f) {
		return l != nil // of a deleted log, or in segments: nothing is lost
	}
	if f.PrevEnd != l.follow.End() || f.NextEnd <= f.PrevEnd || f.NextEnd-f.PrevEnd > math.MaxInt32 {
		return false
	}
	if !f.Carried {
		s.lost[l] = append(s.lost[l], l.loss(f.PrevEnd, f.NextEnd))
	}
	return true
}

// take passes the part of a frame that its log lacks to emit.
func (s *salvage) take(f journal.Frame, emit func(*log, *journal.Frame) error) error {
	l := s.d.byID[f.Stream]
	if l == nil || l.st.Deleted || !l.follow.Counts(&f) {
		return nil
	}
	end, had := l.follow.End(), f.PrevEnd
	takes, lost, err := l.join(&f)
	if err != nil {
		return err
	}
	if had <= end { // it also holds records that seemed to be lost
		s.lost[l] = slices.DeleteFunc(s.lost[l], func(x Loss) bool { return x.From >= end && x.To <= f.NextEnd })
	}
	s.lost[l] = append(s.lost[l], lost...)
	if !takes {
		return nil
	}
	return emit(l, &f)
}

// join makes a frame continue the log. It removes the part that the log has. If offsets are missing
// before the frame, the frame begins with a hole, which is legal. takes reports whether any part of
// the frame is left.
func (l *log) join(f *journal.Frame) (takes bool, lost []Loss, err error) {
	end := l.follow.End()
	switch {
	case f.NextEnd <= end || f.Type != journal.Batches && f.Type != journal.Gap || f.NextEnd <= f.PrevEnd:
		return false, nil, nil
	case f.PrevEnd < end:
		f.Payload = from(f.Payload, end)
	case f.PrevEnd > end:
		lost = []Loss{l.loss(end, f.PrevEnd)}
	}
	f.PrevEnd = end
	if err := l.follow.Take(f); err != nil {
		return false, nil, fmt.Errorf("frames of %s: %w", l.st, err)
	}
	return true, lost, nil
}
