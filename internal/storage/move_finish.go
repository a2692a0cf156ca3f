package storage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/loglife"
	"github.com/chronik-io/chronik/internal/storage/statefile"
)

// MoveFile is the name of a state file of kind "move" in the directory of a log that moves, or was
// moved: the id of the source directory 16, and the checkpoint entry of the log with which the move
// ends. The field Swap of the entry is the number of the move, which the tombstone names.
const MoveFile = "chronik.move"

const moveKind, moveVersion = "move", 1

// future is a copy that a move has made or begun.
type future struct {
	name  string // of its directory
	id    ID
	from  [16]byte        // the source directory; zero if there is no entry
	entry *checkpoint.Log // nil if the copy is not complete
	err   error           // why it is not known whether the copy is complete
}

// restTries is how often the rest is copied again because the log has changed meanwhile.
const restTries = 5

// finishMove copies the rest of a log, which takes no appends meanwhile, and commits the move with
// the tombstone. No lock of the source is held while the target's disk works, and the right to
// commit is lent: a target that hangs delays appends of this log only, and none if the log is
// truncated, deleted, or reverted because its journal failed. After that finishMove returns nil,
// and the entry of the move is nil.
func (m *Manager) finishMove(ctx context.Context, x *move, l *Log) error {
	l.acquireCommit()
	has := true
	defer func() {
		if has {
			l.releaseCommit()
		}
	}()
	if err := l.flushAll(); err != nil {
		return err
	}
	for range restTries {
		entry, err := l.wholeEntry()
		if err != nil {
			return err
		}
		l.lendCommit()
		whole, err := m.copyRest(ctx, x, l, &entry)
		if has = l.reclaimCommit(); !has || err != nil {
			return err
		}
		if !whole {
			continue
		}
		if done, err := m.commitMove(x, l, &entry); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: its segments change all the time", ErrFailed)
}

// copyRest copies what the target lacks of an entry, and writes the entry next to the copy. It
// reports whether the copy has what the entry lists.
func (m *Manager) copyRest(ctx context.Context, x *move, l *Log, e *checkpoint.Log) (whole bool, err error) {
	if _, err := m.copyPass(ctx, x, l, true); err != nil || !x.covers(e) {
		return false, err
	}
	e.Swap = rand.Int64()
	return true, x.to.writeMove(FutureName(x.id), l.dir.ID(), e)
}

// commitMove is moveAway, unless the move has been canceled. From then on it can't be.
func (m *Manager) commitMove(x *move, l *Log, e *checkpoint.Log) (done bool, err error) {
	m.mu.Lock()
	x.completing = !x.canceled.Load()
	completing := x.completing
	m.mu.Unlock()
	if !completing {
		return false, ErrMoveCanceled
	}
	defer func() {
		m.mu.Lock()
		x.completing = x.entry != nil
		m.mu.Unlock()
	}()
	return l.moveAway(x, e)
}

// wholeEntry returns the checkpoint entry of a log of which everything is in synced segments. The
// caller has the right to commit.
func (l *Log) wholeEntry() (checkpoint.Log, error) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.refused(loglife.Change); err != nil {
		return checkpoint.Log{}, err
	}
	e, _ := l.checkpointed(true)
	if e.Segments = slices.Clone(e.Segments); e.Offset != l.logEnd.Load() {
		return e, fmt.Errorf("%w: %s ends at %d, and its segments at %d", ErrFailed, l, l.logEnd.Load(), e.Offset)
	}
	return e, nil
}

// covers reports whether the copies are those of an entry, and sets what it must know of them.
func (x *move) covers(e *checkpoint.Log) bool {
	for i := range e.Segments {
		s := &e.Segments[i]
		if s.Size == 0 {
			continue
		}
		c := x.copies[s.Base]
		if c == nil || !c.whole || c.at.Pos != s.Size {
			return false
		}
		s.Aborted = c.aborted
	}
	return true
}

