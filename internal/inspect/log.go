package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/storage/segment"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
	"github.com/chronik-io/chronik/internal/vfs"
)

// log holds the facts about one log.
type log struct {
	dir  *dir
	st   *checkpoint.Log
	path string

	follow     *storage.Follower
	tailBeyond *tail // used if the journal is damaged
	broken     error // why the journal's frames do not continue it
	frames     int
	seen       journal.LSN // of the last frame that salvage read
	end        int64       // its end after a start or a repair

	files       map[int64]int64 // existing segments: base → size
	swapWaiting bool            // the compacted segment of the swap is still under its temporary name
	batches     int
	bytes       int64
	lost        []Loss

	// Work for a repair.
	absent         bool                     // the directory must be created
	adopted        bool                     // the checkpoint does not list it, see Inspection.adopt
	former         [16]byte                 // the lost directory of an adopted log, zero if unknown
	partFile       bool                     // partition.metadata must be written
	gone           map[int64]bool           // listed segments that are missing
	cut            map[int64]int64          // listed segments that are too short, and their valid sizes
	ends           map[int64]Loss           // losses of the missing and the short segments
	restored       map[int64][]donated      // batches that a repair writes to listed segments, in the order of their offsets
	left           map[int64][]Loss         // of the flaws, what these lack
	made           map[int64]bool           // listed segments whose missing part is among them
	flaws          map[int64][]segment.Flaw // listed segments that must be rewritten
	recovered      []string                 // quarantine files that the log can replay, in the order of their offsets
	firsts         []int64                  // the first offsets of these
	weave          weave                    // what a repair has taken from them
	held           map[string]bool          // those of them with frames that a repair does not take
	reset          bool                     // the producer state cannot be decoded
	rebuilt        producers.State          // if reset is set: that of the segments
	open           []Transaction            // see Plan.Reopened
	torn           []Torn                   // see Plan.Torn
	aborts         []abort                  // markers that replace flaws
	quarantineLost bool                     // the quarantine file is removed or rewritten
	unlistable     bool                     // its directory could not be read, so a repair skips it
	quarantineLoss []Loss
	journalLoss    []Loss
}

func (l *log) journalled() bool { return !l.st.Deleted && l.st.Offline == "" }

func (l *log) loss(from, to int64) Loss {
	return Loss{Topic: l.st.Topic, Partition: l.st.ID.Partition, From: from, To: to}
}

// lose adds a loss to its finding and to the log. Offsets below the log start do not count.
func (l *log) lose(f *Finding, from, to int64) {
	from = max(from, l.st.Start)
	if from >= to {
		return
	}
	f.Lost = append(f.Lost, l.loss(from, to))
	l.lost = append(l.lost, l.loss(from, to))
}

// lack adds what a listed segment loses of [from, to): all but the batches that a repair restores.
func (l *log) lack(f *Finding, base, from, to int64) {
	pieces, missing := l.dir.opt.Restore.fit(l, from, to)
	l.restored[base] = append(l.restored[base], pieces...)
	n := len(f.Lost)
	for _, m := range missing {
		l.lose(f, m.from, m.next)
	}
	l.left[base] = append(l.left[base], f.Lost[n:]...)
}

// makes reports whether a repair can write some of the missing part [from, to) of a listed segment,
// which begins at pos, again, and plans it.
func (l *log) makes(f *Finding, e checkpoint.Extent, pos, from, to int64) bool {
	if pieces, _ := l.dir.opt.Restore.fit(l, from, to); len(pieces) == 0 {
		return false
	}
	l.made[e.Base] = true
	l.flaws[e.Base] = append(l.flaws[e.Base], segment.Flaw{Pos: pos, Size: e.Size - pos, From: from, To: to})
	l.lack(f, e.Base, from, to)
	return true
}

