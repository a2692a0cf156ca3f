package record

import (
	"context"
	"errors"
	"io"
	"net/netip"

	"github.com/chronik-io/chronik/internal/share"
)

// DefaultMaxInflated is the inflated size that a batch may have if the caller sets no limit, and
// the upper bound of limits derived from a batch's size: 256 MiB.
const DefaultMaxInflated = 256 << 20

// scanner walks the records of one batch, once. Its memory is one window, however large the records
// are, unless the caller asks for their content.
type scanner struct {
	cursor
	batch Batch
	count int32 // number of records according to the header
	index int32 // of the next record
	fail  error // the first fault, an *Error

	inf    inflater
	most   int64         // limit for one inflated record
	place  *share.Places // one of these is held; nil if none is
	window *[]byte
}

// head is the header of a scanned record.
type head struct {
	timestamp int64 // ms; the broker's if the batch has LogAppendTime
	timeDelta int64 // as the record has it
	overflow  bool  // the timestamp does not fit 64 bits
	delta     int32 // of the offset
	key       bool  // not null
}

// open prepares s for the records of b and inflates within limits. tee, unless nil, receives all
// inflated bytes. The caller must call close after every open, even after an error. In between it
// must not open another batch, nor wait for a goroutine that does: both may need the same place and
// memory.
func (s *scanner) open(b Batch, limits Limits, tee io.Writer) error {
	s.batch, s.count = b, b.Records()
	if s.count < 0 {
		return refuse(InvalidRecord, "record count %d is negative", s.count)
	}
	codec := b.Codec()
	if codec == None || s.count == 0 && len(b) == HeaderSize {
		s.buf = b.payload()
		return nil
	}
	if !codec.Known() {
		return refuse(UnsupportedCodec, "compression codec %d does not exist", codec)
	}
	limit := limits.Bytes
	if limit <= 0 {
		limit = DefaultMaxInflated
	}
	r := sharedBudget()
	s.limit, s.tee, s.most = limit, tee, r.size
	if p := limits.Places; p != nil && codec.inflatesMuch(b.payload()) {
		if err := p.Take(context.Background(), nil, netip.Prefix{}); err != nil {
			return err
		}
		s.place = p
	}
	s.inf = getInflater(codec)
	if err := s.inf.open(b.payload(), limit, r); err != nil {
		return s.streamError(err)
	}
	s.window = getWindow()
	s.buf, s.src = *s.window, s.inf
	return nil
}

// close releases everything that open acquired.
func (s *scanner) close() {
	if s.inf != nil {
		s.inf.close()
		putInflater(s.batch.Codec(), s.inf)
		s.inf = nil
	}
	if s.place != nil {
		s.place.Leave()
		s.place = nil
	}
	if s.window != nil {
		putWindow(s.window, s.buf)
		s.window, s.buf = nil, nil
	}
}

// next walks over one record; callers must stop after count records. If rec is not nil, next stores
// the key, value and headers in it, which alias the window until the next call.
func (s *scanner) next(rec *Record) (head, error) {
	var h head
	length := s.varint32("record length")
	if s.fail != nil {
		return h, s.fail
	}
	switch {
	case length < 0:
		s.reject("record length %d is negative", length)
	case int64(length) > s.left() && s.src == nil:
		s.reject("record length is %d, %d bytes are left", length, s.left())
	case int64(length) > s.left():
		s.fail = refuseAt(TooLarge, s.index, "record length is %d, at most %d more bytes may be inflated", length, s.left())
	case s.src != nil && int64(length) > s.most:
		// Accept does not need the record at once, but its readers will.
		s.fail = refuseAt(TooLarge, s.index, "record length is %d, %v", length, budgetError{int64(length), s.most})
	case rec != nil && !s.need(int(length)):
		s.cut()
	}
	if s.fail != nil {
		return h, s.fail
	}
	end := s.at() + int64(length)
	s.body(end, &h, rec)
	if s.fail == nil && s.at() != end {
		s.reject("fields take %d bytes, record length is %d", s.at()-end+int64(length), length)
	}
	s.index++
	return h, s.fail
}

