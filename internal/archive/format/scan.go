package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/chronik-io/chronik/internal/record"
)

// ErrBatches marks bytes that are not whole, intact batches in the order of their offsets.
var ErrBatches = errors.New("batches to archive are damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// atCovered is the position of the first byte of a batch that its checksum covers, and atSum that
// of the checksum.
const atSum, atCovered = 17, 21

// scanner finds the batches in bytes that it receives in order, in pieces of any size. It needs no
// memory for a batch, and verifies the checksum of each.
type scanner struct {
	each func(header record.Batch, pos int64) error // pos is where the batch begins

	header [record.HeaderSize]byte
	have   int   // bytes of header
	left   int64 // bytes of the batch after its header
	sum    uint32
	pos    int64 // where the current batch begins
	next   int64 // where the next one does
}

// write passes more bytes. After an error it must not be called again.
func (s *scanner) write(p []byte) error {
	for len(p) > 0 {
		if s.have < len(s.header) {
			n := copy(s.header[s.have:], p)
			s.have += n
			p = p[n:]
			if s.have < len(s.header) {
				return nil
			}
			if err := s.begin(); err != nil {
				return err
			}
		}
		n := min(int64(len(p)), s.left)
		s.sum = crc32.Update(s.sum, castagnoli, p[:n])
		p = p[n:]
		if s.left -= n; s.left == 0 {
			if want := binary.BigEndian.Uint32(s.header[atSum:]); s.sum != want {
				return fmt.Errorf("%w: the batch at position %d does not match its checksum", ErrBatches, s.pos)
			}
			s.have = 0
		}
	}
	return nil
}

// begin parses a header.
func (s *scanner) begin() error {
	size, err := record.PeekSize(s.header[:])
	if err != nil {
		return fmt.Errorf("%w: at position %d: %w", ErrBatches, s.next, err)
	}
	s.pos = s.next
	s.next += int64(size)
	s.left = int64(size) - record.HeaderSize
	s.sum = crc32.Checksum(s.header[atCovered:], castagnoli)
	return s.each(record.Batch(s.header[:]), s.pos)
}

// end reports an error if the bytes end within a batch.
func (s *scanner) end() error {
	if s.have != 0 {
		return fmt.Errorf("%w: they end within the batch at position %d", ErrBatches, s.pos)
	}
	return nil
}

// pieces calls each with the bytes [0, size) of src, ChunkSize at a time.
func pieces(src io.ReaderAt, size int64, each func(p []byte) error) error {
	b := make([]byte, min(ChunkSize, size))
	for at := int64(0); at < size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), size-at)]
		if n, err := src.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("read batches to archive: %w", unexpected(err))
		}
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
