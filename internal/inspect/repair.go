package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Repair is a repair in progress: the directories are locked and have been checked.
type Repair struct {
	opt        Options
	locks      []io.Closer
	benches    []*storage.RepairDir
	inspection *Inspection
	plan       *Plan
}

// Begin locks the directories for a repair and checks them. holder is shown to other processes that
// try to lock them. The caller must call Close.
func Begin(ctx context.Context, opt Options, holder string) (*Repair, error) {
	locks, err := lockAll(opt.FS, opt.Data, holder)
	r := &Repair{opt: opt, locks: locks}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, p := range opt.Locations {
		b, err := storage.OpenForRepair(p, storage.Options{FS: opt.FS, Holder: holder})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.benches = append(r.benches, b)
	}
	if err := cmp.Or(r.syncNames(), ctx.Err()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.makePlan(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.inspection.Replicated(); err != nil && !opt.LastCopy {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// syncNames makes the names durable that the plan will be based on. An earlier repair or the broker
// may have failed to do so after it changed them. Then nothing is left to repair, and no later step
// would sync their directories.
func (r *Repair) syncNames() error {
	dirs := slices.Clone(r.opt.Data)
	for _, p := range r.opt.Locations {
		own := func(name string) string { return path.Join(p.Path, name) }
		dirs = append(dirs, p.Path, p.JournalPath(), own(storage.CheckpointDir), own(storage.CheckpointMirror))
		infos, _ := r.opt.FS.List(p.Path) // the inspection reports a directory that cannot be listed
		for _, in := range infos {
			if !in.Dir {
				continue
			}
			switch has, err := storage.HoldsPartition(r.opt.FS, own(in.Name)); {
			case has:
				dirs = append(dirs, own(in.Name))
			case err != nil:
				_ = r.opt.FS.SyncDir(own(in.Name)) // the inspection reports it, and no act concerns it unless it can be read then
			}
		}
	}
	for _, dir := range dirs {
		if err := r.opt.FS.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync the names in %s: %w", dir, err)
		}
	}
	return nil
}

// ErrReplicated means that a repair concerns partitions of which other brokers have replicas.
var ErrReplicated = errors.New("other brokers have replicas")

// Replicated returns why the plan must not be carried out unless this is the last copy; nil if it
// may. The error matches ErrReplicated. A repaired log continues without what was damaged, although
// other replicas may have it.
func (r *Inspection) Replicated() error {
	concerned := map[string]bool{}
	note := func(dir, topic string, partition int32) {
		if topic != "" && r.replicated(dir, topic, partition) {
			concerned[fmt.Sprintf("%s-%d", topic, partition)] = true
		}
	}
	for _, a := range r.Plan().Acts {
		note(a.Dir, a.Topic, a.Partition)
		for _, l := range a.Loses {
			note(a.Dir, l.Topic, l.Partition)
		}
	}
	if len(concerned) == 0 {
		return nil
	}
	of := few(slices.Sorted(maps.Keys(concerned)))
	command := cmp.Or(r.lastCopy, "log repair --last-copy")
	if !r.Refused() {
		alone := slices.DeleteFunc(r.only(), func(name string) bool { return !concerned[name] })
		if len(alone) > 0 {
			return fmt.Errorf("%w of %s, and a repair leaves out what those may have; start the broker: it replaces a damaged log by a copy "+
				"if another replica is in sync; of %s none is, so `chronikctl cluster health` has the commands that save what the others "+
				"have, and restore it with %s", ErrReplicated, of, few(alone), command)
		}
		return fmt.Errorf("%w of %s, and a repair leaves out what those may have; start the broker: it replaces a damaged log by a copy; "+
			"if no other broker has these records any longer, %s repairs what is here", ErrReplicated, of, command)
	}
	const empty = "give it an empty directory instead, and start it: it copies all replicas again"
	remedy := "if the broker refuses a log directory, " + empty + "; if no other broker has these records any longer, " +
		command + " repairs what is here"
	switch only := r.only(); {
	case r.cluster == nil:
		remedy = "if this broker has the only replica of a partition, " + command + " keeps what can be read of it; " +
			"a log directory alone does not show that, and --config, or the data directory with its metadata, does; " +
			"if no partition has its only replica here, " + empty
	case len(only) > 0:
		remedy = fmt.Sprintf("no other broker has all records of %s, so use %s, which keeps what can be read of them; after the start the broker copies "+
			"from other brokers what a repair leaves out of the rest; only if these partitions may be lost, %s", few(only), command, empty)
	}
	return fmt.Errorf("%w of %s, and a repair leaves out what those may have; %s", ErrReplicated, of, remedy)
}

// few lists the first three names and the number of the others.
func few(names []string) string {
	text := strings.Join(names[:min(len(names), 3)], ", ")
	if n := len(names) - 3; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// only returns the partitions of which no other broker has all records, as far as the metadata
// show: they would be lost with the log directories.
func (r *Inspection) only() (names []string) {
	if r.cluster == nil {
		return nil
	}
	for _, d := range r.dirs {
		for _, l := range d.logs {
			t := r.cluster.Topic(l.st.Topic)
			if t == nil || t.ID != l.st.ID.Topic || l.st.Deleted {
				continue
			}
			if p := t.Partitions.At(l.st.ID.Partition); p != nil && !r.elsewhere(d, p) {
				names = append(names, fmt.Sprintf("%s-%d", t.Name, l.st.ID.Partition))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// elsewhere reports whether another broker than that of the directory has all records of a
// partition.
func (r *Inspection) elsewhere(d *dir, p *metadata.Partition) bool {
	others, known := r.others(d, p)
	if !known {
		return len(p.Replicas) > 1
	}
	return slices.ContainsFunc(others, p.Counts)
}

// others returns the brokers with replicas of a partition without that of the directory, and
// whether the metadata show which one that is.
func (r *Inspection) others(d *dir, p *metadata.Partition) (list []int32, known bool) {
	for _, b := range r.cluster.Brokers() {
		if _, has := b.Dir(d.state.Dir); has {
			return slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return id == b.ID }), true
		}
	}
	return p.Replicas, false
}

// Elsewhere is a loss that a repair can restore from other replicas. Brokers have them; it is empty
// if the metadata of the cluster cannot be read.
type Elsewhere struct {
	Loss
	Brokers []int32
}

// Elsewhere returns the losses of the plan that a repair can restore from other replicas: those in
// segments.
func (r *Inspection) Elsewhere() (list []Elsewhere) {
	for _, d := range r.dirs {
		for _, l := range d.logs {
			if d.state == nil || !r.replicated(d.location.Path, l.st.Topic, l.st.ID.Partition) {
				continue
			}
			var brokers []int32
			if r.cluster != nil {
				brokers, _ = r.others(d, r.cluster.Topic(l.st.Topic).Partitions.At(l.st.ID.Partition))
			}
			for _, x := range l.lostInSegments() {
				list = append(list, Elsewhere{Loss: x, Brokers: brokers})
			}
		}
	}
	return list
}

// replicated reports whether other brokers have replicas of a partition, as far as the metadata of
// the broker's cluster show. If these cannot be read, a directory that belongs to a cluster counts
// as shared.
func (r *Inspection) replicated(at, topic string, partition int32) bool {
	if r.cluster != nil {
		if t := r.cluster.Topic(topic); t != nil {
			p := t.Partitions.At(partition)
			return p != nil && len(p.Replicas) > 1
		}
		return false // it was deleted, or the metadata is older
	}
	i := slices.IndexFunc(r.dirs, func(d *dir) bool { return d.location.Path == at })
	return i >= 0 && r.dirs[i].state != nil && r.dirs[i].state.Owner.Cluster != [16]byte{}
}

// makePlan checks the directories as Verify does and makes the plan.
func (r *Repair) makePlan(ctx context.Context) error {
	o := r.opt
	o.FS = vfs.ReadOnly(r.opt.FS)
	found, err := verify(ctx, o)
	if err != nil {
		return err
	}
	r.inspection, r.plan = found, found.Plan()
	return nil
}

// Inspection returns the findings of Begin, or after Do, those that remain.
func (r *Repair) Inspection() *Inspection { return r.inspection }

// Plan returns the acts that Do carries out.
func (r *Repair) Plan() *Plan { return r.plan }

// Close unlocks the directories.
func (r *Repair) Close() error {
	var errs []error
	for _, b := range r.benches {
		errs = append(errs, b.Close())
	}
	for _, l := range r.locks {
		errs = append(errs, l.Close())
	}
	r.benches, r.locks = nil, nil
	return errors.Join(errs...)
}

// Do copies everything that the plan changes to backup, which must be empty or missing. Then it
// carries out the plan and checks the directories again. If it is interrupted, recovery or another
// repair continues from there.
func (r *Repair) Do(ctx context.Context, backup string) error {
	if err := r.save(ctx, backup); err != nil {
		return err
	}
	for i, d := range r.inspection.dirs {
		if !slices.ContainsFunc(r.plan.Acts, func(a Act) bool { return a.Dir == d.location.Path }) {
			continue
		}
		m := &apply{ctx: ctx, fs: r.opt.FS, bench: r.benches[i], dir: d}
		if err := m.run(); err != nil {
			return fmt.Errorf("repair %s: %w", d.location.Path, err)
		}
	}
	for _, b := range r.inspection.rebuilds {
		if err := b.run(r.opt.FS); err != nil {
			return fmt.Errorf("repair %s: %w", b.at, err)
		}
	}
	return r.makePlan(ctx)
}

// apply carries out the repair of one directory. Each of its steps leaves a directory that a
// start or another repair can handle:
//
//	1  Restore a lost checkpoint from its copy, write identities and partition ids, and rename
//	   foreign files. Each of these can be repeated.
//	2  Write frames to quarantine files and sync them. No checkpoint names these files yet.
//	3  Write the checkpoint that names them and lists the remaining segments, with a new journal
//	   if it is needed. From here on the partitions are as announced.
//	4  Rewrite segments. They replace the old ones as those of a compaction do.
//	5  Remove files that are no longer needed.
type apply struct {
	ctx   context.Context
	fs    vfs.FS
	bench *storage.RepairDir
	dir   *dir
	state *checkpoint.State
	spent []string // files to remove in the last step
}

func (m *apply) run() error {
	m.state = m.dir.state.Clone()
	for _, step := range []func() error{m.replaceFiles, m.commit, m.rewrite, m.removeUnneeded} {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// replaceFiles makes the changes that replace single files.
func (m *apply) replaceFiles() error {
	d := m.dir
	if d.restored {
		if _, err := checkpoint.Restore(m.fs, d.path(storage.CheckpointMirror), d.path(storage.CheckpointDir)); err != nil {
			return err
		}
	}
	id := storage.Identity{Dir: m.state.Dir, Journal: m.state.Journal}
	if d.identity {
		if err := m.bench.WriteIdentity(id, false); err != nil {
			return err
		}
	}
	if d.journalIdentity && !d.renews() {
		if err := m.bench.WriteIdentity(id, true); err != nil {
			return err
		}
	}
	for _, name := range d.foreign {
		if err := m.fs.Rename(name, name+foreignSuffix); err != nil {
			return err
		}
	}
	if len(d.foreign) > 0 {
		if err := m.fs.SyncDir(d.location.JournalPath()); err != nil {
			return err
		}
	}
	for _, l := range d.logs {
		if l.absent || l.partFile {
			if err := m.bench.WritePartitionFile(l.st); err != nil {
				return err
			}
		}
		if l.adopted && l.former != [16]byte{} {
			if err := m.bench.WriteMoved(l.st, l.former); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit writes the checkpoint of the repaired state.
func (m *apply) commit() error {
	d := m.dir
	above := max(d.above, m.state.Above())
	changed := d.newJournal || d.restored
	for i, l := range d.logs {
		if l.st.Deleted || l.unlistable {
			continue // its entry stays as it is
		}
		s := &m.state.Logs[i]
		if l.tailBeyond != nil && d.newJournal {
			if err := m.renew(l); err != nil {
				return err
			}
			s.Segments, s.Offset, s.Epochs, s.Producers =
				l.tailBeyond.segments, l.tailBeyond.end, l.tailBeyond.epochs, l.tailBeyond.producers
		}
		changed = m.segments(l, s) || changed
		if l.reset {
			s.Producers, changed = l.producers(), true
		}
		if l.st.Offline != "" {
			s.Offline, s.LSN, changed = "", above-1, true
		}
		changed = changed || l.quarantineLost
		if len(l.lost) > 0 || l.st.Offline != "" { // a cluster must know of it
			s.Lossy, s.Partial = true, true
		}
	}
	if err := m.frames(); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	if !d.newJournal {
		return m.bench.Commit(m.state)
	}
	if d.renews() {
		if err := vfs.MakeDir(m.fs, d.location.JournalPath()); err != nil {
			return err
		}
	}
	if err := m.bench.CommitFresh(m.state, above, d.renews()); err != nil {
		return err
	}
	s, err := storage.ReadState(m.fs, d.location.Path)
	if err != nil {
		return err
	}
	m.state = s
	return nil
}

// segments lists the remaining segments of a log. It reports whether the list has changed.
func (m *apply) segments(l *log, s *checkpoint.Log) bool {
	if l.emptied() {
		s.Segments, s.Start, s.Swapping = nil, s.Offset, false
		return true
	}
	if len(l.gone)+len(l.cut) == 0 {
		return false
	}
	var list []checkpoint.Extent
	for _, e := range s.Segments {
		size, short := l.cut[e.Base]
		_, there := l.files[e.Base]
		switch {
		case l.gone[e.Base]:
		case !there && !l.made[e.Base] && e.Size > 0: // it lies below the log start, unless it becomes the last one
		case short && size == 0:
			m.spent = append(m.spent, l.segmentFiles(e.Base)...)
		case short:
			list = append(list, checkpoint.Extent{Base: e.Base, Size: size, Aborted: unknown})
		default:
			list = append(list, e)
		}
	}
	s.Segments = list
	first := s.Offset
	for _, e := range list {
		if e.Size > 0 {
			first = e.Base
			break
		}
	}
	s.Start = max(s.Start, first)
	return true
}

// frames writes the frames that the next start will replay to quarantine files.
func (m *apply) frames() error {
	d := m.dir
	kept, err := m.bench.NewQuarantine(m.state)
	if err != nil {
		return err
	}
	add := func(l *log, f *journal.Frame) error {
		i := slices.Index(d.logs, l)
		name, err := kept.Add(f)
		m.state.Logs[i].QuarantineFile = name
		return err
	}
	for i, l := range d.logs {
		if l.replacesQuarantine() {
			m.state.Logs[i].QuarantineFile = ""
			m.spent = append(m.spent, d.path(l.st.QuarantineFile))
		}
	}
	if err := d.eachKept(m.fs, add); err != nil {
		return errors.Join(err, kept.Close())
	}
	for _, l := range d.logs {
		for _, name := range l.recovered {
			switch {
			case !l.held[name]:
				m.spent = append(m.spent, name)
			case l.adopted:
				return errors.Join(fmt.Errorf("%s has changed since it was checked", name), kept.Close())
			}
		}
	}
	return kept.Close()
}

// removeUnneeded removes the files that are no longer needed.
func (m *apply) removeUnneeded() error {
	dirs := map[string]bool{}
	for _, name := range m.spent {
		if err := m.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		dirs[path.Dir(name)] = true
	}
	for dir := range dirs {
		if err := m.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
