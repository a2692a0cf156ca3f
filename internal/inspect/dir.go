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

	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// dir is the look at one log directory. The plan of its repair is made of what stands
// here.
type dir struct {
	ctx   context.Context
	fs    vfs.FS
	place storage.Place
	opt   *Options

	out      Directory
	findings []Finding

	state *checkpoint.State // nil: there is no checkpoint that can be used
	clean bool
	logs  []*log
	byID  map[storage.ID]*log

	identity, journalIdentity bool // are to be written anew
	restored                  bool // the state is that of the checkpoint's copy
	half                      bool // the journal was about to be replaced
	fresh                     bool // a repair begins a new journal
	foreign                   []string
	files                     []journal.FileInfo // of the journal, from the redo file on
	above                     journal.LSN        // every LSN seen is below it
	unsure                    bool               // nothing tells what the journal held at its end
}

// find notes a finding of the directory or, where l is set, of a log, with what its
// kind says.
func (d *dir) find(k Kind, l *log, file string, pos int64, format string, args ...any) *Finding {
	f := newFinding(k, d.place.Path, file, pos, fmt.Sprintf(format, args...))
	if l != nil {
		f.Topic, f.Partition = l.st.Topic, l.st.ID.Partition
	}
	d.findings = append(d.findings, f)
	return &d.findings[len(d.findings)-1]
}

// newFinding returns a finding of a kind that concerns no single partition.
func newFinding(k Kind, dir, file string, pos int64, detail string) Finding {
	a := Of(k)
	f := Finding{Kind: k, Effect: a.Effect, Dir: dir, File: file, Position: pos, Partition: -1, Detail: detail, Start: a.Start, Repair: a.Repair}
	switch {
	case a.Effect == Heals || a.Repair != "":
	case a.Effect == Aside:
		f.Restore = moveAway
	default:
		f.Restore = a.Costs
	}
	return f
}

// moveAway is what to do about what no log serves.
const moveAway = "move it away once nobody needs what is in it"

func (d *dir) path(name string) string { return path.Join(d.place.Path, name) }

// read reads the directory from its identity to the last batch.
func (d *dir) read() error {
	if err := d.identities(); err != nil {
		return err
	}
	if d.state == nil {
		return d.leftovers()
	}
	slices.SortFunc(d.state.Logs, func(a, b checkpoint.Log) int {
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
	if d.restored && d.fresh {
		d.distrust()
	}
	for _, l := range d.logs {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if err := l.read(); err != nil {
			return err
		}
	}
	return d.leftovers()
}

// identities reads who the directory and its journal are, and the checkpoint.
func (d *dir) identities() error {
	own, err := storage.ReadIdentity(d.fs, d.place, false)
	theirs, jerr := storage.ReadIdentity(d.fs, d.place, true)
	var serr error
	d.state, serr = storage.ReadState(d.fs, d.place.Path)
	theirState, cerr := storage.ReadCopy(d.fs, d.place.Path)
	for _, e := range []error{err, jerr, serr, cerr} {
		if access(e) {
			return fmt.Errorf("log directory %s: %w", d.place.Path, e)
		}
	}
	for _, e := range []error{err, jerr, serr} {
		if errors.Is(e, statefile.ErrNewer) || errors.Is(e, statelog.ErrNewerFormat) {
			d.find(FormatNewer, nil, d.place.Path, -1, "%v", e)
			d.state = nil
			return nil
		}
	}
	used, err2 := d.used()
	if err2 != nil {
		return err2
	}
	used = used || !errors.Is(cerr, fs.ErrNotExist)
	d.out.Used = used || serr == nil
	if errors.Is(serr, fs.ErrNotExist) && !used {
		return nil // a first start was not over, or never came
	}
	d.checkpoint(serr, theirState, cerr)
	d.checkIdentity(own, err, theirs, jerr)
	return d.mark()
}

// checkpoint compares what was read of the checkpoint with its copy, theirs, which replaces
// it if it is lost.
func (d *dir) checkpoint(serr error, theirs *checkpoint.State, cerr error) {
	name, pos, detail := place(serr, d.path(storage.CheckpointDir))
	spare, sparePos, spareDetail := place(cerr, d.path(storage.CheckpointMirror))
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
		d.find(Unreadable, nil, name, pos, "%s", detail).Effect = Refuses
		return
	}
	if cerr != nil {
		f := d.find(kind, nil, name, pos, "%s; its copy can't be used either: %v", detail, cerr)
		f.Repair, f.Restore = "", oneBackup
		return
	}
	d.state, d.restored = theirs, true
	d.find(kind, nil, name, pos, "%s; its copy is whole, of checkpoint %d", detail, theirs.Seq).Repair = "puts `checkpoint.copy/` in its place"
}

// place returns the file that an error of a checkpoint names, or the directory dir, the offset
// in it, or -1, and what is wrong there.
func place(err error, dir string) (file string, pos int64, detail string) {
	var damage *statelog.Damage
	switch {
	case errors.As(err, &damage) && damage.Lost:
		return damage.File, -1, damage.What
	case errors.As(err, &damage):
		return damage.File, int64(damage.Offset), damage.What
	case errors.Is(err, fs.ErrNotExist):
		return dir, -1, "there is none"
	}
	return dir, -1, fmt.Sprint(err)
}

// gone reports whether an error says that a checkpoint or one of its files is missing.
func gone(err error) bool {
	var damage *statelog.Damage
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage) && damage.Lost
}

