package inspect

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// dir holds the facts about one log directory. The plan of its repair is derived from them.
type dir struct {
	ctx      context.Context
	fs       vfs.FS
	location storage.Location
	opt      *Options

	out      Directory
	findings []Finding

	state  *checkpoint.State // nil: there is no usable checkpoint
	unread error             // why there is none, although the files may be whole
	begun  bool              // it has an identity
	clean  bool
	logs   []*log
	byID   map[storage.ID]*log
	// orphans are findings about quarantined frames of logs that the checkpoint does not list, and
	// their frames.
	orphans []orphan

	identity, journalIdentity bool // a repair must write the files again
	restored                  bool // the state is that of the checkpoint's copy
	halfReplaced              bool // a repair was interrupted while it replaced the journal
	newJournal                bool // a repair begins a new journal
	foreign                   []string
	files                     []journal.FileInfo // of the journal, from the redo file on
	above                     journal.LSN        // every LSN found is below it
	endUnknown                bool               // nothing shows how far the journal reached
}

// find adds a finding about the directory or, if l is set, about a log.
func (d *dir) find(k Kind, l *log, file string, pos int64, format string, args ...any) *Finding {
	f := newFinding(k, d.location.Path, file, pos, fmt.Sprintf(format, args...))
	if l != nil {
		f.Topic, f.Partition = l.st.Topic, l.st.ID.Partition
	}
	d.findings = append(d.findings, f)
	return &d.findings[len(d.findings)-1]
}

// newFinding returns a finding with the texts of its kind, about no single partition.
func newFinding(k Kind, dir, file string, pos int64, detail string) Finding {
	a := Of(k)
	f := Finding{Kind: k, Effect: a.Effect, Dir: dir, File: file, Position: pos, Partition: -1, Detail: detail, Start: a.Start,
		Repair: a.Repair}
	switch {
	case a.Effect == Heals || a.Repair != "":
	case a.Effect == Aside:
		f.Restore = moveAway
	default:
		f.Restore = a.Costs
	}
	return f
}

// moveAway is the remedy for files that no log serves.
const moveAway = "move it away when its contents are no longer needed"

func (d *dir) path(name string) string { return path.Join(d.location.Path, name) }

