package snapshot

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

func list(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the snapshots of the cluster", Args: app.Args(0, 0, "no argument"),
		Long: "list shows the snapshots in the object store, the newest last, and what the cluster does about them now.\n" +
			"Times are UTC. UPLOADED is what a snapshot added to the store. A complete one has all partitions; whether its objects can\n" +
			"still be read is what VERIFIED says, and chronikctl snapshot verify reads them now.",
		Example: "  chronikctl snapshot list\n  chronikctl snapshot list -o json",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, _ []string) error {
			x, err := read(ctx, cl)
			if err != nil {
				return err
			}
			t := &output.Table{Empty: "no snapshots", Columns: []string{"NUMBER#", "TIME", "TOOK#", "PARTITIONS#", "OFFLINE#", "SIZE#",
				"UPLOADED#", "VERIFIED", "STATE"}}
			for i := range x.Snapshots {
				s := &x.Snapshots[i]
				state := "complete"
				if s.Damage != "" {
					state = "damaged"
				} else if s.Offline > 0 {
					state = "incomplete"
				}
				t.Add(s.Number, at(s.TimeMs), took(s), s.Partitions, s.Offline, text.Bytes(s.Bytes), text.Bytes(s.UploadedBytes),
					at(s.VerifiedMs), state)
			}
			if err := a.Print(x, t); err != nil {
				return err
			}
			note(a, x)
			return nil
		}),
	}
}

// note says what brokers noted about their uploads for the newest snapshot with a note, and what
// the cluster does about snapshots.
func note(a *app.App, x *view.SnapshotList) {
	if !a.Format().ForPeople() {
		return
	}
	for i := len(x.Snapshots) - 1; i >= 0; i-- {
		if s := &x.Snapshots[i]; s.Note != "" { // the newest one; describe has the others
			a.Note("snapshot %d: %s", s.Number, s.Note)
			break
		}
	}
	switch s := x.Service; {
	case s == nil:
		a.Note("%s", x.Error)
	case s.URL == "":
		a.Note("no snapshots are taken: archive.url is not set")
	default:
		if s.Running != nil {
			a.Note("a snapshot is being taken since %s: %s of about %s are uploaded", at(s.Running.SinceMs),
				text.Bytes(s.Running.UploadedBytes), text.Bytes(s.Running.TotalBytes))
		}
		if s.Failures > 0 {
			last := "the last attempt failed"
			if s.Failures > 1 {
				last = "the last " + text.Count(s.Failures, "attempt") + " failed"
			}
			a.Note("%s, at %s: %s", last, at(s.LastFailureMs), s.LastError)
		}
	}
}

// at returns a time in ms since 1970 as UTC, or never for 0.
func at(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// took returns how long a snapshot took.
func took(s *view.Snapshot) string {
	return (time.Duration(s.EndedMs-s.TimeMs) * time.Millisecond).Round(10 * time.Millisecond).String()
}