// distrust takes back that the checkpoint's copy is as good as the checkpoint: the journal
// doesn't fit it. It may be older, of a time before a version that wrote none.
func (d *dir) distrust() {
	for i := range d.findings {
		if f := &d.findings[i]; f.Kind == CheckpointMissing || f.Kind == CheckpointDamaged {
			f.Detail += "; the journal is damaged too, or was written after another checkpoint"
			f.Repair, f.Restore = "", oneBackup
		}
	}
}

// used says whether there is anything that only a checkpoint makes sense of.
func (d *dir) used() (bool, error) {
	infos, err := d.fs.List(d.place.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("log directory: %w", err)
	}
	for _, in := range infos {
		if in.Dir && exists(d.fs, path.Join(d.place.Path, in.Name, storage.PartitionFile)) {
			return true, nil
		}
	}
	files, err := journal.Files(d.fs, d.place.JournalPath(), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for i := 0; err == nil && i < len(files); i++ {
		_, err = journal.Walk(d.fs, d.place.JournalPath(), files[i].Seq, func(journal.FrameAt) error { return errFound })
	}
	if access(err) {
		return false, fmt.Errorf("journal: %w", err)
	}
	return err != nil, nil // a frame, or what cannot be read and may be one
}

var errFound = errors.New("found")

// checkIdentity holds the identities against each other and the checkpoint.
func (d *dir) checkIdentity(own storage.Identity, err error, theirs storage.Identity, jerr error) {
	name, jname := d.path(storage.IdentityFile), path.Join(d.place.JournalPath(), storage.JournalIdentityFile)
	s := d.state
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, statefile.ErrCorrupt):
		kind, detail := IdentityDamaged, fmt.Sprint(err)
		if errors.Is(err, fs.ErrNotExist) {
			kind, detail = IdentityMissing, "the file is gone"
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
		d.find(CheckpointForeign, nil, d.path(storage.CheckpointDir), -1, "it was written for directory %x and journal %x, chronik.dir says %x and %x", s.Dir, s.Journal, own.Dir, own.Journal)
		return
	}
	d.holdJournal(own, theirs, jerr, jname)
}

