package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// returns is the way back from an unregistration.
const returns = "It can return as a new broker, with an empty data directory, and not with the present one."

func unregisterBroker(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "unregister ID", Short: "Remove a broker that will not return", Args: app.Args(1, 1, "one broker's id"),
		Long: "unregister removes a stopped broker without replicas from the metadata of the cluster, which then no longer waits for it.\n" +
			"broker drain moves its replicas away first. unregister asks, because the broker can't return with its data directory: if it starts\n" +
			"with it, the other brokers refuse it. With an empty data directory it joins as a new broker.",
		Example: "  chronikctl broker unregister 4 --dry-run\n  chronikctl broker unregister 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			return a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				return unregister(ctx, a, adm, cl, id, dryRun)
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only check whether the broker can be unregistered")
	return c
}

func unregister(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, id int32, dryRun bool) error {
	name := fmt.Sprintf("broker %d", id)
	m, err := adm.Metadata(ctx)
	if err != nil {
		return app.Refused("unregister "+name, app.BrokerError(err), "")
	}
	if err := registered(ctx, cl, m, id, "unregister "+name); err != nil {
		return err
	}
	votes, err := removable(ctx, a, cl, m, id)
	if err != nil {
		return app.Refused("unregister "+name, app.BrokerError(err), "")
	}
	var out app.Outcomes
	if dryRun {
		out.Done(name, "would be unregistered")
		return a.PrintOutcomes(&out)
	}
	if err := a.Confirm("unregister "+name, returns, nil); err != nil {
		return err
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, cl)
	message := ""
	if err == nil {
		err, message = kerr.ErrorForCode(resp.ErrorCode), app.OrEmpty(resp.ErrorMessage)
	}
	if err != nil {
		return app.Refused("unregister "+name, app.Needs(app.BrokerError(err), app.OnCluster("alter")), message)
	}
	out.Done(name, "unregistered")
	if votes {
		a.Note("it had a vote in the metadata quorum: start a broker with an empty data directory at its address in\n" +
			"cluster.seeds, which takes the vote over; or set cluster.seeds on all brokers, one at a time, to a list of 1, 3 or 5 addresses\n" +
			"without it, which `chronikd config check` checks; chronikctl cluster describe shows the voters")
	}
	return a.PrintOutcomes(&out)
}

// removable returns why a broker cannot be unregistered, and otherwise whether it has a vote.
func removable(ctx context.Context, a *app.App, cl *kgo.Client, m kadm.Metadata, id int32) (votes bool, err error) {
	all, q, err := ofCluster(ctx, a, cl, m)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(all, func(b broker) bool { return b.ID == id })
	switch {
	case at < 0:
		return false, kerr.BrokerIDNotRegistered
	case all[at].Replicas > 0:
		return false, fmt.Errorf("it has %s; chronikctl broker drain %d moves them to other brokers",
			text.Count(all[at].Replicas, "replica"), id)
	case all[at].reachable:
		return false, fmt.Errorf("it is active; stop it, and wait until chronikctl broker list shows it as fenced")
	}
	return slices.ContainsFunc(q.Members, func(x quorumMember) bool { return x.Broker == id && x.Voter }), nil
}
