package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
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

// noteQuarantine reports a quarantine file that no log replays. l is set if the file is in a
// partition's directory.
func (d *dir) noteQuarantine(name string, l *log) error {
	from, to, n := int64(math.MaxInt64), int64(0), 0
	owner, id := l, storage.ID{}
	err := journal.ReadQuarantine(d.fs, name, func(fr journal.Frame) error {
		from, to, n, id = min(from, fr.PrevEnd), max(to, fr.NextEnd), n+1, fr.Stream
		if owner == nil {
			owner = d.byID[fr.Stream]
		}
		return d.ctx.Err()
	})
	switch {
	case access(err):
		return fmt.Errorf("log directory: %w", err)
	case errors.Is(err, journal.ErrDamaged) && n == 0:
		d.find(Leftover, l, name, -1, "a quarantine file without a valid frame: %v", err).Start = "ignores it"
		return nil
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		d.find(Unreadable, l, name, -1, "%v", err).Effect = Aside
		return nil
	}
	f := d.find(FramesKept, owner, name, -1, "%d frames with offsets %d to %d", n, from, to-1)
	if owner != nil && owner.st.Offline != "" {
		owner.recovered = append(owner.recovered, name)
		return nil
	}
	f.Repair, f.Restore = "", moveAway
	switch {
	case owner == nil:
		d.orphans = append(d.orphans, orphan{len(d.findings) - 1, id, name, from, to})
		f.Restore = "it may be the last copy of these records: give the data directory with its metadata, which show whose they are"
	case to > owner.end && l == nil:
		f.Restore = fmt.Sprintf("the log ends at offset %d, so that this may be the last copy of what follows; %s", owner.end, moveAway)
		owner.lose(f, owner.end, to)
	}
	return nil
}

// orphan is a file of quarantined frames of a log that the checkpoint does not list: the directory
// of the log, and the checkpoint that listed it, were removed while the broker ran.
type orphan struct {
	finding  int // in dir.findings
	id       storage.ID
	name     string
	from, to int64
}

// former returns the directory in which the metadata place the log of the broker that has this one.
func (d *dir) former(img *metadata.Image, id storage.ID) (dir [16]byte) {
	for _, b := range img.Brokers() {
		if _, has := b.Dir(d.state.Dir); has {
			dir, _ = img.Placement(b.ID, metadata.TopicPartition{Topic: id.Topic, Partition: id.Partition})
		}
	}
	return dir
}

// adopt finds the partitions of orphans in the metadata. A repair makes their logs again from the
// frames. Until then a broker has no log of them.
func (d *dir) adopt(img *metadata.Image) {
	if d.state == nil || d.newJournal {
		return
	}
	for _, x := range d.orphans {
		f := &d.findings[x.finding]
		t := img.TopicByID(x.id.Topic)
		if t == nil || t.Partitions.At(x.id.Partition) == nil {
			f.Restore = "no topic of the metadata has these records; " + moveAway
			continue
		}
		f.Topic, f.Partition = t.Name, x.id.Partition
		if p := t.Partitions.At(x.id.Partition); p.Leader >= 0 && len(p.Replicas) > 1 {
			f.Restore = "another broker leads the partition, and this one copies it; if that has all records, " + moveAway
			continue
		}
		l := d.byID[x.id]
		if l == nil {
			st := &checkpoint.Log{ID: x.id, Topic: t.Name, Start: x.from, High: -1, HighEpoch: -1, Lossy: true, Partial: true,
				Offline: "its directory was lost", Point: checkpoint.Point{Offset: x.from}}
			st.Producers = new(producers.State).Append(nil, x.from)
			l = &log{dir: d, st: st, former: d.former(img, x.id), path: d.path(st.String()),
				follow: storage.Follow(st), end: x.from, absent: true, adopted: true}
			d.logs, d.byID[x.id] = append(d.logs, l), l
			d.state.Logs = append(d.state.Logs, *st)
		}
		l.recovered, l.end = append(l.recovered, x.name), max(l.end, x.to)
		f.Effect, f.Start = Offline, "has no log of the partition, and keeps the file"
		f.Repair, f.Restore = "makes a log from the frames", ""
		f.Lost = []Loss{l.loss(x.from, x.to)}
		l.lost = append(l.lost, f.Lost...)
	}
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
