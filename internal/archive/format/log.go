package format

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

const (
	// ChunkSize is how many bytes of a log object each checksum of its footer covers, except the
	// last: the least that a verified read transfers.
	ChunkSize = 1 << 20
	// indexEvery is the least distance of two entries of the offset index, in bytes.
	indexEvery = 64 << 10
)

// Position is an entry of the offset index: a batch begins at Pos with the offset Base.
type Position struct{ Base, Pos int64 }

// Time is an entry of the time index: all batches below Offset have timestamps of at most
// Timestamp, in ms.
type Time struct{ Timestamp, Offset int64 }

// Log is the footer of a log object: what it has, and where.
type Log struct {
	ID        ID
	Base, End int64  // its batches have offsets of [Base, End)
	Len       int64  // bytes of its batches, with which the object begins
	Sum       uint32 // CRC-32C of them
	Chunks    []uint32
	Epoch     int32 // leader epoch of the last batch
	Positions []Position
	// Times has increasing timestamps and offsets. MaxTimestamp is the largest of the object, in
	// ms; negative: no batch has one.
	Times        []Time
	MaxTimestamp int64
	// Aborted are the aborted transactions whose markers the object has, in the order of these.
	// They may be followed by others that have records in it, and later markers.
	Aborted []txnindex.Entry
	// Epochs are the leader epochs of its batches; the first one may begin below Base.
	Epochs []epochs.Entry
}

// Facts are what the caller of Build knows of the batches.
type Facts struct {
	ID        ID
	Base, End int64
	Aborted   []txnindex.Entry
	Epochs    []epochs.Entry
}

// Object is a log object that is to be put. It implements objects.Body.
type Object struct {
	Log    *Log
	src    io.ReaderAt
	suffix []byte // footer and trailer

	mu    sync.Mutex // guards the following fields: a call of Put that hangs may read while another one does
	chunk []byte     // the one with the number held, or nil
	held  int
}

// Build returns the log object of the batches in the first size bytes of src, which must not change
// any more. It reads them and verifies every batch: the error matches ErrBatches if one is damaged
// or out of order, and ErrContradiction if facts do not fit. Its memory is bounded by the footer,
// which has about 1 byte for each 10 KiB of batches, and the facts.
func Build(f Facts, src io.ReaderAt, size int64) (*Object, error) {
	l := &Log{ID: f.ID, Base: f.Base, End: f.End, Len: size, Aborted: f.Aborted, Epochs: f.Epochs, MaxTimestamp: -1}
	cache, err := epochs.Of(f.Epochs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrContradiction, err)
	}
	w := &summary{l: l, next: f.Base, epochs: cache}
	s := scanner{each: w.add}
	whole := uint32(0)
	err = pieces(src, size, func(p []byte) error {
		l.Chunks = append(l.Chunks, crc32.Checksum(p, castagnoli))
		whole = crc32.Update(whole, castagnoli, p)
		return s.write(p)
	})
	if err == nil {
		err = s.end()
	}
	if err == nil {
		err = w.end()
	}
	l.Sum = whole
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, fmt.Errorf("archive %x-%d [%d, %d): %w", f.ID.Topic, f.ID.Partition, f.Base, f.End, err)
	}
	return &Object{Log: l, src: src, suffix: objects.SealAfter(size, whole, l.appendFooter(nil), objects.Log, logVersion)}, nil
}

// Size implements objects.Body.
func (o *Object) Size() int64 { return o.Log.Len + int64(len(o.suffix)) }

