package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/segment"
)

// log is the look at one log.
type log struct {
	dir  *dir
	st   *checkpoint.Log
	path string

	follow *storage.Follower
	behind *tail // used where the journal is not whole
	broken error // why the journal's frames don't continue it
	frames int
	seen   journal.LSN // of the last frame that salvage came by
	end    int64       // where a start or a repair ends it

	files   map[int64]int64 // segments that are there, by base
	waiting bool            // the one of the swap is, under its other name
	batches int
	bytes   int64
	lost    []Loss

	// What a repair does.
	absent      bool             // the directory is to be made
	partFile    bool             // partition.metadata is to be written
	gone        map[int64]bool   // listed segments that are not there
	cut         map[int64]int64  // listed segments that end before what is listed
	ends        map[int64]Loss   // of those that are gone or cut
	flaws       map[int64][]flaw // listed segments that are to be written anew
	recovered   []string         // files with frames that it can take back
	reset       bool             // the state of producers is to be forgotten
	kept        bool             // Aside is to be left out or written anew
	unseen      bool             // its directory could not be read: nothing is done to it
	asideLoss   []Loss
	journalLoss []Loss
}

// flaw is what a repair leaves out of a segment, or writes otherwise.
type flaw struct {
	segment.Flaw
	epoch int32 // to be written, where renumber is not set and nothing is left out; -1: none
}

func (l *log) journalled() bool { return !l.st.Deleted && l.st.Offline == "" }

func (l *log) loss(from, to int64) Loss {
	return Loss{Topic: l.st.Topic, Partition: l.st.ID.Partition, From: from, To: to}
}

// lose notes a loss with the finding that says why. What lies below the log's start
// is none.
func (l *log) lose(f *Finding, from, to int64) {
	from = max(from, l.st.Start)
	if from >= to {
		return
	}
	f.Lost = append(f.Lost, l.loss(from, to))
	l.lost = append(l.lost, l.loss(from, to))
}

// read reads the log's directory and what it is to hold.
func (l *log) read() error {
	if l.st.Deleted {
		return nil
	}
	l.gone, l.cut, l.flaws, l.ends = map[int64]bool{}, map[int64]int64{}, map[int64][]flaw{}, map[int64]Loss{}
	if l.st.Offline != "" {
		l.dir.find(LogOffline, l, l.path, -1, "%s", l.st.Offline)
	}
	if err := storage.CheckProducers(l.st); err != nil {
		l.reset = true
		l.dir.find(ProducersDamaged, l, l.dir.path(storage.CheckpointDir), -1, "%v", err)
	}
	if err := l.list(); err != nil || l.absent || l.unseen {
		return err
	}
	if err := l.identity(); err != nil {
		return err
	}
	for i := range l.st.Segments {
		if err := l.segment(i); err != nil {
			return err
		}
	}
	return l.readQuarantine()
}

// unreadable turns an error of the system into a finding; one of rights ends the look.
func (l *log) unreadable(name string, err error) error {
	if access(err) || l.dir.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", l.st, err)
	}
	l.dir.find(Unreadable, l, name, -1, "%v", err)
	return nil
}

// list finds out which files are there.
func (l *log) list() error {
	d := l.dir
	infos, err := d.fs.List(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.absent = true
		f := d.find(PartitionMissing, l, l.path, -1, "the directory is gone; its segments held offsets %d to %d", l.st.Start, l.st.Offset)
		l.lose(f, l.st.Start, l.st.Offset)
		return l.readQuarantine()
	}
	if err != nil {
		l.unseen = true
		return l.unreadable(l.path, err)
	}
	l.files = map[int64]int64{}
	for _, in := range infos {
		name := path.Join(l.path, in.Name)
		if base, ok := segment.ParseName(in.Name); ok && !in.Dir {
			l.files[base] = in.Size
		}
		switch base, swap := segment.ParseSwap(in.Name); {
		case swap && l.st.Swapping && base == l.st.Swap:
			l.waiting = true
			d.find(SwapUnfinished, l, name, -1, "it takes the place of segment %d and others", base)
		case segment.IsDeleted(in.Name), segment.IsUnfinished(in.Name), strings.HasSuffix(in.Name, ".tmp"):
			d.find(Leftover, l, name, -1, "a start removes it")
		case strings.HasSuffix(in.Name, framesSuffix):
			if err := d.noteQuarantine(name, l); err != nil {
				return err
			}
		}
	}
	if l.waiting {
		info, err := d.fs.Stat(l.swapPath())
		if err != nil {
			l.unseen = true
			return l.unreadable(l.swapPath(), err)
		}
		l.files[l.st.Swap] = info.Size
	}
	return l.unlisted()
}

func (l *log) swapPath() string {
	return l.segmentPath(l.st.Swap) + segment.SwapSuffix
}

func (l *log) segmentPath(base int64) string {
	return path.Join(l.path, segment.Name(base)+segment.LogSuffix)
}

// unlisted finds segments that the checkpoint doesn't speak of.
func (l *log) unlisted() error {
	listed := map[int64]bool{}
	for _, e := range l.st.Segments {
		listed[e.Base] = true
	}
	for base, size := range l.files {
		switch {
		case listed[base]:
		case base >= l.st.Offset:
			if err := l.tail(base, 0, base, size); err != nil {
				return err
			}
		default:
			l.dir.find(SegmentUnlisted, l, l.segmentPath(base), -1, "%d bytes; the checkpoint lists no segment %d", size, base)
		}
	}
	return nil
}

