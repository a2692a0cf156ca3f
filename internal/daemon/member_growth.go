package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/chronik-io/chronik/internal/daemon/cluster"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata/filestore"
)

// A broker without cluster.name has its metadata in data.dir/metadata, a broker of a cluster in
// data.dir/cluster. A start with cluster.name that finds the first one makes this broker the first
// member of a cluster, which takes over its metadata; see cluster.Origin.

// refuseOtherKind rejects the data directory of a broker of a cluster if cluster.name is not set,
// and one that has metadata of both kinds. It notes if this broker is to begin a cluster.
func (b *Broker) refuseOtherKind(r *components) error {
	file, group := path.Join(b.cfg.DataDir, metadataDir), path.Join(b.cfg.DataDir, clusterDir)
	alone, clustered, err := cluster.Survey(b.fs, file, group)
	if err != nil {
		return &ExitError{ExitData, fmt.Errorf("directory %s has the metadata of a broker without cluster.name in %s, "+
			"and that of a broker of a cluster in %s: %w; move the one away that does not describe the logs of this broker",
			b.cfg.DataDir, file, group, err)}
	}
	switch named := r.conf.Cluster.Name != ""; {
	case named:
		r.begins = alone
	case clustered:
		return &ExitError{ExitData, fmt.Errorf("directory %s belongs to a broker of a cluster, whose metadata is in %s; "+
			"set cluster.name and cluster.seeds, or use another data.dir (--data-dir)", b.cfg.DataDir, group)}
	}
	return nil
}

// origin returns the metadata with which this broker begins a cluster, nil if it begins none. It
// removes what an interrupted start left in the cluster's directory. The data directory must be
// locked. logs is the cluster that has registered the log directories.
func (b *Broker) origin(ctx context.Context, r *components, logs string) (*cluster.Origin, error) {
	if !r.begins {
		return nil, nil
	}
	file := path.Join(b.cfg.DataDir, metadataDir)
	if logs != "" {
		return nil, &ExitError{ExitData, fmt.Errorf("directory %s: the log directories of this broker belong to the cluster %s, "+
			"and the metadata in %s is that of a broker without cluster.name; move it away, and this broker returns to the cluster",
			b.cfg.DataDir, logs, file)}
	}
	o, err := cluster.ReadOrigin(ctx, cluster.OriginOptions{
		FS: b.fs, Dir: file, Group: path.Join(b.cfg.DataDir, clusterDir), Node: r.conf.NodeID, Log: b.log.Named("metadata"),
		Check: func(s *filestore.Store) error { return b.refuseOlder(s, r) },
	})
	switch {
	case err == nil, errors.As(err, new(*ExitError)):
		return o, err
	case errors.Is(err, membership.ErrRefused):
		return nil, refusedMember(err)
	}
	return nil, dataError(b.cfg.DataDir, err)
}