// read reads the directory, from its identity to the last batch.
func (d *dir) read() error {
	if err := d.identities(); err != nil {
		return err
	}
	if d.state == nil {
		return d.leftovers()
	}
	sorts.Sort(d.state.Logs, func(a, b checkpoint.Log) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	d.byID = make(map[storage.ID]*log, len(d.state.Logs))
	for i := range d.state.Logs {
		st := &d.state.Logs[i]
		l := &log{dir: d, st: st, path: d.path(st.String()), follow: storage.Follow(st), end: st.Offset}
		d.logs = append(d.logs, l)
		d.byID[st.ID] = l
	}
	if err := d.journal(); err != nil {
		return err
	}
	if d.restored && d.newJournal {
		d.distrustCopy()
	}
	for _, l := range d.logs {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if err := l.read(); err != nil {
			return err
		}
	}
	if err := d.leftovers(); err != nil {
		return err
	}
	return d.unsure()
}

// identities reads the identities of the directory and its journal, and the checkpoint.
func (d *dir) identities() error {
	own, err := storage.ReadIdentity(d.fs, d.location, false)
	theirs, jerr := storage.ReadIdentity(d.fs, d.location, true)
	var serr error
	d.state, serr = storage.ReadState(d.fs, d.location.Path)
	theirState, cerr := storage.ReadCopy(d.fs, d.location.Path)
	for _, e := range []error{err, jerr, serr, cerr} {
		if access(e) {
			return fmt.Errorf("log directory %s: %w", d.location.Path, e)
		}
	}
	d.begun = !failed(err) && !errors.Is(err, fs.ErrNotExist)
	for _, e := range []error{err, jerr, serr} {
		if errors.Is(e, statefile.ErrNewer) || errors.Is(e, statelog.ErrNewerFormat) {
			d.find(FormatNewer, nil, d.location.Path, -1, "%v", e)
			d.state, d.unread = nil, e
			return nil
		}
	}
	used, err2 := d.used()
	if err2 != nil {
		return err2
	}
	used = used || !errors.Is(cerr, fs.ErrNotExist)
	d.out.Used = used || serr == nil
	if errors.Is(serr, fs.ErrNotExist) && !used { // there was no first start, or it was not completed
		if failed(err) {
			d.find(Unreadable, nil, d.path(storage.IdentityFile), -1, "%v", err).Effect = Refuses
		}
		if failed(jerr) {
			name := path.Join(d.location.JournalPath(), storage.JournalIdentityFile)
			d.find(Unreadable, nil, name, -1, "%v", jerr).Effect = Refuses
		}
		return nil
	}
	d.checkpoint(serr, theirState, cerr)
	d.checkIdentity(own, err, theirs, jerr)
	return d.checkCleanMark()
}

// checkpoint reports damage of the checkpoint and of its copy. serr and cerr are the errors of
// reading them. If the checkpoint is lost, its copy, theirs, replaces it.
func (d *dir) checkpoint(serr error, theirs *checkpoint.State, cerr error) {
	name, pos, detail := locate(serr, d.path(storage.CheckpointDir))
	spare, sparePos, spareDetail := locate(cerr, d.path(storage.CheckpointMirror))
	kind := CheckpointDamaged
	switch {
	case serr == nil && cerr == nil:
		return
	case serr == nil && (gone(cerr) || errors.Is(cerr, statelog.ErrDamaged)):
		d.find(CheckpointCopy, nil, spare, sparePos, "%s", spareDetail)
		return
	case serr == nil:
		d.find(Unreadable, nil, spare, sparePos, "%s", spareDetail).Effect = Heals
		return
	case gone(serr):
		kind = CheckpointMissing
	case !errors.Is(serr, statelog.ErrDamaged):
		d.unread = serr
		d.find(Unreadable, nil, name, pos, "%s", detail).Effect = Refuses
		return
	}
	if cerr != nil {
		if !gone(cerr) && !errors.Is(cerr, statelog.ErrDamaged) {
			d.unread = cerr
		}
		f := d.find(kind, nil, name, pos, "%s; its copy cannot be used either: %v", detail, cerr)
		f.Repair, f.Restore = "", oneBackup
		return
	}
	d.state, d.restored = theirs, true
	d.find(kind, nil, name, pos, "%s; its copy is complete, with checkpoint %d", detail,
		theirs.Seq).Repair = "replaces it with `checkpoint.copy/`"
}

// locate returns the file that an error of a checkpoint names, or dir if it names none, the offset
// in the file, or -1, and a description of the damage.
func locate(err error, dir string) (file string, pos int64, detail string) {
	var damage *statelog.Damage
	switch {
	case errors.As(err, &damage) && damage.Lost:
		return damage.File, -1, damage.What
	case errors.As(err, &damage):
		return damage.File, int64(damage.Offset), damage.What
	case errors.Is(err, fs.ErrNotExist):
		return dir, -1, "it is missing"
	}
	return dir, -1, fmt.Sprint(err)
}

// failed reports whether the system failed to read a file with an identity, which may be whole.
func failed(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, statefile.ErrCorrupt) && !errors.Is(err, statefile.ErrNewer)
}

// gone reports whether an error says that a checkpoint or one of its files is missing.
func gone(err error) bool {
	var damage *statelog.Damage
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage) && damage.Lost
}

// distrustCopy withdraws the repair of the checkpoint from its copy, because the journal does not
// match the copy, which may be older.
func (d *dir) distrustCopy() {
	for i := range d.findings {
		if f := &d.findings[i]; f.Kind == CheckpointMissing || f.Kind == CheckpointDamaged {
			f.Detail += "; the journal is damaged too, or does not match the copy"
			f.Repair, f.Restore = "", oneBackup
		}
	}
}

