package cluster

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

func showProfile(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a profile and what it guarantees on one replica and on three", Args: app.Args(1, 1, "one profile"),
		Example: "  chronikctl profile show sync",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 || a.Resolve(cmd) != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			k, _ := askProfiles(cmd.Context(), a) // the built-in ones without an answer
			var names []string
			for _, p := range k.profiles {
				names = append(names, p.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			k, err := askProfiles(cmd.Context(), a)
			if err != nil {
				return err
			}
			p, err := k.lookup(names[0])
			if err != nil {
				return err
			}
			answer := struct {
				view.Profile
				Promises []promiseJSON `json:"promises"`
			}{p, nil}
			d := p.Durability()
			head := &output.Table{Title: "profile " + p.Name + "\n  " + p.Doc + "\n  " + ackText(d) + "\n  " + syncText(d)}
			t := &output.Table{Columns: []string{"REPLICAS#", "ACKS", "AFTER", "PROMISE"}}
			for _, x := range d.Promises() {
				if x.Setting.Replicas == 1 && x.Failure == durability.AllButOneLost {
					continue // there is no other replica
				}
				answer.Promises = append(answer.Promises, promiseOf(x))
				t.Add(x.Setting.Replicas, acks(x.Setting.Acks), x.Failure, x)
			}
			return a.Print(answer, head, t)
		},
	}
}

// promiseJSON is a durability promise in JSON.
type promiseJSON struct {
	Acks     string `json:"acks"`
	Replicas int    `json:"replicas"`
	MinISR   int    `json:"minInsyncReplicas"`
	Failure  string `json:"failure"`
	Promise  string `json:"promise"`
}

func promiseOf(p durability.Promise) promiseJSON {
	return promiseJSON{acks(p.Setting.Acks), p.Setting.Replicas, p.Setting.MinISR, p.Failure.String(), p.String()}
}

func acks(n int16) string {
	if n == -1 {
		return "all"
	}
	return fmt.Sprint(n)
}

// ackText says when a record counts on a replica.
func ackText(p durability.Profile) string {
	if p.Ack == durability.Synced {
		return "A record counts on a replica when fdatasync has returned for it: it is on disk."
	}
	return "A record counts on a replica when the operating system has it: it survives a crash of the process, not a loss of power."
}

// syncText says when the journal syncs.
func syncText(p durability.Profile) string {
	switch {
	case p.Sync == durability.SyncInterval:
		return fmt.Sprintf("The journal begins a sync within %v, once for all topics.", p.Interval)
	case p.Sync == durability.SyncOS:
		return "No record waits for a sync: the journal syncs when another topic asks for it, or after 5 s or 1/8 of the deferred bytes."
	case p.MaxWait == 0:
		return fmt.Sprintf(
			"One fdatasync covers everything that arrived during the previous one; no append waits for others. A group has at most %d records and %d bytes.",
			p.MaxRecords, p.MaxBytes)
	}
	return fmt.Sprintf("One fdatasync covers everything that arrives within %v, but no more than %d records or %d bytes.",
		p.MaxWait, p.MaxRecords, p.MaxBytes)
}