// moveAway commits a move, unless the log has changed since its entry was written. The caller has
// the right to commit.
func (l *Log) moveAway(x *move, entry *checkpoint.Log) (done bool, err error) {
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if err := l.refused(loglife.Change); err != nil {
		return false, err
	}
	d, same := l.dir, l.sameContent(x)
	now, _ := l.checkpointed(true)
	now.Segments, now.LSN, now.High, now.HighEpoch, now.Swap = entry.Segments, entry.LSN, entry.High, entry.HighEpoch, entry.Swap
	if !same || !bytes.Equal(now.Encode(), entry.Encode()) {
		return false, nil
	}
	if d.stopping() || x.to.stopping() {
		return false, ErrClosed
	}
	if x.to.namesake(l.id, path.Join(x.to.path, l.String())) != nil {
		return false, fmt.Errorf("%w: another topic has its name", ErrMoveCanceled)
	}
	l.Observe(noopObserver{}) // nothing of it is lost
	l.applyEvent(loglife.Deletion, fmt.Errorf("%s: %w", l, ErrMoving))
	d.journal.Drop(l.stream)
	now.Swapping = true
	gone, _ := d.putTombstones([]*Log{l}, []checkpoint.Log{now})
	err = d.commitRule(skipMoveCommit, l)
	d.releaseLogs(gone)
	if x.entry = entry; err != nil {
		d.unsure.Store(true)
		return true, fmt.Errorf("checkpoint of %s: %w", d.path, err)
	}
	return true, nil
}

// sameContent reports whether the copies are those of the segments as they are now. The caller
// holds flushMu.
func (l *Log) sameContent(x *move) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.segments {
		if c := x.copies[s.Base()]; s.Size() > 0 && (c == nil || c.content != s.Content() || c.at.Pos != s.Size()) {
			return false
		}
	}
	return true
}

// makeFuture makes the directory of a log's copy, whose name makes it durable that the log moves.
func (d *Dir) makeFuture(id ID) error {
	name := path.Join(d.path, FutureName(id))
	err := d.opt.FS.RemoveAll(name)
	if err == nil {
		err = d.opt.FS.MkdirAll(name)
	}
	if err == nil {
		err = writePartitionMeta(d.opt.FS, name, id)
	}
	if err == nil {
		err = d.opt.FS.SyncDir(d.path)
	}
	return err
}

func (d *Dir) removeFuture(name string) error {
	if err := d.opt.FS.RemoveAll(path.Join(d.path, name)); err != nil {
		return fmt.Errorf("remove an incomplete copy of a log: %w", err)
	}
	if err := d.opt.FS.SyncDir(d.path); err != nil {
		return fmt.Errorf("remove an incomplete copy of a log: %w", err)
	}
	return nil
}

// writeMove writes the entry next to the copy. All names in the directory are durable then.
func (d *Dir) writeMove(name string, from [16]byte, e *checkpoint.Log) error {
	return statefile.Write(d.opt.FS, path.Join(d.path, name, MoveFile), moveKind, moveVersion, append(from[:], e.Encode()...))
}

// readMove reads what writeMove has written. The entry is nil if there is none.
func (d *Dir) readMove(name string) (from [16]byte, e *checkpoint.Log, err error) {
	b, err := statefile.Read(d.opt.FS, path.Join(d.path, name, MoveFile), moveKind, moveVersion)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil, nil
	}
	if err == nil && len(b) < len(from) {
		err = statefile.ErrCorrupt
	}
	if err != nil {
		return from, nil, err
	}
	e, err = checkpoint.DecodeLog(b[copy(from[:], b):])
	return from, e, err
}

// findFuture notes the directory of a copy, and reports whether it is one.
func (d *Dir) findFuture(name string) bool {
	id, is := futureID(name)
	if !is {
		return false
	}
	from, entry, err := d.readMove(name)
	d.futures = append(d.futures, future{name, id, from, entry, err})
	return true
}

// promote takes a log over whose move is committed. After an error the directory does not use the
// log, and promote may be repeated. Once the checkpoint lists the log, the directory has it, if
// need be as an offline log that is tried again (reopen): it must not be created elsewhere. Only
// then the copy gets the log's name: a tombstone of an earlier log with the id would claim it.
func (d *Dir) promote(f *future, cfg Config) (*Log, error) {
	e := *f.entry
	to := path.Join(d.path, e.String())
	if err := d.ascertain(); err != nil {
		return nil, err
	}
	if err := d.clearName(&e, to); err != nil {
		return nil, err
	}
	e.Swapping, e.Swap, e.LSN = false, 0, d.journal.Assigned()
	r := &recovery{d: d}
	x := r.openEntry(&e, cfg)
	if x.err != nil {
		return nil, x.err
	}
	x.l.rp.Segments = e.Segments
	buried := d.add([]*Log{x.l})
	if err := d.commit(x.l); err != nil {
		d.unsure.Store(true)
		d.forget([]*Log{x.l}, buried)
		return nil, fmt.Errorf("take over the copy of %s: %w", to, err)
	}
	if x.err = d.nameFuture(x.l); x.err == nil {
		x.err = r.prepare(x)
	}
	if x.err == nil {
		x.err = x.l.flushReplayed()
	}
	if r.finish(x); x.err == nil { // otherwise reopen finds again what is to be removed
		r.runDeferred()
	}
	d.log.Info("a log has moved to this directory", zap.Stringer("log", x.l), zap.Int64("bytes", e.Point.Bytes()))
	return x.l, nil
}

