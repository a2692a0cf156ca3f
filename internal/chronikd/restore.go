package chronikd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/archive/access"
	"github.com/chronik-io/chronik/internal/archive/restore"
	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/text"
)

// restoring are the flags of restore.
type restoring struct {
	choice restore.Choice
	at     string
	dry    bool
}

// restoreCommand makes the directories of a broker from a snapshot.
func (c *commandLine) restoreCommand() *cobra.Command {
	var r restoring
	cmd := &cobra.Command{
		Use: "restore URL", Short: "Restore a snapshot into the empty directories of one broker",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("%s needs the URL of the object store, for example file:///backup", cmd.CommandPath()))
			}
			return nil
		},
		Long: "restore makes the directories of one broker from a snapshot in an object store: file:///DIRECTORY or s3://BUCKET/PREFIX.\n" +
			"Run it with the configuration of that broker, which must be stopped, and whose directories must be empty. Then start the\n" +
			"broker. It has all topics, records, group offsets, configs, users, ACLs and quotas of the snapshot. It is a cluster of its\n" +
			"own with one broker; more can be added (docs/cluster.md). The original may run on. A restore that was interrupted can be\n" +
			"repeated; until it has ended, no broker starts there. Without --snapshot and --at, the newest snapshot that is whole is\n" +
			"restored. docs/snapshots.md says what clients of the original find.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.restore(cmd.Context(), args[0], r) },
	}
	f := cmd.Flags()
	cli.AtLeast(int64(1)).Flag(f, &r.choice.Number, "snapshot", "", 0, "the number of the snapshot")
	f.StringVar(&r.at, "at", "", "restore the newest snapshot of this time or earlier, for example 2026-01-31T12:00:00Z")
	f.StringVar(&r.choice.Cluster, "cluster", "", "the id of the cluster, if the store has snapshots of several")
	f.StringSliceVar(&r.choice.Topics, "topic", nil, "restore only this topic, next to the internal ones; may be repeated")
	f.BoolVar(&r.dry, "dry-run", false, "verify all of the snapshot and write nothing")
	return cmd
}

// restore finds a snapshot, and verifies or restores it.
func (c *commandLine) restore(ctx context.Context, at string, r restoring) error {
	cfg, conf, log, err := c.stopped()
	if err != nil {
		return err
	}
	if r.at != "" && r.choice.Number != 0 {
		return usage(errors.New("--snapshot and --at exclude each other; give one of them"))
	}
	if r.at != "" {
		if r.choice.At, err = time.Parse(time.RFC3339, r.at); err != nil {
			return usage(fmt.Errorf("--at %s is not a time such as 2026-01-31T12:00:00Z", r.at))
		}
	}
	if _, err := configdef.ParseArchiveURL(at); err != nil {
		return usage(fmt.Errorf("URL %s: %w", at, err))
	}
	from := conf.Archive
	from.URL = at
	store, err := access.Open(c.fileSystem(), &from)
	if err != nil {
		return exit.With(exit.Data, err)
	}
	begin := time.Now()
	s, err := restore.Find(ctx, store, "", r.choice)
	if err != nil {
		return interrupted(ctx, err)
	}
	for _, why := range s.Passed {
		fmt.Fprintf(c.Err, "warning: %s\n", strings.ReplaceAll(why.Error(), "\n", "; "))
	}
	fmt.Fprintf(c.Out, "snapshot %d of the cluster %s, of %s: %s, %d bytes\n", s.At.Number, s.Cluster,
		s.Time().Format(time.RFC3339), text.Count(s.Partitions, "partition"), s.Bytes)
	if s.LeftOut > 0 {
		fmt.Fprintf(c.Out, "without %s that --topic does not name\n", text.Count(s.LeftOut, "topic"))
	}
	var done restore.Progress
	end := showProgress(c.Out, &done, s)
	if r.dry {
		result, err := s.Verify(ctx, &done)
		if end(); err != nil {
			return interrupted(ctx, err)
		}
		_, err = fmt.Fprintf(c.Out, "the snapshot is whole: %s, verified in %s\n", text.Count(result.Records, "record"), took(begin))
		return errors.Join(err, c.offline(result))
	}
	result, err := s.Write(ctx, restore.Options{
		FS: c.fileSystem(), Dirs: datadir.New(c.fileSystem(), cfg, conf, log), Node: conf.NodeID, Log: log,
		Tiered:  sameStore(conf.Archive.URL, at),
		Configs: resolve.Registry(cfg.Durability), Static: resolve.Static(cfg),
	}, &done)
	if end(); err != nil {
		return interrupted(ctx, err)
	}
	return cmp.Or(c.restored(s, result, begin), c.offline(result))
}