// used reports whether the directory holds files that only a checkpoint can explain.
func (d *dir) used() (bool, error) {
	infos, err := d.fs.List(d.location.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("log directory: %w", err)
	}
	for _, in := range infos {
		if !in.Dir {
			continue
		}
		has, err := storage.HoldsPartition(d.fs, d.path(in.Name))
		if access(err) {
			return false, fmt.Errorf("log directory: %w", err)
		}
		if has || err != nil { // it is a partition, or may be one
			return true, nil
		}
	}
	files, err := journal.Files(d.fs, d.location.JournalPath(), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for i := 0; err == nil && i < len(files); i++ {
		_, err = journal.Walk(d.fs, d.location.JournalPath(), files[i].Seq, func(journal.FrameAt) error { return errFound })
	}
	if access(err) {
		return false, fmt.Errorf("journal: %w", err)
	}
	return err != nil, nil // a frame, or an unreadable file that may hold one
}

var errFound = errors.New("found")

// checkIdentity compares the identities with each other and with the checkpoint.
func (d *dir) checkIdentity(own storage.Identity, err error, theirs storage.Identity, jerr error) {
	name, jname := d.path(storage.IdentityFile), path.Join(d.location.JournalPath(), storage.JournalIdentityFile)
	s := d.state
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, statefile.ErrCorrupt):
		kind, detail := IdentityDamaged, fmt.Sprint(err)
		if errors.Is(err, fs.ErrNotExist) {
			kind, detail = IdentityMissing, "the file is missing"
		}
		f := d.find(kind, nil, name, -1, "%s", detail)
		if d.identity = s != nil; !d.identity {
			f.Repair, f.Restore = "", oneBackup
			return
		}
		own = storage.Identity{Dir: s.Dir, Journal: s.Journal}
	case err != nil:
		d.find(Unreadable, nil, name, -1, "%v", err).Effect = Refuses
		return
	}
	d.out.ID = hex.EncodeToString(own.Dir[:])
	if s == nil {
		return
	}
	if own.Dir != s.Dir || own.Journal != s.Journal && (jerr != nil || theirs.Dir != own.Dir) {
		d.find(CheckpointForeign, nil, d.path(storage.CheckpointDir), -1,
			"it was written for directory %x and journal %x, but chronik.dir names %x and %x", s.Dir, s.Journal, own.Dir, own.Journal)
		return
	}
	d.checkJournalIdentity(own, theirs, jerr, jname)
}

// checkJournalIdentity compares the journal's identity with those of the directory and the
// checkpoint.
func (d *dir) checkJournalIdentity(own, theirs storage.Identity, jerr error, jname string) {
	switch s := d.state; {
	case errors.Is(jerr, fs.ErrNotExist):
		files, err := journal.Files(d.fs, d.location.JournalPath(), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // journal reports the error
		}
		if len(files) == 0 {
			d.newJournal, d.journalIdentity, d.endUnknown = true, true, true
			d.find(JournalMissing, nil, d.location.JournalPath(), -1, "the directory holds no journal files")
			return
		}
		d.journalIdentity = true
		d.find(JournalIdentityMissing, nil, jname, -1, "the file is missing, but %d files of the journal exist", len(files))
	case errors.Is(jerr, statefile.ErrCorrupt):
		d.journalIdentity = true
		d.find(JournalIdentityDamaged, nil, jname, -1, "%v", jerr)
	case jerr != nil:
		d.find(Unreadable, nil, jname, -1, "%v", jerr).Effect = Refuses
	case theirs.Dir != own.Dir:
		d.find(JournalForeign, nil, jname, -1, "it belongs to log directory %x, but this one is %x", theirs.Dir, own.Dir)
	case theirs != own || own.Journal != s.Journal:
		d.halfReplaced, d.newJournal = true, true
		d.find(JournalHalfReplaced, nil, jname, -1, "it names journal %x, chronik.dir names %x, and the checkpoint names %x",
			theirs.Journal, own.Journal, s.Journal)
	}
}

// checkCleanMark checks the mark of a clean stop.
func (d *dir) checkCleanMark() error {
	clean, err := storage.StoppedCleanly(d.fs, d.location, d.state)
	if access(err) {
		return fmt.Errorf("log directory: %w", err)
	}
	d.clean = clean && !d.newJournal && !d.identity && !d.journalIdentity && !d.restored
	d.out.Clean = clean
	return nil
}

