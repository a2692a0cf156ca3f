package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/producers"
	"github.com/chronik-io/chronik/internal/vfs"
)

// State is what the checkpoint of a log directory says, for tools that look at a
// directory which no broker uses.
type State struct {
	Seq     uint64
	Redo    journal.Position // the journal is needed from here on
	Durable journal.LSN      // frames up to it were durable when it was written
	Dir     [16]byte         // identity of the directory
	Journal [16]byte         // and of its journal
	Logs    []LogState
}

// LogState is what it says of one log.
type LogState struct {
	ID       ID
	Topic    string
	Deleted  bool   // a start removes it
	Offline  string // why it was found damaged; empty if it was not
	Aside    string // file in the directory with its frames beyond Offset; empty: they are in the journal
	Start    int64  // the first offset that may be read
	Clean    int64  // below it everything was compacted
	Swapping bool   // the segment with base Swap takes the place of others
	Swap     int64
	// Offset is the recovery point: below it everything is in Segments. Frames of the
	// journal up to LSN don't count.
	Offset   int64
	LSN      journal.LSN
	Segments []Extent
	Epochs   epochs.Cache
	// Producers is the state of idempotent producers as producers.State encodes it.
	Producers []byte
}

// Extent is a listed segment and how many of its bytes count.
type Extent struct{ Base, Size int64 }

// String is topic-partition, as in the directory's name.
func (l *LogState) String() string { return fmt.Sprintf("%s-%d", l.Topic, l.ID.Partition) }

// Needs says of the i'th listed segment whether a start needs it, up to which offset
// it reaches, and what is wrong with a file of this size, or with none.
func (l *LogState) Needs(i int, size int64, there bool, dir string) (next int64, needed bool, err error) {
	lc := l.entry()
	return lc.needs(i, size, there, dir)
}

// CheckProducers says what is wrong with Producers.
func (l *LogState) CheckProducers() error {
	var s producers.State
	if _, err := s.Decode(l.Producers); err != nil {
		return fmt.Errorf("producer state in the checkpoint: %w", err)
	}
	return nil
}

// Above is greater than every LSN that the checkpoint speaks of.
func (s *State) Above() journal.LSN { return s.checkpoint().above() }

// Follower follows a log's frames as a start does.
type Follower struct{ f found }

// Follow begins at a log's recovery point.
func (l *LogState) Follow() *Follower {
	lc := l.entry()
	return &Follower{found{lc: &lc, end: lc.rp.offset}}
}

// End is where the frames so far lead.
func (f *Follower) End() int64 { return f.f.end }

// Counts says whether a frame lies beyond the log's recovery point.
func (f *Follower) Counts(fr *journal.Frame) bool { return fr.LSN > f.f.lc.rp.lsn }

// Take follows one frame, or says why it does not continue the log.
func (f *Follower) Take(fr *journal.Frame) error { return f.f.extend(fr) }

// Skip goes on at an end that frames which are lost would have led to.
func (f *Follower) Skip(end int64) { f.f.end = end }

// DirName is the name of a log's directory.
func (l *LogState) DirName() string { return l.String() }

func (l *LogState) entry() logCheckpoint {
	lc := logCheckpoint{
		id: l.ID, topic: l.Topic, deleted: l.Deleted, offline: l.Offline, aside: l.Aside,
		logStart: l.Start, clean: l.Clean, swapping: l.Swapping, swap: l.Swap,
		rp:     recoveryPoint{offset: l.Offset, lsn: l.LSN, segments: make([]extent, len(l.Segments))},
		epochs: l.Epochs, producers: l.Producers,
	}
	for i, e := range l.Segments {
		lc.rp.segments[i] = extent{e.Base, e.Size}
	}
	return lc
}