// read reads the log's directory and checks its contents.
func (l *log) read() error {
	if l.st.Deleted {
		return nil
	}
	l.gone, l.cut, l.flaws, l.ends = map[int64]bool{}, map[int64]int64{}, map[int64][]segment.Flaw{}, map[int64]Loss{}
	l.restored, l.left, l.made = map[int64][]donated{}, map[int64][]Loss{}, map[int64]bool{}
	if l.st.Offline != "" {
		l.dir.find(LogOffline, l, l.path, -1, "%s", l.st.Offline)
	}
	if err := storage.CheckProducers(l.st); err != nil {
		l.reset = true
		l.dir.find(ProducersDamaged, l, l.dir.path(storage.CheckpointDir), -1, "%v", err)
	}
	if err := l.list(); err != nil || l.emptied() || l.unlistable {
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
	if l.reset {
		now := time.Now()
		add := func(b record.Batch) error { l.rebuilt.Add(b, now); return nil }
		for i := range l.st.Segments {
			if err := l.walk(i, add); err != nil {
				return err
			}
		}
	}
	return l.readQuarantine()
}

// emptied reports whether a repair leaves no segment of a log whose directory is missing.
func (l *log) emptied() bool { return l.absent && l.files == nil }

// walk calls fn for the batches of a listed segment that are valid or that a repair restores, in
// the order of their offsets. What cannot be read is left out: there is a finding of it.
func (l *log) walk(i int, fn func(record.Batch) error) error {
	e := l.st.Segments[i]
	size, there := l.files[e.Base]
	next, needed, _ := storage.Needs(l.st, i, size, there, l.path) // there is a finding of the error
	if !needed {
		return nil
	}
	pieces := l.restored[e.Base]
	below := func(offset int64) error {
		for len(pieces) > 0 && pieces[0].first < offset {
			b, err := l.dir.opt.Restore.read(pieces[0])
			if err := cmp.Or(err, l.dir.ctx.Err()); err != nil {
				return err
			}
			if err := fn(b); err != nil {
				return err
			}
			pieces = pieces[1:]
		}
		return nil
	}
	if there {
		facts := segment.Facts{Size: min(size, e.Size), End: next}
		var stop error
		_, err := segment.Check(l.dir.fs, l.path, e.Base, facts, l.swapWaiting && e.Base == l.st.Swap,
			func(_ int64, b record.Batch) error {
				stop = cmp.Or(l.dir.ctx.Err(), below(b.BaseOffset()))
				if stop == nil {
					stop = fn(b)
				}
				return stop
			})
		if stop != nil || access(err) {
			return err
		}
	}
	return below(math.MaxInt64)
}

// unreadable turns an error of the system into a finding. It returns only errors of access, which
// end the check.
func (l *log) unreadable(name string, err error) error {
	if access(err) || l.dir.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", l.st, err)
	}
	l.dir.find(Unreadable, l, name, -1, "%v", err)
	return nil
}

// list lists the files of the log's directory.
func (l *log) list() error {
	d := l.dir
	infos, err := d.fs.List(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		copied := d.path(storage.FutureName(l.st.ID))
		mark := path.Join(copied, storage.MoveFile)
		moved, failed := exists(d.fs, mark)
		if failed != nil { // the segments may be there
			l.unlistable = true
			return l.unreadable(mark, failed)
		}
		if moved {
			l.path = copied // a crash in the last step of a move to this directory, which the start completes
			infos, err = d.fs.List(l.path)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		l.absent = true
		f := l.dir.find(PartitionMissing, l, l.path, -1, "the directory is missing; its segments held offsets %d to %d", l.st.Start,
			l.st.Offset)
		if list, _ := d.opt.Restore.fit(l, l.st.Start, l.st.Offset); len(list) > 0 { // its segments are missing one by one, then
			l.files = map[int64]int64{}
			return nil
		}
		l.lose(f, l.st.Start, l.st.Offset)
		return l.readQuarantine()
	}
	if err != nil {
		l.unlistable = true
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
			l.swapWaiting = true
			d.find(SwapUnfinished, l, name, -1, "it replaces segment %d and others", base)
		case segment.IsDeleted(in.Name), segment.IsUnfinished(in.Name), strings.HasSuffix(in.Name, ".tmp"):
			d.find(Leftover, l, name, -1, "a start removes it")
		case strings.HasSuffix(in.Name, storage.FramesSuffix):
			if err := d.noteQuarantine(name, l); err != nil {
				return err
			}
		}
	}
	if l.swapWaiting {
		info, err := d.fs.Stat(l.swapPath())
		if err != nil {
			l.unlistable = true
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

// unlisted reports segments that the checkpoint does not list.
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
			l.dir.find(SegmentUnlisted, l, l.segmentPath(base), -1, "%d bytes; the checkpoint does not list segment %d", size, base)
		}
	}
	return nil
}

// tail checks bytes that do not count. If the journal holds the same records, they are whole
// batches, and nothing is wrong.
func (l *log) tail(base, from, next, size int64) error {
	_, pos, err := segment.Prefix(l.dir.fs, l.path, base, from, next, size, func(record.Batch) error { return l.dir.ctx.Err() })
	if err != nil {
		return l.unreadable(l.segmentPath(base), err)
	}
	if pos < size {
		l.dir.find(SegmentTail, l, l.segmentPath(base), pos, "%d bytes beyond the size in the checkpoint that are not a whole batch",
			size-pos)
	}
	return nil
}

// identity checks the file with the topic id.
func (l *log) identity() error {
	name := path.Join(l.path, storage.PartitionFile)
	_, err := l.dir.fs.Stat(name)
	own, unread := storage.Belongs(l.dir.fs, l.path, l.st.ID)
	switch {
	case l.absent: // it is made with the directory
	case errors.Is(err, fs.ErrNotExist):
		l.partFile = true
		l.dir.find(PartitionIDMissing, l, name, -1, "the file is missing")
	case err != nil:
		return l.unreadable(name, err)
	case unread != nil && access(unread):
		return l.unreadable(name, unread)
	case unread != nil: // a deletion would fail; the checkpoint says what the file must contain
		l.partFile = true
		l.dir.find(PartitionIDWrong, l, name, -1, "it cannot be read: %v", unread)
	case !own:
		l.partFile = true
		l.dir.find(PartitionIDWrong, l, name, -1, "it does not name topic %x", l.st.ID.Topic)
	}
	return nil
}

