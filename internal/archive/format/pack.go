package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
)

// Piece is a piece of a pack: all batches of one partition in it.
type Piece struct {
	ID   ID
	Part Part
}

// Pack collects pieces for an object. The zero value is empty.
type Pack struct {
	batches []byte
	pieces  []Piece
}

// Len returns the bytes of the pieces.
func (w *Pack) Len() int { return len(w.batches) }

// Add appends a piece: batches of one partition with offsets of [base, end), of which it keeps a
// copy. It verifies them; the error matches ErrBatches.
func (w *Pack) Add(id ID, base, end int64, batches []byte) error {
	epoch, newest, err := scanPiece(base, end, batches)
	if err != nil {
		return fmt.Errorf("archive %x-%d [%d, %d): %w", id.Topic, id.Partition, base, end, err)
	}
	run := Run{Kind: objects.Pack, Base: base, End: end, Pos: int64(len(w.batches)), Len: int64(len(batches)),
		Sum: crc32.Checksum(batches, castagnoli), Newest: newest, FirstAborted: -1}
	w.batches = append(w.batches, batches...)
	w.pieces = append(w.pieces, Piece{id, Whole(run, epoch)})
	return nil
}

// scanPiece verifies batches with offsets of [base, end), and returns the leader epoch of the last
// one and the largest timestamp, -1 if none has one.
func scanPiece(base, end int64, batches []byte) (epoch int32, newest int64, err error) {
	newest = -1
	next := base
	s := scanner{each: func(b record.Batch, pos int64) error {
		if b.BaseOffset() < next || b.LastOffset() < b.BaseOffset() || b.LastOffset() >= end || b.LeaderEpoch() < epoch {
			return fmt.Errorf("%w: offsets %d to %d of epoch %d at position %d, expected some of [%d, %d) from epoch %d on", ErrBatches,
				b.BaseOffset(), b.LastOffset(), b.LeaderEpoch(), pos, next, end, epoch)
		}
		next, epoch, newest = b.LastOffset()+1, b.LeaderEpoch(), max(newest, b.Newest())
		return nil
	}}
	err = s.write(batches)
	if err == nil {
		err = s.end()
	}
	if err == nil && len(batches) == 0 {
		err = fmt.Errorf("%w: there are none", ErrBatches)
	}
	return epoch, newest, err
}

// pieceSize is the least size of a piece in the table of a pack, in bytes.
const pieceSize = 16 + 1 + 3 + 4 + 1

// Seal returns the sealed object, which is to be put under the name that has nonce, and its pieces
// in the order of Add. The pack is empty then.
//
// The object has the batches of all pieces; then a table: how many, and for each the partition,
// base, end - base, len, sum u32, epoch; then the length of the table, u32.
func (w *Pack) Seal(nonce objects.Nonce) ([]byte, []Piece) {
	b := w.batches
	at := len(b)
	b = binary.AppendUvarint(b, uint64(len(w.pieces)))
	for i := range w.pieces {
		p := &w.pieces[i]
		b = p.ID.append(b)
		for _, v := range []int64{p.Part.Base, p.Part.End - p.Part.Base, p.Part.Run.Len} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		b = binary.LittleEndian.AppendUint32(b, p.Part.Run.Sum)
		b = binary.AppendUvarint(b, uint64(p.Part.Epoch))
	}
	b = objects.Seal(binary.LittleEndian.AppendUint32(b, uint32(len(b)-at)), objects.Pack, packVersion)
	list := w.pieces
	for i := range list {
		list[i].Part.Run.Nonce, list[i].Part.Run.Size = nonce, int64(len(b))
	}
	*w = Pack{}
	return b, list
}

// DecodePack returns the pieces of the content of a pack with this nonce, and verifies their
// checksums. batches returns those of a piece, which alias content.
func DecodePack(content []byte, nonce objects.Nonce) (list []Piece, err error) {
	size := int64(len(content) + objects.TrailerSize)
	table, ok := tableOf(content)
	if !ok {
		return nil, fmt.Errorf("%w: the table of the pack does not fit", objects.ErrDamaged)
	}
	r := bytesio.NewReader(table)
	pos := int64(0)
	for range r.Count(pieceSize) {
		p := Piece{ID: readID(&r)}
		run := Run{Kind: objects.Pack, Nonce: nonce, Size: size, Pos: pos, Base: number(&r), FirstAborted: -1}
		run.End = after(&r, run.Base)
		run.Len, run.Sum = int64(r.UvarintTo(uint64(len(content)))), r.LE32()
		p.Part = Whole(run, int32(r.UvarintTo(1<<31-1)))
		if pos += run.Len; r.Err() != nil {
			break
		}
		if err := p.Part.check(); err != nil {
			return nil, err
		}
		if pos > int64(len(content)-len(table)-4) || crc32.Checksum(content[run.Pos:pos], castagnoli) != run.Sum {
			return nil, fmt.Errorf("%w: a piece of the pack does not match its checksum", objects.ErrDamaged)
		}
		epoch, newest, err := scanPiece(run.Base, run.End, content[run.Pos:pos])
		if err != nil {
			return nil, fmt.Errorf("%w: a piece of the pack: %w", ErrContradiction, err)
		}
		if epoch != p.Part.Epoch {
			return nil, fmt.Errorf("%w: a piece of the pack ends with leader epoch %d, and not %d", ErrContradiction, epoch, p.Part.Epoch)
		}
		p.Part.Run.Newest = newest
		list = append(list, p)
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("%w: pack: %w", objects.ErrDamaged, err)
	}
	if pos != int64(len(content)-len(table)-4) {
		return nil, fmt.Errorf("%w: the pack has bytes of no piece", ErrContradiction)
	}
	return list, nil
}

// tableOf returns the table of a pack.
func tableOf(content []byte) (table []byte, ok bool) {
	if len(content) < 4 {
		return nil, false
	}
	end := len(content) - 4
	n := binary.LittleEndian.Uint32(content[end:])
	if uint64(n) > uint64(end) {
		return nil, false
	}
	return content[end-int(n) : end], true
}
