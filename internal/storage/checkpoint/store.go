package checkpoint

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/bytesio"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// format is the format of the files.
var format = statelog.Format{Name: "checkpoint", Magic: "chronikc", Version: 4}

// Options describe where a checkpoint is stored.
type Options struct {
	FS vfs.FS
	// Dir is the directory of its files, which must hold nothing else.
	Dir string
	// Mirror is the directory of their copies; empty means no copies.
	Mirror string
	Log    *zap.Logger
	// CompactBytes is the size of the changes above which Grown reports true, unless the last whole
	// state was larger. 0 means 4 MiB.
	CompactBytes int64
}

// Store writes a checkpoint. Its methods must not be called concurrently.
type Store struct {
	log   *statelog.Log
	all   bool                      // the next commit must be a WriteAll
	known map[journal.StreamID]bool // logs whose producers were written since the last whole state began
	buf   []byte
}

// Open reads a checkpoint and changes nothing; the state is nil if there is none. The first commit
// must be a WriteAll. If the files are damaged or too new, the error matches statelog.ErrDamaged or
// statelog.ErrNewerFormat.
func Open(opts Options) (*Store, *State, error) {
	to := newLoader()
	log, c, err := statelog.Open(statelog.Options{
		FS: opts.FS, Dir: opts.Dir, Mirror: opts.Mirror, Format: format, CompactBytes: opts.CompactBytes, Log: opts.Log,
	}, to)
	if err != nil {
		return nil, nil, fmt.Errorf("open checkpoint: %w", err)
	}
	state, err := to.state(opts.Dir, c)
	if err != nil {
		return nil, nil, fmt.Errorf("open checkpoint: %w", err)
	}
	return &Store{log: log, all: true, known: map[journal.StreamID]bool{}}, state, nil
}

// Peek returns statelog.ErrNewerFormat if a newer version of chronik wrote the checkpoint in a
// directory. It changes nothing, and leaves all other checks to Open.
func Peek(fsys vfs.FS, dir string) error { return statelog.Peek(fsys, dir, format) }

// Read returns the checkpoint in a directory, or the copy in a mirror, nil if there is none. It
// changes nothing.
func Read(fsys vfs.FS, dir string) (*State, error) {
	to := newLoader()
	c, err := statelog.Read(fsys, dir, format, to)
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return to.state(dir, c)
}

// Restore replaces a lost or damaged checkpoint with the copy in a mirror.
func Restore(fsys vfs.FS, mirror, dir string) (*State, error) {
	to := newLoader()
	c, err := statelog.Restore(fsys, mirror, dir, format, to)
	if err != nil {
		return nil, fmt.Errorf("restore checkpoint: %w", err)
	}
	return to.state(dir, c)
}

// NeedsAll reports whether the next commit must be a WriteAll: after Open, and after an error.
func (s *Store) NeedsAll() bool { return s.all }

// Grown reports whether the changes have grown so much that recovery would read less after a whole
// state; see Begin.
func (s *Store) Grown() bool { return !s.all && s.log.ShouldRotate() }

// Knows reports whether a change of a log may leave out its producers: they were written since the
// last whole state began.
func (s *Store) Knows(id journal.StreamID) bool { return s.known[id] }

// WriteAll commits a whole state.
func (s *Store) WriteAll(state *State) error {
	logs := func(yield func(*Log) bool) {
		for i := range state.Logs {
			if !yield(&state.Logs[i]) {
				return
			}
		}
	}
	return s.WriteEach(logs, func() Header { return state.Header })
}

// WriteEach commits a whole state: the logs, and the header, which it requests after the last log.
// Only one log at a time is in memory, because many logs with many producers would need too much.
func (s *Store) WriteEach(logs iter.Seq[*Log], header func() Header) error {
	s.all = true
	clear(s.known)
	err := s.log.Rotate(func(emit statelog.Emit) (err error) {
		s.buf, err = writeLogs(s.buf, logs, s.known, header, emit)
		return err
	})
	s.release()
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	s.all = false
	return nil
}

// writeLogs emits a whole state. It adds the logs to known, and returns the buffer that it used.
func writeLogs(buf []byte, logs iter.Seq[*Log], known map[journal.StreamID]bool, header func() Header, emit statelog.Emit) ([]byte, error) {
	for l := range logs {
		if known[l.ID] {
			return buf, fmt.Errorf("log %v occurs twice", l)
		}
		known[l.ID] = true
		buf = l.appendWhole(append(buf[:0], kindLog))
		if err := emit(buf); err != nil {
			return buf, fmt.Errorf("log %v: %w", l, err)
		}
	}
	h := header()
	buf = h.append(append(buf[:0], kindHeader))
	return buf, emit(buf)
}