// body walks over the content of a record that ends at end.
func (s *scanner) body(end int64, h *head, rec *Record) {
	if s.at() == end {
		s.reject("record is empty")
		return
	}
	if !s.skip(1) { // attributes: unused, and ignored by every reader
		s.cut()
		return
	}
	first, delta := s.batch.FirstTimestamp(), s.varlong("timestamp delta")
	h.timestamp, h.timeDelta = first+delta, delta
	h.overflow = (h.timestamp < first) != (delta < 0)
	if s.batch.LogAppendTime() {
		h.timestamp, h.overflow = s.batch.MaxTimestamp(), false
	}
	h.delta = s.varint32("offset delta")
	key, hasKey := s.bytes(end, "key length", true, rec != nil)
	value, _ := s.bytes(end, "value length", true, rec != nil)
	h.key = hasKey
	if rec != nil {
		rec.Offset = s.batch.BaseOffset() + int64(h.delta)
		rec.Timestamp, rec.Key, rec.Value = h.timestamp, key, value
	}
	s.headers(end, rec)
}

func (s *scanner) headers(end int64, rec *Record) {
	n := s.varint32("header count")
	if s.fail != nil {
		return
	}
	// A header takes at least two bytes: an impossible count is rejected before it is used.
	if n < 0 || int64(n) > (end-s.at())/2 {
		s.reject("header count %d does not fit the %d bytes that are left", n, end-s.at())
		return
	}
	from := s.at()
	for range n {
		if s.header(end, false); s.fail != nil {
			return
		}
	}
	if rec != nil && s.at() <= end { // so all of it is in the window
		rec.Headers = Headers{n: int(n), raw: s.buf[from-s.base : s.pos]}
	}
}

func (s *scanner) header(end int64, keep bool) (h Header) {
	h.Key, _ = s.bytes(end, "header key length", false, keep)
	h.Value, _ = s.bytes(end, "header value length", true, keep)
	return h
}

// bytes walks over a length and as many bytes; a length of -1 means null, without bytes.
func (s *scanner) bytes(end int64, what string, nullable, keep bool) (p []byte, ok bool) {
	n := s.varint32(what)
	switch {
	case s.fail != nil:
		return nil, false
	case n == -1 && nullable:
		return nil, false
	case n < 0:
		s.reject("%s is %d", what, n)
		return nil, false
	case int64(n) > end-s.at():
		s.reject("%s is %d, the record has %d bytes left", what, n, end-s.at())
		return nil, false
	}
	if keep {
		p, ok = s.take(int(n))
	} else {
		ok = s.skip(int64(n))
	}
	if !ok {
		s.cut()
	}
	return p, ok
}

func (s *scanner) varint32(what string) int32 {
	return int32(s.number(what, 32))
}

func (s *scanner) varlong(what string) int64 { return s.number(what, 64) }

func (s *scanner) number(what string, bits uint) int64 {
	if s.fail != nil {
		return 0
	}
	v, long, ok := s.varint(bits)
	switch {
	case long:
		s.reject("%s does not fit %d bits", what, bits)
	case !ok:
		s.cut()
	}
	return v
}

// end checks that nothing follows the last record.
func (s *scanner) end() error {
	if s.ended() {
		return nil
	}
	if s.err != nil {
		return s.streamError(s.err)
	}
	return refuse(InvalidRecord, "bytes are left after the last of %d records", s.count)
}

// reject sets fail to a fault of the current record, unless it is set already.
func (s *scanner) reject(format string, args ...any) {
	if s.fail == nil {
		s.fail = refuseAt(InvalidRecord, s.index, format, args...)
	}
}

// cut sets fail because the data ended too early or could not be read, unless it is set already.
func (s *scanner) cut() {
	if s.fail != nil {
		return
	}
	if s.err != nil {
		s.fail = s.streamError(s.err)
		return
	}
	s.fail = refuseAt(InvalidRecord, s.index, "the data ends inside record %d of %d", s.index+1, s.count)
}

// streamError converts an error of the inflater, or of the tee, to an error for the client. A
// stream with a valid CRC that cannot be inflated was sent like that; sending it again would not
// help, so the error is not Corrupt.
func (s *scanner) streamError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[teeError](err); ok {
		return e.error
	}
	if e, ok := errors.AsType[budgetError](err); ok {
		return refuse(TooLarge, "the %s data cannot be inflated: %v", s.batch.Codec(), e)
	}
	if errors.Is(err, errInflated) {
		return refuse(TooLarge, "the %s data inflates to more than %d bytes", s.batch.Codec(), s.limit)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return refuse(InvalidRecord, "the %s data cannot be inflated: %v", s.batch.Codec(), err)
}
