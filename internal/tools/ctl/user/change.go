package user

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

const (
	minIterations     = 4096
	defaultIterations = 8192
	maxIterations     = 16384
	maxPassword       = 1024 // bytes
)

// change is what add and set-password do to one user.
type change struct {
	dryRun     bool
	file       string // with the password
	mechanisms []string
	iterations int32
}

// mechanismNames are those of --mechanism.
func mechanismNames() []string { return []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} }

func (x *change) flags(c *cobra.Command) {
	c.Flags().BoolVar(&x.dryRun, "dry-run", false, "only say what would be done, without asking for the password")
	c.Flags().StringVar(&x.file, "password-file", "", "file with the password in its first line")
	cli.Between(minIterations, int32(maxIterations)).Flag(c.Flags(), &x.iterations, "iterations", "", defaultIterations,
		"how often the password is hashed")
}

func add(a *app.App) *cobra.Command {
	x := &change{}
	c := &cobra.Command{
		Use: "add NAME", Short: "Add a user with a password", Args: app.Args(1, 1, "the name of the user"),
		Long: "add adds a user that logs in with SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN. It asks for the password on a terminal, or reads\n" +
			"a line from its input or from --password-file. Where access rules are in force, the user has no rights until acl add.",
		Example: "  chronikctl user add alice --password-file password\n  chronikctl user add bob < password\n  chronikctl user add carol --dry-run",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			_, exists, err := find(ctx, adm, names[0])
			if err == nil && exists {
				err = fmt.Errorf("user %s exists, nothing was changed; set-password gives it another password", names[0])
			}
			if err != nil {
				return err
			}
			return x.run(ctx, a, adm, names[0], "added")
		}),
	}
	x.flags(c)
	c.Flags().StringSliceVar(&x.mechanisms, "mechanism", mechanismNames(), "mechanisms for which the user gets the password")
	app.CompleteFlag(c, "mechanism", app.OneOf(mechanismNames()...))
	return c
}

func setPassword(a *app.App) *cobra.Command {
	x := &change{}
	c := &cobra.Command{
		Use: "set-password NAME", Short: "Give a user another password, and end its sessions", Args: app.Args(1, 1, "the name of the user"),
		Long: "set-password sets the password for all mechanisms for which the user has one. Connections that logged in with the former\n" +
			"password are closed; their clients can log in again only with the new one.",
		Example: "  chronikctl user set-password alice --password-file password\n  chronikctl user set-password bob < password",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			u, exists, err := find(ctx, adm, names[0])
			if err == nil && !exists {
				err = fmt.Errorf("user %s does not exist; user list shows all, user add adds one", names[0])
			}
			if err != nil {
				return err
			}
			for _, c := range u.CredInfos {
				x.mechanisms = append(x.mechanisms, c.Mechanism.String())
			}
			return x.run(ctx, a, adm, names[0], "has a new password")
		}),
	}
	x.flags(c)
	return c
}

