package record

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/pierrec/lz4/v4"
)

// In Kafka, lz4 is one LZ4 frame (format 1.5.1), little endian:
//
//	magic             uint32  0x184D2204
//	FLG               byte    6-7 version 1, 5 blocks are independent (required),
//	                          4 block checksums, 3 content size, 2 content checksum
//	BD                byte    4-6 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB
//	content size      uint64  if FLG declares it
//	HC                byte    second byte of XXH32 from FLG up to here
//	blocks, each: size uint32 (bit 31: stored uncompressed), data, XXH32 of the data
//	                          if FLG declares it
//	end mark          uint32  0
//	content checksum  uint32  XXH32 of the inflated data, if FLG declares it
//
// Java's reader rejects dependent blocks and a second frame; librdkafka's verifies the content
// checksum, which Java's ignores. Only frames that both readers accept are accepted here.
const (
	lz4Magic          = 0x184D2204
	lz4Stored         = 1 << 31
	lz4FlagVersion    = 0x40
	lz4FlagLinkless   = 0x20
	lz4FlagBlockSum   = 0x10
	lz4FlagSize       = 0x08
	lz4FlagContentSum = 0x04
	lz4FlagReserved   = 0x03

	// lz4Ratio is the maximum expansion of a block.
	lz4Ratio = 255
	// lz4Block is the inflated size of the blocks that lz4Writer writes, Java's size.
	lz4Block = 64 << 10
)

var (
	errLz4Frame = errors.New("lz4: not a frame that Kafka supports")
	errLz4Short = errors.New("lz4: the frame ends too early")
	errLz4Sum   = errors.New("lz4: a checksum does not match")
	errLz4Size  = errors.New("lz4: a size does not match")
)

// lz4Inflater inflates block by block, directly from the batch's bytes. Its buffer is no larger
// than the maximum inflated size of the current block.
type lz4Inflater struct {
	rest     []byte
	flags    byte
	largest  int
	size     uint64 // content size, if the flags declare it
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
	if need > unbudgeted && lz4Bound(p, lightInflated) <= lightInflated {
		return nil // it is not Heavy, and must not wait
	}
	return l.take(r, need)
}

// begin prepares l for a walk over the blocks.
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

// number removes a uint32 from the rest.
func (l *lz4Inflater) number() (uint32, error) {
	if len(l.rest) < 4 {
		return 0, errLz4Short
	}
	v := binary.LittleEndian.Uint32(l.rest)
	l.rest = l.rest[4:]
	return v, nil
}

// inflate inflates the next block, or finds the end of the frame.
func (l *lz4Inflater) inflate() error {
	word, err := l.number()
	if err != nil {
		return err
	}
	if word == 0 {
		return l.finish()
	}
	n := int(word &^ lz4Stored)
	if n == 0 || n > l.largest { // Java takes an empty stored block for the end, Go's clients refuse it
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

// finish checks the bytes after the end mark.
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

// lz4FrameHeader is the header of Java's Lz4BlockOutputStream: independent blocks of at most 64
// KiB, no checksums, no size.
var lz4FrameHeader = [7]byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}

// lz4Writer compresses into a frame as Java writes it.
type lz4Writer struct{ blockWriter }

// newLz4Writer returns a writer for one of Kafka's levels: the default level selects the fast
// compressor, any other the high-compression one, which tries 2^(level-1) candidates for a match.
func newLz4Writer(level int) *lz4Writer {
	compress := new(lz4.Compressor).CompressBlock
	if level != lz4Default {
		compress = (&lz4.CompressorHC{Level: 1 << (level - 1)}).CompressBlock
	}
	out := make([]byte, 4+lz4.CompressBlockBound(lz4Block))
	return &lz4Writer{blockWriter{block: make([]byte, 0, lz4Block), pack: func(block []byte) ([]byte, error) {
		n, err := compress(block, out[4:])
		size := uint32(n)
		if n == 0 || n >= len(block) {
			n = copy(out[4:], block)
			size = uint32(n) | lz4Stored
		}
		binary.LittleEndian.PutUint32(out, size)
		return out[:4+n], err
	}}}
}

func (w *lz4Writer) reset(dst io.Writer) error { return w.begin(dst, lz4FrameHeader[:]) }

func (w *lz4Writer) Close() error { return w.finish([]byte{0, 0, 0, 0}) }