func stateOf(lc *logCheckpoint) LogState {
	l := LogState{
		ID: lc.id, Topic: lc.topic, Deleted: lc.deleted, Offline: lc.offline, Aside: lc.aside,
		Start: lc.logStart, Clean: lc.clean, Swapping: lc.swapping, Swap: lc.swap, Offset: lc.rp.offset, LSN: lc.rp.lsn,
		Epochs: lc.epochs, Producers: lc.producers, Segments: make([]Extent, len(lc.rp.segments)),
	}
	for i, e := range lc.rp.segments {
		l.Segments[i] = Extent{e.base, e.size}
	}
	return l
}

func (s *State) checkpoint() *checkpoint {
	c := &checkpoint{seq: s.Seq, redo: s.Redo, durable: s.Durable, dirID: s.Dir, journal: s.Journal}
	for i := range s.Logs {
		c.logs = append(c.logs, s.Logs[i].entry())
	}
	return c
}

// ReadState reads the checkpoint of a log directory. A missing one matches
// fs.ErrNotExist; statefile.ErrCorrupt and ErrNewer as Read has them.
func ReadState(fsys vfs.FS, dir string) (*State, error) {
	return readState(fsys, path.Join(dir, checkpointFile))
}

// ReadCopy is ReadState of the checkpoint's copy. It may be one checkpoint older or newer;
// nothing was done yet that only the newer one allows. Where a version of chronik
// used the directory that wrote no copies it may be older than that: then the journal
// doesn't fit it.
func ReadCopy(fsys vfs.FS, dir string) (*State, error) {
	return readState(fsys, path.Join(dir, checkpointCopy))
}

func readState(fsys vfs.FS, name string) (*State, error) {
	c, _, _, err := loadCheckpoint(fsys, name)
	if err != nil {
		return nil, err
	}
	s := &State{Seq: c.seq, Redo: c.redo, Durable: c.durable, Dir: c.dirID, Journal: c.journal}
	for i := range c.logs {
		s.Logs = append(s.Logs, stateOf(&c.logs[i]))
	}
	return s, nil
}

// Names of files in a log directory and its journal's.
const (
	IdentityFile        = identityFile
	JournalIdentityFile = journalIdent
	CheckpointFile      = checkpointFile
	CheckpointCopy      = checkpointCopy
	CleanFile           = cleanFile
	LockFile            = lockFile
	PartitionFile       = partitionMeta
)

// Identity is who a log directory and its journal are.
type Identity struct{ Dir, Journal [16]byte }

// ReadIdentity reads the identity that stands in the directory, or, of its journal,
// the one that stands there. The errors are those of ReadState.
func ReadIdentity(fsys vfs.FS, place Place, ofJournal bool) (Identity, error) {
	name, kind := path.Join(place.Path, identityFile), "directory"
	if ofJournal {
		name, kind = path.Join(place.journal(), journalIdent), "journal"
	}
	var id identity
	err := readJSON(fsys, name, kind, &id)
	return Identity{id.Dir, id.Journal}, err
}

// JournalPath is where the journal of the place is.
func (p Place) JournalPath() string { return p.journal() }

func (p Place) journal() string {
	if p.Journal == "" {
		return path.Join(path.Clean(p.Path), "journal")
	}
	return path.Clean(p.Journal)
}

// MarkedClean says whether a directory has the mark of a clean stop that fits its
// checkpoint, as far as files tell. there: it has one.
func MarkedClean(fsys vfs.FS, place Place, s *State) (clean, there bool, err error) {
	var m cleanMark
	err = readJSON(fsys, path.Join(place.Path, cleanFile), "clean", &m)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil || s == nil || m != (cleanMark{s.Seq, s.Redo.File, uint64(s.Redo.LSN)}) {
		return false, true, err
	}
	clean, err = journal.IsUntouched(fsys, place.journal(), s.Journal, s.Redo)
	return clean, true, err
}

// Belongs says whether the partition directory holds the topic id of a log.
func Belongs(fsys vfs.FS, dir string, id ID) bool {
	d := Dir{opt: &Options{FS: fsys}}
	return d.belongsTo(dir, id)
}

// IsDeletedName and IsStrayName say what a start makes of a partition directory of
// this name that the checkpoint doesn't know: it removes it, or leaves it alone.
func IsDeletedName(name string) bool { return isDeletedName(name) }

