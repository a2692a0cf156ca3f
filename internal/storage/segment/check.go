package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Flaw is a stretch of a segment's file that no reader can pass: it is not a valid batch, or a
// batch whose header is impossible at this position.
type Flaw struct {
	Pos, Size int64
	// From and To bound the offsets that the stretch held or may have held: those after the
	// previous batch and before the next one.
	From, To int64
	// Numbering: the batch is valid except for its base offset, Base, which no checksum covers. If
	// From to To is the number of its offsets, From is the right base offset and nothing is lost.
	Numbering bool
	Base      int64
	// WrongEpoch: the batch is valid except for its leader epoch, which is Found. Nothing is lost.
	WrongEpoch bool
	Found      int32
	// Epoch is the leader epoch of the offset From, -1 if it is unknown.
	Epoch int32
	// Records is the number of records according to the header of the batch; 0 if the stretch is
	// not one batch with a readable header.
	Records int32
}

// Renumbers reports whether giving the batch the base offset From repairs the flaw.
func (f *Flaw) Renumbers() bool { return f.Numbering && f.To-f.From == int64(f.Records) }

// Mends reports whether Mend repairs the flaw: no other header is possible, and the checksum proves
// the rest of the batch.
func (f *Flaw) Mends() bool { return f.WrongEpoch || f.Renumbers() }

// Mend writes the only possible base offset and leader epoch into the header of the batch.
func (f *Flaw) Mend(b record.Batch) {
	b.SetBaseOffset(f.From)
	if f.Epoch >= 0 {
		b.SetLeaderEpoch(f.Epoch)
	}
}

// Entries is the result of comparing the entries of an index with the batches.
type Entries struct {
	Missing bool  // the file does not exist
	Wrong   int   // number of entries that contradict the batches, and of all entries after them
	First   int64 // position in the index file of the first wrong entry
}

// Checked is the result of Check.
type Checked struct {
	Flaws        []Flaw
	Index, Times Entries
	Batches      int
	First, Next  int64 // offset of the first batch, -1 for none; offset after the last one
	End          int64 // position after the last valid batch
}