// holdJournal holds the journal's identity against the directory's and the
// checkpoint's.
func (d *dir) holdJournal(own, theirs storage.Identity, jerr error, jname string) {
	switch s := d.state; {
	case errors.Is(jerr, fs.ErrNotExist):
		files, err := journal.Files(d.fs, d.place.JournalPath(), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // journal says what cannot be read
		}
		if len(files) == 0 {
			d.fresh, d.journalIdentity, d.unsure = true, true, true
			d.find(JournalMissing, nil, d.place.JournalPath(), -1, "there is no file of a journal")
			return
		}
		d.journalIdentity = true
		d.find(JournalIdentityMissing, nil, jname, -1, "the file is gone, and %d files of the journal are there", len(files))
	case errors.Is(jerr, statefile.ErrCorrupt):
		d.journalIdentity = true
		d.find(JournalIdentityDamaged, nil, jname, -1, "%v", jerr)
	case jerr != nil:
		d.find(Unreadable, nil, jname, -1, "%v", jerr).Effect = Refuses
	case theirs.Dir != own.Dir:
		d.find(JournalForeign, nil, jname, -1, "it belongs to log directory %x, this one is %x", theirs.Dir, own.Dir)
	case theirs != own || own.Journal != s.Journal:
		d.half, d.fresh = true, true
		d.find(JournalHalfReplaced, nil, jname, -1, "it says journal %x, chronik.dir %x, the checkpoint %x", theirs.Journal, own.Journal, s.Journal)
	}
}

// mark looks at the mark of a clean stop.
func (d *dir) mark() error {
	clean, err := storage.StoppedCleanly(d.fs, d.place, d.state)
	if access(err) {
		return fmt.Errorf("log directory: %w", err)
	}
	d.clean = clean && !d.fresh && !d.identity && !d.journalIdentity && !d.restored
	d.out.Clean = clean
	return nil
}

// leftovers looks at what stands beside the logs.
func (d *dir) leftovers() error {
	infos, err := d.fs.List(d.place.Path)
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
		if l.st.Aside != "" {
			named[l.st.Aside] = true
		}
	}
	for _, in := range infos {
		name := d.path(in.Name)
		switch {
		case strings.HasSuffix(in.Name, ".tmp") && !in.Dir:
			d.find(Leftover, nil, name, -1, "a state file that was not finished")
		case strings.HasSuffix(in.Name, framesSuffix) && !in.Dir && !named[in.Name]:
			if err := d.noteQuarantine(name, nil); err != nil {
				return err
			}
		case !in.Dir || known[in.Name] || d.state == nil || name == d.place.JournalPath() || !exists(d.fs, path.Join(name, storage.PartitionFile)):
		case storage.IsDeletedName(in.Name) || d.deleted(in.Name):
			d.find(Leftover, nil, name, -1, "the directory of a partition that was deleted")
		case storage.IsStrayName(in.Name):
			d.find(PartitionStray, nil, name, -1, "it was set aside by a start before").Start = "leaves it alone"
		default:
			d.find(PartitionStray, nil, name, -1, "the checkpoint does not know it")
		}
	}
	return nil
}

// deleted says whether a directory is that of a log whose deletion is durable.
func (d *dir) deleted(name string) bool {
	return slices.ContainsFunc(d.logs, func(l *log) bool { return l.st.Deleted && l.st.String() == name })
}

const framesSuffix = ".frames"

// partitions is what a start, or a repair, makes of the logs.
func (d *dir) partitions() []Partition {
	var list []Partition
	for _, l := range d.logs {
		if l.st.Deleted {
			continue
		}
		p := Partition{Dir: d.place.Path, Topic: l.st.Topic, Partition: l.st.ID.Partition, Start: min(l.st.Start, l.end), Stored: l.st.Offset, End: l.end,
			Frames: l.frames, Batches: l.batches, Bytes: l.bytes, Missing: merged(l.lost), id: l.st.ID}
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

// worse is the worse of two effects.
func worse(a, b Effect) Effect {
	order := []Effect{"", Heals, Aside, Serves, Offline, Refuses}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// merged joins ranges that touch, in order.
func merged(losses []Loss) []Loss {
	slices.SortStableFunc(losses, func(a, b Loss) int { return cmp.Compare(a.From, b.From) })
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