// run sets the password for each mechanism, in a request of its own: as in Kafka, one may name a
// user only once.
func (x *change) run(ctx context.Context, a *app.App, adm *kadm.Client, name, done string) error {
	var mechanisms []kadm.ScramMechanism
	for _, m := range x.mechanisms {
		switch {
		case strings.EqualFold(m, "SCRAM-SHA-256"):
			mechanisms = append(mechanisms, kadm.ScramSha256)
		case strings.EqualFold(m, "SCRAM-SHA-512"):
			mechanisms = append(mechanisms, kadm.ScramSha512)
		default:
			return app.Usage("--mechanism %q is none of %s", m, strings.Join(mechanismNames(), ", "))
		}
	}
	var out app.Outcomes
	if x.dryRun {
		out.Done(name, "would get a password for %s", strings.Join(x.mechanisms, ", "))
		return a.PrintOutcomes(&out)
	}
	password, err := x.password(a, name)
	if err != nil {
		return err
	}
	inTurn(mechanisms, a.Settings.Get(contexts.SASL))
	for i, m := range mechanisms {
		set := kadm.UpsertSCRAM{User: name, Mechanism: m, Iterations: x.iterations, Password: password}
		answers, err := adm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{set})
		what := "set the password of " + name + " for " + m.String()
		if i > 0 {
			what += " (it is set for " + mechanisms[0].String() + ")"
		}
		if err != nil {
			return app.Refused(what, app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
		if r := answers[name]; r.Err != nil {
			out.Refused(name, what, r.Err, r.ErrMessage)
			return a.PrintOutcomes(&out)
		}
	}
	out.Done(name, "%s, for %s", done, strings.Join(x.mechanisms, ", "))
	return a.PrintOutcomes(&out)
}

// inTurn moves the mechanism with which this command logs in to the end. Who changes their own user
// loses the connection with the change of that mechanism, and could not log in for another one.
func inTurn(mechanisms []kadm.ScramMechanism, own string) {
	sorts.SortStable(mechanisms, func(a, b kadm.ScramMechanism) int {
		switch own {
		case a.String():
			return 1
		case b.String():
			return -1
		}
		return 0
	})
}

// password reads the password from a file, a terminal or the input.
func (x *change) password(a *app.App, name string) (string, error) {
	var line string
	terminal, ok := a.In.(*os.File)
	switch {
	case x.file != "":
		text, err := os.ReadFile(x.file)
		if err != nil {
			return "", app.Usage("--password-file: %w; give a file whose first line is the password", err)
		}
		if err := files.Exposed(x.file); err != nil {
			a.Note("warning: --password-file %s: %v", x.file, err)
		}
		line, _, _ = strings.Cut(string(text), "\n")
	case ok && cli.IsTerminal(terminal):
		first, err := cli.ReadHidden(terminal, a.Err, "Password of "+name+": ")
		if err != nil {
			return "", err
		}
		again, err := cli.ReadHidden(terminal, a.Err, "Again: ")
		if err != nil {
			return "", err
		}
		if line = string(first); line != string(again) {
			return "", app.Usage("the two passwords differ, nothing was changed; try again")
		}
	default:
		var err error
		line, err = bufio.NewReader(io.LimitReader(a.In, maxPassword+2)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the password: %w", err)
		}
		line = strings.TrimSuffix(line, "\n")
	}
	line = strings.TrimSuffix(line, "\r")
	if line == "" || len(line) > maxPassword {
		return "", app.Usage("the password is empty or has more than %d bytes, nothing was changed; write it to the input or to --password-file",
			maxPassword)
	}
	return line, nil
}

func remove(a *app.App) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "remove NAME...", Short: "Remove users, and end their sessions", Args: app.Args(1, -1, "at least one user"),
		Long: "remove removes users with all their passwords, and closes their connections. Access rules that name them stay: see acl\n" +
			"remove. It asks first; --yes confirms, --dry-run only lists.",
		Example: "  chronikctl user remove alice --dry-run\n  chronikctl user remove alice --yes",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, names []string) error {
			var out app.Outcomes
			var found []kadm.DescribedUserSCRAM
			var losses []string
			for _, name := range names {
				u, exists, err := find(ctx, adm, name)
				switch {
				case err != nil:
					return err
				case !exists:
					out.Failed(name, fmt.Errorf("remove user %s: it does not exist; user list shows all", name))
				case dryRun:
					out.Done(name, "would be removed")
				default:
					found, losses = append(found, u), append(losses, name)
				}
			}
			if len(found) > 0 {
				names := strings.Join(losses, ", ")
				if a.Asks() {
					if losses, err := consequences(ctx, a, adm, losses); err != nil {
						return err
					} else if err := a.Confirm("remove "+names, app.Irreversible, losses); err != nil {
						return err
					}
				}
			}
			for _, u := range found {
				if err := removeUser(ctx, adm, u, a.Settings.Get(contexts.SASL)); err != nil {
					out.Failed(u.User, err)
				} else {
					out.Done(u.User, "removed")
				}
			}
			return a.PrintOutcomes(&out)
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be done")
	return c
}

// consequences returns a line for each user that is to be removed, with what it is besides: the
// user of this command, a super user, or one of the last with a password.
func consequences(ctx context.Context, a *app.App, adm *kadm.Client, removed []string) (lines []string, err error) {
	all, err := describe(ctx, adm)
	if err != nil {
		return nil, err
	}
	var super []string
	unknown := "super users are not known " + app.NoAdminPort(a)
	if port := app.AdminPortOf(a); port != nil {
		switch rights, err := port.Rights(ctx); {
		case err == nil:
			super, unknown = rights.SuperUsers, ""
		case !errors.Is(err, app.ErrNoAdminPort):
			return nil, err
		}
	}
	isSuper := func(name string) bool { return slices.Contains(super, "User:"+name) }
	left := slices.DeleteFunc(slices.Clone(all), func(u kadm.DescribedUserSCRAM) bool { return slices.Contains(removed, u.User) })
	superLeft := slices.ContainsFunc(left, func(u kadm.DescribedUserSCRAM) bool { return isSuper(u.User) })
	for _, name := range removed {
		var is []string
		if name == a.Settings.Get(contexts.SASLUser) {
			is = append(is, "this command logs in with it")
		}
		if isSuper(name) {
			is = append(is, "it is a super user"+map[bool]string{false: ", and no other super user has a password"}[superLeft])
		}
		if len(left) == 0 {
			is = append(is, "no user with a password is left")
		}
		line := name
		if len(is) > 0 {
			line += ": " + strings.Join(is, "; ")
		}
		lines = append(lines, line)
	}
	if unknown != "" {
		lines = append(lines, unknown)
	}
	return lines, nil
}

// removeUser removes the credentials of one user, each in a request of its own, as run sets them.
func removeUser(ctx context.Context, adm *kadm.Client, u kadm.DescribedUserSCRAM, own string) error {
	var mechanisms []kadm.ScramMechanism
	for _, c := range u.CredInfos {
		mechanisms = append(mechanisms, c.Mechanism)
	}
	inTurn(mechanisms, own)
	for _, m := range mechanisms {
		answers, err := adm.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: u.User, Mechanism: m}}, nil)
		what := "remove " + m.String() + " of " + u.User
		if err != nil {
			return app.Refused(what, app.Needs(app.BrokerError(err), app.OnCluster("alter")), "")
		}
		if r := answers[u.User]; r.Err != nil {
			return app.Refused(what, app.Needs(r.Err, app.OnCluster("alter")), r.ErrMessage)
		}
	}
	return nil
}
