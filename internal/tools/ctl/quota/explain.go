package quota

import (
	"context"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// verdict is the quota that applies to one limit.
type verdict struct {
	Limit string `json:"limit"`
	// Value is 0 if there is no quota.
	Value float64 `json:"value"`
	// Entry is the entity whose quota decides, and Shared who shares it: both as
	// user=bob,client-id=app.
	Entry  string `json:"entry"`
	Shared string `json:"shared"`
}

func explain(a *app.App) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "explain USER [CLIENT-ID]", Short: "Explain which quotas apply to a client",
		Args: app.Args(1, 2, "USER and at most one CLIENT-ID"),
		Long: "explain says for each limit which quota applies to a client, and who shares it: clients that share a quota may use it\n" +
			"together. One quota counts: that of the user before that of any user, and both before that of a client id. Among those of\n" +
			"one user, that of the client id counts before that of any client id, and both before that of the user alone.\n" +
			"Clients that do not log in are the user ANONYMOUS; without a CLIENT-ID the client has none. A quota is for each broker.",
		Example: "  chronikctl quota explain bob app-1\n  chronikctl quota explain ANONYMOUS --ip 10.0.0.7 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			var ip netip.Addr
			if from != "" {
				var err error
				if ip, err = address(from); err != nil {
					return err
				}
			}
			client := ""
			if len(args) > 1 {
				client = args[1]
			}
			return a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
				all, err := fetch(ctx, adm, quota.Entity{})
				if err != nil {
					return err
				}
				list := decide(all, strings.TrimPrefix(args[0], "User:"), client, ip)
				t := &output.Table{Columns: []string{"LIMIT", "VALUE#", "QUOTA OF", "SHARED BY"}}
				for _, v := range list {
					if v.Entry == "" {
						t.Add(v.Limit, "-", "no quota applies", "-")
						continue
					}
					t.Add(v.Limit, number(v.Value), v.Entry, v.Shared)
				}
				return a.Print(list, t)
			})(cmd, args)
		},
	}
	c.Flags().StringVar(&from, ipFlag, "", "address of the client, for connection_creation_rate")
	return c
}

// decide returns the quota that applies to each limit; that of connections only with an address.
func decide(all []entry, user, client string, ip netip.Addr) []verdict {
	rules := quota.Compile(func(yield func(quota.Quota) bool) {
		for _, x := range all {
			q := quota.Quota{Entity: x.of}
			for name, v := range x.Limits {
				if l, known := quota.ParseLimit(name); known {
					q.Limits[l] = v
				}
			}
			if !yield(q) {
				return
			}
		}
	})
	var list []verdict
	for _, name := range quota.LimitNames() {
		l, _ := quota.ParseLimit(name)
		var f quota.Applied
		switch {
		case !l.OfAddress():
			f, _ = rules.Client(l, user, client)
		case !ip.IsValid():
			continue
		default:
			f, _ = rules.Address(ip)
		}
		v := verdict{Limit: name, Value: f.Rate}
		if f.Rate > 0 {
			v.Entry, v.Shared = f.Rule.String(), f.Owner.String()
		}
		list = append(list, v)
	}
	return list
}