// Check reads a segment's file of batches, without changing it, as far as the facts about it go,
// and calls fn for every valid batch, in order, also for those whose leader epoch is wrong. Check
// compares the indexes with the batches too, unless the file is waiting to replace another. It uses
// the memory of the largest batch and of the indexes. Damage is not an error; a failed read is one.
func Check(fsys vfs.FS, dir string, base int64, facts Facts, waiting bool, fn func(pos int64, b record.Batch) error) (Checked, error) {
	s := newSegment(nil, dir, base)
	if waiting {
		s.stage.Store(swap)
	}
	size := facts.Size
	c := checker{limit: facts.End, next: base, fn: fn}
	c.Checked.First = -1
	f, err := fsys.Open(s.Path())
	if err != nil {
		return c.Checked, fmt.Errorf("read segment: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	c.scanner = newScanner(f, size, batchStep, &facts)
	c.base, c.x = base, &index{}
	if !waiting {
		if c.x, err = loadIndex(fsys, s.stem(), size); err != nil {
			return c.Checked, err
		}
	}
	if err := c.run(0, toEnd); err != nil {
		return c.Checked, fmt.Errorf("read %s: %w", s.Path(), err)
	}
	if waiting {
		return c.Checked, nil
	}
	return c.Checked, c.indexes(fsys, s.stem())
}

// checker is the state of one Check.
type checker struct {
	scanner
	Checked
	x           *index
	offsets     int // entries of the offset index that are right
	times       int
	base, limit int64
	next        int64 // least possible offset of the next batch
	last        struct {
		pos, size  int64
		from, base int64 // the value of next, and the batch's base offset
		records    int32
		epoch      bool // its leader epoch is wrong
	}
	fn func(pos int64, b record.Batch) error
}

// valid returns the batch at a position if it is whole and its checksum is right; its offsets may
// still be impossible.
func (c *checker) valid(pos int64) (record.Batch, error) {
	head, _, err := c.header(pos)
	if head == nil || head.LastOffsetDelta() < 0 {
		return nil, err
	}
	b, err := c.batch(pos)
	if b == nil || b.CheckCRC() != nil {
		return nil, err
	}
	return b, nil
}

// run checks the batches from a position on, until it is beyond last.
func (c *checker) run(pos, last int64) error {
	for pos < c.Size && pos <= last {
		b, err := c.valid(pos)
		switch {
		case err != nil:
			return err
		case b == nil:
			pos, err = c.skip(pos)
		case b.BaseOffset() < c.next && c.lastMayBeWrong(b):
			pos, err = c.overlap(pos, b)
		case b.BaseOffset() < c.next || b.BaseOffset() >= c.limit || b.LastOffset() >= c.limit:
			pos, err = c.misnumbered(pos, b)
		default:
			pos, err = c.takeInEpoch(pos, b)
		}
		if err != nil {
			return err
		}
	}
	c.Checked.Next = c.next
	return nil
}

// lastMayBeWrong reports whether, of two overlapping batches, the previous one may be wrong: there
// is room for it before this one.
func (c *checker) lastMayBeWrong(b record.Batch) bool {
	return c.last.size > 0 && b.BaseOffset() >= c.last.from+int64(c.last.records) && b.LastOffset() < c.limit
}

// overlap records that the previous batch is misnumbered, which overlaps the one at a position, and
// returns where to continue. Between gaps there may be room for this one behind the previous one,
// too. Then either may be the wrong one, and neither is certain.
func (c *checker) overlap(pos int64, b record.Batch) (int64, error) {
	base, size, records, end := b.BaseOffset(), int64(len(b)), b.LastOffsetDelta()+1, c.next
	c.next = c.last.from // the end of the previous batch may be wrong
	to, err := c.following(pos + size)
	if err != nil {
		return 0, err
	}
	if c.last.epoch { // it was compared with that of other offsets
		c.Flaws = c.Flaws[:len(c.Flaws)-1]
	}
	c.Batches--
	last := Flaw{Pos: c.last.pos, Size: c.last.size, From: c.last.from, To: base, Numbering: true, Base: c.last.base,
		Records: c.last.records, Epoch: c.facts.epoch(c.last.pos, c.last.from+int64(c.last.records)-1)}
	c.last.size = 0
	if to-end < int64(records) {
		c.flaw(last)
		return pos, nil
	}
	last.Size, last.To, last.Numbering, last.Records = pos+size-last.Pos, to, false, 0
	c.flaw(last)
	return pos + size, nil
}

// wrongEpoch reports whether a valid batch has not the leader epoch of its offsets.
func (c *checker) wrongEpoch(pos int64, b record.Batch) bool {
	want := c.facts.epoch(pos, b.LastOffset())
	return want >= 0 && want != b.LeaderEpoch()
}

// takeInEpoch takes a valid batch whose offsets are possible, unless its leader epoch shows that it
// belongs elsewhere in the gap around it: then its base offset is wrong, and not the epoch.
func (c *checker) takeInEpoch(pos int64, b record.Batch) (int64, error) {
	if !c.wrongEpoch(pos, b) || b.BaseOffset() == c.next {
		return c.take(pos, b)
	}
	epoch, records := b.LeaderEpoch(), int64(b.LastOffsetDelta())+1
	to, err := c.following(pos + int64(len(b)))
	if err == nil {
		b, err = c.valid(pos) // the window may have moved
	}
	switch {
	case err != nil:
		return 0, err
	case b == nil: // it has changed since
		return c.skip(pos)
	case c.facts.Epochs.Has(epoch, c.next, to-records+1):
		return c.misnumbered(pos, b)
	}
	return c.take(pos, b)
}

func (c *checker) take(pos int64, b record.Batch) (int64, error) {
	c.checkIndexEntries(pos, b)
	if c.fn != nil {
		if err := c.fn(pos, b); err != nil {
			return 0, err
		}
	}
	if c.First < 0 {
		c.First = b.BaseOffset()
	}
	c.Batches++
	if c.last.epoch = c.wrongEpoch(pos, b); c.last.epoch {
		c.flaw(Flaw{Pos: pos, Size: int64(len(b)), From: b.BaseOffset(), To: b.LastOffset() + 1, WrongEpoch: true, Found: b.LeaderEpoch(),
			Epoch: c.facts.epoch(pos, b.LastOffset()), Records: b.LastOffsetDelta() + 1})
	}
	c.last.pos, c.last.size, c.last.from, c.last.base, c.last.records = pos, int64(len(b)), c.next, b.BaseOffset(), b.LastOffsetDelta()+1
	c.next = b.LastOffset() + 1
	c.End = pos + int64(len(b))
	return c.End, nil
}

func (c *checker) flaw(f Flaw) { c.Flaws = append(c.Flaws, f) }

// misnumbered records a valid batch with impossible offsets.
func (c *checker) misnumbered(pos int64, b record.Batch) (int64, error) {
	f := Flaw{Pos: pos, Size: int64(len(b)), From: c.next, Numbering: true, Base: b.BaseOffset(), Records: b.LastOffsetDelta() + 1,
		Epoch: c.facts.epoch(pos, c.next+int64(b.LastOffsetDelta()))}
	end := pos + f.Size
	to, err := c.following(end)
	f.To = to
	c.flaw(f)
	c.last.size = 0
	return end, err
}

// following returns the base offset of the batch at a position, or the limit if there is no
// credible one.
func (c *checker) following(pos int64) (int64, error) {
	b, err := c.valid(pos)
	if b == nil || b.BaseOffset() < c.next || b.LastOffset() >= c.limit {
		return c.limit, err
	}
	return b.BaseOffset(), nil
}

// skip records a stretch that is not a batch and returns where the next batch begins.
func (c *checker) skip(pos int64) (int64, error) {
	f := Flaw{Pos: pos, From: c.next, To: c.limit}
	head, size, err := c.header(pos)
	if err != nil {
		return 0, err
	}
	if head != nil {
		f.Records = head.Records()
	}
	at, err := c.resume(pos)
	if err != nil {
		return 0, err
	}
	if f.Size = at - pos; f.Size != size || f.Records < 0 {
		f.Records = 0 // not the number of one batch
	}
	if at < c.Size {
		if f.To, err = c.following(at); err != nil {
			return 0, err
		}
	}
	c.flaw(f)
	c.last.size = 0
	return at, nil
}

// resume finds the next valid batch after a position, or the end if there is none: first where the
// damaged batch claims to end, then byte by byte. A wrong length may lead to the end of a later
// batch. A batch at the claimed end that its offsets do not confirm therefore counts only if no
// batch before it has the offset that should follow.
func (c *checker) resume(pos int64) (int64, error) {
	end, follows, sure, err := c.claimedEnd(pos)
	if sure || err != nil {
		return end, err
	}
	until, err := c.File.Size() // it may lack bytes
	if err != nil {
		return 0, fmt.Errorf("read segment: %w", err)
	}
	if until = min(c.Size, until); end >= 0 {
		until = min(until, end)
	}
	for at := pos + 1; at+record.HeaderSize <= until; at++ {
		base, err := c.resumes(at)
		if err != nil || base >= 0 && (end < 0 || base == follows) {
			return at, err
		}
	}
	if end >= 0 {
		return end, nil
	}
	return c.Size, nil
}

// claimedEnd returns three results: where the batch at a position claims to end, if a possible
// batch or the end of the segment is there, otherwise -1; the offset that should follow; and
// whether the batch at the claimed end has this offset.
func (c *checker) claimedEnd(pos int64) (end, follows int64, sure bool, err error) {
	head, n, err := c.header(pos)
	if head == nil {
		return -1, -1, false, err
	}
	end, follows = pos+n, head.LastOffset()+1
	if end == c.Size {
		return end, follows, follows == c.limit, nil
	}
	base, err := c.resumes(end)
	if base < 0 {
		end = -1
	}
	return end, follows, base >= 0 && base == follows, err
}

// resumes returns the base offset of a possible next batch at a position, -1 if there is none. It
// checks the offset first: a byte-by-byte search must not verify checksums everywhere.
func (c *checker) resumes(pos int64) (base int64, err error) {
	p, err := c.Fill(pos, record.HeaderSize)
	if len(p) < record.HeaderSize {
		return -1, err
	}
	head := record.Batch(p)
	if base = head.BaseOffset(); head.Magic() != 2 || base < c.next || base >= c.limit {
		return -1, nil
	}
	b, err := c.valid(pos)
	if b == nil || b.LastOffset() >= c.limit {
		return -1, err
	}
	return base, err
}

// checkIndexEntries compares the index entries that point to a batch with it.
func (c *checker) checkIndexEntries(pos int64, b record.Batch) {
	rel := b.LastOffset() - c.base
	for c.Index.Wrong == 0 && c.offsets < len(c.x.offsets) && int64(c.x.offsets[c.offsets].pos) <= pos {
		if e := c.x.offsets[c.offsets]; int64(e.pos) == pos && int64(e.rel) == rel {
			c.offsets++
			continue
		}
		c.Index.Wrong = 1
	}
	for c.Times.Wrong == 0 && c.times < len(c.x.times) && int64(c.x.times[c.times].rel) <= rel {
		if e := c.x.times[c.times]; int64(e.rel) == rel && e.ts == b.Newest() {
			c.times++
			continue
		}
		c.Times.Wrong = 1
	}
}

// indexes determines the wrong entries of the index files. An entry without a batch is as wrong as
// one that contradicts its batch.
func (c *checker) indexes(fsys vfs.FS, stem string) error {
	if len(c.Flaws) > 0 {
		// They are rebuilt with the batches.
		c.Index, c.Times = Entries{}, Entries{}
		return nil
	}
	for _, x := range []struct {
		e      *Entries
		name   string
		right  int
		len    int64
		other  bool
		beyond func(entry []byte) bool
	}{
		{&c.Index, stem + indexSuffixes[0], c.offsets, offsetEntryLen, len(c.x.times) > 0,
			func(e []byte) bool { return int64(binary.BigEndian.Uint32(e[4:])) >= c.Size }},
		{&c.Times, stem + indexSuffixes[1], c.times, timeEntryLen, len(c.x.offsets) > 0,
			func(e []byte) bool { return c.base+int64(binary.BigEndian.Uint32(e[8:])) >= c.next }},
	} {
		info, err := fsys.Stat(x.name)
		if errors.Is(err, fs.ErrNotExist) {
			x.e.Missing = x.other || c.Size > minIndexed
			continue
		}
		if err != nil {
			return fmt.Errorf("read index: %w", err)
		}
		b, err := readAll(fsys, x.name, info.Size)
		if err != nil {
			return err
		}
		x.e.First = int64(x.right) * x.len
		x.e.Wrong = countWrong(b[min(x.e.First, int64(len(b))):], x.len, x.beyond)
	}
	return nil
}

// countWrong counts the wrong entries in b, whose first entry is wrong. Entries at the end that
// refer to truncated or not yet valid bytes do not count.
func countWrong(b []byte, size int64, beyond func([]byte) bool) int {
	n := int64(len(b)) / size
	for i := range n {
		if !beyond(b[i*size:]) {
			return int((int64(len(b)) + size - 1) / size)
		}
	}
	if int64(len(b))%size != 0 {
		return 1
	}
	return 0
}

// minIndexed is the size from which a segment has an index whatever the configuration: usually, an
// entry covers a few KiB.
const minIndexed = 1 << 20
