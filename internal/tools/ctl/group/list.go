package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// listed is a group in the answer of list.
type listed struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Type        string `json:"type,omitempty"` // classic, consumer, …; empty for a broker before Kafka 3.8
	Protocol    string `json:"protocolType"`   // consumer for consumers, connect for Kafka Connect
	Coordinator int32  `json:"coordinator"`
	Members     *int   `json:"members"` // nil if unknown
	Lag         *int64 `json:"lag"`
	Error       string `json:"error,omitempty"` // why members and lag are unknown
}

// states returns the states of groups in any protocol.
func states() []string {
	return []string{"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead"}
}

func list(a *app.App) *cobra.Command {
	var in []string
	c := &cobra.Command{
		Use: "list", Short: "List groups with their lag", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl group list\n  chronikctl group list --state Empty -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range in {
				if !slices.ContainsFunc(states(), func(known string) bool { return strings.EqualFold(s, known) }) {
					return app.Usage("--state %q is none of %s", s, strings.Join(states(), ", "))
				}
			}
			cl, err := a.Requests(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			req := kmsg.NewPtrListGroupsRequest()
			req.StatesFilter = in
			all := []listed{}
			var missing []error // of brokers whose groups are not in the list
			for _, shard := range cl.RequestSharded(cmd.Context(), req) {
				resp, _ := shard.Resp.(*kmsg.ListGroupsResponse)
				if shard.Err == nil && resp != nil {
					shard.Err = kerr.ErrorForCode(resp.ErrorCode)
				}
				if shard.Err != nil {
					missing = append(missing, app.Refused(fmt.Sprintf("list groups of broker %d", shard.Meta.NodeID), shard.Err, ""))
					continue
				}
				for _, g := range resp.Groups {
					if slices.ContainsFunc(all, func(x listed) bool { return x.Group == g.Group }) {
						continue // a broker that forwards has answered for others, too
					}
					all = append(all, listed{Group: g.Group, State: g.GroupState, Type: strings.ToLower(g.GroupType),
						Protocol:    g.ProtocolType,
						Coordinator: shard.Meta.NodeID})
				}
			}
			sorts.Sort(all, func(x, y listed) int { return cmp.Compare(x.Group, y.Group) })
			measure(cmd.Context(), a, kadm.NewClient(cl), all)
			t := &output.Table{Columns: []string{"GROUP", "STATE", "TYPE", "MEMBERS#", "LAG#", "+PROTOCOL", "+COORDINATOR#", "+ERROR"},
				Empty: "no groups"}
			if len(missing) > 0 {
				t.Empty = "no groups of the brokers that answered"
			}
			for _, g := range all {
				members := "?"
				if g.Members != nil {
					members = fmt.Sprint(*g.Members)
				}
				lag := "?"
				if g.Lag != nil {
					lag = fmt.Sprint(*g.Lag)
				}
				t.Add(g.Group, g.State, g.Type, members, lag, g.Protocol, g.Coordinator, g.Error)
			}
			return errors.Join(append([]error{a.Print(all, t)}, missing...)...)
		},
	}
	c.Flags().StringSliceVar(&in, "state", nil, "only groups in these states: "+strings.Join(states(), ", "))
	app.CompleteFlag(c, "state", app.OneOf(states()...))
	const all = "group list lists all groups, without a flag"
	cli.Instead(c, map[string]string{"--all-groups": all, "--all": all})
	return a.Watched(c)
}

// measure adds the members and the lag of each group. An error about one group does not hide the
// others.
func measure(ctx context.Context, a *app.App, adm *kadm.Client, all []listed) {
	names := make([]string, len(all))
	for i, g := range all {
		names[i] = g.Group
	}
	found, failed := loadAll(ctx, a, adm, names)
	for i := range all {
		g := &all[i]
		if d, ok := found[g.Group]; ok {
			n := len(d.Members)
			g.Members, g.Lag = &n, &d.Lag
		} else if err := failed[g.Group]; err != nil {
			g.Error = err.Error()
		}
	}
}