// clearName removes what has the name of a log that comes to this directory.
func (d *Dir) clearName(e *checkpoint.Log, name string) error {
	if l := d.namesake(e.ID, name); l != nil { // it came after moveAway
		return fmt.Errorf("%w: %s has the log of another topic with its name", ErrFailed, name)
	}
	if err := d.finishDeletion(d.leftOf([]ID{e.ID})); err != nil {
		return err
	}
	if _, err := d.opt.FS.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.quarantineDir(e.String()); err != nil {
		return err
	}
	return d.opt.FS.SyncDir(d.path)
}

// namesake returns the log of another topic whose directory has a name, nil if there is none.
func (d *Dir) namesake(id ID, name string) *Log {
	logs := d.Logs()
	if i := slices.IndexFunc(logs, func(l *Log) bool { return l.path == name && l.id != id }); i >= 0 {
		return logs[i]
	}
	return nil
}

// isFuture reports whether there is a complete copy of a log. The contents of its MoveFile do not
// matter: the checkpoint that lists the log has the entry.
func (d *Dir) isFuture(id ID) (bool, error) {
	_, err := d.opt.FS.Stat(path.Join(d.path, FutureName(id), MoveFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// isNamed reports whether the directory of a log certainly has the log's name.
func (l *Log) isNamed() bool {
	_, err := l.dir.opt.FS.Stat(l.path)
	return err == nil
}

// nameFuture gives the copy of a log that the checkpoint lists the log's name.
func (d *Dir) nameFuture(l *Log) error {
	err := d.opt.FS.Rename(path.Join(d.path, FutureName(l.id)), l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // it has it
	}
	if err == nil {
		err = d.opt.FS.SyncDir(d.path)
	}
	if err != nil {
		return fmt.Errorf("take over the copy of %s: %w", l, err)
	}
	return nil
}

// MovedFrom returns the directory from which the log was moved to its own, zero if it was not.
func (l *Log) MovedFrom() [16]byte {
	if from := l.movedFrom.Load(); from != nil {
		return *from
	}
	return [16]byte{}
}

// resumeMoves completes the moves that were committed before this start, and begins the others
// again. It removes copies that nothing needs.
func (m *Manager) resumeMoves() {
	for _, d := range m.dirs {
		for i := range d.futures {
			if err := m.resumeMove(d, &d.futures[i]); err != nil {
				d.log.Error("the copy of a log that moves to this directory can't be used; it stays where it is until the next start",
					zap.String("dir", d.futures[i].name), zap.Error(err))
			}
		}
		d.futures = nil
	}
	for _, d := range m.dirs {
		d.mu.Lock()
		var done []ID
		for id, t := range d.deleted {
			if l := m.logs[id]; t.Swapping && l != nil && l.dir != d {
				done = append(done, id)
			}
		}
		d.mu.Unlock()
		for _, id := range done {
			d.moved(id)
		}
	}
}

// errSourceUnused: whether a copy is the log, only the source's checkpoint tells.
var errSourceUnused = errors.New("the directory from which the log moves is not in use")

func (m *Manager) resumeMove(d *Dir, f *future) error {
	var source *Dir
	committed, mayBe := false, false
	for _, from := range m.dirs {
		from.mu.Lock()
		t, deleted := from.deleted[f.id]
		from.mu.Unlock()
		moved := deleted && t.Swapping
		if f.entry != nil && from.ID() == f.from {
			source = from
			committed = moved && t.Swap == f.entry.Swap && !d.opt.broken.has(skipMoveMark)
		}
		mayBe = mayBe || f.err != nil && moved
	}
	switch l := m.logs[f.id]; {
	case committed && l == nil:
		moved, err := d.promote(f, d.configOf(f.entry))
		if err != nil {
			m.copies[f.id] = d
			return err
		}
		m.logs[f.id] = moved
		return nil
	case l != nil && l.dir != d && m.moves[f.id] == nil:
		if err := d.makeFuture(f.id); err != nil {
			return err
		}
		m.addMove(f.id, d)
		return nil
	case l != nil && l.dir == d && !l.isNamed():
		return nil // it is the log: a crash or a fault came before the copy got the name, which reopen gives it
	case l == nil && (f.err != nil || len(m.failed) > 0 || f.entry != nil && source == nil):
		if mayBe {
			m.copies[f.id] = d
		}
		return cmp.Or(f.err, errSourceUnused)
	}
	return d.removeFuture(f.name)
}
