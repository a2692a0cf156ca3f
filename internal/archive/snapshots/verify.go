package snapshots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
)

// unverified returns the newest snapshot if it is time to verify it, otherwise 0.
func (s *Service) unverified(now time.Time) int64 {
	list := s.opt.Image().Snapshots()
	if s.opt.Conf.URL == "" || s.opt.Conf.Verify == 0 || len(list) == 0 {
		return 0
	}
	last := int64(0)
	for i := range list {
		last = max(last, list[i].Verified)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(time.UnixMilli(last)) < s.opt.Conf.Verify || now.Sub(s.tried) < min(s.opt.Conf.Verify, time.Hour) {
		return 0
	}
	s.tried = now
	return list[len(list)-1].Number
}

// verify reads all objects of a snapshot, and notes the result in the metadata.
func (s *Service) verify(ctx context.Context, term uint64, number int64) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	x := s.opt.Image().Snapshot(number)
	if x == nil {
		return fmt.Errorf("there is no snapshot %d any longer", number)
	}
	damage := s.read(ctx, store, x)
	if errors.Is(damage, objects.ErrNotFound) {
		if err := s.present(ctx, store); err != nil {
			damage = err
		}
	}
	if damage != nil && (ctx.Err() != nil || !restore.NotWhole(damage) || restore.Newer(damage)) {
		s.opt.Log.Warn("a snapshot was not verified", zap.Int64("snapshot", number), zap.Error(damage))
		return damage // of the store, and not of the snapshot
	}
	next := *x
	next.Verified, next.Damage = s.opt.Now().UnixMilli(), ""
	if damage != nil {
		next.Damage = damage.Error()
		s.opt.Log.Error("a snapshot is damaged; take another one", zap.Int64("snapshot", number), zap.Error(damage))
	}
	key := metadata.SnapshotKey(number)
	_, err = s.opt.Store.LeaderTxn(ctx, term, metadata.Txn{If: []metadata.Compare{{Key: key, ModRevision: x.Revision}},
		Put: []metadata.KV{{Key: key, Value: next.Encode()}}})
	return errors.Join(damage, err)
}

// errEmpty says that this is not the store that the snapshots are in: a file system that is not
// mounted, for example, is an empty directory.
var errEmpty = errors.New("the object store has no object of this cluster; mount its file system, or correct archive.url")

// present returns errEmpty if the store has no object of the cluster: then a missing object says
// nothing about a snapshot. Every other error is one of the store.
func (s *Service) present(ctx context.Context, store objects.Store) error {
	id, err := metadata.ParseID(s.opt.Image().ClusterID())
	if err != nil {
		return err
	}
	found := errors.New("found")
	switch err = store.List(ctx, format.Prefix(id), func(objects.Info) error { return found }); {
	case errors.Is(err, found):
		return nil
	case err == nil:
		return errEmpty
	}
	return fmt.Errorf("list the objects of the cluster: %w", err)
}

// read reads all objects of a snapshot.
func (s *Service) read(ctx context.Context, store objects.Store, x *metadata.Snapshot) error {
	cluster := s.opt.Image().ClusterID()
	id, err := metadata.ParseID(cluster)
	if err != nil {
		return err
	}
	// Find chooses from a list, which may be old: a missing index is none of the store's there.
	at := format.Previous{Number: x.Number, Nonce: objects.Nonce(x.Nonce)}
	if _, err := format.ReadIndex(ctx, store, format.Prefix(id), id, at); errors.Is(err, objects.ErrNotFound) {
		return err
	}
	found, err := restore.Find(ctx, store, "", restore.Choice{Cluster: cluster, Number: x.Number})
	if err == nil {
		_, err = found.Verify(ctx, &restore.Progress{})
	}
	return err
}