// sameStore reports whether two values of archive.url are one store.
func sameStore(a, b string) bool {
	x, err := configdef.ParseArchiveURL(a)
	y, errB := configdef.ParseArchiveURL(b)
	return err == nil && errB == nil && x == y
}

// interrupted explains an error of a restore that a signal ended.
func interrupted(ctx context.Context, err error) error {
	if code := (*exit.Error)(nil); ctx.Err() == nil || errors.As(err, &code) {
		return err
	}
	return errors.New("the restore was interrupted; repeat it with the same arguments")
}

// restored prints what was restored and how it differs from the original.
func (c *commandLine) restored(s *restore.Snapshot, r *restore.Result, begin time.Time) error {
	if r.Tiered > 0 {
		fmt.Fprintf(c.Out, "%d bytes of old records stay in the store, copied for this cluster\n", r.Tiered)
	}
	_, err := fmt.Fprintf(c.Out, "restored as the cluster %s in %s: %s and the internal ones, %s in all, %d bytes, %s, %s\n"+
		"what happened after %s did not happen here:\n"+
		"- users, ACLs, quotas and configs are those of the snapshot: what was removed or restricted since is back\n"+
		"- records that were deleted since are back, until retention deletes them: raise it before the start if it must not\n"+
		"- groups have their offsets and no members; transactions that were open are aborted\n"+
		"- clients may have seen later offsets: reset those that do not check leader epochs\n"+
		"start this broker, and add others to the cluster then (docs/cluster.md)\n",
		r.Cluster, took(begin), text.Count(r.Topics, "topic"), text.Count(r.Partitions, "partition"), r.Bytes, text.Count(r.Users, "user"),
		text.Count(r.ACLs, "ACL"), s.Time().Format(time.RFC3339))
	return err
}

// offline names the partitions that are restored empty, and how groups continue there.
func (c *commandLine) offline(r *restore.Result) error {
	if len(r.Offline) == 0 {
		return nil
	}
	var begin []string
	reset := "chronikctl group reset GROUP --to-earliest"
	for i, p := range r.Offline {
		begin = append(begin, fmt.Sprintf("%s-%d at %d", p.Topic, p.Partition, p.Start))
		if i > 0 && r.Offline[i-1].Topic == p.Topic {
			reset += fmt.Sprintf(",%d", p.Partition)
		} else {
			reset += fmt.Sprintf(" --topic %s:%d", p.Topic, p.Partition)
		}
	}
	_, err := fmt.Fprintf(c.Out, "%s without records, which no broker could read at the time of the snapshot. Now they begin: %s\n"+
		"offsets of groups are out of range there. Before producers connect, reset each group that reads them to the start; with\n"+
		"auto.offset.reset=latest, it skips records otherwise: `%s`\n",
		text.Count(len(r.Offline), "partition"), strings.Join(begin, ", "), reset)
	return err
}

func took(since time.Time) time.Duration { return time.Since(since).Round(time.Millisecond) }

// progressEvery is how often a restore prints how far it is.
const progressEvery = 10 * time.Second

// showProgress prints how far a restore is, until the returned function is called.
func showProgress(out io.Writer, done *restore.Progress, s *restore.Snapshot) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
				fmt.Fprintf(out, "%d of %d bytes, %d of %d partitions\n", done.Bytes.Load(), s.Bytes, done.Partitions.Load(), s.Partitions)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}
