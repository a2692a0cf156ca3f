package txn

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// filter selects transactional ids.
type filter struct {
	states  []string
	pids    []int64
	longer  time.Duration // open for longer than this; 0: open or not
	pattern string

	matches *regexp.Regexp // pattern for whole ids, nil for all
}

// entry is a transactional id in the answer of list.
type entry struct {
	*transaction
	Partitions int `json:"partitions"` // of the open transaction
}

func list(a *app.App) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use: "list", Short: "List the transactional ids and their states", Args: app.Args(0, 0, "no argument"),
		Long: "list shows the transactional ids that the coordinators have. AGE and PARTITIONS are those of the open transaction. A\n" +
			"transaction whose coordinator has forgotten its id is not listed: txn find-hanging finds it in the partitions.",
		Example: "  chronikctl txn list\n  chronikctl txn list --state Ongoing --longer-than 1m\n  chronikctl txn list --id 'billing-.*' -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error { return runList(ctx, a, adm, &f) })(cmd, args)
		},
	}
	c.Flags().StringSliceVar(&f.states, "state", nil, "only ids in these states: "+strings.Join(states(), ", "))
	c.Flags().Int64SliceVar(&f.pids, "producer-id", nil, "only ids with these producer ids")
	cli.AtLeast(time.Duration(0)).Flag(c.Flags(), &f.longer, "longer-than", "", 0,
		"only transactions that are open for longer than this; for example 90s, 5m or 2h")
	c.Flags().StringVar(&f.pattern, "id", "", "only ids that this regular expression matches as a whole")
	app.CompleteFlag(c, "state", app.OneOf(states()...))
	return a.Watched(c)
}

// check validates the filter. It sends nothing.
func (f *filter) check() error {
	for i, s := range f.states {
		at := slices.IndexFunc(states(), func(known string) bool { return strings.EqualFold(s, known) })
		if at < 0 {
			return app.Usage("--state %q is none of %s", s, strings.Join(states(), ", "))
		}
		f.states[i] = states()[at]
	}
	if f.pattern != "" {
		var err error
		if f.matches, err = regexp.Compile("^(?:" + f.pattern + ")$"); err != nil {
			return app.Usage("--id: %w", err)
		}
	}
	return nil
}

// keeps reports whether a transactional id passes the filter. A broker before Kafka 4.1 ignores
// some parts of it, and the state may have changed since the ids were listed.
func (f *filter) keeps(t *transaction) bool {
	switch {
	case len(f.states) > 0 && !slices.Contains(f.states, t.State),
		len(f.pids) > 0 && !slices.Contains(f.pids, t.ProducerID),
		f.matches != nil && !f.matches.MatchString(t.ID),
		f.longer > 0 && (t.AgeMs == nil || time.Duration(*t.AgeMs)*time.Millisecond <= f.longer):
		return false
	}
	return true
}

func runList(ctx context.Context, a *app.App, adm *kadm.Client, f *filter) error {
	ids, err := listed(ctx, a, adm, f.pids, f.states, f.pattern)
	if err != nil {
		return err
	}
	found, failed := load(ctx, a, adm, ids.TransactionalIDs())
	t := &output.Table{Columns: []string{"TRANSACTIONAL ID", "STATE", "AGE#", "TIMEOUT#", "PARTITIONS#", "PRODUCER ID#", "+EPOCH#",
		"+COORDINATOR#", "+STARTED"}, Empty: "no transactional ids"}
	all := []entry{}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		x := found[id]
		if !f.keeps(x) {
			continue
		}
		all = append(all, entry{x, x.partitions()})
		t.Add(x.ID, x.State, x.age(), x.timeout(), x.partitions(), x.ProducerID, x.Epoch, x.Coordinator, started(x))
	}
	wrong := []error{a.Print(all, t)}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if err := failed[id]; !errors.Is(err, kerr.TransactionalIDNotFound) { // it expired meanwhile
			wrong = append(wrong, err)
		}
	}
	return errors.Join(wrong...)
}

// started formats the start of the open transaction.
func started(t *transaction) string {
	if t.Started.IsZero() {
		return ""
	}
	return t.Started.Format(time.RFC3339)
}
