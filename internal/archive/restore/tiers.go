package restore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/upload"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/replica"
	"github.com/chronik-io/chronik/internal/sorts"
)

// tiered is what stays in the store of a partition: its parts are copied to the objects of the new
// cluster, so that no object ever belongs to both. The local log begins with the last of them, or
// earlier; see localFrom. It could begin after that, but then it would know no producer, and no
// leader tells it.
type tiered struct {
	parts []format.Part
	local int64 // where the local log begins
	bytes int64 // of the parts that the local log lacks
}

// plan finds what stays in the store: the old records of topics with remote.storage.enable.
func (w *writer) plan(ctx context.Context) error {
	w.tiers = map[format.ID]*tiered{}
	if !w.o.Tiered || w.img.FeatureLevel() < metadata.TierLevel {
		return nil
	}
	return each(w.img, w.s.Index, func(t *metadata.Topic, p *format.Partition) error {
		if p.State != format.Kept || p.Archived <= p.Start || !w.settings.Of(w.img, t).Conf.Remote {
			return nil
		}
		x := &tiered{}
		err := w.s.parts(ctx, p, func(part *format.Part) error {
			if part.End <= p.Archived {
				x.parts = append(x.parts, *part)
			}
			return nil
		})
		if err != nil {
			return err
		}
		i := localFrom(x.parts, p.Parts)
		if i <= 0 {
			return nil // a short log is copied as a whole
		}
		x.local = x.parts[i].Base
		for k := range x.parts[:i] {
			x.bytes += x.parts[k].Bytes()
		}
		w.tiers[p.ID] = x
		return nil
	})
}

// localFrom returns the index of the part with which the local log begins, at most the last one: it
// must have all records of the aborted transactions whose markers it has, also those in the pieces
// after the parts.
func localFrom(parts, pieces []format.Part) int {
	i := len(parts) - 1
	least := func(list []format.Part, below int64) int64 {
		for k := range list {
			if a := list[k].Run.FirstAborted; a >= 0 {
				below = min(below, a)
			}
		}
		return below
	}
	for i > 0 {
		if from := parts[i].Base; least(pieces, least(parts[i:], from)) >= from {
			break
		}
		i--
	}
	return i
}

// kept returns the bytes that the disks of the new cluster need not have.
func (w *writer) kept() (n int64) {
	for _, x := range w.tiers {
		n += x.bytes
	}
	return n
}

// startOf returns where the local log of a partition begins.
func (w *writer) startOf(p *format.Partition) int64 {
	if x := w.tiers[p.ID]; x != nil {
		return x.local
	}
	return p.Start
}

// copyTiers copies within the store what stays there, and returns keys with those that name it.
func (w *writer) copyTiers(ctx context.Context, keys []metadata.KV, revision int64, to controller.Successor) ([]metadata.KV, error) {
	id, err := metadata.ParseID(to.Cluster)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(w.s.prefix, format.Prefix(w.s.Index.Cluster)) + format.Prefix(id)
	var mu sync.Mutex // guards keys
	err = w.some(ctx, func(ctx context.Context, p *format.Partition) error {
		if w.tiers[p.ID] == nil {
			return nil
		}
		next, err := w.copyTier(ctx, p, prefix)
		if err != nil {
			return fmt.Errorf("copy its old records within the store: %w", err)
		}
		next.Generation = to.Generation
		tp := metadata.TopicPartition{Topic: p.ID.Topic, Partition: p.ID.Partition}
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, metadata.KV{Key: metadata.TierKey(tp), Value: next.Encode(), ModRevision: revision})
		return nil
	})
	sorts.Sort(keys, func(a, b metadata.KV) int { return strings.Compare(a.Key, b.Key) })
	return keys, err
}

// copyTier copies the objects of one partition.
func (w *writer) copyTier(ctx context.Context, p *format.Partition, prefix string) (next metadata.Tier, err error) {
	x := w.tiers[p.ID]
	next = metadata.Tier{Start: p.Start, End: p.Archived}
	for i := range x.parts {
		part := &x.parts[i]
		name := part.Run.Name(p.ID)
		if err := w.s.store.Copy(ctx, objects.Info{Name: w.s.prefix + name, Size: part.Run.Size}, prefix+name); err != nil {
			return next, err
		}
		next.Bytes += part.Bytes()
	}
	known, err := format.Epochs(ctx, w.s.store, w.s.prefix, p.ID, x.parts)
	if err != nil {
		return next, err
	}
	next.Epochs = replica.TierEpochs(&known, next.Start, next.End)
	b := upload.NewBatch(upload.Options{Store: w.s.store, Prefix: prefix, ManifestParts: upload.ManifestParts})
	a, err := b.Manifest(ctx, p.ID, x.parts)
	if err != nil {
		return next, err
	}
	next.Manifest = metadata.ID(a.Manifest())
	return next, nil
}
