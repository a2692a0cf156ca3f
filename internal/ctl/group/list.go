package group

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/output"
)

// listed is one group of list.
type listed struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Type        string `json:"type,omitempty"` // classic, consumer, …; empty for a broker before Kafka 3.8
	Protocol    string `json:"protocolType"`   // consumer for consumers, connect for Kafka Connect
	Coordinator int32  `json:"coordinator"`
}

// states are those that a group may be in, of any protocol.
func states() []string {
	return []string{"Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Dead"}
}

func list(a *cli.App) *cobra.Command {
	var in []string
	c := &cobra.Command{
		Use: "list", Short: "List groups", Args: cli.Args(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range in {
				if !slices.ContainsFunc(states(), func(known string) bool { return strings.EqualFold(s, known) }) {
					return cli.Usage("--state %q is none of %s", s, strings.Join(states(), ", "))
				}
			}
			cl, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			req := kmsg.NewPtrListGroupsRequest()
			req.StatesFilter = in
			all := []listed{}
			for _, shard := range cl.RequestSharded(cmd.Context(), req) {
				resp, _ := shard.Resp.(*kmsg.ListGroupsResponse)
				if shard.Err == nil && resp != nil {
					shard.Err = kerr.ErrorForCode(resp.ErrorCode)
				}
				if shard.Err != nil {
					return cli.Refused("list groups", shard.Err, "")
				}
				for _, g := range resp.Groups {
					all = append(all, listed{g.Group, g.GroupState, strings.ToLower(g.GroupType), g.ProtocolType, shard.Meta.NodeID})
				}
			}
			slices.SortFunc(all, func(x, y listed) int { return cmp.Compare(x.Group, y.Group) })
			t := &output.Table{Columns: []string{"GROUP", "STATE", "TYPE", "+PROTOCOL", "+COORDINATOR#"}, Empty: "no groups"}
			for _, g := range all {
				t.Add(g.Group, g.State, g.Type, g.Protocol, g.Coordinator)
			}
			return a.Print(all, t)
		},
	}
	c.Flags().StringSliceVar(&in, "state", nil, "only groups in these states: "+strings.Join(states(), ", "))
	cli.CompleteFlag(c, "state", cli.OneOf(states()...))
	return c
}
