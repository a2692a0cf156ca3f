package statelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/vfs"
)

// chunkSize is the approximate payload of one snapshot frame, in bytes.
const chunkSize = 1 << 20

// Emit adds a record to a snapshot. The caller may reuse the record when Emit returns.
type Emit func(record []byte) error

// Rotate begins a new generation, whose snapshot holds the records that the function emits: the
// state from now on. That state may differ from the result of the appended records; then Rotate
// commits it. When Rotate returns, the new generation is current. After an error, or a crash during
// the call, either the old or the new generation is current, so Append fails until a Rotate
// succeeds. After Close, Rotate fails: the directory may belong to another process.
func (l *Log) Rotate(snapshot func(Emit) error) error {
	if errors.Is(l.failed, errClosed) {
		return errClosed
	}
	l.id.generation++
	fresh, size, err := l.begin(snapshot)
	if err != nil {
		return l.latch(fmt.Errorf("begin generation %d: %w", l.id.generation, err))
	}
	if err := l.files.close(); err != nil {
		l.opts.Log.Warn("closing the old log failed", zap.Error(err))
	}
	l.files, l.end, l.snapshot, l.failed = fresh, headerSize, size, nil
	l.removeOlder()
	return nil
}

// Restart makes the next Rotate begin after the record with number sequence, whatever the log held
// before: an owner that copies another log continues at that log's position. Append fails until
// Rotate succeeds.
func (l *Log) Restart(sequence uint64) {
	if errors.Is(l.failed, errClosed) {
		return
	}
	l.sequence, l.failed = sequence, errNotBegun
}

// begin writes the files of a new generation and returns its log and the size of its snapshot. The
// package comment lists the steps.
func (l *Log) begin(snapshot func(Emit) error) (copies, int64, error) {
	g, dirs := l.id.generation, l.opts.dirs()
	var logs, tmps []string
	for _, dir := range dirs {
		if err := vfs.MakeDir(l.opts.FS, dir); err != nil {
			return nil, 0, err
		}
		logs, tmps = append(logs, logName(dir, g)), append(tmps, snapshotName(dir, g)+suffixTmp)
	}
	log, err := l.writeLog(logs)
	var size int64
	if err == nil {
		size, err = l.writeSnapshot(tmps, snapshot)
	}
	if err != nil {
		l.discard(log, append(logs, tmps...))
		return nil, 0, err
	}
	for i, dir := range dirs {
		err := l.opts.FS.Rename(tmps[i], snapshotName(dir, g))
		if err == nil {
			err = l.opts.FS.SyncDir(dir)
		}
		if err != nil {
			_ = log.close() // report the first error
			return nil, 0, err
		}
	}
	return log, size, nil
}

// writeLog creates an empty log in every directory.
func (l *Log) writeLog(names []string) (copies, error) {
	c, err := l.create(names)
	if err == nil {
		err = c.writeAt(l.opts.Format.header(l.id, kindLog), 0)
	}
	if err == nil {
		err = c.datasync()
	}
	for _, name := range names {
		if err == nil {
			err = l.opts.FS.SyncDir(path.Dir(name))
		}
	}
	return c, err
}

// create creates a file in every directory. On an error it also returns the files created so far.
func (l *Log) create(names []string) (copies, error) {
	var c copies
	for _, name := range names {
		f, err := l.opts.FS.Create(name)
		if err != nil {
			return c, err
		}
		c = append(c, f)
	}
	return c, nil
}

// discard removes the files of a generation that was never renamed into place: repeated attempts
// must not fill a full disk.
func (l *Log) discard(log copies, names []string) {
	_ = log.close()
	for _, name := range names {
		_ = l.opts.FS.Remove(name) // a later Rotate removes the remaining files
	}
}

// writeSnapshot writes the snapshot under temporary names, syncs it and returns its size in bytes.
func (l *Log) writeSnapshot(names []string, snapshot func(Emit) error) (int64, error) {
	c, err := l.create(names)
	w := snapshotWriter{id: l.id, sequence: l.sequence, files: c, name: l.opts.Format.Name, buf: l.opts.Format.header(l.id, kindSnapshot)}
	if err == nil {
		err = snapshot(w.emit)
	}
	if err == nil {
		err = w.finish()
	}
	if err == nil {
		err = c.datasync()
	}
	if cerr := c.close(); err == nil {
		err = cerr
	}
	return w.end, err
}

// snapshotWriter divides a snapshot into frames, so that neither writing nor reading needs memory
// for all of it.
type snapshotWriter struct {
	id       identity
	sequence uint64
	files    copies
	name     string
	end      int64
	count    uint64
	payload  []byte // of the frame being built
	buf      []byte // not written yet
}

func (w *snapshotWriter) emit(record []byte) error {
	if len(record) > maxRecords {
		return fmt.Errorf("snapshot of %s, record of %d bytes: %w", w.name, len(record), ErrTooLarge)
	}
	w.payload = appendRecord(w.payload, record)
	w.count++
	if len(w.payload) < chunkSize {
		return nil
	}
	w.frame()
	return w.flush()
}

// frame completes the frame being built; flush writes it.
func (w *snapshotWriter) frame() {
	if len(w.payload) > 0 {
		w.buf = w.id.appendFrame(w.buf, frame{kind: frameState, sequence: w.sequence, payload: w.payload})
		w.payload = w.payload[:0]
	}
}

func (w *snapshotWriter) flush() error {
	err := w.files.writeAt(w.buf, w.end)
	w.end += int64(len(w.buf))
	w.buf = w.buf[:0]
	return err
}

// finish writes the rest and the end frame.
func (w *snapshotWriter) finish() error {
	w.frame()
	w.buf = w.id.appendFrame(w.buf, frame{kind: frameEnd, sequence: w.sequence, payload: binary.AppendUvarint(nil, w.count)})
	return w.flush()
}

// removeOlder removes the files of older generations. The next Rotate retries after an error.
func (l *Log) removeOlder() {
	for _, dir := range l.opts.dirs() {
		list, err := l.opts.FS.List(dir)
		for _, info := range list {
			g, suffix := parseName(info.Name)
			if suffix == "" || g >= l.id.generation && suffix != suffixTmp {
				continue
			}
			if rerr := l.opts.FS.Remove(path.Join(dir, info.Name)); err == nil {
				err = rerr
			}
		}
		if err != nil {
			l.opts.Log.Warn("removing old files failed", zap.String("state", l.opts.Format.Name), zap.String("dir", dir), zap.Error(err))
		}
	}
}
