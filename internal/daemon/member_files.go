package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/storage/checkpoint"
	"github.com/chronik-io/chronik/internal/vfs"
)

// owners says to whom the logs in the log directories belong.
type owners struct {
	cluster string // the id of the cluster that has registered them, "" if none has
	alone   string // a directory with logs that no cluster has registered, "" if there is none
}

// readOwners reads the checkpoints, because log directories are opened only when the node is a
// member of its cluster. A broker whose metadata directory is lost must not form a new cluster, in
// which its logs have no topics.
func readOwners(fsys vfs.FS, all []storage.Place) (o owners, err error) {
	from := ""
	for _, p := range all {
		s, err := checkpoint.Read(fsys, path.Join(p.Path, storage.CheckpointDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return o, fmt.Errorf("log directory %s: %w", p.Path, err)
		}
		if err != nil || s == nil {
			continue
		}
		if s.Owner == (checkpoint.Owner{}) {
			if slices.ContainsFunc(s.Logs, func(l checkpoint.Log) bool { return !l.Deleted }) {
				o.alone = p.Path
			}
			continue
		}
		owner := metadata.FormatID(s.Owner.Cluster)
		if o.cluster != "" && o.cluster != owner {
			return o, fmt.Errorf("the log directories %s and %s belong to different clusters, %s and %s; remove one of them from log.dirs",
				from, p.Path, o.cluster, owner)
		}
		o.cluster, from = owner, p.Path
	}
	return o, nil
}

// requireOwner rejects the logs of a broker without a cluster, if the metadata that describes them
// is missing and this node has none of a cluster either.
func (b *Broker) requireOwner(o owners) error {
	if o.cluster != "" || o.alone == "" {
		return nil
	}
	dir := path.Join(b.cfg.DataDir, metadataDir)
	return &ExitError{ExitData, fmt.Errorf("the log directory %s holds partitions of a broker without cluster.name, and %s has no metadata of them; "+
		"put the metadata back to begin a cluster with them, or give this broker an empty log directory", o.alone, dir)}
}

// ownDirs makes log directories those of a broker without a cluster. It rejects directories that a
// cluster has registered, and logs losses.
func (b *Broker) ownDirs(dirs []*storage.Dir) error {
	for _, d := range dirs {
		if o := d.Owner(); o != (checkpoint.Owner{}) {
			return &ExitError{ExitData, fmt.Errorf("log directory %s holds records of the cluster %s; "+
				"set cluster.name and cluster.seeds, or use an empty log directory", d.Path(), metadata.FormatID(o.Cluster))}
		}
		if d.Lossy() {
			b.log.Warn("records that were acknowledged before they were synced may be lost: the machine stopped and the last stop was not clean",
				zap.String("dir", d.Path()), zap.Int("partitions", len(d.LossyLogs())))
		}
	}
	return nil
}

// forgetLosses makes log directories forget losses that the metadata of a broker without a cluster
// has recorded. Until then each start reports them again.
func forgetLosses(dirs []*storage.Dir) {
	for _, d := range dirs {
		if d.Lossy() {
			d.Confirm(checkpoint.Owner{})
		}
	}
}

// interListener returns the name of the listener that other brokers connect to.
func interListener(cfg *config.Config, conf *configdef.Broker) string {
	if conf.Cluster.InterListener != "" {
		return conf.Cluster.InterListener
	}
	return cfg.Listeners[0].Name
}
