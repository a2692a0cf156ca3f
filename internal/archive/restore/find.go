package restore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/sorts"
)

// Choice says which snapshot to restore.
type Choice struct {
	// Cluster is the id of the cluster whose snapshot it is; empty: the only one in the store.
	Cluster string
	// Number is that of the snapshot; 0: the newest one that is whole.
	Number int64
	// At, if it is not zero and Number is 0, leaves out the snapshots after it.
	At time.Time
	// Topics, if any, are the names of those to restore, with the internal ones. Without Number,
	// the newest snapshot that has all of them is chosen.
	Topics []string
}

// Snapshot is a snapshot of which all objects are there.
type Snapshot struct {
	Cluster string // id
	At      format.Previous
	Index   *format.Index
	// Passed says why newer snapshots were not chosen: those that are not whole, the newest first,
	// and then in one error those that lack a chosen topic.
	Passed []error
	// Bytes are those of all batches, and Partitions the number of partitions, without the topics
	// that are not restored. LeftOut is the number of those.
	Bytes      int64
	Partitions int
	LeftOut    int

	topics []string // those that were chosen, sorted; none: all
	store  objects.Store
	prefix string // of the cluster's objects
	// early has where the first part of a log begins, if that is below the log start.
	early map[format.ID]int64
}

// timeOf returns when the cut of an index was made.
func timeOf(x *format.Index) time.Time { return time.UnixMilli(x.Time).UTC() }

// Time returns when the cut was made, by the clock of the original cluster.
func (s *Snapshot) Time() time.Time { return timeOf(s.Index) }

// Find chooses a snapshot in a store that has the objects of clusters below prefix. It reads the
// indexes and manifests, and verifies that the other objects are there with their sizes. An error
// with an exit code says what to do.
func Find(ctx context.Context, store objects.Store, prefix string, c Choice) (*Snapshot, error) {
	id, list, err := choose(ctx, store, prefix, c)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Cluster: metadata.FormatID(id), store: store, prefix: prefix + format.Prefix(id),
		topics: slices.Compact(slices.Sorted(slices.Values(c.Topics)))}
	candidates := list
	switch {
	case c.Number != 0:
		candidates = slices.DeleteFunc(slices.Clone(list), func(at format.Previous) bool { return at.Number != c.Number })
		if len(candidates) == 0 {
			return nil, exit.With(exit.Usage, fmt.Errorf("cluster %s has no snapshot %d in the store; it has %s", s.Cluster, c.Number,
				numbers(list)))
		}
	case !c.At.IsZero():
		if candidates, err = s.until(ctx, id, list, c.At); err != nil {
			return nil, err
		}
	}
	var lacking []*lacksError
	for _, at := range candidates { // the newest first
		err := s.open(ctx, id, at)
		if err == nil {
			if len(lacking) > 0 {
				s.Passed = append(s.Passed, lack(lacking))
			}
			return s, nil
		}
		if lacks := (*lacksError)(nil); errors.As(err, &lacks) {
			lacking = append(lacking, lacks)
			continue
		}
		if !NotWhole(err) {
			return nil, fmt.Errorf("read snapshot %d: %w", at.Number, err)
		}
		s.Passed = append(s.Passed, fmt.Errorf("snapshot %d is not whole: %w", at.Number, err))
	}
	if len(lacking) > 0 {
		return nil, exit.With(exit.Usage, fmt.Errorf("%w; %s", errors.Join(append(s.Passed, lack(lacking))...), instead(lacking)))
	}
	remedy := "check that the store is complete"
	if c.Number != 0 {
		remedy = "restore another one: without --snapshot, the newest that is whole is chosen"
	}
	return nil, exit.With(exit.Data, fmt.Errorf("%w; %s", errors.Join(s.Passed...), remedy))
}

// NotWhole reports whether an error says that objects are not those of a whole snapshot. Others may
// go away, or are errors of the store.
func NotWhole(err error) bool {
	return format.Unusable(err) || errors.Is(err, metadata.ErrNewerVersion) || errors.Is(err, errMetadata)
}

// Newer reports whether an error says that a newer version of chronik wrote a snapshot. It may be
// whole for that version.
func Newer(err error) bool {
	return errors.Is(err, objects.ErrNewer) || errors.Is(err, metadata.ErrNewerVersion)
}

