package inspect

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/statelog"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/storage/statefile"
	"github.com/chronik-io/chronik/internal/vfs"
)

// metadata checks the metadata of the data directories, compares the logs with it, and plans a
// rebuild of metadata that no start accepts.
func (r *Inspection) metadata(opt Options) error {
	for _, data := range opt.Data {
		at := path.Join(data, metadataDir)
		m, err := raftstore.Read(opt.FS, at)
		if r.ofCluster() || len(m.Voters) > 0 && !m.Sole() {
			if err := r.member(opt, at, &m, err); err != nil {
				return err
			}
			continue
		}
		c := contentOf(&m)
		var damage *statelog.Damage
		switch {
		case access(err):
			return fmt.Errorf("metadata: %w", err)
		case errors.Is(err, statelog.ErrNewerFormat):
			r.find(FormatNewer, at, at, -1, err.Error())
		case errors.As(err, &damage) && damage.Lost:
			r.lost(opt, at, &c, r.find(MetadataMissing, at, damage.File, -1, damage.What))
		case errors.As(err, &damage):
			r.lost(opt, at, &c, r.find(MetadataDamaged, at, damage.File, int64(damage.Offset), damage.What))
		case err != nil:
			r.find(Unreadable, at, at, -1, err.Error()).Effect = Refuses
		case len(c.Keys) == 0: // also those of a first start that was interrupted
			if f := r.unused(at); f != nil {
				r.lost(opt, at, &c, f)
			}
		default:
			if c.Torn > 0 {
				r.find(MetadataTorn, at, c.Log, -1, fmt.Sprintf("%d bytes at its end are not a whole transaction", c.Torn))
			}
			if copied := r.newerCopy(opt, &c); copied != "" {
				r.lost(opt, at, &c, r.find(MetadataOlder, at, c.Log, -1,
					fmt.Sprintf("it ends at revision %d, before its copy in %s", c.Revision, copied)))
				continue
			}
			img, err := metadata.Load(c.Keys, c.Revision)
			if errors.Is(err, metadata.ErrNewerVersion) {
				r.find(FormatNewer, at, c.Log, -1, err.Error())
				continue
			}
			if err != nil { // every checksum matches, but a start cannot use the contents
				r.lost(opt, at, &c, r.find(MetadataDamaged, at, c.Log, -1, err.Error()))
				continue
			}
			r.checkPartitions(img)
		}
	}
	return nil
}

// contentOf returns the content of a member's directory as that of a copy.
func contentOf(m *raftstore.Content) copies.Content {
	return copies.Content{Used: m.Used, Revision: m.Revision, Keys: m.Keys, Torn: m.Torn, Log: m.Log}
}

// ofCluster reports whether a cluster of several brokers has registered the log directories.
// Metadata that are made from the logs would not be those of the cluster.
func (r *Inspection) ofCluster() bool {
	return slices.ContainsFunc(r.dirs, func(d *dir) bool { return d.state != nil && d.state.Owner != checkpoint.Owner{} })
}

// copyOf returns the copy of the metadata in a log directory, "" if there is none.
func (r *Inspection) copyOf(fsys vfs.FS) string {
	for _, d := range r.dirs {
		at := copies.In(d.location.Path)
		if c, err := copies.Check(fsys, at); err == nil && c.Used {
			return at
		}
	}
	return ""
}

// member checks the metadata directory of a broker of a cluster, which was read as m with err. Its
// topics are in the metadata of the other brokers, too, so nothing is rebuilt from the logs: a
// broker whose directory is lost joins again as another member. Only the metadata of the only voter
// can be older than a copy.
func (r *Inspection) member(opt Options, at string, m *raftstore.Content, err error) error {
	var damage *statelog.Damage
	switch {
	case access(err):
		return fmt.Errorf("metadata: %w", err)
	case errors.Is(err, statelog.ErrNewerFormat):
		r.find(FormatNewer, at, at, -1, err.Error())
		return nil
	case errors.As(err, &damage):
		r.find(MemberDamaged, at, damage.File, int64(damage.Offset), damage.What).Restore = rejoin(opt.FS, at)
		return nil
	case err != nil: // the disk fails, and what it holds may be whole
		r.find(Unreadable, at, at, -1, err.Error()).Effect = Refuses
		return nil
	case !m.Used || m.Last == 0: // a start without metadata makes a member that has none
		f := r.find(MemberMissing, at, at, -1, "no metadata of the cluster are there")
		if from := r.copyOf(opt.FS); from != "" {
			f.Restore = "if no other broker has the metadata: chronikd recover --from " + from +
				", with the configuration of this broker"
		}
		return nil
	}
	c := contentOf(m)
	if from := r.newerCopy(opt, &c); m.Sole() && from != "" {
		f := r.find(MetadataOlder, at, m.Log, -1, fmt.Sprintf("it ends at revision %d, before its copy in %s", m.Revision, from))
		f.Repair, f.Restore = "", "move "+at+" away, then run chronikd recover --from "+from+" with the configuration of this broker"
	}
	r.cluster, err = metadata.Load(m.Keys, m.Revision)
	switch {
	case errors.Is(err, metadata.ErrNewerVersion):
		r.find(FormatNewer, at, at, -1, err.Error())
	case err != nil:
		r.find(MemberDamaged, at, at, -1, err.Error()).Restore = rejoin(opt.FS, at)
	default:
		r.checkPartitions(r.cluster)
	}
	return nil
}

