package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
)

// readQuarantine reads the quarantine file that the checkpoint names for the log.
func (l *log) readQuarantine() error {
	if l.st.QuarantineFile == "" {
		return nil
	}
	name, gap := l.dir.path(l.st.QuarantineFile), false
	err := journal.ReadQuarantine(l.dir.fs, name, func(fr journal.Frame) error {
		if fr.NextEnd <= l.follow.End() {
			return nil // an unfinished repair reached this point
		}
		if err := l.follow.Take(&fr); err != nil {
			gap = true
			return err
		}
		l.frames++
		l.dir.opt.Progress(int64(len(fr.Payload)))
		return l.dir.ctx.Err()
	})
	l.end = max(l.end, l.follow.End())
	kind := FramesGap
	switch {
	case err == nil:
		return nil
	case access(err):
		return fmt.Errorf("%s: %w", l.st, err)
	case errors.Is(err, fs.ErrNotExist):
		kind, err = FramesKeptMissing, errors.New("the checkpoint names the file, which is missing")
	case errors.Is(err, journal.ErrDamaged):
		kind = FramesKeptDamaged
	case !gap:
		return l.unreadable(name, err)
	}
	l.quarantineLost = true
	f := l.dir.find(kind, l, name, -1, "%v", err)
	l.lose(f, l.follow.End(), math.MaxInt64)
	l.quarantineLoss = []Loss{l.loss(l.follow.End(), Unknown)}
	f.Lost = l.quarantineLoss
	l.lost[len(l.lost)-1].To = Unknown
	return nil
}

var errEmpty = errors.New("it is empty")

// noteQuarantine reports a quarantine file that no log replays. l is set if the file is in a
// partition's directory.
func (d *dir) noteQuarantine(name string, l *log) error {
	from, to, n := int64(math.MaxInt64), int64(0), 0
	owner := l
	err := journal.ReadQuarantine(d.fs, name, func(fr journal.Frame) error {
		from, to, n = min(from, fr.PrevEnd), max(to, fr.NextEnd), n+1
		if owner == nil {
			owner = d.byID[fr.Stream]
		}
		return d.ctx.Err()
	})
	switch {
	case access(err):
		return fmt.Errorf("log directory: %w", err)
	case n == 0 && (err == nil || errors.Is(err, journal.ErrDamaged)):
		d.find(Leftover, l, name, -1, "a quarantine file without a valid frame: %v", cmp.Or(err, errEmpty)).Start = "ignores it"
		return nil
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		d.find(Unreadable, l, name, -1, "%v", err).Effect = Aside
		return nil
	}
	f := d.find(FramesKept, owner, name, -1, "%d frames with offsets %d to %d", n, from, to-1)
	if owner != nil && owner.st.Offline != "" {
		owner.replays(name, from)
		return nil
	}
	f.Repair, f.Restore = "", moveAway
	switch {
	case owner == nil:
		d.orphans = append(d.orphans, orphan{d, len(d.findings) - 1, name, from, to})
		f.Restore = "it may be the last copy of these records: give the data directory with its metadata, which show whose they are"
	case to > owner.end && l == nil:
		f.Restore = fmt.Sprintf("the log ends at offset %d, so that this may be the last copy of what follows; %s", owner.end, moveAway)
		owner.lose(f, owner.end, to)
	}
	return nil
}

// from returns the batches of a payload that reach offset or beyond.
func from(payload []byte, offset int64) []byte {
	for rest := payload; len(rest) > 0; {
		b, next, err := record.Next(rest)
		if err != nil {
			return payload
		}
		if b.LastOffset() >= offset {
			return rest
		}
		rest = next
	}
	return nil
}