// errMetadata marks metadata in a snapshot that cannot be read.
var errMetadata = errors.New("metadata of the snapshot")

// choose lists the snapshots of the store and returns those of the chosen cluster, the newest
// first.
func choose(ctx context.Context, store objects.Store, prefix string, c Choice) (id [16]byte, list []format.Previous, err error) {
	within := prefix
	if c.Cluster != "" {
		if id, err = metadata.ParseID(c.Cluster); err != nil {
			return id, nil, exit.With(exit.Usage, fmt.Errorf("cluster %q: %w", c.Cluster, err))
		}
		within += format.Prefix(id) + objects.Index.String() + "/"
	}
	all := map[[16]byte]map[format.Previous]bool{}
	err = store.List(ctx, within, func(in objects.Info) error {
		dir, name, _ := strings.Cut(strings.TrimPrefix(in.Name, prefix), "/")
		of, err := hex.DecodeString(dir)
		n, unnamed := format.Parse(name)
		if err != nil || len(of) != len(id) || unnamed != nil || n.Kind != objects.Index {
			return nil
		}
		key := [16]byte(of)
		if all[key] == nil {
			all[key] = map[format.Previous]bool{}
		}
		all[key][format.Previous{Number: n.Number, Nonce: n.Nonce}] = true // a list may have a name twice
		return nil
	})
	switch {
	case err != nil:
		return id, nil, fmt.Errorf("list the snapshots: %w", err)
	case len(all) == 0 && c.Cluster != "":
		return id, nil, exit.With(exit.Usage, fmt.Errorf("the store has no snapshot of the cluster %s; check the URL and the id",
			c.Cluster))
	case len(all) == 0:
		return id, nil, exit.With(exit.Usage, errors.New("the store has no snapshots; check the URL and its prefix"))
	case len(all) > 1:
		var lines []string
		for of, list := range all {
			lines = append(lines, fmt.Sprintf("%s (%s)", metadata.FormatID(of), numbers(sorted(list))))
		}
		slices.Sort(lines)
		return id, nil, exit.With(exit.Usage, fmt.Errorf("the store has snapshots of %d clusters: %s; choose one with --cluster",
			len(lines), strings.Join(lines, ", ")))
	}
	for of, l := range all {
		id, list = of, sorted(l)
	}
	return id, list, nil
}

func sorted(set map[format.Previous]bool) []format.Previous {
	return sorts.Sorted(maps.Keys(set), func(a, b format.Previous) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), strings.Compare(a.Nonce.String(), b.Nonce.String()))
	})
}

// numbers describes a list of snapshots, the newest first.
func numbers(list []format.Previous) string {
	if len(list) == 1 {
		return fmt.Sprintf("snapshot %d", list[0].Number)
	}
	return fmt.Sprintf("%d snapshots from %d to %d", len(list), list[len(list)-1].Number, list[0].Number)
}

// until returns the snapshots of a list up to a time. The time of snapshots never decreases. One
// whose index cannot be read is taken for as old as the one before it.
func (s *Snapshot) until(ctx context.Context, id [16]byte, list []format.Previous, at time.Time) ([]format.Previous, error) {
	var failed error
	var oldest time.Time
	i := sort.Search(len(list), func(i int) bool {
		for ; i < len(list); i++ {
			x, err := format.ReadIndex(ctx, s.store, s.prefix, id, list[i])
			if err == nil {
				oldest = timeOf(x)
				return !oldest.After(at)
			}
			if !NotWhole(err) {
				failed = err
				return true
			}
		}
		return true
	})
	if failed == nil && i == len(list) {
		failed = exit.With(exit.Usage, fmt.Errorf("cluster %s has no snapshot of %v or earlier; the oldest is %d, of %v", s.Cluster,
			at.UTC().Format(time.RFC3339), list[i-1].Number, oldest.Format(time.RFC3339)))
	}
	return list[i:], failed
}

// open reads the index of a snapshot and checks that everything is there.
func (s *Snapshot) open(ctx context.Context, id [16]byte, at format.Previous) error {
	x, err := format.ReadSnapshot(ctx, s.store, s.prefix, id, at)
	if err != nil {
		return err
	}
	img, left, err := s.image(x)
	if err != nil {
		return err
	}
	s.At, s.Index, s.Bytes, s.Partitions, s.LeftOut, s.early = at, x, 0, 0, left, map[format.ID]int64{}
	needed := map[string]int64{}
	err = each(img, x, func(_ *metadata.Topic, p *format.Partition) error {
		s.Partitions++
		return s.parts(ctx, p, func(part *format.Part) error {
			if part.Base < p.Start {
				s.early[p.ID] = part.Base
			}
			s.Bytes += part.Bytes()
			needed[s.prefix+part.Run.Name(p.ID)] = part.Run.Size
			return nil
		})
	})
	if err != nil {
		return err
	}
	return s.present(ctx, needed)
}

