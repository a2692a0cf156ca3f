// Package user implements chronikctl user: list, add, set-password and remove.
//
// It needs only Kafka's protocol (KIP-554). A password is salted and hashed here, so that it is
// never sent. It comes from a terminal, the input or a file, and never from the command line, which
// other users of the machine can read. change.go has the commands that change users.
package user

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// New returns the command user.
func New(a *app.App) *cobra.Command {
	c := app.Parent("user", "List, add and remove users with a password, and set passwords", list(a), add(a), setPassword(a), remove(a))
	c.Aliases = []string{"users"}
	cli.Instead(c, map[string]string{
		"create":   "user add adds a user",
		"delete":   "user remove removes users",
		"passwd":   "user set-password sets a password",
		"rotate":   "user set-password sets a password and ends the user's sessions",
		"describe": "user list NAME... shows users",
	})
	return c
}

// entry is a user in the answer of list.
type entry struct {
	Name        string       `json:"name"`
	Credentials []credential `json:"credentials"`
}

type credential struct {
	Mechanism  string `json:"mechanism"`
	Iterations int32  `json:"iterations"`
}

func list(a *app.App) *cobra.Command {
	return a.Watched(&cobra.Command{
		Use: "list [NAME...]", Short: "List users and the mechanisms for which they have a password", Args: app.Args(0, -1, "user names"),
		Long: "list shows users that log in with a password: by SCRAM, or by PLAIN with the password of the first mechanism. Users that\n" +
			"log in with a certificate or a token are not stored in the cluster and not listed.",
		Example: "  chronikctl user list\n  chronikctl user list alice bob -o json",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			all, err := describe(ctx, adm, names...)
			if err != nil {
				return err
			}
			t := &output.Table{Columns: []string{"NAME", "MECHANISM", "ITERATIONS#"}, Empty: "no users"}
			entries, missing := []entry{}, []error{}
			for _, u := range all {
				if u.Err != nil {
					missing = append(missing, app.Refused("list user "+u.User, u.Err, u.ErrMessage))
					continue
				}
				e := entry{Name: u.User, Credentials: []credential{}}
				for _, c := range u.CredInfos {
					e.Credentials = append(e.Credentials, credential{c.Mechanism.String(), c.Iterations})
					t.Add(u.User, c.Mechanism, c.Iterations)
				}
				entries = append(entries, e)
			}
			return errors.Join(append([]error{a.Print(entries, t)}, missing...)...)
		}),
	})
}

// describe returns users, sorted, with their credentials by mechanism; all users without a name.
func describe(ctx context.Context, adm *kadm.Client, names ...string) ([]kadm.DescribedUserSCRAM, error) {
	found, err := adm.DescribeUserSCRAMs(ctx, names...)
	if err != nil {
		return nil, app.Refused("describe users", app.Needs(app.BrokerError(err), app.OnCluster("describe")), "")
	}
	all := found.Sorted()
	for _, u := range all {
		sorts.Sort(u.CredInfos, func(x, y kadm.CredInfo) int { return int(x.Mechanism) - int(y.Mechanism) })
	}
	return all, nil
}

// find returns one user; ok is false if it does not exist.
func find(ctx context.Context, adm *kadm.Client, name string) (u kadm.DescribedUserSCRAM, ok bool, err error) {
	all, err := describe(ctx, adm, name)
	switch {
	case err != nil:
		return u, false, err
	case len(all) != 1:
		return u, false, fmt.Errorf("the broker answered about %d users, not about %s", len(all), name)
	case errors.Is(all[0].Err, kerr.ResourceNotFound):
		return all[0], false, nil
	case all[0].Err != nil:
		return u, false, app.Refused("read user "+name, all[0].Err, all[0].ErrMessage)
	}
	return all[0], true, nil
}
