package snapshots

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
)

// keepUnknown is how long an operator has, after a recovery of the metadata, until the old records
// of topics are deleted that these do not know.
const keepUnknown = 30 * 24 * time.Hour

// collect deletes the objects that neither a snapshot nor a Tier needs. First it lists all objects.
// Then it writes the collection: a snapshot whose author has read an earlier one is not named any
// longer. So what is listed, and no snapshot of that revision names, is never named again, and may
// be deleted at any later time. If an index cannot be read, nothing is deleted. Manifests are
// deleted before other objects: recovered metadata may name one, and a leader that finds it takes
// its objects for present.
//
// Metadata that were recovered from an older state may not know the newest snapshots. So the first
// collection of a generation adds what the store has. Directories that are put back from a copy are
// of the same generation. So the first one of a process adds the snapshots above the revision of
// the metadata that it has found: they cannot know of these.
func (s *Service) collect(ctx context.Context, term uint64) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	id, err := metadata.ParseID(s.opt.Image().ClusterID())
	if err != nil {
		return err
	}
	prefix := format.Prefix(id)
	var names []string
	if err := store.List(ctx, prefix, func(in objects.Info) error {
		names = append(names, in.Name)
		return nil
	}); err != nil {
		return fmt.Errorf("list the objects: %w", err)
	}
	generation := s.opt.Image().Generation()
	former, err := s.collection(ctx)
	if err != nil {
		return err
	}
	above := int64(0)
	if former.Generation == generation {
		above = s.found
		if s.othersTook() {
			above = math.MaxInt64
		}
	}
	if err := s.adopt(ctx, term, store, prefix, id, names, above); err != nil {
		return fmt.Errorf("add the snapshots that the metadata do not know: %w", err)
	}
	s.found = math.MaxInt64
	tiersBefore, _, err := s.opt.Store.Range(ctx, metadata.TierPrefix)
	if err != nil {
		return err
	}
	value := metadata.Collection{Time: s.opt.Now().UnixMilli(), Generation: generation}.Encode()
	revision, err := s.opt.Store.LeaderTxn(ctx, term, metadata.Txn{Put: []metadata.KV{{Key: metadata.CollectionKey, Value: value}}})
	if err != nil {
		return err
	}
	if err := s.opt.Store.WaitFor(ctx, revision); err != nil {
		return err
	}
	kvs, _, err := s.opt.Store.Range(ctx, metadata.SnapshotPrefix)
	if err != nil {
		return err
	}
	named, err := namedBy(ctx, store, prefix, id, kvs)
	if err != nil {
		return err
	}
	kept, err := s.nameTiers(ctx, store, prefix, tiersBefore, revision, named)
	if err != nil {
		return err
	}
	s.forget() // it deletes the probe
	unused := names[:0:0]
	lists := 0 // of these, first
	for _, name := range names {
		n, err := format.Parse(strings.TrimPrefix(name, prefix))
		if err == nil && (named[n.Nonce] || kept(n.Partition)) || err != nil && !objects.Unfinished(name) {
			continue // what has another name is not of a snapshot
		}
		unused = append(unused, name)
		if err == nil && n.Kind == objects.Manifest {
			unused[lists], unused[len(unused)-1] = name, unused[lists]
			lists++
		}
	}
	for _, name := range unused {
		if err := store.Delete(ctx, name); err != nil {
			return fmt.Errorf("delete an unused object: %w", err)
		}
	}
	s.opt.Log.Info("unused objects deleted from the object store", zap.Int("objects", len(unused)), zap.Int("listed", len(names)))
	return nil
}

// nameTiers adds the objects of records that only the store has to named. All objects of some
// partitions are kept:
//
//   - those whose Tier has changed since the collection was written at a revision: what it named
//     then is not known, and a snapshot may name it again;
//   - those whose Tier is of another generation of the metadata, or that may have one and do not:
//     the leader has not compared the store with its log yet;
//   - those without a Tier, for keepUnknown after the metadata were recovered from an older state:
//     their topics may be of a later time. The brokers also keep the logs of such topics.
func (s *Service) nameTiers(ctx context.Context, store objects.Store, prefix string, before []metadata.KV, revision int64,
	named map[objects.Nonce]bool) (kept func(format.ID) bool, err error) {
	after, _, err := s.opt.Store.Range(ctx, metadata.TierPrefix)
	if err != nil {
		return nil, err
	}
	all, known := map[format.ID]bool{}, map[format.ID]bool{}
	for _, kv := range before {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, err
		}
		all[format.ID{Topic: k.ID, Partition: k.Partition}] = true
	}
	generation := metadata.ID(s.opt.Image().Generation())
	for _, kv := range after {
		k, err := metadata.ParseKey(kv.Key)
		if err != nil {
			return nil, err
		}
		t, err := metadata.DecodeTier(kv)
		if err != nil {
			return nil, err
		}
		id := format.ID{Topic: k.ID, Partition: k.Partition}
		known[id] = true
		if all[id] = kv.ModRevision > revision || t.Generation != generation; all[id] || t.Empty() {
			continue
		}
		p := format.Partition{ID: id, Manifest: objects.Nonce(t.Manifest)}
		if err := addNamed(ctx, store, prefix, &p, named); format.Unusable(err) {
			s.opt.Log.Warn("a list of old records cannot be read: nothing of this partition is deleted",
				zap.Stringer("topic", metadata.ID(id.Topic)), zap.Int32("partition", id.Partition), zap.Error(err))
			all[id] = true
		} else if err != nil {
			return nil, fmt.Errorf("records of %x-%d: %w", id.Topic, id.Partition, err)
		}
	}
	img := s.opt.Image()
	lacks := s.opt.Now().Sub(img.Recovered()) < keepUnknown
	return func(id format.ID) bool {
		if all[id] || known[id] || id == (format.ID{}) {
			return all[id]
		}
		t := img.TopicByID(id.Topic)
		return lacks || t != nil && s.opt.Topic(img, t).Remote
	}, nil
}

