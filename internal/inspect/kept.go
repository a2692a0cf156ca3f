package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Transaction is a transaction that is open at the end of a log.
type Transaction struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Producer  int64  `json:"producerId"`
	Epoch     int16  `json:"producerEpoch"`
	// First is the offset of its first record.
	First int64 `json:"firstOffset"`
}

// replacesQuarantine reports whether a repair copies the valid frames of the log's quarantine file
// to a new one.
func (l *log) replacesQuarantine() bool {
	return l.quarantineLost || l.dir.newJournal && l.st.QuarantineFile != ""
}

// kept returns the quarantine files whose frames a repair copies to a new one.
func (l *log) kept() (names []string) {
	if l.replacesQuarantine() {
		names = append(names, l.dir.path(l.st.QuarantineFile))
	}
	return append(names, l.recovered...)
}

// eachKept passes to emit all frames that a repair writes to new quarantine files, which the next
// start will replay: those of the old files and, if a new journal begins, those of the journal.
func (d *dir) eachKept(fsys vfs.FS, emit func(*log, *journal.Frame) error) error {
	for _, l := range d.logs {
		l.begin()
		for _, name := range l.kept() {
			if err := l.eachQuarantined(fsys, name, emit); err != nil {
				return err
			}
		}
	}
	if !d.newJournal {
		return nil
	}
	s := salvage{d: d, lost: map[*log][]Loss{}}
	return s.run(emit)
}

// eachQuarantined passes the valid frames of a quarantine file that the log lacks to emit. It notes
// a file with anything else that the log does not get from these files: it must stay.
func (l *log) eachQuarantined(fsys vfs.FS, name string, emit func(*log, *journal.Frame) error) error {
	err := journal.ReadQuarantine(fsys, name, func(f journal.Frame) error {
		if f.Stream != l.st.ID {
			l.held[name] = true
			return nil
		}
		if l.weave.add(&f) != nil {
			l.held[name] = true
		}
		takes, _, err := l.join(&f)
		if err != nil || !takes {
			return err
		}
		return emit(l, &f)
	})
	if errors.Is(err, journal.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		l.held[name] = true
		return nil // the plan announces the loss
	}
	return err
}

// unsure finds the transactions whose markers may be among the records that logs lose in a repair:
// those that are open at the end, and those that end with a later one.
func (d *dir) unsure() error {
	type known struct {
		producers.State
		tornFinder
		lost []Loss
	}
	states, now := map[*log]*known{}, time.Now()
	for _, l := range d.logs {
		if len(l.lost) == 0 || l.st.Deleted || l.unlistable {
			continue
		}
		s := &known{lost: merged(slices.Clone(l.lost))}
		if _, err := s.Decode(l.producers()); err != nil {
			return fmt.Errorf("%s: %w", l.st, err)
		}
		if err := l.findTorn(&s.tornFinder, s.lost); err != nil {
			return fmt.Errorf("%s: %w", l.st, err)
		}
		states[l] = s
	}
	if len(states) == 0 {
		return nil
	}
	add := func(l *log, f *journal.Frame) error {
		s := states[l]
		for p := f.Payload; s != nil && len(p) > 0; {
			b, rest, err := record.Next(p)
			if err != nil {
				return fmt.Errorf("frame %d of %s: %w", f.LSN, l.st, err)
			}
			s.Add(b, now)
			s.add(l, b, s.lost)
			p = rest
		}
		return d.ctx.Err()
	}
	saved := make([]log, len(d.logs))
	for i, l := range d.logs {
		saved[i] = *l
	}
	defer func() { // what verify has found out must stay
		for i, l := range d.logs {
			l.follow, l.end, l.seen = saved[i].follow, saved[i].end, saved[i].seen
		}
	}()
	if err := d.eachKept(d.fs, add); err != nil {
		return err
	}
	if err := d.eachCounted(add); err != nil {
		return err
	}
	for l, s := range states {
		l.findAborts(&s.tornFinder)
		l.torn = s.torn
		for _, p := range s.OpenTransactions() {
			l.open = append(l.open, Transaction{Topic: l.st.Topic, Partition: l.st.ID.Partition, Producer: p.ID, Epoch: p.Epoch,
				First: p.First})
		}
	}
	return nil
}

// eachCounted passes the frames that the next start will replay from the journal itself to emit.
func (d *dir) eachCounted(emit func(*log, *journal.Frame) error) error {
	if d.newJournal || d.clean {
		return nil
	}
	_, err := journal.ScanDir(d.fs, d.location.JournalPath(), d.state.Journal, d.state.Redo, func(f journal.Frame) error {
		l := d.byID[f.Stream]
		if l == nil || !l.journalled() || !l.follow.Counts(&f) || f.Carried && f.NextEnd <= l.follow.End() || l.follow.Take(&f) != nil {
			return d.ctx.Err()
		}
		return emit(l, &f)
	})
	if access(err) {
		return fmt.Errorf("journal: %w", err)
	}
	return nil // the reading of the journal has reported any other error
}

// producers returns the encoded producer state that a repair puts into the checkpoint.
func (l *log) producers() []byte {
	t := l.tailBeyond
	switch {
	case t != nil && l.reset:
		var s producers.State
		_, _ = s.Decode(t.producers) // findTail has encoded it
		s.Complete(&l.rebuilt, t.end)
		return s.Append(nil, t.end)
	case t != nil:
		return t.producers
	case l.reset:
		return l.rebuilt.Append(nil, l.st.Offset)
	}
	return l.st.Producers
}