// segment checks a segment that the checkpoint lists.
func (l *log) segment(i int) error {
	e := l.st.Segments[i]
	size, there := l.files[e.Base]
	next, needed, err := storage.Needs(l.st, i, size, there, l.path)
	if !needed {
		return nil
	}
	name, waits := l.segmentPath(e.Base), l.swapWaiting && e.Base == l.st.Swap
	if !there {
		f := l.dir.find(SegmentMissing, l, name, -1, "%d bytes with the offsets in [%d, %d) are missing", e.Size, e.Base, next)
		if l.makes(f, e, 0, e.Base, next) {
			return nil
		}
		l.gone[e.Base] = true
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
		l.dir.find(SegmentTail, l, name, e.Size, "%d bytes beyond the size in the checkpoint", size-e.Size)
	}
	facts := segment.Facts{Size: min(size, e.Size), End: next, Epochs: l.st.Epochs}
	x, err := segment.Check(l.dir.fs, l.path, e.Base, facts, waits, func(pos int64, b record.Batch) error {
		l.batches++
		l.bytes += int64(len(b))
		l.dir.opt.Progress(int64(len(b)))
		return l.dir.ctx.Err()
	})
	if err != nil {
		return l.unreadable(name, err)
	}
	if short {
		// A flaw at the end is the missing part itself.
		end := x.End
		if n := len(x.Flaws); n > 0 && x.Flaws[n-1].Pos >= end && !x.Flaws[n-1].Numbering {
			x.Flaws = x.Flaws[:n-1]
		}
		from := max(x.Next, e.Base)
		f := l.dir.find(SegmentShort, l, name, size, "the file has %d of %d bytes; its last whole batch ends at %d", size, e.Size, end)
		if !l.makes(f, e, end, from, next) {
			l.cut[e.Base] = end
			l.lose(f, from, next)
			l.ends[e.Base] = l.loss(max(from, l.st.Start), next)
		}
	}
	for _, w := range x.Flaws {
		l.flaw(name, e.Base, w)
	}
	sorts.Sort(l.restored[e.Base], func(a, b donated) int { return cmp.Compare(a.first, b.first) })
	l.indexes(e.Base, x)
	return l.aborted(e)
}

// aborted compares the index of aborted transactions of a segment with the checkpoint.
func (l *log) aborted(e checkpoint.Extent) error {
	if !e.Aborted.Known() || e.Aborted.Count == 0 {
		return nil
	}
	name := path.Join(l.path, segment.Name(e.Base)+segment.AbortedSuffix)
	b, err := vfs.ReadFile(l.dir.fs, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.dir.find(IndexMissing, l, name, -1, "the file is missing; it had %d aborted transactions", e.Aborted.Count)
	case err != nil:
		return l.unreadable(name, err)
	default:
		if _, err := txnindex.Decode(b, e.Aborted); err != nil {
			l.dir.find(IndexDamaged, l, name, 0, "%v", err)
		}
	}
	return nil
}

// flaw adds a damaged range, which readers cannot pass.
func (l *log) flaw(name string, base int64, w segment.Flaw) {
	l.flaws[base] = append(l.flaws[base], w)
	if w.WrongEpoch {
		l.dir.find(BatchEpoch, l, name, w.Pos, "the batch at offset %d has leader epoch %d, but the checkpoint has %d", w.From, w.Found,
			w.Epoch)
		return
	}
	if !w.Numbering {
		f := l.dir.find(BatchDamaged, l, name, w.Pos, "%d bytes are not a valid record batch", w.Size)
		l.lack(f, base, w.From, w.To)
		return
	}
	f := l.dir.find(BatchOffset, l, name, w.Pos, "the batch has offset %d, but lies between %d and %d", w.Base, w.From, w.To)
	if !w.Renumbers() {
		l.lack(f, base, w.From, w.To)
	}
}

// indexes reports damage of a segment's indexes.
func (l *log) indexes(base int64, x segment.Checked) {
	for suffix, e := range map[string]segment.Entries{segment.OffsetsSuffix: x.Index, segment.TimesSuffix: x.Times} {
		name := path.Join(l.path, segment.Name(base)+suffix)
		switch {
		case e.Missing:
			l.dir.find(IndexMissing, l, name, -1, "the file is missing")
		case e.Wrong > 0:
			l.dir.find(IndexDamaged, l, name, e.First, "%d entries from here on do not match the batches", e.Wrong)
		}
	}
}