// ReadAt implements objects.Body. It verifies the batches again, and fails with ErrBatches if they
// are not those that Build read: a damaged object would be found only when it is needed.
func (o *Object) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read a log object from position %d", off)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for n < len(p) && off+int64(n) < o.Log.Len {
		at := off + int64(n)
		if err := o.load(int(at / ChunkSize)); err != nil {
			return n, err
		}
		n += copy(p[n:], o.chunk[at%ChunkSize:])
	}
	if at := off + int64(n) - o.Log.Len; 0 <= at && at < int64(len(o.suffix)) {
		n += copy(p[n:], o.suffix[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// load reads a chunk, unless it is the one that is held. The caller holds mu.
func (o *Object) load(i int) error {
	if o.chunk != nil && o.held == i {
		return nil
	}
	from := int64(i) * ChunkSize
	b := o.chunk[:0]
	if b == nil {
		b = make([]byte, 0, min(ChunkSize, o.Log.Len))
	}
	b = b[:min(ChunkSize, o.Log.Len-from)]
	o.chunk = nil // until it is whole
	if n, err := o.src.ReadAt(b, from); n < len(b) {
		return fmt.Errorf("read batches to archive again: %w", unexpected(err))
	}
	if crc32.Checksum(b, castagnoli) != o.Log.Chunks[i] {
		return fmt.Errorf("%w: since they were read first, those from position %d on have changed", ErrBatches, from)
	}
	o.chunk, o.held = b, i
	return nil
}

// Run returns where the batches lie, after the object has been put under the name that has nonce.
func (o *Object) Run(nonce objects.Nonce) Run {
	l := o.Log
	return Run{Kind: objects.Log, Nonce: nonce, Base: l.Base, End: l.End, Size: o.Size(), Len: l.Len, Sum: l.Sum,
		Newest: l.MaxTimestamp, FirstAborted: l.FirstAborted()}
}

// FirstAborted returns the least offset of a record of the transactions in Aborted, -1 without any.
func (l *Log) FirstAborted() int64 {
	first := int64(-1)
	for i := range l.Aborted {
		if a := l.Aborted[i].First; first < 0 || a < first {
			first = a
		}
	}
	return first
}

// summary collects the indexes of batches.
type summary struct {
	l       *Log
	next    int64 // the least offset of the next batch
	epochs  epochs.Cache
	indexed int64 // position of the last entry
	any     bool
	time    Time
}

func (w *summary) add(b record.Batch, pos int64) error {
	if b.BaseOffset() < w.next || b.LastOffset() < b.BaseOffset() || b.LastOffset() >= w.l.End {
		return fmt.Errorf("%w: offsets %d to %d at position %d, expected some of [%d, %d)", ErrBatches, b.BaseOffset(), b.LastOffset(),
			pos, w.next, w.l.End)
	}
	if b.LeaderEpoch() < w.l.Epoch {
		return fmt.Errorf("%w: leader epoch %d at position %d after %d", ErrBatches, b.LeaderEpoch(), pos, w.l.Epoch)
	}
	if known := w.epochs.At(b.BaseOffset()); known != b.LeaderEpoch() {
		return fmt.Errorf("%w: the batch at offset %d has leader epoch %d, and the log %d", ErrContradiction, b.BaseOffset(),
			b.LeaderEpoch(), known)
	}
	w.l.Epoch = b.LeaderEpoch()
	if !w.any || pos-w.indexed >= indexEvery {
		w.flush(b.BaseOffset())
		w.l.Positions = append(w.l.Positions, Position{b.BaseOffset(), pos})
		w.any, w.indexed = true, pos
	}
	w.l.MaxTimestamp = max(w.l.MaxTimestamp, b.Newest())
	w.next = b.LastOffset() + 1
	return nil
}

// flush adds an entry to the time index if the largest timestamp has grown since the last one.
func (w *summary) flush(offset int64) {
	if ts := w.l.MaxTimestamp; ts >= 0 && (len(w.l.Times) == 0 || ts > w.time.Timestamp) {
		w.time = Time{ts, offset}
		w.l.Times = append(w.l.Times, w.time)
	}
}

func (w *summary) end() error {
	if !w.any {
		return fmt.Errorf("%w: there are none", ErrBatches)
	}
	return nil
}

// footerMark begins the footer. A reader of segments takes it for a batch of the current format
// that is longer than the rest of the file, and ends there.
const footerMark = "chronikF" + "\x7f\xff\xff\xff" + "\x00\x00\x00\x00" + "\x02"

// footerEnd is the number of bytes after the fields of a footer: its length and its checksum.
const footerEnd = 8

// appendFooter encodes the footer: its mark, the partition; base, end - base, len, sum u32, epoch;
// the chunks, each u32; the positions, each base and position less those before; max timestamp + 1;
// the times, each less those before; the aborted transactions: bytes of Kafka's index; the leader
// epochs: each epoch less the one before, and start; 0; then the length of all this and its
// CRC-32C, both u32.
func (l *Log) appendFooter(b []byte) []byte {
	le := binary.LittleEndian
	number := func(v int64) { b = binary.AppendUvarint(b, uint64(v)) }
	b = l.ID.append(append(b, footerMark...))
	number(l.Base)
	number(l.End - l.Base)
	number(l.Len)
	b = le.AppendUint32(b, l.Sum)
	number(int64(l.Epoch))
	number(int64(len(l.Chunks)))
	for _, c := range l.Chunks {
		b = le.AppendUint32(b, c)
	}
	number(int64(len(l.Positions)))
	before := Position{Base: l.Base}
	for _, p := range l.Positions {
		number(p.Base - before.Base)
		number(p.Pos - before.Pos)
		before = p
	}
	number(l.MaxTimestamp + 1)
	number(int64(len(l.Times)))
	last := Time{Offset: l.Base}
	for _, x := range l.Times {
		number(x.Timestamp - last.Timestamp)
		number(x.Offset - last.Offset)
		last = x
	}
	b = bytesio.Append(b, txnindex.Encode(nil, l.Aborted))
	number(int64(len(l.Epochs)))
	epoch := int32(0)
	for _, e := range l.Epochs {
		number(int64(e.Epoch - epoch))
		number(e.Start)
		epoch = e.Epoch
	}
	b = append(b, 0) // whether fields of a later version follow
	b = le.AppendUint32(b, uint32(len(b)))
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseFooter decodes what appendFooter returned, without the length and the checksum.
func parseFooter(b []byte) (*Log, error) {
	r := bytesio.NewReader(b)
	if string(r.Take(len(footerMark))) != footerMark {
		return nil, fmt.Errorf("%w: its footer does not begin with the mark of one", objects.ErrDamaged)
	}
	l := &Log{ID: readID(&r), Base: number(&r)}
	l.End = after(&r, l.Base)
	l.Len, l.Sum, l.Epoch = number(&r), r.LE32(), int32(r.UvarintTo(1<<31-1))
	for range r.Count(4) {
		l.Chunks = append(l.Chunks, r.LE32())
	}
	p := Position{Base: l.Base}
	for range r.Count(2) {
		p = Position{after(&r, p.Base), after(&r, p.Pos)}
		l.Positions = append(l.Positions, p)
	}
	l.MaxTimestamp = orNone(&r)
	x := Time{Offset: l.Base}
	for range r.Count(2) {
		x = Time{after(&r, x.Timestamp), after(&r, x.Offset)}
		l.Times = append(l.Times, x)
	}
	if aborted := r.View(); len(aborted) > 0 {
		var err error
		if l.Aborted, err = txnindex.Parse(aborted); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrContradiction, err)
		}
	}
	epoch := int64(0)
	for range r.Count(2) {
		epoch += int64(r.UvarintTo(uint64(1<<31 - 1 - epoch)))
		l.Epochs = append(l.Epochs, epochs.Entry{Epoch: int32(epoch), Start: number(&r)})
	}
	r.UvarintTo(0)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("%w: footer: %w", objects.ErrDamaged, err)
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return l, nil
}

// check returns an error, which matches ErrContradiction, unless l can be that of a log object.
func (l *Log) check() error {
	wrong := func(what string) error {
		return fmt.Errorf("%w: %s of the batches [%d, %d)", ErrContradiction, what, l.Base, l.End)
	}
	within := func(offset int64) bool { return l.Base <= offset && offset < l.End }
	if l.Base < 0 || l.End <= l.Base || l.Len <= 0 || l.ID.Partition < 0 || l.Epoch < 0 ||
		int64(len(l.Chunks)) != (l.Len+ChunkSize-1)/ChunkSize {
		return wrong("bounds")
	}
	for i, p := range l.Positions {
		if !within(p.Base) || p.Pos >= l.Len || i > 0 && (p.Base <= l.Positions[i-1].Base || p.Pos <= l.Positions[i-1].Pos) {
			return wrong("offset index")
		}
	}
	if len(l.Positions) == 0 || l.Positions[0].Pos != 0 {
		return wrong("beginning of the offset index")
	}
	for i, x := range l.Times {
		if !within(x.Offset) || x.Timestamp > l.MaxTimestamp ||
			i > 0 && (x.Timestamp <= l.Times[i-1].Timestamp || x.Offset <= l.Times[i-1].Offset) {
			return wrong("time index")
		}
	}
	for i, a := range l.Aborted {
		if a.Last < l.Base || a.First >= l.End || i > 0 && a.Last <= l.Aborted[i-1].Last {
			return wrong("aborted transactions")
		}
	}
	for i, e := range l.Epochs {
		if e.Start >= l.End || i > 0 && (e.Start <= l.Base || e.Start <= l.Epochs[i-1].Start || e.Epoch <= l.Epochs[i-1].Epoch) {
			return wrong("leader epochs")
		}
	}
	if n := len(l.Epochs); n == 0 || l.Epochs[0].Start > l.Positions[0].Base || l.Epochs[n-1].Epoch < l.Epoch {
		return wrong("first or last leader epoch")
	}
	return nil
}

// Before returns where a search for an offset begins: the position of a batch at or before it.
func (l *Log) Before(offset int64) Position {
	i := sort.Search(len(l.Positions), func(i int) bool { return l.Positions[i].Base > offset })
	return l.Positions[max(i-1, 0)]
}

// BeforeTime returns an offset below which all batches are older than ts, in ms: where the search
// for the first record of ts or later begins. found is false if all batches are older.
func (l *Log) BeforeTime(ts int64) (offset int64, found bool) {
	if ts > l.MaxTimestamp {
		return l.End, false
	}
	i, _ := slices.BinarySearchFunc(l.Times, ts, func(x Time, ts int64) int { return cmp.Compare(x.Timestamp, ts) })
	if i == 0 {
		return l.Base, true
	}
	return l.Times[i-1].Offset, true
}