func rejoin(fsys vfs.FS, at string) string { return health.Rejoin(at, vfs.FreeName(fsys, at)) }

// lost plans a rebuild of metadata that f reports as lost; c is the part of it that can be read.
func (r *Inspection) lost(opt Options, at string, c *copies.Content, f *Finding) {
	b, err := r.rebuild(opt, at, c)
	switch {
	case errors.Is(err, statelog.ErrNewerFormat), errors.Is(err, statefile.ErrNewer), errors.Is(err, metadata.ErrNewerVersion):
		f.Repair, f.Restore = "", fmt.Sprintf("use the version of chronik that wrote it: %v", err)
		return
	case err != nil:
		f.Repair = ""
		f.Restore = fmt.Sprintf("make readable what the repair needs, or move it away if it is lost, and repair then: %v", err)
		return
	case b == nil:
		f.Repair, f.Restore = "", "repair the checkpoints of the log directories first, or "+oneBackup
		return
	}
	r.rebuilds = append(r.rebuilds, b)
	f.Repair = b.what()
	f.Restore = ""
	r.checkPartitions(b.image)
}

// newerCopy returns the directory of a copy of the metadata with transactions that the metadata
// lacks.
func (r *Inspection) newerCopy(opt Options, c *copies.Content) string {
	for _, d := range r.dirs {
		dir := copies.In(d.location.Path)
		theirs, err := copies.Check(opt.FS, dir)
		if err == nil && theirs.Used && theirs.Revision > c.Revision && c.SameCluster(&theirs) {
			return dir
		}
	}
	return ""
}

// unused reports missing metadata if a log directory was used: no start creates new metadata for
// it. Of a directory whose identity cannot be read there is another finding.
func (r *Inspection) unused(at string) *Finding {
	for _, d := range r.dirs {
		if d.out.Used || d.begun {
			return r.find(MetadataMissing, at, at, -1, "there is no snapshot, but "+d.location.Path+" has been used")
		}
	}
	return nil
}

// checkPartitions reports the partitions that the metadata places in one of the directories and
// whose logs that directory does not have.
func (r *Inspection) checkPartitions(img *metadata.Image) {
	dirs := map[[16]byte]*dir{}
	r.adopt(img)
	for _, d := range r.dirs {
		if d.state != nil {
			dirs[d.state.Dir] = d
		}
	}
	for t := range img.Topics() {
		for i, p := range t.Partitions.All() {
			for _, broker := range p.Replicas {
				id, _ := img.Placement(broker, metadata.TopicPartition{Topic: t.ID, Partition: i})
				d := dirs[id]
				if d == nil || d.byID[storage.ID{Topic: t.ID, Partition: i}] != nil || !p.Counts(broker) {
					continue
				}
				f := d.find(LogMissing, nil, d.path(fmt.Sprintf("%s-%d", t.Name, i)), -1,
					"the metadata places the partition here, but the checkpoint does not list it")
				f.Topic, f.Partition = t.Name, i
				f.Lost = []Loss{{Topic: t.Name, Partition: i, From: 0, To: Unknown}}
				if len(p.Replicas) > 1 {
					f.Effect, f.Lost = Heals, nil
					f.Restore = "start the broker: it copies the log from another replica that has its records"
				}
			}
		}
	}
}

// find adds a finding that concerns no log directory.
func (r *Inspection) find(k Kind, dir, file string, pos int64, detail string) *Finding {
	r.Findings = append(r.Findings, newFinding(k, dir, file, pos, detail))
	return &r.Findings[len(r.Findings)-1]
}