// leftovers checks the files next to the logs.
func (d *dir) leftovers() error {
	infos, err := d.fs.List(d.location.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log directory: %w", err)
	}
	known, named := map[string]bool{}, map[string]bool{}
	for _, l := range d.logs {
		if !l.st.Deleted {
			known[l.st.String()] = true
		}
		if l.st.QuarantineFile != "" {
			named[l.st.QuarantineFile] = true
		}
	}
	for _, in := range infos {
		name := d.path(in.Name)
		switch {
		case strings.HasSuffix(in.Name, ".tmp") && !in.Dir:
			d.find(Leftover, nil, name, -1, "an incomplete state file")
		case strings.HasSuffix(in.Name, storage.FramesSuffix) && !in.Dir && !named[in.Name]:
			if err := d.noteQuarantine(name, nil); err != nil {
				return err
			}
		case !in.Dir || known[in.Name] || d.state == nil || name == d.location.JournalPath():
		default:
			if err := d.stray(in.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// stray reports a directory that the checkpoint does not list, if it is that of a partition.
func (d *dir) stray(dir string) error {
	name := d.path(dir)
	has, err := storage.HoldsPartition(d.fs, name)
	switch {
	case access(err):
		return fmt.Errorf("log directory: %w", err)
	case err != nil:
		f := d.find(Unreadable, nil, path.Join(name, storage.PartitionFile), -1, "%v", err)
		f.Effect, f.Start = Aside, "ignores its directory, which the checkpoint does not list"
	case !has:
	case storage.IsDeletedName(dir) || d.deleted(dir):
		d.find(Leftover, nil, name, -1, "the directory of a deleted partition")
	case d.isReplaced(dir):
		f := d.find(PartitionStray, nil, name, -1, "the broker copies the partition from another replica")
		f.Start = "keeps it until the copy is whole"
	case storage.IsFutureName(dir):
		d.find(PartitionStray, nil, name, -1, "a copy of a partition that was moving to this directory").Start =
			"completes the move, or begins it again"
	case storage.IsStrayName(dir):
		d.find(PartitionStray, nil, name, -1, "an earlier start quarantined it").Start = "ignores it"
	default:
		d.find(PartitionStray, nil, name, -1, "the checkpoint does not list it")
	}
	return nil
}

// isReplaced reports whether a directory is that of a log that was replaced.
func (*dir) isReplaced(name string) bool {
	_, _, is := storage.ReplacedID(name)
	return is
}

// deleted reports whether a directory belongs to a log whose deletion is durable.
func (d *dir) deleted(name string) bool {
	return slices.ContainsFunc(d.logs, func(l *log) bool { return l.st.Deleted && l.st.String() == name })
}

// partitions describes the logs as recovery or a repair would leave them.
func (d *dir) partitions() []Partition {
	var list []Partition
	for _, l := range d.logs {
		if l.st.Deleted {
			continue
		}
		p := Partition{Dir: d.location.Path, Topic: l.st.Topic, Partition: l.st.ID.Partition, Start: min(l.st.Start, l.end),
			Stored: l.st.Offset, End: l.end,
			Frames: l.frames, Batches: l.batches, Bytes: l.bytes, Missing: merged(l.lost), Lossy: l.st.Lossy, id: l.st.ID}
		for i := range d.findings {
			f := &d.findings[i]
			if f.Effect == Refuses || f.Topic == p.Topic && f.Partition == p.Partition {
				p.Effect = worse(p.Effect, f.Effect)
			}
		}
		list = append(list, p)
	}
	return list
}

// worse returns the worse of two effects.
func worse(a, b Effect) Effect {
	order := []Effect{"", Heals, Aside, Serves, Offline, Refuses}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// merged sorts ranges and joins those that touch.
func merged(losses []Loss) []Loss {
	sorts.SortStable(losses, func(a, b Loss) int { return cmp.Compare(a.From, b.From) })
	var out []Loss
	for _, l := range losses {
		if n := len(out); n > 0 && (out[n-1].To == Unknown || out[n-1].To >= l.From) {
			if out[n-1].To != Unknown && (l.To == Unknown || l.To > out[n-1].To) {
				out[n-1].To = l.To
			}
			continue
		}
		out = append(out, l)
	}
	return out
}
