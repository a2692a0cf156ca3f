package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// apiRange is an API that a broker supports.
type apiRange struct {
	Broker int32  `json:"broker"`
	Key    int16  `json:"key"`
	Name   string `json:"name"`
	Min    int16  `json:"min"`
	Max    int16  `json:"max"`
}

// NewAPIVersions returns the command api-versions.
func NewAPIVersions(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "api-versions", Short: "List the APIs that the brokers support, with their versions", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl api-versions",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			versions, err := adm.ApiVersions(ctx)
			if err != nil {
				return app.Refused("list API versions", app.BrokerError(err), "")
			}
			t := &output.Table{Columns: []string{"BROKER#", "KEY#", "API", "MIN#", "MAX#"}}
			all := []apiRange{}
			for _, v := range versions.Sorted() {
				if v.Err != nil {
					return app.Refused(fmt.Sprintf("list the API versions of broker %d", v.NodeID), v.Err, "")
				}
				v.EachKeySorted(func(key, least, most int16) {
					name := kmsg.NameForKey(key)
					if name == "Unknown" {
						name = fmt.Sprintf("unknown to this chronikctl (%d)", key)
					}
					all = append(all, apiRange{v.NodeID, key, name, least, most})
					t.Add(v.NodeID, key, name, least, most)
				})
			}
			return a.Print(all, t)
		}),
	}
}
