package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata/filestore"
	"github.com/chronik-io/chronik/internal/storage"
)

// The metadata of all topics is a few files in data.dir. Their copy is in a log directory, if
// possible in one outside of data.dir. It starts after storage has locked the log directories, so
// that none of them belongs to another broker.

// refuseOlder rejects metadata that is older than one of its copies: topics that were created since
// would be gone, and deleted ones would reappear.
func (b *Broker) refuseOlder(file *filestore.Store, r *components) error {
	for _, p := range r.answering() {
		if err := file.CheckAgainst(filestore.CopyIn(p.Path)); errors.Is(err, filestore.ErrOlder) {
			return &ExitError{ExitData, fmt.Errorf("directory %s: %w: the metadata was restored from an older state; %s "+
				"replaces it with the copy; to continue with the older metadata, move the copy away", b.cfg.DataDir, err,
				b.repairAll(r.places, "--backup", path.Join(b.cfg.DataDir, "before-repair")))}
		}
	}
	return nil
}

// repairAll returns the command that repairs all directories of this broker, with the flags more.
func (b *Broker) repairAll(all []storage.Place, more ...string) string {
	dirs := []string{"chronikctl", "log", "repair", "--dir", b.cfg.DataDir}
	var journals []string
	for _, p := range all {
		if p.Path != path.Join(b.cfg.DataDir, logsDir) {
			dirs = append(dirs, "--dir", p.Path)
		}
		if p.Journal != "" {
			journals = append(journals, "--journal", p.Journal)
		}
	}
	return health.Command(slices.Concat(dirs, journals, more)...)
}

// keepCopy starts the copy of the metadata.
func (b *Broker) keepCopy(ctx context.Context, r *components) {
	dirs := r.storage.Dirs()
	if len(dirs) == 0 {
		return
	}
	at := dirs[0].Path()
	for _, d := range dirs {
		if !within(d.Path(), path.Clean(b.cfg.DataDir)) {
			at = d.Path()
			break
		}
	}
	former := make([]string, len(dirs))
	for i, d := range dirs {
		former[i] = filestore.CopyIn(d.Path())
	}
	b.restrict(former...)
	r.file.KeepCopy(ctx, filestore.CopyIn(at), former...)
	b.health.Add(func(f *checks.Facts) {
		f.Metadata = checks.Metadata{Dir: path.Join(b.cfg.DataDir, metadataDir), Failed: observe.Reason(r.file.Failed()),
			Copy: filestore.CopyIn(at), Behind: observe.Reason(r.file.CopyBehind())}
	})
}
