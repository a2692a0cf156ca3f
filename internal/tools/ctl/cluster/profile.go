package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/pkg/durability"
)

// NewProfile returns the command profile.
func NewProfile(a *app.App) *cobra.Command {
	return app.Parent("profile", "Show durability profiles, and explain what an acknowledgement guarantees", listProfiles(a),
		showProfile(a), explain(a))
}

// profileList is the broker's profiles, or the built-in ones.
type profileList struct {
	profiles []durability.Profile
	standard string        // the broker's default
	seen     *app.Profiles // nil if no admin port was asked
}

// askProfiles returns the broker's profiles if its admin port answers, otherwise the built-in ones.
func askProfiles(ctx context.Context, a *app.App) (profileList, error) {
	k := profileList{profiles: durability.Builtin(), standard: durability.Default}
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
	k.seen, k.standard, k.profiles = answer, answer.Default, nil
	for _, x := range answer.Profiles {
		k.profiles = append(k.profiles, x.Durability())
	}
	return k, nil
}

// lookup returns a profile by name.
func (k *profileList) lookup(name string) (durability.Profile, error) {
	for _, p := range k.profiles {
		if p.Name == name {
			return p, nil
		}
	}
	if k.seen == nil {
		return durability.Profile{},
			fmt.Errorf("%q is not a built-in profile; for a broker's own profiles, give its admin port with --admin", name)
	}
	return durability.Profile{}, fmt.Errorf("the broker has no profile %q; chronikctl profile list shows its profiles", name)
}

// source names the origin of the profiles.
func (k *profileList) source() string {
	if k.seen == nil {
		return "built-in profiles; give --admin to include the broker's own"
	}
	return "profiles of the broker"
}

// profileJSON is a profile in JSON.
type profileJSON struct {
	Name       string           `json:"name"`
	Default    bool             `json:"default"`
	Ack        durability.Ack   `json:"ack"`
	Sync       durability.Sync  `json:"sync"`
	MaxWaitMs  int64            `json:"maxWaitMs"`
	MaxRecords int              `json:"maxRecords"`
	MaxBytes   int64            `json:"maxBytes"`
	IntervalMs int64            `json:"intervalMs"`
	Doc        string           `json:"doc"`
	Waits      *app.CommitWaits `json:"waits"`
}

func (k *profileList) show(p durability.Profile) profileJSON {
	s := profileJSON{p.Name, p.Name == k.standard, p.Ack, p.Sync, p.MaxWait.Milliseconds(), p.MaxRecords, p.MaxBytes,
		p.Interval.Milliseconds(), p.Doc, nil}
	if k.seen != nil {
		for _, x := range k.seen.Profiles {
			if x.Name == p.Name {
				s.Waits = x.Waits
			}
		}
	}
	return s
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
			all := []profileJSON{}
			t := &output.Table{Title: k.source(), Columns: []string{"PROFILE", "DEFAULT", "COUNTS WHEN", "SYNCED BY", "MAX WAIT",
				"+RECORDS#", "+BYTES#", "FOR"}}
			for _, p := range k.profiles {
				s := k.show(p)
				all = append(all, s)
				t.Add(s.Name, map[bool]string{true: "*"}[s.Default], s.Ack, syncedBy(p), wait(p), s.MaxRecords, s.MaxBytes, s.Doc)
			}
			return a.Print(all, t)
		},
	}
}

func syncedBy(p durability.Profile) string {
	switch p.Sync {
	case durability.SyncInterval:
		return "the journal, within " + p.Interval.String()
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
