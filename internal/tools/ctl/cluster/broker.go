package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/move"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// NewBroker returns the command broker.
func NewBroker(a *app.App) *cobra.Command {
	c := app.Parent("broker", "List brokers, show their log directories, move their replicas, and remove them", listBrokers(a),
		describeBroker(a), drainBroker(a), fillBroker(a), rebalance(a), moveLogs(a), maintainBroker(a), unregisterBroker(a))
	const away = "broker drain ID moves its replicas away, broker unregister ID removes it"
	const restart = "broker maintain ID -- COMMAND restarts a broker by a command of yours, such as systemctl"
	cli.Instead(c, map[string]string{
		"remove":   away,
		"delete":   away,
		"stop":     restart,
		"restart":  restart,
		"move":     "topic move moves partitions; broker drain, fill and rebalance plan moves",
		"uncordon": "broker maintain ID --end ends what broker maintain began",
		"cordon":   "broker maintain ID prepares a broker for a restart",
		"config":   "chronikctl config get broker ID shows configs",
	})
	return c
}

func listBrokers(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the brokers", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl broker list",
		RunE: a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
			m, err := adm.Metadata(ctx)
			if err != nil {
				return app.Refused("list brokers", app.BrokerError(err), "")
			}
			all, _, err := ofCluster(ctx, a, cl, m)
			if err != nil && all == nil {
				return app.Refused("list brokers", app.BrokerError(err), "")
			}
			for _, id := range move.Drained(ctx, adm, m) {
				if i := slices.IndexFunc(all, func(b broker) bool { return b.ID == id }); i >= 0 {
					all[i].State += ", takes no replicas"
				}
			}
			return a.Print(all, brokerTable(all))
		}),
	}
}

// brokerDetail is the answer of broker describe.
type brokerDetail struct {
	broker
	Dirs []logDir `json:"logDirs"`
	// Report is the broker's health report; null if it sends none.
	Report *health.Report `json:"report"`
}

// logDir is a log directory.
type logDir struct {
	Path       string `json:"path"`
	Partitions int    `json:"partitions"`
	Arriving   int    `json:"arriving"`   // logs that move to it
	Size       int64  `json:"sizeBytes"`  // of its logs
	Total      int64  `json:"totalBytes"` // of the file system; -1 if unknown
	Usable     int64  `json:"usableBytes"`
	Error      string `json:"error,omitempty"`
}

func describeBroker(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "describe ID", Short: "Show a broker and its log directories", Args: app.Args(1, 1, "one broker's id"),
		ValidArgsFunction: a.Brokers(1),
		Example:           "  chronikctl broker describe 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				return showBroker(ctx, a, adm, cl, id)
			})(cmd, args)
		},
	}
}

func brokerID(arg string) (int32, error) {
	id, err := strconv.ParseInt(arg, 10, 32)
	if err != nil || id < 0 {
		return 0, app.Usage("%q is not a broker's id; chronikctl broker list shows the ids", arg)
	}
	return int32(id), nil
}

func showBroker(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, id int32) error {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return app.Refused("describe broker", app.BrokerError(err), "")
	}
	all, _, err := ofCluster(ctx, a, cl, m)
	if err != nil && all == nil {
		return app.Refused("describe broker", app.BrokerError(err), "")
	}
	for _, b := range all {
		if b.ID != id {
			continue
		}
		d := brokerDetail{broker: b, Dirs: []logDir{}}
		if !b.reachable {
			return a.Print(d, brokerTable([]broker{b}))
		}
		if d.Report, err = app.ReportOf(ctx, cl, id); err != nil && !errors.Is(err, app.ErrNoReport) {
			a.Note("note: no health report of broker %d: %v", id, err)
			d.Report = nil // it may be another broker's
		}
		dirs, err := adm.DescribeBrokerLogDirs(ctx, id, nil)
		if err != nil && !app.IsUnsupported(err) {
			return app.Refused(fmt.Sprintf("log directories of broker %d", id),
				app.Needs(app.BrokerError(err), app.OnCluster("describe")), "")
		}
		t := &output.Table{Columns: []string{"DIRECTORY", "PARTITIONS#", "ARRIVING#", "SIZE#", "FREE#", "OF#", "ERROR"},
			Empty: "this broker does not report its log directories"}
		if err == nil && len(dirs) == 0 {
			t.Empty = "this broker only votes: it has no log directories"
		}
		for _, x := range dirs.Sorted() {
			y := logDir{Path: x.Dir, Size: x.Size(), Total: x.TotalBytes, Usable: x.UsableBytes}
			x.Topics.Each(func(p kadm.DescribedLogDirPartition) {
				if p.IsFuture {
					y.Arriving++
				} else {
					y.Partitions++
				}
			})
			if x.Err != nil {
				y.Error = x.Err.Error()
			}
			d.Dirs = append(d.Dirs, y)
			t.Add(y.Path, y.Partitions, y.Arriving, text.Bytes(y.Size), bytesOr(y.Usable), bytesOr(y.Total), y.Error)
		}
		return a.Print(d, brokerTable([]broker{b}), t)
	}
	return noBroker(fmt.Sprintf("describe broker %d", id), id, all)
}

// registered returns an error if the cluster has no broker with this id, neither an active nor a
// fenced one. what is what the command attempts. A broker that partitions name is a broker, also if
// the cluster does not list it.
func registered(ctx context.Context, cl *kgo.Client, m kadm.Metadata, id int32, what string) error {
	if slices.Contains(m.Brokers.NodeIDs(), id) {
		return nil
	}
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if slices.Contains(p.Replicas, id) {
				return nil
			}
		}
	}
	all, err := withFenced(ctx, cl, m, brokers(m))
	switch {
	case app.IsUnsupported(err):
		return nil // an old broker does not list the fenced ones
	case err != nil:
		return app.Refused("list brokers", app.BrokerError(err), "")
	case slices.ContainsFunc(all, func(b broker) bool { return b.ID == id }):
		return nil
	}
	return noBroker(what, id, all)
}

// noBroker returns the error for the id of a broker that does not exist, with the ids that do.
func noBroker(what string, id int32, all []broker) error {
	ids := make([]int32, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return app.Refused(what, kerr.BrokerIDNotRegistered, fmt.Sprintf("there is no broker %d, only %s", id, text.Numbers(ids)))
}

func bytesOr(n int64) string {
	if n < 0 {
		return "?"
	}
	return text.Bytes(n)
}
