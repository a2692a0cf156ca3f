package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
	"github.com/chronik-io/chronik/pkg/durability"
)

// NewProfile returns the command profile.
func NewProfile(a *app.App) *cobra.Command {
	c := app.Parent("profile", "Show durability profiles, and explain what an acknowledgement guarantees", listProfiles(a),
		showProfile(a), explain(a))
	cli.Instead(c, map[string]string{"set": "chronikctl topic alter TOPIC --config chronik.durability.profile=PROFILE sets a topic's profile"})
	return c
}

// profileList is the broker's profiles, or the built-in ones.
type profileList struct {
	profiles []view.Profile
	seen     *view.Profiles // nil if no admin port was asked
}

// askProfiles returns the broker's profiles if its admin port answers, otherwise the built-in ones.
func askProfiles(ctx context.Context, a *app.App) (profileList, error) {
	k := profileList{}
	for _, p := range durability.Builtin() {
		k.profiles = append(k.profiles, view.ProfileOf(p, durability.Default))
	}
	p := app.AdminPortOf(a)
	if p == nil {
		return k, nil
	}
	answer, err := p.Profiles(ctx)
	if errors.Is(err, app.ErrNoAdminPort) && !p.Named {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	return profileList{answer.List, answer}, nil
}

// lookup returns a profile by name.
func (k *profileList) lookup(name string) (view.Profile, error) {
	for _, p := range k.profiles {
		if p.Name == name {
			return p, nil
		}
	}
	if k.seen == nil {
		return view.Profile{},
			fmt.Errorf("%q is not a built-in profile; for a broker's own profiles, give its admin port with --admin", name)
	}
	return view.Profile{}, fmt.Errorf("the broker has no profile %q; chronikctl profile list shows its profiles", name)
}

// source names the origin of the profiles.
func (k *profileList) source() string {
	if k.seen == nil {
		return "built-in profiles; give --admin to include the broker's own"
	}
	return "profiles of the broker"
}

func listProfiles(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the durability profiles", Args: app.Args(0, 0, "no argument"),
		Example: "  chronikctl profile list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := askProfiles(cmd.Context(), a)
			if err != nil {
				return err
			}
			t := &output.Table{Title: k.source(), Columns: []string{"PROFILE", "DEFAULT", "COUNTS WHEN", "SYNCED BY", "MAX WAIT",
				"+RECORDS#", "+BYTES#", "FOR"}}
			for _, p := range k.profiles {
				t.Add(p.Name, map[bool]string{true: "*"}[p.Default], p.Ack, syncedBy(p.Durability()), wait(p.Durability()), p.MaxRecords,
					p.MaxBytes, p.Doc)
			}
			return a.Print(k.profiles, t)
		},
	}
}

func syncedBy(p durability.Profile) string {
	switch p.Sync {
	case durability.SyncInterval:
		return "the journal, beginning within " + p.Interval.String()
	case durability.SyncOS:
		return "the journal, with others"
	}
	return "the journal"
}

func wait(p durability.Profile) string {
	switch {
	case p.Sync != durability.SyncGroup:
		return ""
	case p.MaxWait == 0:
		return "none"
	}
	return p.MaxWait.String()
}
