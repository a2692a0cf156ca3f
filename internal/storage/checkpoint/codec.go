package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/txnindex"
)

var le = binary.LittleEndian

func (h *Header) append(b []byte) []byte {
	b = le.AppendUint64(b, h.Seq)
	b = le.AppendUint64(b, h.Redo.File)
	b = le.AppendUint64(b, uint64(h.Redo.LSN))
	b = le.AppendUint64(b, uint64(h.Durable))
	b = append(b, h.Dir[:]...)
	b = append(b, h.Journal[:]...)
	b = append(b, h.Boot[:]...)
	b = append(b, h.Finding.ID[:]...)
	b = le.AppendUint64(b, h.Finding.Seq)
	b = append(b, h.Owner.Cluster[:]...)
	b = append(b, h.Owner.Generation[:]...)
	if h.Clean {
		return append(b, 1)
	}
	return append(b, 0)
}

// Kinds of records in a snapshot.
const (
	kindLog    = 1
	kindHeader = 2
)

// Encode returns the log as a record has it, with its producers.
func (l *Log) Encode() []byte { return l.appendWhole(nil) }

// appendWhole encodes a log that ends a record, with its producers.
func (l *Log) appendWhole(b []byte) []byte { return l.appendLed(l.append(b, true)) }

// appendLed encodes the led epoch behind a log that ends a record, if there is one.
func (l *Log) appendLed(b []byte) []byte {
	if l.Led == 0 {
		return b
	}
	return le.AppendUint32(b, uint32(l.Led))
}

// DecodeLog decodes what Encode has returned.
func DecodeLog(b []byte) (*Log, error) {
	c := cursor{bytesio.NewReader(b)}
	l := c.whole()
	return l, c.End()
}

// Sum appends a log without its producers to buf[:0], which it returns for the next call, and
// returns a checksum of that.
func (l *Log) Sum(buf []byte) (uint64, []byte) {
	buf = l.appendLed(l.append(buf[:0], false))
	return crc64.Checksum(buf, sumTable), buf
}

var sumTable = crc64.MakeTable(crc64.ECMA)

func (c *Change) append(b []byte) []byte {
	b = c.Header.append(b)
	b = binary.AppendUvarint(b, uint64(len(c.Logs)))
	for _, u := range c.Logs {
		b = u.Log.append(b, !u.SameProducers)
	}
	return c.appendLed(b)
}

// appendLed encodes the led epochs of a change's logs, if there are any.
func (c *Change) appendLed(b []byte) []byte {
	n := 0
	for _, u := range c.Logs {
		if u.Led != 0 {
			n++
		}
	}
	if n == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(n))
	for i, u := range c.Logs {
		if u.Led != 0 {
			b = le.AppendUint32(binary.AppendUvarint(b, uint64(i)), uint32(u.Led))
		}
	}
	return b
}

func appendID(b []byte, id journal.StreamID) []byte {
	return le.AppendUint32(append(b, id.Topic[:]...), uint32(id.Partition))
}

// Flags of a log.
const (
	flagDeleted = 1 << iota
	flagSwapping
	flagProducers // the record includes the producers
	flagAcksWritten
	flagLossy
	flagAborted // segments have aborted transactions
	flagFlawed  // segments have known flaws
	flagPartial
)

func (l *Log) flags(producers bool) (flags byte) {
	for i, set := range []bool{l.Deleted, l.Swapping, producers, l.AcksWritten, l.Lossy, l.aborted() > 0, len(l.Flaws) > 0, l.Partial} {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}

// append encodes a log, with or without its producers.
func (l *Log) append(b []byte, producers bool) []byte {
	b = append(appendID(b, l.ID), l.flags(producers))
	b = bytesio.Append(bytesio.Append(bytesio.Append(b, l.Topic), l.Offline), l.QuarantineFile)
	b = le.AppendUint64(b, uint64(l.Start))
	b = le.AppendUint64(b, uint64(l.High))
	b = le.AppendUint32(b, uint32(l.HighEpoch))
	b = le.AppendUint64(b, uint64(l.Clean))
	b = binary.AppendUvarint(b, uint64(l.Relied))
	b = le.AppendUint64(b, uint64(l.Swap))
	b = l.Point.append(b)
	known := l.Epochs.Entries()
	b = binary.AppendUvarint(b, uint64(len(known)))
	for _, e := range known {
		b = le.AppendUint64(le.AppendUint32(b, uint32(e.Epoch)), uint64(e.Start))
	}
	if producers {
		b = bytesio.Append(b, l.Producers)
	}
	return l.appendFlaws(l.appendAborted(b))
}

// appendFlaws encodes the known flaws, if there are any.
func (l *Log) appendFlaws(b []byte) []byte {
	if len(l.Flaws) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(l.Flaws)))
	for _, f := range l.Flaws {
		for _, v := range []int64{f.Base, f.Pos, f.Size, f.From, f.To} {
			b = le.AppendUint64(b, uint64(v))
		}
	}
	return b
}

// aborted returns the number of segments with aborted transactions.
func (p *Point) aborted() (n int) {
	for _, s := range p.Segments {
		if s.Aborted != (txnindex.Mark{}) {
			n++
		}
	}
	return n
}

// appendAborted encodes what the indexes of aborted transactions must be, if there are any.
func (p *Point) appendAborted(b []byte) []byte {
	n := p.aborted()
	if n == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(n))
	for i, s := range p.Segments {
		if s.Aborted != (txnindex.Mark{}) {
			b = binary.AppendUvarint(b, uint64(i))
			b = le.AppendUint32(le.AppendUint32(b, s.Aborted.Count), s.Aborted.Sum)
		}
	}
	return b
}

