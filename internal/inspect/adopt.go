package inspect

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// orphan is a file of quarantined frames of a log that the checkpoint does not list: the directory
// of the log, and the checkpoint that listed it, were removed while the broker ran.
type orphan struct {
	dir      *dir
	finding  int // in dir.findings
	name     string
	from, to int64
}

// Parts of the remedies for files that a repair leaves alone.
const (
	automatic = "the frames cannot be put together automatically: "
	keepFile  = "keep the file, because it may be the last copy of these records"
)

// adopt finds the partitions of orphans in the metadata. A repair makes their logs again from the
// frames, if that is certain to bring back all of them and to replace nothing. Until then a broker
// has no log of them.
func (r *Inspection) adopt(img *metadata.Image) {
	files, order := map[storage.ID][]orphan{}, []storage.ID{}
	for _, d := range r.dirs {
		for _, x := range d.orphans {
			for _, id := range x.streams() {
				if files[id] == nil {
					order = append(order, id)
				}
				files[id] = append(files[id], x)
			}
		}
		d.orphans = nil
	}
	for _, id := range order {
		t := img.TopicByID(id.Topic)
		var p *metadata.Partition
		if t != nil {
			p = t.Partitions.At(id.Partition)
		}
		if p == nil {
			for _, x := range files[id] {
				x.dir.findings[x.finding].Restore = "no topic of the metadata has these records; " + moveAway
			}
			continue
		}
		slices.SortStableFunc(files[id], func(a, b orphan) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		restore := r.permits(img, t.Name, id, p, files[id])
		if restore == "" {
			if err := joined(id, files[id]); err != nil {
				restore = automatic + err.Error() + "; " + keepFile
			}
		}
		for _, x := range files[id] {
			f := &x.dir.findings[x.finding]
			f.Topic, f.Partition, f.Restore = t.Name, id.Partition, restore
		}
		if restore == "" {
			adoptLog(img, t.Name, id, files[id])
		}
	}
}

// streams returns the logs whose frames the file has.
func (x *orphan) streams() (ids []storage.ID) {
	_ = journal.ReadQuarantine(x.dir.fs, x.name, func(f journal.Frame) error {
		if !slices.Contains(ids, f.Stream) {
			ids = append(ids, f.Stream)
		}
		return nil
	})
	return ids
}

// permits returns why no log may be made from frames, and what to do instead; "" if it may. The log
// must be this broker's, no other broker may lead it, and no other log of it may be here: a start
// would choose between them.
func (r *Inspection) permits(img *metadata.Image, topic string, id storage.ID, p *metadata.Partition, files []orphan) string {
	cannot := func(format string, args ...any) string {
		return automatic + fmt.Sprintf(format, args...) + "; " + keepFile
	}
	at := files[0].dir
	var self metadata.Broker
	known := false
	for _, b := range img.Brokers() {
		if at.state == nil {
			break
		}
		if _, has := b.Dir(at.state.Dir); has {
			self, known = b, true
		}
	}
	switch {
	case at.state == nil || at.newJournal:
		return cannot("%s must be repaired before", at.location.Path)
	case !known:
		return cannot("the metadata do not show which broker has %s", at.location.Path)
	case !p.HasReplica(self.ID):
		return cannot("the metadata do not assign the partition to this broker")
	case p.Leader >= 0 && p.Leader != self.ID && len(p.Replicas) > 1:
		return "another broker leads the partition, and this one copies it; until that is known to have all of these records, " + keepFile
	}
	given := map[[16]byte]bool{}
	for _, d := range r.dirs {
		if d.state == nil {
			return cannot("%s, which may have a log of the partition, must be repaired before", d.location.Path)
		}
		given[d.state.Dir] = true
		infos, err := d.fs.List(d.location.Path)
		if err != nil {
			return cannot("%v", err)
		}
		for _, in := range infos {
			if in.Dir && storage.IsDirectoryOf(in.Name, topic, id) && d.hasRecords(in.Name) {
				return cannot("%s may have records of the partition", d.path(in.Name))
			}
		}
		if d.byID[id] != nil {
			return cannot("%s has a log of the partition", d.location.Path)
		}
	}
	for _, b := range self.Dirs { // an offline one is lost, or it is among those that were given
		if !b.Offline && !given[b.ID] {
			return cannot("the broker has another log directory, which may have a log of the partition; give all of them")
		}
	}
	for _, x := range files {
		if x.dir != at {
			return cannot("%s has others of the partition", x.dir.location.Path)
		}
	}
	return ""
}

// hasRecords reports whether a directory may have records. A repair that was interrupted has left
// one with nothing but its id and where it was before.
func (d *dir) hasRecords(name string) bool {
	infos, err := d.fs.List(d.path(name))
	return err != nil || slices.ContainsFunc(infos, func(in vfs.Info) bool {
		return in.Name != storage.PartitionFile && in.Name != storage.MoveFile
	})
}

// joined returns why the frames of files, in the order of their offsets, are not one stretch of the
// log.
func joined(id storage.ID, files []orphan) error {
	w := weave{end: files[0].from, epoch: -1}
	for _, x := range files {
		if of, ok := storage.QuarantinedFrom(path.Base(x.name)); !ok || of != id {
			return fmt.Errorf("%s is not named as one of the log's, and may have what was undone", x.name)
		}
		err := journal.ReadQuarantine(x.dir.fs, x.name, func(f journal.Frame) error {
			switch {
			case f.Stream != id:
				return errors.New("a file has frames of several partitions")
			case f.PrevEnd > w.end:
				return fmt.Errorf("the offsets %d to %d are missing between them", w.end, f.PrevEnd-1)
			}
			if err := w.add(&f); err != nil {
				return err
			}
			return x.dir.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// adoptLog adds a log that a repair makes from the frames of files.
func adoptLog(img *metadata.Image, topic string, id storage.ID, files []orphan) {
	d, first := files[0].dir, files[0].from
	st := &checkpoint.Log{ID: id, Topic: topic, Start: first, High: -1, HighEpoch: -1, Lossy: true, Partial: true,
		Offline: "its directory was lost", Point: checkpoint.Point{Offset: first}}
	st.Producers = new(producers.State).Append(nil, first)
	l := &log{dir: d, st: st, former: d.former(img, id), path: d.path(st.String()),
		follow: storage.Follow(st), end: first, absent: true, adopted: true}
	d.logs, d.byID[id] = append(d.logs, l), l
	d.state.Logs = append(d.state.Logs, *st)
	for _, x := range files {
		f := &d.findings[x.finding]
		l.replays(x.name, x.from)
		l.end = max(l.end, x.to)
		f.Effect, f.Start = Offline, "has no log of the partition, and keeps the file"
		f.Repair = "makes a log from the frames"
		f.Lost = []Loss{l.loss(x.from, x.to)}
		l.lost = append(l.lost, f.Lost...)
	}
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

// replays adds a quarantine file that a repair has the log replay. The names of such files end in
// numbers, and do not sort as these.
func (l *log) replays(name string, first int64) {
	i, _ := slices.BinarySearch(l.firsts, first+1)
	l.recovered, l.firsts = slices.Insert(l.recovered, i, name), slices.Insert(l.firsts, i, first)
}

// weave follows the batches and gaps that a log gets from frames, so that frames of the same
// offsets differ from copies.
type weave struct {
	end   int64
	epoch int32
	at    map[int64]piece
}

// piece is a batch or a gap that begins at an offset.
type piece struct {
	next  int64
	epoch int32
	sum   [sha256.Size]byte // zero: a gap
}

// add adds a frame. It returns an error if the frame does not continue the log and is no copy of
// what it has.
func (w *weave) add(f *journal.Frame) error {
	add := func(offset int64, p piece) error {
		switch {
		case offset < w.end && w.at[offset] != p:
			return fmt.Errorf("two frames have different records at offset %d", offset)
		case offset < w.end:
			return nil
		case p.epoch < w.epoch || p.next <= offset:
			return fmt.Errorf("the records at offset %d are of an earlier leader than those before", offset)
		}
		if w.at == nil {
			w.at = map[int64]piece{}
		}
		w.at[offset], w.end, w.epoch = p, p.next, p.epoch
		return nil
	}
	switch f.Type {
	case journal.Gap:
		return add(f.PrevEnd, piece{next: f.NextEnd, epoch: f.Epoch})
	case journal.Batches:
	default:
		return fmt.Errorf("frame %d has no records", f.LSN)
	}
	for rest := f.Payload; len(rest) > 0; {
		b, next, err := record.Next(rest)
		if err != nil {
			return fmt.Errorf("frame %d: %w", f.LSN, err)
		}
		if err := add(b.BaseOffset(), piece{b.LastOffset() + 1, b.LeaderEpoch(), sha256.Sum256(b)}); err != nil {
			return err
		}
		rest = next
	}
	w.end = max(w.end, f.NextEnd)
	return nil
}