var (
	errPartial = errors.New("the first record of a log must have its producers")
	errDue     = errors.New("the whole state must be written first")
)

// Append commits a change with one write and one sync, and one more of each for the mirror. It
// fails if WriteAll must come first. If the error matches statelog.ErrTooLarge, nothing was
// written; WriteAll has no such limit for all logs together.
func (s *Store) Append(c *Change) error {
	if s.all {
		return fmt.Errorf("append to checkpoint: %w", errDue)
	}
	for _, u := range c.Logs {
		if u.SameProducers && !s.known[u.ID] { // a start could not load the record
			return fmt.Errorf("append to checkpoint: log %v: %w", u, errPartial)
		}
		s.known[u.ID] = true
	}
	s.buf = c.append(s.buf[:0])
	err := s.log.Append(s.buf)
	s.release()
	if err != nil {
		s.all = true
		return fmt.Errorf("append to checkpoint: %w", err)
	}
	return nil
}

// Whole is a whole state that is written while changes are appended.
type Whole struct {
	generation *statelog.Generation
	header     Header
}

// Begin begins a whole state, with the header of the last commit, that Write may write while
// changes are appended. No append waits for it. Changes from now on count after it, whatever it
// says of their logs.
func (s *Store) Begin(last Header) (*Whole, error) {
	if s.all {
		return nil, fmt.Errorf("begin checkpoint: %w", errDue)
	}
	g, err := s.log.Begin()
	if err != nil {
		return nil, fmt.Errorf("begin checkpoint: %w", err)
	}
	clear(s.known) // the producers that Write stores may be newer than those of the next change
	return &Whole{g, last}, nil
}

// Write writes the logs: each as it was committed before Begin, or later. It may run while changes
// are appended. Finish needs its result.
func (w *Whole) Write(logs iter.Seq[*Log]) error {
	err := w.generation.Write(func(emit statelog.Emit) error {
		_, err := writeLogs(nil, logs, map[journal.StreamID]bool{}, func() Header { return w.header }, emit)
		return err
	})
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// Finish replaces the former whole state and the changes until Begin. An error is no failure of the
// store: changes are appended as before.
func (s *Store) Finish(w *Whole, written error) error {
	if err := s.log.Finish(w.generation, written); err != nil {
		return fmt.Errorf("finish checkpoint: %w", err)
	}
	return nil
}

// keptBuffer is the capacity above which a store releases its buffer after a commit.
const keptBuffer = 1 << 20

func (s *Store) release() {
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
}

// Close ends the files with the mark of a clean stop.
func (s *Store) Close() error { return s.log.Close() }

// loader builds a state from records.
type loader struct {
	header *Header // nil before the snapshot's last record
	logs   map[journal.StreamID]*Log
}

func newLoader() *loader { return &loader{logs: map[journal.StreamID]*Log{}} }

func (l *loader) known(id journal.StreamID) *Log { return l.logs[id] }

// Load implements statelog.Reader.
func (l *loader) Load(record []byte) error {
	c := cursor{bytesio.NewReader(record)}
	switch kind := c.Byte(); {
	case l.header != nil:
		c.Fail(bytesio.ErrMalformed)
	case kind == kindHeader:
		h := c.header()
		l.header = &h
	case kind == kindLog:
		log := c.whole()
		if l.logs[log.ID] != nil {
			c.Fail(fmt.Errorf("log %v occurs twice", log))
		}
		l.logs[log.ID] = log
	default:
		c.Fail(bytesio.ErrMalformed)
	}
	return c.End()
}

// Apply implements statelog.Reader.
func (l *loader) Apply(_ uint64, record []byte) error {
	if l.header == nil {
		return errors.New("the snapshot has no header")
	}
	c := cursor{bytesio.NewReader(record)}
	h := c.header()
	var logs []*Log
	for n := c.Count(21); n > 0; n-- {
		log := c.log(l.known)
		l.logs[log.ID] = log
		logs = append(logs, log)
	}
	c.leds(logs)
	l.header = &h
	return c.End()
}

// state returns the loaded state, in the order of ids, or nil if there is no checkpoint.
func (l *loader) state(dir string, c statelog.Content) (*State, error) {
	if !c.Used {
		return nil, nil
	}
	if l.header == nil {
		return nil, &statelog.Damage{Name: format.Name, File: dir, What: "the snapshot has no header"}
	}
	s := &State{Header: *l.header}
	for _, id := range slices.SortedFunc(maps.Keys(l.logs), compare) {
		s.Logs = append(s.Logs, *l.logs[id])
	}
	return s, nil
}
