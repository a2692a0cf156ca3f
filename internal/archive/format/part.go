package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/objects"
)

// ErrContradiction marks values that no writer stores, in an object whose checksums are right.
var ErrContradiction = errors.New("contradiction in an object")

// Unusable reports whether an error of a read says that objects of an archive are missing or
// damaged, so that their records must be uploaded again. Every other error says nothing about the
// objects: the store may have them, and does not answer.
func Unusable(err error) bool {
	return errors.Is(err, objects.ErrNotFound) || errors.Is(err, objects.ErrDamaged) || errors.Is(err, objects.ErrNewer) ||
		errors.Is(err, ErrContradiction)
}

// Run is where batches of one partition lie: those of a whole log object, or a piece of a pack. Its
// batches are verified as a whole by Sum, and those of a log object also in chunks.
type Run struct {
	Kind      objects.Kind // objects.Log or objects.Pack
	Nonce     objects.Nonce
	Base, End int64  // its batches have offsets of [Base, End)
	Size      int64  // bytes of the object
	Pos, Len  int64  // the bytes of the batches in the object; the Pos of a log object is 0
	Sum       uint32 // CRC-32C of these bytes
	Newest    int64  // the largest timestamp of the batches, in ms; -1: none has one
	// Written is when the last batch of a log object was written, in ms: the age of records whose
	// timestamps are not believable.
	Written int64
	// FirstAborted is the least offset of a record of an aborted transaction that the footer of a
	// log object has, or whose marker a piece has; -1: there is none. A reader of records below it
	// needs no footer to know that. In a pack it is -1: the writer of the piece knows it.
	FirstAborted int64
}

// Name returns the name of the object, which has batches of the partition id.
func (r *Run) Name(id ID) string {
	n := Name{Kind: r.Kind, Nonce: r.Nonce}
	if r.Kind == objects.Log {
		n.Partition, n.Base, n.End = id, r.Base, r.End
	}
	return n.String()
}

// Part is a range of a partition's log: the batches of a Run, or those at its beginning or its end,
// because a log was cut or began later. It begins and ends between two batches.
type Part struct {
	Base, End int64 // within those of the run; a hole at a border belongs to it
	From, To  int64 // the bytes of its batches, relative to those of the run
	Epoch     int32 // leader epoch of its last batch
	Run       Run
}

// Bytes returns the bytes of its batches.
func (p *Part) Bytes() int64 { return p.To - p.From }

// Whole returns the part that has all batches of a run.
func Whole(r Run, epoch int32) Part {
	return Part{Base: r.Base, End: r.End, To: r.Len, Epoch: epoch, Run: r}
}

// partSize is the least size of an encoded part, in bytes.
const partSize = 1 + 16 + 4 + 13

// append encodes a part: kind u8, nonce, sum u32, size, pos, len, the run's base, its end - base;
// base - the run's base, end - base, from, to - from, epoch, newest + 1, written,
// first aborted + 1.
func (p *Part) append(b []byte) []byte {
	r := &p.Run
	b = append(b, byte(r.Kind))
	b = append(b, r.Nonce[:]...)
	b = binary.LittleEndian.AppendUint32(b, r.Sum)
	for _, v := range []int64{r.Size, r.Pos, r.Len, r.Base, r.End - r.Base, p.Base - r.Base, p.End - p.Base, p.From, p.To - p.From,
		int64(p.Epoch), r.Newest + 1, r.Written, r.FirstAborted + 1} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

func readPart(r *bytesio.Reader) (p Part) {
	p.Run.Kind, p.Run.Nonce, p.Run.Sum = objects.Kind(r.Byte()), r.ID(), r.LE32()
	p.Run.Size, p.Run.Pos, p.Run.Len = number(r), number(r), number(r)
	p.Run.Base = number(r)
	p.Run.End = after(r, p.Run.Base)
	p.Base = after(r, p.Run.Base)
	p.End = after(r, p.Base)
	p.From = number(r)
	p.To = after(r, p.From)
	p.Epoch = int32(r.UvarintTo(math.MaxInt32))
	p.Run.Newest, p.Run.Written, p.Run.FirstAborted = orNone(r), number(r), orNone(r)
	if r.Err() == nil {
		if err := p.check(); err != nil {
			r.Fail(err)
		}
	}
	return p
}

// number reads a number that is not negative as an int64.
func number(r *bytesio.Reader) int64 { return int64(r.UvarintTo(math.MaxInt64)) }

// orNone reads a number + 1, where -1 stands for none.
func orNone(r *bytesio.Reader) int64 { return int64(r.UvarintTo(1<<63) - 1) }

// after reads the distance of a number to base.
func after(r *bytesio.Reader, base int64) int64 {
	return base + int64(r.UvarintTo(uint64(math.MaxInt64-base)))
}

// check returns an error, which matches ErrContradiction, unless a writer can have stored p.
func (p *Part) check() error {
	r := &p.Run
	ok := r.Kind == objects.Log && r.Pos == 0 || r.Kind == objects.Pack && r.Pos >= 0
	ok = ok && 0 <= r.Base && r.Base < r.End && 0 < r.Len && r.Len <= r.Size-r.Pos-objects.TrailerSize
	ok = ok && r.Base <= p.Base && p.Base < p.End && p.End <= r.End
	ok = ok && 0 <= p.From && p.From < p.To && p.To <= r.Len && p.Epoch >= 0 && r.Newest >= -1 && r.Written >= 0 &&
		-1 <= r.FirstAborted && r.FirstAborted < r.End
	if !ok {
		return fmt.Errorf("%w: part %+v", ErrContradiction, *p)
	}
	return nil
}

// appendParts encodes parts: how many, and each.
func appendParts(b []byte, parts []Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for i := range parts {
		b = parts[i].append(b)
	}
	return b
}

func readParts(r *bytesio.Reader) []Part {
	n := r.Count(partSize)
	if n == 0 {
		return nil
	}
	parts := make([]Part, 0, n)
	for range n {
		parts = append(parts, readPart(r))
	}
	return parts
}

// continuous returns an error unless parts cover [from, end) in order, without a hole between them;
// from may be in the middle of the first one.
func continuous(parts []Part, from, end int64) error {
	for i := range parts {
		if i == 0 && (parts[0].Base > from || parts[0].End <= from) || i > 0 && parts[i].Base != from {
			return fmt.Errorf("%w: part %d has offsets %d to %d after %d", ErrContradiction, i, parts[i].Base, parts[i].End, from)
		}
		from = parts[i].End
	}
	if from != end {
		return fmt.Errorf("%w: the parts end at %d and not at %d", ErrContradiction, from, end)
	}
	return nil
}