// IsStrayName is described at IsDeletedName.
func IsStrayName(name string) bool { return isStray(name) }

// Bench is a log directory that nobody uses, held for a repair.
type Bench struct{ d *Dir }

// OpenBench locks a directory for a repair. The error matches ErrLocked where a
// broker has it.
func OpenBench(place Place, opt Options) (*Bench, error) {
	opt.setDefaults()
	d := newDir(place, &opt)
	var err error
	if d.lock, err = d.takeLock(); err != nil {
		return nil, err
	}
	return &Bench{d}, nil
}

// Close gives the directory back.
func (b *Bench) Close() error { return b.d.lock.Close() }

// WriteIdentity writes the identity into the directory, or into its journal's.
func (b *Bench) WriteIdentity(id Identity, ofJournal bool) error {
	x := identity{Dir: id.Dir, Journal: id.Journal}
	if ofJournal {
		if err := vfs.MakeDir(b.d.opt.FS, b.d.jpath); err != nil {
			return err
		}
		return writeJSON(b.d.opt.FS, path.Join(b.d.jpath, journalIdent), "journal", x)
	}
	return writeJSON(b.d.opt.FS, path.Join(b.d.path, identityFile), "directory", x)
}

// Commit makes a state the directory's checkpoint, with the next sequence.
func (b *Bench) Commit(s *State) error {
	c := s.checkpoint()
	c.seq++
	if err := b.d.writeCheckpoint(c); err != nil {
		return err
	}
	s.Seq = c.seq
	return nil
}

// CommitFresh is Commit with an empty journal that begins at an LSN at least: no
// frame of the files so far counts any more. Where renew is set the journal gets a
// new identity, so that an old one that comes back is refused.
func (b *Bench) CommitFresh(s *State, above journal.LSN, renew bool) error {
	c := s.checkpoint()
	b.d.ident = identity{Dir: s.Dir, Journal: s.Journal}
	c.durable = max(c.durable, above-1)
	if renew {
		return b.d.newJournal(c)
	}
	at, err := b.d.freshFile(c.above())
	if err != nil {
		return err
	}
	return b.d.beginAt(c, at)
}

// WritePartitionFile writes the topic id into a partition directory, making it where
// it is missing.
func (b *Bench) WritePartitionFile(l *LogState) error {
	dir := path.Join(b.d.path, l.DirName())
	if err := vfs.MakeDir(b.d.opt.FS, dir); err != nil {
		return err
	}
	if err := b.d.opt.FS.Remove(path.Join(dir, partitionMeta)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writePartitionMeta(b.d.opt.FS, dir, l.ID)
}

// Kept writes frames of logs into files of their own beside the partitions, as a
// start does with those of a log that is offline.
type Kept struct{ a *aside }

// Keep returns a keeper of frames, for names that are not taken.
func (b *Bench) Keep(s *State) (*Kept, error) {
	infos, err := b.d.opt.FS.List(b.d.path)
	if err != nil {
		return nil, fmt.Errorf("keep journal frames aside: %w", err)
	}
	taken := map[string]bool{}
	for _, in := range infos {
		taken[in.Name] = true
	}
	seq := s.Seq
	for slices.ContainsFunc(s.Logs, func(l LogState) bool { return taken[asideName(l.String(), seq)] }) {
		seq++
	}
	return &Kept{&aside{d: b.d, seq: seq, files: map[string]*asideFile{}}}, nil
}

// Add keeps a frame and returns the name of the file, for LogState.Aside.
func (k *Kept) Add(l *LogState, fr *journal.Frame) (string, error) {
	return k.a.keep(fr, k.a.d.path, l.String())
}

// Close makes what was kept durable.
func (k *Kept) Close() error { return k.a.close() }

// Clone returns a copy of a state that shares nothing that is changed.
func (s *State) Clone() *State {
	c := *s
	c.Logs = slices.Clone(s.Logs)
	for i := range c.Logs {
		c.Logs[i].Segments = slices.Clone(c.Logs[i].Segments)
	}
	return &c
}
