package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/journal"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Repair is a repair under way: the directories are locked, and looked at.
type Repair struct {
	opt     Options
	locks   []io.Closer
	benches []*storage.Bench
	report  *Report
	plan    *Plan
}

// Begin locks the directories for a repair and looks at them. holder is what others
// are told who has them. Close must be called.
func Begin(ctx context.Context, opt Options, holder string) (*Repair, error) {
	locks, err := lockAll(opt.FS, opt.Data, holder)
	r := &Repair{opt: opt, locks: locks}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, p := range opt.Places {
		b, err := storage.OpenBench(p, storage.Options{FS: opt.FS, Holder: holder})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.benches = append(r.benches, b)
	}
	if err := r.makePlan(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// makePlan looks with the view of Verify, and makes the plan.
func (r *Repair) makePlan(ctx context.Context) error {
	o := r.opt
	o.FS = vfs.ReadOnly(r.opt.FS)
	report, err := verify(ctx, o)
	if err != nil {
		return err
	}
	r.report, r.plan = report, report.Plan()
	return nil
}

// Report is what was found; after Do, what is there now.
func (r *Repair) Report() *Report { return r.report }

// Plan is what Do does.
func (r *Repair) Plan() *Plan { return r.plan }

// Close gives the directories back.
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

// Do copies everything that the plan changes to a directory that must be empty or not
// there, does the plan, and looks again. Where it is interrupted, a start or another
// repair goes on from there.
func (r *Repair) Do(ctx context.Context, backup string) error {
	if err := r.save(ctx, backup); err != nil {
		return err
	}
	for i, d := range r.report.dirs {
		if !slices.ContainsFunc(r.plan.Acts, func(a Act) bool { return a.Dir == d.place.Path }) {
			continue
		}
		m := &apply{ctx: ctx, fs: r.opt.FS, bench: r.benches[i], dir: d}
		if err := m.run(); err != nil {
			return fmt.Errorf("repair %s: %w", d.place.Path, err)
		}
	}
	for _, b := range r.report.rebuilds {
		if err := b.run(r.opt.FS); err != nil {
			return fmt.Errorf("repair %s: %w", b.at, err)
		}
	}
	return r.makePlan(ctx)
}

// apply is the repair of one directory. The steps are in an order in which each leaves
// something that a start or a repair handles:
//
//	1  a lost checkpoint from its copy; identities, ids of partitions, foreign files out of
//	   the way: each as a whole
//	2  frames into files of their own, synced; nothing speaks of them yet
//	3  the checkpoint that does, and says what segments count, with a new journal if
//	   that is needed: from here on the partitions are what was announced
//	4  segments that are written anew take their places as those of a compaction do
//	5  what is not needed any more is removed
type apply struct {
	ctx   context.Context
	fs    vfs.FS
	bench *storage.Bench
	dir   *dir
	state *checkpoint.State
	spent []string // files to be removed in the end
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

// replaceFiles does what is one file each.
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
		if err := m.fs.SyncDir(d.place.JournalPath()); err != nil {
			return err
		}
	}
	for _, l := range d.logs {
		if l.absent || l.partFile {
			if err := m.bench.WritePartitionFile(l.st); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit writes the checkpoint that says what is kept.
func (m *apply) commit() error {
	d := m.dir
	above := max(d.above, m.state.Above())
	changed := d.fresh || d.restored
	for i, l := range d.logs {
		if l.st.Deleted || l.unseen {
			continue // as it is said to be
		}
		s := &m.state.Logs[i]
		if l.behind != nil && d.fresh {
			if err := m.sync(l); err != nil {
				return err
			}
			s.Segments, s.Offset, s.Epochs, s.Producers = l.behind.segments, l.behind.end, l.behind.epochs, l.behind.producers
		}
		changed = m.segments(l, s) || changed
		if l.reset {
			s.Producers, changed = make([]byte, 4), true // none
		}
		if l.st.Offline != "" {
			s.Offline, s.LSN, changed = "", above-1, true
		}
		changed = changed || l.kept
	}
	if err := m.frames(); err != nil {
		return err
	}
	if !changed {
		return nil
	}
	if !d.fresh {
		return m.bench.Commit(m.state)
	}
	if d.renews() {
		if err := vfs.MakeDir(m.fs, d.place.JournalPath()); err != nil {
			return err
		}
	}
	if err := m.bench.CommitFresh(m.state, above, d.renews()); err != nil {
		return err
	}
	s, err := storage.ReadState(m.fs, d.place.Path)
	if err != nil {
		return err
	}
	m.state = s
	return nil
}

// segments lists those of a log that are there, and says whether that is another list.
func (m *apply) segments(l *log, s *checkpoint.Log) bool {
	if l.absent {
		s.Segments, s.Start, s.Swapping = nil, s.Offset, false
		return true
	}
	if len(l.gone)+len(l.cut) == 0 {
		return false
	}
	var list []checkpoint.Extent
	for _, e := range s.Segments {
		size, short := l.cut[e.Base]
		switch {
		case l.gone[e.Base]:
		case short && size == 0:
			m.spent = append(m.spent, l.segmentFiles(e.Base)...)
		case short:
			list = append(list, checkpoint.Extent{Base: e.Base, Size: size})
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

// frames puts what is to come back at a start into files of their own.
func (m *apply) frames() error {
	d := m.dir
	kept, err := m.bench.NewQuarantine(m.state)
	if err != nil {
		return err
	}
	add := func(l *log, f *journal.Frame) error {
		i := slices.Index(d.logs, l)
		name, err := kept.Add(f, l.st.String())
		m.state.Logs[i].Aside = name
		return err
	}
	for i, l := range d.logs {
		l.begin()
		if l.kept || d.fresh && l.st.Aside != "" {
			m.state.Logs[i].Aside = ""
			m.spent = append(m.spent, d.path(l.st.Aside))
			if err := m.again(l, d.path(l.st.Aside), add); err != nil {
				return errors.Join(err, kept.Close())
			}
		}
		for _, name := range l.recovered {
			m.spent = append(m.spent, name)
			if err := m.again(l, name, add); err != nil {
				return errors.Join(err, kept.Close())
			}
		}
	}
	if d.fresh {
		s := salvage{d: d, lost: map[*log][]Loss{}}
		if err := s.run(add); err != nil {
			return errors.Join(err, kept.Close())
		}
	}
	return kept.Close()
}

// again keeps the frames of a file once more, as far as they are whole.
func (m *apply) again(l *log, name string, add func(*log, *journal.Frame) error) error {
	err := journal.ReadQuarantine(m.fs, name, func(f journal.Frame) error {
		if f.Stream != l.st.ID {
			return nil
		}
		takes, _, err := l.join(&f)
		if err != nil || !takes {
			return err
		}
		return add(l, &f)
	})
	if errors.Is(err, journal.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return nil // it was announced
	}
	return err
}

// removeUnneeded removes what is not needed any more.
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
