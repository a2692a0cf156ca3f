package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/filestore"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/vfs"
)

// retired is appended to the name of a metadata directory whose content a cluster has taken over.
const retired = ".before-cluster"

// Origin is the metadata of a broker without cluster.name, with which a cluster begins.
//
// The rename of its directory moves the authority from one to the other. Before it, the content of
// the cluster's directory does not count, and is written again at the next start. Nothing is
// proposed or shown before the rename is durable.
type Origin struct {
	Cluster  string // the id, which the cluster keeps
	keys     []metadata.KV
	revision int64
	retire   func() error
}

// OriginOptions configure ReadOrigin.
type OriginOptions struct {
	FS  vfs.FS
	Dir string // of the metadata of a broker without cluster.name
	// Group is the cluster's directory. What an interrupted start left there is removed.
	Group string
	Node  int32
	// Check rejects metadata that are not the newest ones.
	Check func(*filestore.Store) error
	Log   *zap.Logger
}

// ReadOrigin reads the metadata of a broker without cluster.name. It returns nil if there are none.
// No other process may use the directory.
func ReadOrigin(ctx context.Context, o OriginOptions) (*Origin, error) {
	to := o.Dir + retired
	if _, err := o.FS.Stat(to); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, membership.Refused(fmt.Sprintf("%s exists, where %s is kept when the cluster has its content; move it away", to, o.Dir))
	}
	if err := errors.Join(o.FS.RemoveAll(o.Group), o.FS.SyncDir(path.Dir(o.Group))); err != nil {
		return nil, err
	}
	s, err := filestore.Open(filestore.Options{FS: o.FS, Dir: o.Dir, Log: o.Log})
	if err != nil {
		return nil, err
	}
	keys, revision, err := s.Range(ctx, "/")
	if err == nil {
		err = o.Check(s)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	origin := &Origin{keys: keys, revision: revision, retire: func() error {
		if err := o.FS.Rename(o.Dir, to); err != nil {
			return err
		}
		return o.FS.SyncDir(path.Dir(o.Dir))
	}}
	for _, key := range keys {
		k, err := metadata.ParseKey(key.Key)
		if err != nil {
			return nil, err
		}
		switch {
		case k.Kind == metadata.KindCluster:
			record, err := metadata.DecodeCluster(key)
			if err != nil {
				return nil, err
			}
			origin.Cluster = record.ID
		case k.Kind == metadata.KindBroker && k.Broker != o.Node:
			return nil, membership.Refused(fmt.Sprintf("%s has the topics of the broker with node.id=%d, and node.id is %d; set node.id=%d, "+
				"and give another broker the number %d", o.Dir, k.Broker, o.Node, k.Broker, o.Node))
		}
	}
	if origin.Cluster == "" { // its only start was interrupted
		return nil, origin.retire()
	}
	return origin, nil
}

// initial returns the first state of the cluster: all keys with their revisions, and a generation
// of its own.
func (o *Origin) initial(member uint64) (raftstore.Initial, error) {
	initial := raftstore.Initial{
		Generation: metadata.NewID(), Voters: []uint64{member}, Keys: slices.Clone(o.keys), Revision: o.revision, Written: o.retire,
	}
	i := slices.IndexFunc(initial.Keys, func(key metadata.KV) bool { return key.Key == metadata.ClusterKey })
	record, err := metadata.DecodeCluster(initial.Keys[i])
	if err != nil {
		return initial, err
	}
	record.Generation = initial.Generation
	initial.Keys[i].Value = record.Encode()
	return initial, nil
}

// openStore opens the metadata of a member. A process that began the cluster may have been killed
// before the rename of its Origin was durable: a power failure must not bring that back any more.
func openStore(o raftstore.Options) (*raftstore.Store, error) {
	if err := o.FS.SyncDir(path.Dir(o.Dir)); err != nil {
		return nil, err
	}
	return raftstore.Open(o)
}

// Survey reports which metadata a data directory has: in file those of a broker without
// cluster.name, in group those of a broker of a cluster. If it has both, the ones in group must be
// what an interrupted beginning of a cluster left, and do not count; the error says why they are
// not.
func Survey(fsys vfs.FS, file, group string) (alone, clustered bool, err error) {
	alone, _ = filestore.Exists(fsys, file) // opening it reports an error
	clustered, _ = raftstore.Exists(fsys, group)
	if !alone || !clustered {
		return alone, clustered, nil
	}
	c, err := raftstore.Read(fsys, group)
	if err == nil && !c.Fresh {
		err = errors.New("a member of a cluster has used it")
	}
	return true, false, err
}