// image returns the metadata of what is restored of a snapshot, and how many topics are left out.
func (s *Snapshot) image(x *format.Index) (*metadata.Image, int, error) {
	keys, left, err := s.chosen(x)
	if err != nil {
		return nil, 0, err
	}
	// Those of a successor are the part that counts. Which one it is does not matter.
	keys, revision, err := controller.Restored(keys, x.Number, controller.Successor{Cluster: metadata.FormatID(x.Cluster)})
	if err == nil {
		var img *metadata.Image
		if img, err = metadata.Load(keys, revision); err == nil {
			return img, left, nil
		}
	}
	return nil, 0, fmt.Errorf("%w: %w", errMetadata, err)
}

// each calls do for the partitions of all topics of img. What a snapshot has of others, which were
// being deleted or are not chosen, is left out. A partition that it lacks is a contradiction.
func each(img *metadata.Image, x *format.Index, do func(*metadata.Topic, *format.Partition) error) error {
	known := make(map[format.ID]*format.Partition, len(x.Partitions))
	for i := range x.Partitions {
		known[x.Partitions[i].ID] = &x.Partitions[i]
	}
	for t := range img.Topics() {
		for i := range t.Partitions.All() {
			p := known[format.ID{Topic: t.ID, Partition: i}]
			if p == nil {
				return fmt.Errorf("%w: snapshot %d lacks the partition %s-%d", format.ErrContradiction, x.Number, t.Name, i)
			}
			if err := do(t, p); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Name, i, err)
			}
		}
	}
	return nil
}

// present checks that the store has objects with their sizes. A list may lack new ones: these are
// read.
func (s *Snapshot) present(ctx context.Context, needed map[string]int64) error {
	for _, kind := range []objects.Kind{objects.Log, objects.Pack} {
		err := s.store.List(ctx, s.prefix+kind.String()+"/", func(in objects.Info) error {
			if needed[in.Name] == in.Size {
				delete(needed, in.Name)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list the objects: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		n, err := s.store.Get(ctx, name, needed[name]-1, make([]byte, 2))
		switch {
		case n == 1 && errors.Is(err, io.EOF):
		case err == nil || errors.Is(err, io.EOF):
			return fmt.Errorf("read object %s: %w: its size is not %d bytes", name, objects.ErrDamaged, needed[name])
		default:
			return fmt.Errorf("read object %s: %w", name, err)
		}
	}
	return nil
}

// parts calls do with the parts of a partition that have records at or above the log start, in
// their order.
func (s *Snapshot) parts(ctx context.Context, p *format.Partition, do func(*format.Part) error) error {
	if p.Manifest != (objects.Nonce{}) && p.Archived > p.Start {
		m, err := format.ReadManifest(ctx, s.store, s.prefix, p.ID, p.Manifest)
		if err == nil && m.End != p.Archived {
			err = fmt.Errorf("%w: manifest %v ends at %d and not at %d", format.ErrContradiction, p.Manifest, m.End, p.Archived)
		}
		if err == nil {
			err = s.listed(ctx, p, m, do)
		}
		if err != nil {
			return err
		}
	}
	return above(p.Parts, p.Start, do)
}

// listed is parts for those in a manifest.
func (s *Snapshot) listed(ctx context.Context, p *format.Partition, m *format.Manifest, do func(*format.Part) error) error {
	for i := range m.Older {
		if m.Older[i].End <= p.Start {
			continue
		}
		older, err := m.Older[i].Read(ctx, s.store, s.prefix, p.ID)
		if err == nil {
			err = above(older.Parts, p.Start, do)
		}
		if err != nil {
			return err
		}
	}
	return above(m.Parts, p.Start, do)
}

// above calls do with the parts that end above start, until it fails.
func above(parts []format.Part, start int64, do func(*format.Part) error) error {
	for i := range parts {
		if parts[i].End > start {
			if err := do(&parts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
