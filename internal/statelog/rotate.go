package statelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/vfs"
)

// chunkSize is the approximate payload of one snapshot frame, in bytes.
const chunkSize = 1 << 20

// syncSize is after how many bytes of a snapshot they are synced.
const syncSize = 8 << 20

// Emit adds a record to a snapshot. The caller may reuse the record when Emit returns.
type Emit func(record []byte) error

// Generation is a generation whose snapshot is being written. Write and Stop may be called while
// the owner appends.
type Generation struct {
	opts     *Options
	id       identity
	sequence uint64 // of the last record before its log
	stopped  atomic.Bool
	size     int64 // of the snapshot
}

// Rotate begins a new generation, whose snapshot holds the records that the function emits: the
// state from now on. That state may differ from the result of the appended records; then Rotate
// commits it. When Rotate returns, the new generation is current. After an error, or a crash during
// the call, either the old or the new generation is current, so Append fails until a Rotate
// succeeds. After Close, Rotate fails: the directory may belong to another process. A snapshot that
// Begin announced is given up.
func (l *Log) Rotate(snapshot func(Emit) error) error {
	if errors.Is(l.failed, errClosed) {
		return errClosed
	}
	l.giveUp()
	g := l.next()
	fresh, err := g.writeLog(0)
	if err == nil {
		if err = g.Write(snapshot); err != nil {
			g.discard(fresh, g.logs())
		}
	}
	if err == nil {
		if err = g.publish(); err != nil {
			_ = fresh.close() // report the first error
		}
	}
	if err != nil {
		return l.latch(fmt.Errorf("begin generation %d: %w", g.id.generation, err))
	}
	l.replace(g, fresh)
	l.snapshot, l.failed = g.size, nil
	l.removeOlder()
	return nil
}

// Begin begins a generation whose snapshot another goroutine writes: later records go to its log,
// which continues the logs before it. The owner must capture its state before the next Append, call
// Generation.Write with it, and then Finish. Until then, a crash leaves the former snapshot with
// all logs since. One generation at a time may be begun and not finished. An error of Begin, Write
// or Finish is no failure of the log: Append continues.
func (l *Log) Begin() (*Generation, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	if l.begun != nil {
		return nil, errBegun
	}
	g := l.next()
	fresh, err := g.writeLog(flagContinues)
	if err != nil {
		return nil, fmt.Errorf("begin generation %d: %w", g.id.generation, err)
	}
	l.replace(g, fresh)
	l.begun = g
	return g, nil
}

var errBegun = errors.New("the previous snapshot is still being written")

// Finish makes a snapshot current that Generation.Write has written; written is its result. It
// removes the older files. A generation that Rotate has replaced, or of a log that has failed, is
// given up.
func (l *Log) Finish(g *Generation, written error) error {
	if l.begun != g {
		g.removeSnapshot()
		return nil
	}
	l.begun = nil
	if written != nil || l.failed != nil {
		g.removeSnapshot()
		return written
	}
	if err := g.publish(); err != nil {
		return fmt.Errorf("finish generation %d: %w", g.id.generation, err)
	}
	l.snapshot = g.size
	l.removeOlder()
	return nil
}

// giveUp ends the writing of a snapshot that is not needed any more.
func (l *Log) giveUp() {
	if l.begun != nil {
		l.begun.Stop()
		l.begun = nil
	}
}

// next returns the next generation. No number is used twice.
func (l *Log) next() *Generation {
	l.last++
	return &Generation{opts: &l.opts, id: identity{l.id.log, l.last}, sequence: l.sequence}
}

