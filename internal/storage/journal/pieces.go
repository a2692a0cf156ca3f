package journal

import (
	"fmt"
	"time"
)

// Entries that are written together wait for the same datasync, and a write of 1 MiB takes as long
// as five small ones with theirs. So while other streams have small entries, a large entry is
// written in pieces, and small ones are written and synced between the pieces:
//
//	         smalls may be written here          payload, piece by piece
//	─ ─ frame │ frame │ frame │ skip ┊┄┄┄┄┄┄│ header + payload ················· │ next write
//	          ▲ off                         ▲ at
//
// The pieces are written ahead of the other frames, beyond room for small ones. Their frame does
// not exist until its first block is written, which has its header: only then it gets an LSN. A
// skip frame leads from the last small frame to it. One datasync covers both and the pieces.
//
// Measured on a virtual disk, next to writes with a datasync each: the 99th percentile of a write
// of 4 KiB with its datasync was 0.27 ms alone, 0.79 ms next to writes of 1 MiB, and 0.27 ms next
// to writes of 128 KiB.
const pieceMax = 128 << 10

// tinyMax is the size below which entries make others be written in pieces. Producers of a bulk
// load have batches of tens of KiB for some of their partitions: with 64 KiB instead, they slowed
// themselves, and a load on 16 partitions fell from 330 to 200 MB/s.
const tinyMax = 8 << 10

// smallFor is how long after a tiny entry other streams count as having some: clients that send a
// request after the answer to the last one have none queued when the next write begins. Pieces cost
// a bulk load a third of its rate. So a client with a few requests a second does not count between
// them; each may wait for a whole group, about 5 ms next to 500 MB/s.
const smallFor = 100 * time.Millisecond

// bulkFor is how long after a larger entry the tiny ones of its stream count as part of a bulk
// load.
const bulkFor = time.Second

// sizes are the sizes, in bytes, by which the journal tells entries apart.
type sizes struct {
	piece int64 // of a large entry, a multiple of block
	large int64 // entries of this size or more are written in pieces
	most  int64 // but not above this size, so that with their room they fit in an ordinary file
	small int64 // entries below this size are written between the pieces of a large one
	tiny  int64 // entries below this size make large ones be written in pieces
}

func newSizes(maxWrite int64) sizes {
	piece := max(min(pieceMax, maxWrite/32)&^(block-1), block)
	return sizes{piece: piece, large: 2 * piece, most: 2 * maxWrite, small: piece / 2, tiny: min(piece/2, tinyMax)}
}

// part is a large entry of which pieces are written.
type part struct {
	entry *Entry // its owner's again as soon as it is not Journal.part, unless a write ends it
	frame int64  // length of its frame in bytes, with the padding of the last block
	room  int64  // see sizes.room
	gap   int64  // see sizes.gap
	// The busy goroutine owns the other fields.
	file *file // nil until the first piece is placed
	at   int64 // position of the frame
	done int64 // bytes of the frame that are written, but for its first block
	owed bool  // others have written since the last piece
}

// left returns how many bytes small entries may take before the frame.
func (p *part) left() int64 { return p.at - p.file.off.Load() - 2*block }

// gap is the room for small entries before the frame of a large one: about an eighth of a piece,
// and at least a block, for each piece. It is a multiple of block, because the frame begins after
// it.
func (s sizes) gap(e *Entry) int64 {
	return (e.size()/s.piece+1)*max(align(s.piece/8, block), block) + 3*block
}

// inPieces reports whether an entry is written in pieces if other streams have small ones. Nothing
// waits long for entries that are acknowledged when written: they go to the page cache.
func (s sizes) inPieces(e *Entry) bool {
	return e.size() >= s.large && e.size() <= s.most && !e.control() && !e.onWrite()
}

// room returns how much space must be free for an entry to be written.
func (s sizes) room(e *Entry) int64 {
	if s.inPieces(e) {
		return e.size() + s.gap(e) + block
	}
	return e.size()
}

// beginPartLocked makes the first entry of the first ready stream the part. The stream is served
// again after the others, as they may also have large entries.
func (j *Journal) beginPartLocked(s *Stream) {
	e := s.queue.pop()
	j.part = &part{entry: e, owed: true, frame: align(frameHeader+int64(len(e.Payload)), block), room: j.sizes.room(e), gap: j.sizes.gap(e)}
	j.ready.pop()
	if s.listed = s.queue.len() > 0; s.listed {
		j.ready.push(s)
	}
}

// pieceDue reports whether the next write is a piece. Small entries and pieces take turns. The rest
// of the pieces follow at once if no room for small entries is left before them.
func (j *Journal) pieceDue(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.part
	switch {
	case p == nil || p.done == p.frame:
		return false
	case p.owed:
		return true
	}
	if closed, _ := j.waiting.verdict(now, j.opt.Absent); !closed {
		return true
	}
	for _, s := range j.ready.all() {
		if s != p.entry.Stream && s.queue.len() > 0 && s.queue.peek().size() < min(j.sizes.small, p.left()) {
			return false
		}
	}
	return true
}

// writePiece writes the next piece. It does nothing if Drop removed the entry meanwhile.
func (j *Journal) writePiece() error {
	g := &j.group
	j.mu.Lock()
	p := j.part
	j.mu.Unlock()
	if p == nil {
		return nil
	}
	if p.file == nil {
		// Small frames with the next LSNs come first.
		f, err := j.space.fileFor(p.room+block, j.next)
		if err != nil {
			return err
		}
		p.file, p.at, g.file = f, f.off.Load()+p.gap, f
	}
	from := max(p.done, block)
	to := min(p.done+j.sizes.piece, p.frame)
	g.stage.begin(p.file, p.at+from, to-from, false)
	j.mu.Lock()
	if j.part != p { // the payload belongs to its owner again
		j.mu.Unlock()
		return nil
	}
	payload := p.entry.Payload
	g.stage.add(payload[from-frameHeader : min(to-frameHeader, int64(len(payload)))])
	j.mu.Unlock()
	if err := p.file.writeAhead(&g.stage); err != nil {
		return fmt.Errorf("write a piece of a journal entry: %w", err)
	}
	p.done, p.owed = to, false
	j.steps.Add(1)
	return nil
}

// endPartLocked takes the part off, as the last entry of a write, if all of its pieces are written.
func (j *Journal) endPartLocked() *part {
	p := j.part
	if p == nil || p.file == nil || p.done < p.frame {
		return nil
	}
	j.part = nil
	j.waiting.count(p.entry, -1)
	if !j.opt.Broken.Has(NoSkip) {
		j.next++ // of the skip frame
	}
	return p
}

// putSkip adds the frame that leads to a part's frame.
func (g *group) putSkip(p *part, durable LSN) {
	skip := Entry{Stream: &Stream{}, Type: Skip, NextEnd: p.at, LSN: p.entry.LSN - 1}
	var head [frameHeader]byte
	putFrame(head[:], &skip, p.file.salt, durable, true)
	g.stage.add(head[:])
}

// endPart writes the first block of a part's frame. What was written before in the same file ends
// before it.
func (g *group) endPart(p *part, durable LSN) error {
	var head [frameHeader]byte
	putFrame(head[:], p.entry, p.file.salt, durable, true)
	g.stage.begin(p.file, p.at, block, false)
	g.stage.add(head[:])
	g.stage.add(p.entry.Payload[:block-frameHeader])
	if err := p.file.writeAhead(&g.stage); err != nil {
		return err
	}
	p.file.off.Store(p.at + p.frame)
	return nil
}