// othersTook reports whether the metadata have snapshots that another process has taken since this
// one has found them: then they are no copy, and a snapshot that they do not know was deleted.
func (s *Service) othersTook() bool {
	return slices.ContainsFunc(s.opt.Image().Snapshots(), func(x metadata.Snapshot) bool {
		return x.Number > s.found && (s.first == 0 || x.Number < s.first)
	})
}

// collection returns the last collection.
func (s *Service) collection(ctx context.Context) (metadata.Collection, error) {
	kvs, _, err := s.opt.Store.Range(ctx, metadata.CollectionKey)
	if err != nil || len(kvs) == 0 {
		return metadata.Collection{}, err
	}
	return metadata.DecodeCollection(kvs[0])
}

// adopt adds the whole snapshots to the metadata that are among the names of objects and not known,
// if their numbers are above one.
func (s *Service) adopt(ctx context.Context, term uint64, store objects.Store, prefix string, id [16]byte, names []string,
	above int64) error {
	var newer error // nothing is deleted, since it is not known what it needs
	for _, name := range names {
		n, err := format.Parse(strings.TrimPrefix(name, prefix))
		if err != nil || n.Kind != objects.Index || n.Number <= above || s.opt.Image().Snapshot(n.Number) != nil {
			continue
		}
		found, err := restore.Find(ctx, store, "", restore.Choice{Cluster: metadata.FormatID(id), Number: n.Number})
		if restore.Newer(err) {
			newer = err
			continue
		}
		if restore.NotWhole(err) {
			s.opt.Log.Warn("a snapshot that the metadata do not know is not whole; its objects are deleted",
				zap.Int64("snapshot", n.Number), zap.Error(err))
			continue
		}
		if err != nil {
			return err
		}
		x, err := adopted(ctx, store, prefix, id, found)
		if err != nil {
			return err
		}
		key := metadata.SnapshotKey(x.Number)
		revision, err := s.opt.Store.LeaderTxn(ctx, term, metadata.Txn{If: []metadata.Compare{{Key: key}},
			Put: []metadata.KV{{Key: key, Value: x.Encode()}}})
		if err == nil {
			err = s.opt.Applied(ctx, revision)
		}
		if err != nil {
			return err
		}
		s.opt.Log.Warn("added a snapshot that the metadata did not know", zap.Int64("snapshot", x.Number))
	}
	return newer
}

// adopted returns what the metadata have of a whole snapshot. Whatever its error is, the snapshot
// was whole a moment ago, and its objects must not be deleted.
func adopted(ctx context.Context, store objects.Store, prefix string, id [16]byte, found *restore.Snapshot) (*metadata.Snapshot, error) {
	x := &metadata.Snapshot{Number: found.At.Number, Nonce: metadata.ID(found.At.Nonce), Time: found.Index.Time, Ended: found.Index.Time,
		Partitions: len(found.Index.Partitions), Bytes: found.Bytes}
	for i := range found.Index.Partitions {
		if found.Index.Partitions[i].State == format.Offline {
			x.Offline++
		}
	}
	for at := &found.At; ; x.Changes++ {
		index, err := format.ReadIndex(ctx, store, prefix, id, *at)
		if err != nil {
			return nil, err
		}
		if at = index.Previous; at == nil {
			return x, nil
		}
	}
}

// namedBy returns the nonces of all objects that snapshots need, and perhaps of some that only
// indexes before them needed.
func namedBy(ctx context.Context, store objects.Store, prefix string, cluster [16]byte, snapshots []metadata.KV) (
	map[objects.Nonce]bool, error) {
	named := map[objects.Nonce]bool{}
	for _, kv := range snapshots {
		x, err := metadata.DecodeSnapshot(kv)
		if err != nil {
			return nil, err
		}
		for at := (&format.Previous{Number: x.Number, Nonce: objects.Nonce(x.Nonce)}); at != nil && !named[at.Nonce]; {
			index, err := format.ReadIndex(ctx, store, prefix, cluster, *at)
			if err != nil {
				return nil, fmt.Errorf("snapshot %d: %w", x.Number, err)
			}
			named[at.Nonce] = true
			for i := range index.Partitions {
				if err := addNamed(ctx, store, prefix, &index.Partitions[i], named); err != nil {
					return nil, fmt.Errorf("snapshot %d: %w", x.Number, err)
				}
			}
			at = index.Previous
		}
	}
	return named, nil
}

// addNamed adds the objects of a partition.
func addNamed(ctx context.Context, store objects.Store, prefix string, p *format.Partition, named map[objects.Nonce]bool) error {
	add := func(parts []format.Part) {
		for i := range parts {
			named[parts[i].Run.Nonce] = true
		}
	}
	add(p.Parts)
	if (p.Manifest == objects.Nonce{}) || named[p.Manifest] {
		return nil
	}
	return format.EachManifest(ctx, store, prefix, p.ID, p.Manifest, func(nonce objects.Nonce, m *format.Manifest) error {
		named[nonce] = true
		add(m.Parts)
		return nil
	})
}
