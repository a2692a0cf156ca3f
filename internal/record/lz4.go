package record

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/pierrec/lz4/v4"
)

// Lz4 in Kafka is one LZ4 frame (format 1.5.1), little endian:
//
//	magic             uint32  0x184D2204
//	FLG               byte    6-7 version 1, 5 blocks are independent (required),
//	                          4 block checksums, 3 content size, 2 content checksum
//	BD                byte    4-6 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB
//	content size      uint64  where FLG says so
//	HC                byte    second byte of XXH32 from FLG up to here
//	blocks, each: size uint32 (bit 31: stored as it is), data, XXH32 of the data
//	                          where FLG says so
//	end mark          uint32  0
//	content checksum  uint32  XXH32 of all that was inflated, where FLG says so
//
// Java's reader refuses dependent blocks and a second frame, librdkafka's checks
// the content checksum, which Java's ignores: what both read passes here.
const (
	lz4Magic          = 0x184D2204
	lz4Stored         = 1 << 31
	lz4FlagVersion    = 0x40
	lz4FlagLinkless   = 0x20
	lz4FlagBlockSum   = 0x10
	lz4FlagSize       = 0x08
	lz4FlagContentSum = 0x04
	lz4FlagReserved   = 0x03

	// lz4Ratio is how many bytes one byte of a block can stand for at most.
	lz4Ratio = 255
	// lz4Block is how much goes into a block of ours, Java's size.
	lz4Block = 64 << 10
)

var (
	errLz4Frame = errors.New("lz4: not a frame, or of a kind that Kafka does not use")
	errLz4Short = errors.New("lz4: the frame ends too early")
	errLz4Sum   = errors.New("lz4: a checksum does not match")
	errLz4Size  = errors.New("lz4: a size does not match")
)

// lz4Inflater inflates block by block, straight out of the batch's bytes. Its
// buffer is no larger than what the block at hand can inflate to.
type lz4Inflater struct {
	rest     []byte
	flags    byte
	largest  int
	size     uint64 // content size, where the flags have it
	inflated uint64
	sum      xxh32
	block    []byte
	unread   []byte
	done     bool
	decodeHold
}

func (l *lz4Inflater) open(p []byte, limit int64, r *decodeBudget) error {
	if err := l.begin(p, limit); err != nil {
		return err
	}
	need := int64(min(l.largest, len(l.rest)*lz4Ratio))
	if need > roomFree && lz4Bound(p, lightInflated) <= lightInflated {
		return nil // it is not Heavy, and may not wait
	}
	return l.take(r, need)
}

// begin readies l for walking over the blocks.
func (l *lz4Inflater) begin(p []byte, limit int64) error {
	l.rest, l.unread, l.done, l.inflated = nil, nil, false, 0
	l.sum.reset()
	if len(p) < 7 || binary.LittleEndian.Uint32(p) != lz4Magic {
		return errLz4Frame
	}
	flg, bd := p[4], p[5]
	if flg&(0xc0|lz4FlagLinkless|lz4FlagReserved) != lz4FlagVersion|lz4FlagLinkless {
		return errLz4Frame
	}
	index := bd >> 4
	if bd&0x8f != 0 || index < 4 || index > 7 {
		return errLz4Frame
	}
	l.flags, l.largest = flg, 1<<(2*index+8)
	end := 6
	if flg&lz4FlagSize != 0 {
		end += 8
		if len(p) <= end {
			return errLz4Short
		}
		l.size = binary.LittleEndian.Uint64(p[6:])
		if l.size > uint64(limit) {
			return errInflated
		}
	}
	if byte(xxh32Sum(p[4:end])>>8) != p[end] {
		return errLz4Sum
	}
	l.rest = p[end+1:]
	return nil
}

