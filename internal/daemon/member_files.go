package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

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
	unread  error  // why a directory could not be read, nil if all were
	alone   string // a directory with logs of a broker without seeds, "" if there is none
}

// readOwners reads the checkpoints, because log directories are opened only when the node is a
// member of its cluster. A broker whose metadata directory is lost must not form a new cluster, in
// which its logs have no topics.
func readOwners(fsys vfs.FS, all []storage.Location) (o owners, err error) {
	from := ""
	for _, p := range all {
		s, err := checkpoint.Read(fsys, path.Join(p.Path, storage.CheckpointDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the broker can serve without it
			o.unread = errors.Join(o.unread, fmt.Errorf("log directory %s: %w", p.Path, err))
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

// checkOwners rejects logs whose metadata are missing. It is called if this node has none: its
// cluster would begin without the topics of these logs.
func (b *Broker) checkOwners(r *components) error {
	o, dir := r.owners, path.Join(b.cfg.DataDir, metadataDir)
	switch linked := r.linked(); {
	case linked && o.unread != nil:
		return &ExitError{ExitData, fmt.Errorf("%w; %s has no metadata, so those of this directory may be lost: "+
			"make it readable, or give this broker another one", o.unread, dir)}
	case !linked && o.cluster != "":
		return &ExitError{ExitData, fmt.Errorf("the log directories of this broker hold records of the cluster %s, and %s has no metadata of them; "+
			"set cluster.name and cluster.seeds, or use empty log directories", o.cluster, dir)}
	case !linked:
		return b.requireMetadata(r.answering())
	case o.cluster == "" && o.alone != "":
		return &ExitError{ExitData, fmt.Errorf("the log directory %s holds partitions of a broker without cluster.seeds, and %s has no metadata of them; "+
			"put the metadata back to begin a cluster with them, or give this broker an empty log directory", o.alone, dir)}
	}
	return nil
}

// interListener returns the name of the listener that other brokers connect to.
func interListener(cfg *config.Config, conf *configdef.Broker) string {
	if conf.Cluster.InterListener != "" {
		return conf.Cluster.InterListener
	}
	return cfg.Listeners[0].Name
}