// tail looks at bytes that don't count: those that the journal has too are whole
// batches, and as they should be.
func (l *log) tail(base, from, next, size int64) error {
	_, pos, err := segment.Prefix(l.dir.fs, l.path, base, from, next, size, func(record.Batch) error { return l.dir.ctx.Err() })
	if err != nil {
		return l.unreadable(l.segmentPath(base), err)
	}
	if pos < size {
		l.dir.find(SegmentTail, l, l.segmentPath(base), pos, "%d bytes that are no whole batch, behind what the checkpoint says", size-pos)
	}
	return nil
}

// identity looks at the file with the topic's id.
func (l *log) identity() error {
	name := path.Join(l.path, storage.PartitionFile)
	_, err := l.dir.fs.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.partFile = true
		l.dir.find(PartitionIDMissing, l, name, -1, "the file is gone")
	case err != nil:
		return l.unreadable(name, err)
	case !storage.Belongs(l.dir.fs, l.path, l.st.ID):
		l.partFile = true
		l.dir.find(PartitionIDWrong, l, name, -1, "it does not name topic %x", l.st.ID.Topic)
	}
	return nil
}

// segment looks at one that the checkpoint lists.
func (l *log) segment(i int) error {
	e := l.st.Segments[i]
	size, there := l.files[e.Base]
	next, needed, err := storage.Needs(l.st, i, size, there, l.path)
	if !needed {
		return nil
	}
	name, waits := l.segmentPath(e.Base), l.waiting && e.Base == l.st.Swap
	if !there {
		l.gone[e.Base] = true
		f := l.dir.find(SegmentMissing, l, name, -1, "%d bytes with offsets from %d to below %d are gone", e.Size, e.Base, next)
		l.lose(f, e.Base, next)
		l.ends[e.Base] = l.loss(max(e.Base, l.st.Start), next)
		return nil
	}
	short := err != nil
	switch last := i+1 == len(l.st.Segments); {
	case size > e.Size && last && !waits:
		if err := l.tail(e.Base, e.Size, next, size); err != nil {
			return err
		}
	case size > e.Size:
		l.dir.find(SegmentTail, l, name, e.Size, "%d bytes behind what the checkpoint says", size-e.Size)
	}
	x, err := segment.Check(l.dir.fs, l.path, e.Base, min(size, e.Size), next, waits, func(pos int64, b record.Batch) error {
		l.batches++
		l.bytes += int64(len(b))
		l.dir.opt.Progress(int64(len(b)))
		l.epoch(name, e.Base, pos, b)
		return l.dir.ctx.Err()
	})
	if err != nil {
		return l.unreadable(name, err)
	}
	if short {
		// What is damaged at its end is what is missing.
		end := x.End
		if n := len(x.Flaws); n > 0 && x.Flaws[n-1].Pos >= end && !x.Flaws[n-1].Numbering {
			x.Flaws = x.Flaws[:n-1]
		}
		l.cut[e.Base] = end
		f := l.dir.find(SegmentShort, l, name, size, "%d bytes of %d are there; the whole batches in them end at %d", size, e.Size, end)
		l.lose(f, max(x.Next, e.Base), next)
		l.ends[e.Base] = l.loss(max(x.Next, e.Base, l.st.Start), next)
	}
	for _, w := range x.Flaws {
		l.flaw(name, e.Base, w)
	}
	l.indexes(e.Base, x)
	return nil
}

// flaw notes a stretch that no reader gets over.
func (l *log) flaw(name string, base int64, w segment.Flaw) {
	l.flaws[base] = append(l.flaws[base], flaw{w, -1})
	if !w.Numbering {
		f := l.dir.find(BatchDamaged, l, name, w.Pos, "%d bytes are no valid record batch", w.Size)
		l.lose(f, w.From, w.To)
		return
	}
	f := l.dir.find(BatchOffset, l, name, w.Pos, "the batch says offset %d, and stands between %d and %d", w.Base, w.From, w.To)
	if !w.Renumbers() {
		l.lose(f, w.From, w.To)
	}
}

// epoch holds the leader epoch of a batch, which no checksum covers, against those
// that the checkpoint knows.
func (l *log) epoch(name string, base, pos int64, b record.Batch) {
	want := l.st.Epochs.At(b.BaseOffset())
	if got := b.LeaderEpoch(); want >= 0 && got != want {
		l.dir.find(BatchEpoch, l, name, pos, "the batch at offset %d says leader epoch %d, the checkpoint knows %d", b.BaseOffset(), got, want)
		l.flaws[base] = append(l.flaws[base], flaw{segment.Flaw{Pos: pos, Size: int64(len(b)), From: b.BaseOffset(), To: b.LastOffset() + 1}, want})
	}
}

// indexes notes what is wrong with the indexes of a segment.
func (l *log) indexes(base int64, x segment.Checked) {
	for suffix, e := range map[string]segment.Entries{".index": x.Index, ".timeindex": x.Times} {
		name := path.Join(l.path, segment.Name(base)+suffix)
		switch {
		case e.Missing:
			l.dir.find(IndexMissing, l, name, -1, "the file is gone")
		case e.Wrong > 0:
			l.dir.find(IndexDamaged, l, name, e.First, "%d entries from here on are not what the batches say", e.Wrong)
		}
	}
}