func (l *lz4Inflater) Read(p []byte) (int, error) {
	for len(l.unread) == 0 {
		if l.done {
			return 0, io.EOF
		}
		if err := l.inflate(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.unread)
	l.unread = l.unread[n:]
	return n, nil
}

// number takes a uint32 off the rest.
func (l *lz4Inflater) number() (uint32, error) {
	if len(l.rest) < 4 {
		return 0, errLz4Short
	}
	v := binary.LittleEndian.Uint32(l.rest)
	l.rest = l.rest[4:]
	return v, nil
}

// inflate makes the next block readable, or finds the end of the frame.
func (l *lz4Inflater) inflate() error {
	word, err := l.number()
	if err != nil {
		return err
	}
	n := int(word &^ lz4Stored)
	if n == 0 {
		return l.finish()
	}
	if n > l.largest {
		return errLz4Size
	}
	if n > len(l.rest) {
		return errLz4Short
	}
	data := l.rest[:n]
	l.rest = l.rest[n:]
	if l.flags&lz4FlagBlockSum != 0 {
		sum, err := l.number()
		if err != nil {
			return err
		}
		if sum != xxh32Sum(data) {
			return errLz4Sum
		}
	}
	if word&lz4Stored != 0 {
		l.unread = data
	} else {
		l.block = sized(l.block, min(l.largest, n*lz4Ratio))
		m, err := lz4.UncompressBlock(data, l.block)
		if err != nil {
			return err
		}
		l.unread = l.block[:m]
	}
	l.inflated += uint64(len(l.unread))
	if l.flags&lz4FlagContentSum != 0 {
		l.sum.write(l.unread)
	}
	return nil
}

// finish checks what follows the end mark.
func (l *lz4Inflater) finish() error {
	l.done = true
	if l.flags&lz4FlagContentSum != 0 {
		sum, err := l.number()
		if err != nil {
			return err
		}
		if sum != l.sum.sum() {
			return errLz4Sum
		}
	}
	if l.flags&lz4FlagSize != 0 && l.inflated != l.size {
		return errLz4Size
	}
	if len(l.rest) > 0 {
		return errTrailing
	}
	return nil
}

func (l *lz4Inflater) close() {
	l.rest, l.unread = nil, nil
	l.block = spare(l.block)
	l.release()
}

// lz4FrameHeader is that of Java's Lz4BlockOutputStream: independent blocks of at
// most 64 KiB, no checksums, no size.
var lz4FrameHeader = [7]byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}

// lz4Writer compresses into a frame as Java writes it.
type lz4Writer struct {
	dst      io.Writer
	compress func(src, dst []byte) (int, error)
	block    []byte // not yet compressed
	out      []byte
}

// newLz4Writer returns a writer for one of Kafka's levels: the default one means
// the fast compressor, any other the thorough one, which looks at 2^(level-1)
// candidates for a match.
func newLz4Writer(level int) *lz4Writer {
	w := &lz4Writer{
		block: make([]byte, 0, lz4Block),
		out:   make([]byte, 4+lz4.CompressBlockBound(lz4Block)),
	}
	if level == lz4Default {
		w.compress = new(lz4.Compressor).CompressBlock
	} else {
		w.compress = (&lz4.CompressorHC{Level: 1 << (level - 1)}).CompressBlock
	}
	return w
}

func (w *lz4Writer) reset(dst io.Writer) error {
	w.dst, w.block = dst, w.block[:0]
	_, err := dst.Write(lz4FrameHeader[:])
	return err
}

func (w *lz4Writer) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(w.block[len(w.block):cap(w.block)], p)
		w.block, p = w.block[:len(w.block)+n], p[n:]
		if len(w.block) == cap(w.block) {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

func (w *lz4Writer) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	n, err := w.compress(w.block, w.out[4:])
	if err != nil {
		return err
	}
	size := uint32(n)
	if n == 0 || n >= len(w.block) {
		n = copy(w.out[4:], w.block)
		size = uint32(n) | lz4Stored
	}
	binary.LittleEndian.PutUint32(w.out, size)
	w.block = w.block[:0]
	_, err = w.dst.Write(w.out[:4+n])
	return err
}

func (w *lz4Writer) Close() error {
	err := w.flush()
	if err == nil {
		_, err = w.dst.Write([]byte{0, 0, 0, 0})
	}
	w.dst = nil
	return err
}