// replace makes the log of a generation the one that receives records.
func (l *Log) replace(g *Generation, fresh copies) {
	if err := l.files.close(); err != nil {
		l.opts.Log.Warn("closing the old log failed", zap.String("state", l.opts.Format.Name),
			zap.Strings("dirs", l.opts.dirs()), zap.Error(err))
	}
	l.id, l.files, l.end = g.id, fresh, headerSize
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

// Stop makes a Write in progress, or the next one, return an error soon.
func (g *Generation) Stop() { g.stopped.Store(true) }

var errStopped = errors.New("snapshot is not needed any more")

func (g *Generation) logs() (names []string) {
	for _, dir := range g.opts.dirs() {
		names = append(names, logName(dir, g.id.generation))
	}
	return names
}

func (g *Generation) tmps() (names []string) {
	for _, dir := range g.opts.dirs() {
		names = append(names, snapshotName(dir, g.id.generation)+suffixTmp)
	}
	return names
}

// writeLog creates an empty log in every directory.
func (g *Generation) writeLog(flags byte) (copies, error) {
	for _, dir := range g.opts.dirs() {
		if err := vfs.MakeDir(g.opts.FS, dir); err != nil {
			return nil, err
		}
	}
	names := g.logs()
	c, err := g.create(names)
	if err == nil {
		err = c.writeAt(g.opts.Format.header(g.id, kindLog, flags), 0)
	}
	if err == nil {
		err = c.datasync()
	}
	for _, dir := range g.opts.dirs() {
		if err == nil {
			err = g.opts.FS.SyncDir(dir)
		}
	}
	if err != nil {
		g.discard(c, names)
		return nil, err
	}
	return c, nil
}

// create creates a file in every directory. On an error it also returns the files created so far.
func (g *Generation) create(names []string) (copies, error) {
	var c copies
	for _, name := range names {
		f, err := g.opts.FS.Create(name)
		if err != nil {
			return c, err
		}
		c = append(c, f)
	}
	return c, nil
}

// discard removes the files of a generation that was never renamed into place: repeated attempts
// must not fill a full disk.
func (g *Generation) discard(files copies, names []string) {
	_ = files.close()
	for _, name := range names {
		_ = g.opts.FS.Remove(name) // a later Rotate removes the remaining files
	}
}

func (g *Generation) removeSnapshot() { g.discard(nil, g.tmps()) }

// Write writes the snapshot under temporary names and syncs it. Its memory does not depend on the
// size of the snapshot, apart from the largest record. After an error, no file of it remains.
func (g *Generation) Write(snapshot func(Emit) error) error {
	names := g.tmps()
	c, err := g.create(names)
	w := snapshotWriter{generation: g, files: c, buf: g.opts.Format.header(g.id, kindSnapshot, 0)}
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
	if err != nil {
		g.removeSnapshot()
		return fmt.Errorf("write the snapshot of generation %d: %w", g.id.generation, err)
	}
	g.size = w.end
	return nil
}

// publish renames the snapshot into place.
func (g *Generation) publish() error {
	for i, dir := range g.opts.dirs() {
		err := g.opts.FS.Rename(g.tmps()[i], snapshotName(dir, g.id.generation))
		if err == nil {
			err = g.opts.FS.SyncDir(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// snapshotWriter divides a snapshot into frames, so that neither writing nor reading needs memory
// for all of it.
type snapshotWriter struct {
	generation *Generation
	files      copies
	end        int64
	synced     int64 // the end at the last sync
	count      uint64
	payload    []byte // of the frame being built
	buf        []byte // not written yet
}

func (w *snapshotWriter) emit(record []byte) error {
	if len(record) > maxRecords {
		return fmt.Errorf("snapshot of %s, record of %d bytes: %w", w.generation.opts.Format.Name, len(record), ErrTooLarge)
	}
	if w.generation.stopped.Load() {
		return errStopped
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
		w.buf = w.generation.id.appendFrame(w.buf, frame{kind: frameState, sequence: w.generation.sequence, payload: w.payload})
		w.payload = w.payload[:0]
	}
}

// flush writes the complete frames. It syncs from time to time: a file system may make the sync of
// the log wait for all that was written to the snapshot.
func (w *snapshotWriter) flush() error {
	err := w.files.writeAt(w.buf, w.end)
	w.end += int64(len(w.buf))
	w.buf = w.buf[:0]
	if err == nil && w.end-w.synced >= syncSize {
		w.synced = w.end
		err = w.files.datasync()
	}
	return err
}

// finish writes the rest and the end frame.
func (w *snapshotWriter) finish() error {
	w.frame()
	g := w.generation
	w.buf = g.id.appendFrame(w.buf, frame{kind: frameEnd, sequence: g.sequence, payload: binary.AppendUvarint(nil, w.count)})
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
