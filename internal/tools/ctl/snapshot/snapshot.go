// Package snapshot implements chronikctl snapshot: create, list, describe, verify and delete.
//
// It needs chronik's tagged fields (view.SnapshotTag) of two requests of Kafka's protocol. Any
// broker takes them. The broker that leads the metadata does the work, and the commands wait for
// it.
package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

// New returns the command snapshot.
func New(a *app.App) *cobra.Command {
	c := app.Parent("snapshot", "Take, list, verify and delete snapshots of the cluster",
		create(a), list(a), describe(a), verify(a), remove(a))
	c.Aliases = []string{"snapshots"}
	cli.Instead(c, map[string]string{
		"restore": "chronikd restore URL --config FILE restores a snapshot into empty directories",
		"take":    "snapshot create takes one",
		"show":    "snapshot describe shows one",
		"remove":  "snapshot delete deletes one",
		"check":   "snapshot verify reads one and compares it with its checksums",
	})
	return c
}

// errOther: a broker ignores requests about snapshots: it is of another kind, or an older version.
var errOther = errors.New("the broker knows no snapshots; upgrade it")

// read returns the snapshots of the cluster.
func read(ctx context.Context, cl *kgo.Client) (x view.SnapshotList, err error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.UnknownTags.Set(view.SnapshotTag, []byte{})
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil {
		err = decode(&resp.UnknownTags, &x)
	}
	if err != nil {
		return x, app.Refused("list snapshots", app.BrokerError(err), "")
	}
	return x, nil
}

// decode decodes an answer about snapshots.
func decode(tags *kmsg.Tags, v any) error {
	err := errOther
	tags.Each(func(tag uint32, p []byte) {
		if tag == view.SnapshotTag {
			err = json.Unmarshal(p, v)
		}
	})
	return err
}

// ask sends a request and returns its answer.
func ask(ctx context.Context, cl *kgo.Client, what string, q view.SnapshotAsk) (answer view.SnapshotAnswer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return answer, err
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.UnknownTags.Set(view.SnapshotTag, body)
	resp, err := req.RequestWith(ctx, cl)
	message := ""
	if err == nil {
		err, message = kerr.ErrorForCode(resp.ErrorCode), app.OrEmpty(resp.ErrorMessage)
	}
	if err == nil {
		err = decode(&resp.UnknownTags, &answer)
	}
	if err != nil {
		return answer, app.Refused(what, app.BrokerError(err), message)
	}
	if answer.Error != "" {
		return answer, app.WithCode(app.ExitFailed, fmt.Errorf("%s: %s", what, answer.Error))
	}
	return answer, nil
}

const (
	// pollEvery is the pause between two questions for the outcome of a request.
	pollEvery = 200 * time.Millisecond
	// silence is how long the metadata leader may not answer.
	silence = 30 * time.Second
)

// wait waits for the outcome of a request.
func wait(ctx context.Context, cl *kgo.Client, what string, of view.SnapshotAnswer) (o view.SnapshotOutcome, err error) {
	heard := time.Now()
	for {
		x, err := read(ctx, cl)
		switch {
		case err != nil:
			return o, err
		case x.Service == nil && time.Since(heard) > silence:
			return o, app.WithCode(app.ExitUnreachable, fmt.Errorf("%s: %s", what, x.Error))
		case x.Service == nil:
		case x.Service.Term != of.Term:
			return o, app.WithCode(app.ExitFailed, fmt.Errorf("%s: another broker leads the metadata now, and does not know the request; "+
				"run the command again", what))
		default:
			heard = time.Now()
			for _, o := range x.Service.Outcomes {
				if o.ID == of.ID {
					return o, nil
				}
			}
		}
		if err := pause.Sleep(ctx, pollEvery); err != nil {
			return o, fmt.Errorf("%s: %w; it continues in the cluster, and chronikctl snapshot list shows it", what, err)
		}
	}
}

// carryOut sends a request and waits for its outcome.
func carryOut(ctx context.Context, cl *kgo.Client, what string, q view.SnapshotAsk) (view.SnapshotOutcome, error) {
	answer, err := ask(ctx, cl, what, q)
	if err != nil {
		return view.SnapshotOutcome{}, err
	}
	o, err := wait(ctx, cl, what, answer)
	if err == nil && o.Error != "" {
		code := app.ExitFailed
		if o.Offline {
			code = app.ExitUnhealthy
		}
		err = app.WithCode(code, fmt.Errorf("%s: %s", what, o.Error))
	}
	return o, err
}

func number(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, app.Usage("%q is not the number of a snapshot; chronikctl snapshot list shows them", s)
	}
	return n, nil
}

