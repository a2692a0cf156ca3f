package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/daemon/observe"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/metadata/copies"
	"github.com/chronik-io/chronik/internal/storage"
)

// The metadata of all topics is a few files in data.dir. As long as few voters have them, their
// copy is in a log directory, if possible in one outside of data.dir. It starts after storage has
// locked the log directories, so that none of them belongs to another broker.

// refuseOlder rejects metadata that is older than one of its copies: topics that were created since
// would be gone, and deleted ones would reappear. If there are other voters, what they have counts.
func (b *Broker) refuseOlder(r *components) error {
	store := r.member.Store()
	if role, _ := store.Leadership(); store.Sole() == 0 || !role.Ready { // what it shows is not all that it has
		return nil
	}
	dir := path.Join(b.cfg.DataDir, metadataDir)
	for _, p := range r.answering() {
		if err := copies.CheckAgainst(b.fs, copies.In(p.Path), dir, store.View()); errors.Is(err, copies.ErrOlder) {
			return &ExitError{ExitData, fmt.Errorf("directory %s: %w: the metadata was restored from an older state; %s",
				b.cfg.DataDir, err, b.useCopy(r, dir, copies.In(p.Path)))}
		}
	}
	return nil
}

// useCopy says how a copy replaces the metadata in dir. If a cluster has registered the log
// directories, other brokers may have the metadata, too: it needs another generation then.
func (b *Broker) useCopy(r *components, dir, from string) string {
	if r.owners.cluster != "" {
		return fmt.Sprintf("move %s away, and restore the copy: chronikd recover --from %s with the same configuration (docs/cluster.md)", dir, from)
	}
	return b.repairAll(r.locations, "--backup", path.Join(b.cfg.DataDir, "before-repair")) + " replaces it with the copy; " +
		"to continue with the older metadata, move the copy away"
}

// repairAll returns the command that repairs all directories of this broker, with the flags more.
func (b *Broker) repairAll(all []storage.Location, more ...string) string {
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
		former[i] = copies.In(d.Path())
	}
	b.restrict(former...)
	b.keepMemberCopy(ctx, r, copies.In(at), former)
}

const (
	// enoughVoters is how many voters a cluster needs to lose one of their directories without
	// loss.
	enoughVoters = 3
	// votersInterval is how often a member reads the number of voters.
	votersInterval = time.Second
)

// memberCopy is the copy that a voter keeps while its cluster has less than enoughVoters: the loss
// of its disk may then be the loss of the metadata. With more, the other brokers have them, and a
// copy would only become outdated.
type memberCopy struct {
	b      *Broker
	r      *components
	at     string
	former []string

	mu   sync.Mutex
	copy *copies.Copy // nil: none is kept
	none bool         // former copies were removed; used by turn only
}

// keepMemberCopy keeps the copy of a member for as long as it is needed.
func (b *Broker) keepMemberCopy(ctx context.Context, r *components, at string, former []string) {
	k := &memberCopy{b: b, r: r, at: at, former: former}
	k.turn(ctx)
	b.health.Add(func(f *checks.Facts) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.copy != nil {
			f.Metadata.Copy, f.Metadata.Behind = k.at, observe.Reason(k.copy.Behind())
		}
	})
	follow, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { k.follow(follow) })
	b.stack.push("metadata copy", func(context.Context) error {
		cancel()
		work.Wait()
		k.end()
		return nil
	})
}

func (k *memberCopy) follow(ctx context.Context) {
	t := time.NewTicker(votersInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			k.turn(ctx)
		}
	}
}

// turn starts the copy, or ends and removes it, as the number of voters requires.
func (k *memberCopy) turn(ctx context.Context) {
	store := k.r.member.Store()
	voters := store.Voters()
	k.mu.Lock()
	kept := k.copy != nil
	k.mu.Unlock()
	switch few := len(voters) < enoughVoters && slices.Contains(voters, store.Member()); {
	case len(voters) == 0: // not known yet
	case few && !kept:
		k.none = false
		c := copies.Start(ctx, copies.Options{FS: k.b.fs, Dir: k.at, View: store.View(), Ended: store.Ended(),
			Former: k.former, Log: k.b.log.Named("metadata")})
		store.SetCopy(c)
		k.mu.Lock()
		k.copy = c
		k.mu.Unlock()
	case !few && !k.none:
		k.none = true
		k.end()
		k.b.dropCopies(k.former, k.r.member.ID())
	}
}

// end ends the copy.
func (k *memberCopy) end() {
	k.mu.Lock()
	c := k.copy
	k.copy = nil
	k.mu.Unlock()
	if c != nil {
		k.r.member.Store().SetCopy(nil)
		c.Stop()
	}
}

// nameCopy logs which copy a member without metadata may be restored from, if its cluster had too
// few voters.
func (b *Broker) nameCopy(all []storage.Location, cluster string) {
	for _, p := range all {
		dir := copies.In(p.Path)
		if of, err := copies.ClusterOf(b.fs, dir); err == nil && of != "" && of == cluster {
			b.log.Warn("this broker has no metadata of its cluster, and its log directory has a copy; if no other broker has the metadata, "+
				"stop this one and restore the copy: chronikd recover --from "+dir+" with the same configuration (docs/cluster.md)",
				zap.String("cluster", cluster), zap.String("copy", dir))
		}
	}
}

// dropCopies removes copies of the metadata that this broker kept while its cluster was smaller.
func (b *Broker) dropCopies(dirs []string, id string) {
	for _, dir := range dirs {
		of, err := copies.ClusterOf(b.fs, dir)
		if err == nil && of == id {
			err = b.fs.RemoveAll(dir)
		}
		if err != nil {
			b.log.Warn("a former copy of the metadata is still there", zap.String("dir", dir), zap.Error(err))
		}
	}
}
