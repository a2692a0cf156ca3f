package statelog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/vfs"
)

const (
	// maxRecords bounds the bytes of the records of one Append, and of one record of a snapshot. A
	// frame can hold four times as much.
	maxRecords = 1 << 30
	// keptBuffer is the largest buffer that a log keeps for the next Append.
	keptBuffer = 8 << 20

	defaultCompactBytes = 4 << 20
)

// Options configure a log.
type Options struct {
	FS vfs.FS
	// Dir is the directory; it belongs to the log.
	Dir string
	// Mirror is a second directory that receives the same files; empty: none.
	Mirror string
	Format Format
	// CompactBytes is the size of the log, in bytes, above which ShouldRotate reports true, unless
	// the snapshot is larger. 0: 4 MiB.
	CompactBytes int64
	Log          *zap.Logger // nil: none
}

// dirs returns the directories that receive every file; Open reads the first one.
func (o *Options) dirs() []string {
	if o.Mirror == "" {
		return []string{o.Dir}
	}
	return []string{o.Dir, o.Mirror}
}

// Log is an open log. Its methods must not be called concurrently; Generation.Write may run
// meanwhile.
type Log struct {
	opts     Options
	id       identity
	last     uint64 // the highest generation that was used
	sequence uint64
	failed   error       // why nothing may be written to the current generation
	begun    *Generation // whose snapshot is being written; nil: none

	files    copies // of the log
	end      int64  // of the log
	snapshot int64  // size of the snapshot
	buf      []byte // the frame being built
	payload  []byte
}

var errNotBegun = errors.New("Rotate was not called since the log was opened")

// Open reads the log in a directory, which may be missing or empty, and changes nothing. The caller
// must ensure that no other process uses the directories. Append fails until the caller has called
// Rotate.
func Open(opts Options, to Reader) (*Log, Content, error) {
	if len(opts.Format.Magic) != magicSize {
		return nil, Content{}, fmt.Errorf("open state log: magic %q must have %d bytes", opts.Format.Magic, magicSize)
	}
	if opts.CompactBytes <= 0 {
		opts.CompactBytes = defaultCompactBytes
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	c, err := Read(opts.FS, opts.Dir, opts.Format, to)
	if err != nil {
		return nil, c, err
	}
	l := &Log{opts: opts, id: identity{c.log, c.last}, last: c.last, sequence: c.Sequence, failed: errNotBegun}
	if !c.Used {
		_, _ = rand.Read(l.id.log[:]) // never fails
	}
	if opts.Mirror == "" {
		return l, c, nil
	}
	mirror, err := survey(opts.FS, opts.Mirror, &opts.Format)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, c, err
	}
	if !c.Used && (mirror.used || err != nil) {
		what := "there is no snapshot, but there is a log in " + opts.Mirror
		return nil, c, &Damage{Name: opts.Format.Name, File: opts.Dir, What: what, Lost: true}
	}
	if err != nil { // the next Rotate replaces it
		opts.Log.Warn("the second copy of a state log is damaged; a new one replaces it", zap.String("state", opts.Format.Name),
			zap.String("dir", opts.Mirror), zap.Error(err))
	}
	l.last = max(l.last, mirror.last)
	return l, c, nil
}

// Append writes records to the log and syncs it: all of them are durable when it returns. After any
// error other than ErrTooLarge the fate of the records is unknown, and Append fails until a Rotate
// succeeds.
func (l *Log) Append(records ...[]byte) error {
	if l.failed != nil || len(records) == 0 {
		return l.failed
	}
	total := 0
	for _, r := range records {
		total += len(r) + binary.MaxVarintLen64
	}
	if total > maxRecords {
		return fmt.Errorf("append %d bytes to %s: %w", total, l.opts.Format.Name, ErrTooLarge)
	}
	l.payload = l.payload[:0]
	for _, r := range records {
		l.payload = appendRecord(l.payload, r)
	}
	f := frame{kind: frameRecords, sequence: l.sequence + uint64(len(records)), payload: l.payload}
	if err := l.write(f); err != nil {
		return l.latch(err)
	}
	l.sequence = f.sequence
	return nil
}

// write appends a frame to every copy of the log and syncs them.
func (l *Log) write(f frame) error {
	l.buf = l.id.appendFrame(l.buf[:0], f)
	n := int64(len(l.buf))
	err := l.files.writeAt(l.buf, l.end)
	if err == nil {
		err = l.files.datasync()
	}
	l.end += n
	if cap(l.buf)+cap(l.payload) > keptBuffer {
		l.buf, l.payload = nil, nil
	}
	return err
}

func (l *Log) latch(err error) error {
	l.failed = err
	return err
}

// ShouldRotate reports whether the log has grown so much that a new generation is cheaper to read:
// whether it is larger than CompactBytes and larger than its snapshot. It reports false while a
// snapshot is being written.
func (l *Log) ShouldRotate() bool {
	return l.begun == nil && l.end > max(l.opts.CompactBytes, l.snapshot)
}

// Close appends the clean-stop frame, unless the log has failed or was never rotated, and closes
// the files. A Write of another goroutine must have ended before the directory belongs to another
// process; Close makes it end soon.
func (l *Log) Close() error {
	l.giveUp()
	var err error
	if l.failed == nil {
		err = l.write(frame{kind: frameClosed, sequence: l.sequence})
	}
	if cerr := l.files.close(); err == nil {
		err = cerr
	}
	l.files, l.failed = nil, errClosed
	return err
}

var errClosed = errors.New("log is closed")

// copies are the files of one name in all directories.
type copies []vfs.File

func (c copies) writeAt(p []byte, off int64) error {
	for _, f := range c {
		if _, err := f.WriteAt(p, off); err != nil {
			return err
		}
	}
	return nil
}

func (c copies) datasync() error {
	for _, f := range c {
		if err := f.Datasync(); err != nil {
			return err
		}
	}
	return nil
}

// close closes all files and returns the first error.
func (c copies) close() (err error) {
	for _, f := range c {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	return err
}