func create(a *app.App) *cobra.Command {
	q := view.SnapshotAsk{Action: view.CreateSnapshot}
	c := &cobra.Command{
		Use: "create", Short: "Take a snapshot now", Args: app.Args(0, 0, "no argument"),
		Long: "create takes a snapshot of the whole cluster at one instant, and waits until all of it is in the object store.\n" +
			"At its beginning, acknowledgements wait for up to half a second. It takes none and exits with code 4\n" +
			"if no broker can read a partition. With --allow-offline it leaves such partitions out, unless they are of an internal topic.",
		Example: "  chronikctl snapshot create\n  chronikctl snapshot create --allow-offline --timeout 10m",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, _ []string) error {
			o, err := carryOut(ctx, cl, "take a snapshot", q)
			if err != nil {
				return err
			}
			return show(ctx, a, cl, o.Number)
		}),
	}
	c.Flags().BoolVar(&q.AllowOffline, "allow-offline", false, "leave out partitions that no broker can read")
	return c
}

func list(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the snapshots of the cluster", Args: app.Args(0, 0, "no argument"),
		Long: "list shows the snapshots in the object store, the newest last, and what the cluster does about them now.\n" +
			"Times are UTC. UPLOADED is what a snapshot added to the store.",
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
				state := "good"
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
			note(a, &x)
			return nil
		}),
	}
}

// note says what the cluster does about snapshots.
func note(a *app.App, x *view.SnapshotList) {
	if !a.Format().ForPeople() {
		return
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
			a.Note("the last %s failed, at %s: %s", text.Count(s.Failures, "attempt"), at(s.LastFailureMs), s.LastError)
		}
	}
}

func at(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

func took(s *view.Snapshot) string {
	return (time.Duration(s.EndedMs-s.TimeMs) * time.Millisecond).Round(10 * time.Millisecond).String()
}

func describe(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "describe NUMBER", Short: "Show a snapshot", Args: app.Args(1, 1, "the number of a snapshot"),
		Long:    "describe shows a snapshot, and what was wrong with it when it was verified last.",
		Example: "  chronikctl snapshot describe 17",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			return show(ctx, a, cl, n)
		}),
	}
}

// show prints a snapshot.
func show(ctx context.Context, a *app.App, cl *kgo.Client, n int64) error {
	x, err := read(ctx, cl)
	if err != nil {
		return err
	}
	for i := range x.Snapshots {
		s := &x.Snapshots[i]
		if s.Number != n {
			continue
		}
		t := &output.Table{Title: fmt.Sprintf("snapshot %d  taken %s in %s  %s, %d offline  %s, %s uploaded  verified %s", s.Number,
			at(s.TimeMs), took(s), text.Count(s.Partitions, "partition"), s.Offline, text.Bytes(s.Bytes), text.Bytes(s.UploadedBytes),
			at(s.VerifiedMs))}
		if err := a.Print(s, t); err != nil {
			return err
		}
		if s.Damage != "" {
			a.Note("damaged: %s", s.Damage)
		}
		return nil
	}
	return app.WithCode(app.ExitFailed, fmt.Errorf("there is no snapshot %d; chronikctl snapshot list shows them", n))
}

func verify(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "verify NUMBER", Short: "Read a snapshot from the store and compare its checksums",
		Args: app.Args(1, 1, "the number of a snapshot"),
		Long: "verify reads all objects of a snapshot on the broker that leads the metadata, which may take long, and exits with 1 if one is\n" +
			"missing or damaged. The cluster does it on its own with the newest, at intervals of snapshot.verify.interval.ms.",
		Example: "  chronikctl snapshot verify 17 --timeout 1h",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			q := view.SnapshotAsk{Action: view.VerifySnapshot, Number: n}
			if _, err := carryOut(ctx, cl, fmt.Sprintf("verify snapshot %d", n), q); err != nil {
				return err
			}
			return show(ctx, a, cl, n)
		}),
	}
}

func remove(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "delete NUMBER", Short: "Delete a snapshot", Args: app.Args(1, 1, "the number of a snapshot"),
		Long: "delete removes a snapshot from the list of the cluster. What no other snapshot needs is deleted from the store within a day.\n" +
			"snapshot.keep and snapshot.keep.days delete old snapshots without it.",
		Example: "  chronikctl snapshot delete 17",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			n, err := number(args[0])
			if err != nil {
				return err
			}
			name := fmt.Sprintf("snapshot %d", n)
			if dryRun {
				return show(ctx, a, cl, n)
			}
			if err := a.Confirm("delete "+name, "It cannot be restored afterwards.", nil); err != nil {
				return err
			}
			if _, err := carryOut(ctx, cl, "delete "+name, view.SnapshotAsk{Action: view.DeleteSnapshot, Number: n}); err != nil {
				return err
			}
			var out app.Outcomes
			out.Done(name, "deleted")
			return a.PrintOutcomes(&out)
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show the snapshot")
	return c
}