func (p *Point) append(b []byte) []byte {
	b = le.AppendUint64(b, uint64(p.Offset))
	b = le.AppendUint64(b, uint64(p.LSN))
	b = binary.AppendUvarint(b, uint64(len(p.Segments)))
	for _, s := range p.Segments {
		b = le.AppendUint64(b, uint64(s.Base))
		b = le.AppendUint64(b, uint64(s.Size))
	}
	return b
}

// cursor decodes a record. Returned values never alias the record.
type cursor struct{ bytesio.Reader }

func (c *cursor) i64() int64       { return int64(c.LE64()) }
func (c *cursor) lsn() journal.LSN { return journal.LSN(c.LE64()) }
func (c *cursor) id() journal.StreamID {
	return journal.StreamID{Topic: c.ID(), Partition: int32(c.LE32())}
}

// bytes reads a string as bytes. It returns nil for an empty one.
func (c *cursor) bytes() []byte { return append([]byte(nil), c.View()...) }

func (c *cursor) header() (h Header) {
	h.Seq = c.LE64()
	h.Redo.File, h.Redo.LSN = c.LE64(), c.lsn()
	h.Durable = c.lsn()
	h.Dir, h.Journal, h.Boot = c.ID(), c.ID(), c.ID()
	h.Finding.ID, h.Finding.Seq = c.ID(), c.LE64()
	h.Owner.Cluster, h.Owner.Generation = c.ID(), c.ID()
	switch c.Byte() {
	case 0:
	case 1:
		h.Clean = true
	default:
		c.Fail(bytesio.ErrMalformed)
	}
	return h
}

func (c *cursor) point() (p Point) {
	p.Offset, p.LSN = c.i64(), c.lsn()
	for n := c.Count(16); n > 0; n-- {
		p.Segments = append(p.Segments, Extent{Base: c.i64(), Size: c.i64()})
	}
	return p
}

// log reads a log. If the record lacks producers, they are those of the log's last record. known
// returns the last record, nil if there is none.
func (c *cursor) log(known func(journal.StreamID) *Log) *Log {
	l := Log{ID: c.id()}
	flags := c.Byte() // a byte has no other flags
	l.Deleted, l.Swapping = flags&flagDeleted != 0, flags&flagSwapping != 0
	l.AcksWritten, l.Lossy, l.Partial = flags&flagAcksWritten != 0, flags&flagLossy != 0, flags&flagPartial != 0
	l.Topic, l.Offline, l.QuarantineFile = c.Text(), c.Text(), c.Text()
	l.Start, l.High, l.HighEpoch = c.i64(), c.i64(), int32(c.LE32())
	l.Clean, l.Relied, l.Swap = c.i64(), int64(c.Uvarint()), c.i64()
	l.Point = c.point()
	l.Epochs = c.epochs()
	if flags&flagProducers != 0 {
		l.Producers = c.bytes()
	} else if old := known(l.ID); old != nil {
		l.Producers = old.Producers
	} else {
		c.Fail(fmt.Errorf("the first record of log %x-%d has no producers", l.ID.Topic, l.ID.Partition))
	}
	if flags&flagAborted != 0 {
		c.aborted(l.Segments)
	}
	if flags&flagFlawed != 0 {
		for n := c.Count(5 * 8); n > 0; n-- {
			l.Flaws = append(l.Flaws, Flaw{c.i64(), c.i64(), c.i64(), c.i64(), c.i64()})
		}
		if len(l.Flaws) == 0 {
			c.Fail(bytesio.ErrMalformed)
		}
	}
	return &l
}

// whole reads a log that ends a record.
func (c *cursor) whole() *Log {
	l := c.log(func(journal.StreamID) *Log { return nil })
	if c.Err() == nil && c.Left() > 0 {
		c.led(l)
	}
	return l
}

// led reads the led epoch of a log.
func (c *cursor) led(l *Log) {
	if l.Led != 0 {
		c.Fail(bytesio.ErrMalformed)
	} else if l.Led = int32(c.LE32()); l.Led <= 0 {
		c.Fail(bytesio.ErrMalformed)
	}
}

// leds reads the led epochs of a change's logs.
func (c *cursor) leds(logs []*Log) {
	if c.Err() != nil || c.Left() == 0 {
		return
	}
	n := c.Count(1 + 4)
	if n == 0 {
		c.Fail(bytesio.ErrMalformed)
	}
	for ; n > 0; n-- {
		i := c.Uvarint()
		if c.Err() != nil || i >= uint64(len(logs)) {
			c.Fail(bytesio.ErrMalformed)
			return
		}
		c.led(logs[i])
	}
}

// aborted reads what the indexes of aborted transactions of some segments must be.
func (c *cursor) aborted(segments []Extent) {
	for n := c.Count(1 + 8); n > 0; n-- {
		i := c.Uvarint()
		if c.Err() != nil || i >= uint64(len(segments)) || segments[i].Aborted != (txnindex.Mark{}) {
			c.Fail(bytesio.ErrMalformed)
			return
		}
		if segments[i].Aborted = (txnindex.Mark{Count: c.LE32(), Sum: c.LE32()}); segments[i].Aborted == (txnindex.Mark{}) {
			c.Fail(bytesio.ErrMalformed)
		}
	}
}

func (c *cursor) epochs() epochs.Cache {
	var list []epochs.Entry
	for n := c.Count(12); n > 0; n-- {
		list = append(list, epochs.Entry{Epoch: int32(c.LE32()), Start: c.i64()})
	}
	cache, err := epochs.Of(list)
	if err != nil {
		c.Fail(err)
	}
	return cache
}
