// Package quota implements chronikctl quota: list, set, remove and explain.
//
// It needs only Kafka's protocol (KIP-546). Which quota applies to a client is decided by the code
// that decides in a broker, internal/security/quota: explain reads all quotas and asks it. set
// leaves the other limits of an entity unchanged, and remove needs a confirmation. Each command is
// in a file of its name, set and remove in change.go; this file has what they share.
package quota

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// New returns the command quota.
func New(a *app.App) *cobra.Command {
	c := app.Parent("quota", "List, set, remove and explain quotas of users and clients", list(a), set(a), remove(a), explain(a))
	c.Aliases = []string{"quotas"}
	const limit = "limits are arguments, with underscores: chronikctl quota set producer_byte_rate=1MiB --user NAME"
	cli.Instead(c, map[string]string{
		"add":      "quota set sets quotas",
		"alter":    "quota set sets quotas",
		"create":   "quota set sets quotas",
		"delete":   "quota remove removes quotas",
		"unset":    "quota remove removes quotas",
		"describe": "quota list shows quotas, quota explain which of them apply",
		"show":     "quota list shows quotas, quota explain which of them apply",
		"check":    "quota explain says which quotas apply",

		"--producer-byte-rate":       limit,
		"--consumer-byte-rate":       limit,
		"--request-percentage":       limit,
		"--controller-mutation-rate": limit,
		"--connection-creation-rate": limit,
	})
	return c
}

// limitHelp lists the limits.
const limitHelp = "The limits are producer_byte_rate and consumer_byte_rate (bytes a second; 10MiB is possible), " +
	"request_percentage (100 is one processor),\ncontroller_mutation_rate (partitions a second) and, of an --ip, " +
	"connection_creation_rate (connections a second)."

// The types of entities in requests (KIP-546), and the names of flags.
const (
	userFlag   = "user"
	clientFlag = "client-id"
	ipFlag     = "ip"
)

// part reads one name of an entity: its user, client id or address.
type part struct {
	kind string
	of   func(*quota.Entity) *quota.Name
}

// parts returns the parts of an entity in the order in which they are shown.
func parts() []part {
	return []part{
		{userFlag, func(e *quota.Entity) *quota.Name { return &e.User }},
		{clientFlag, func(e *quota.Entity) *quota.Name { return &e.Client }},
		{ipFlag, func(e *quota.Entity) *quota.Name { return &e.Address }},
	}
}

// whom is the flags that name an entity.
type whom struct {
	names    [3]string // of parts
	defaults [3]bool
}

func (w *whom) flags(c *cobra.Command) {
	for i, text := range [...]string{"a user", "a client id", "an address"} {
		kind := parts()[i].kind
		_, bare, _ := strings.Cut(text, " ")
		c.Flags().StringVar(&w.names[i], kind, "", "quotas of "+text)
		c.Flags().BoolVar(&w.defaults[i], kind+"-default", false, "quotas of each "+bare+" without its own")
	}
}

// entity returns the entity that the flags name; without any it is the zero value.
func (w *whom) entity(cmd *cobra.Command) (e quota.Entity, err error) {
	for i, p := range parts() {
		named := cmd.Flags().Changed(p.kind)
		switch {
		case named && w.defaults[i]:
			return e, app.Usage("--%s and --%s-default exclude each other", p.kind, p.kind)
		case named && w.names[i] == "":
			return e, app.Usage("--%s is empty: --%s-default stands for all without a quota of their own", p.kind, p.kind)
		case named:
			*p.of(&e) = quota.Of(w.names[i])
		case w.defaults[i]:
			*p.of(&e) = quota.Any()
		}
	}
	if e != (quota.Entity{}) && !e.Valid() {
		return e, app.Usage("--ip cannot be combined with users or client ids: connections are counted before either is known")
	}
	if e.Address.Kind == quota.Named {
		ip, err := address(e.Address.Text)
		if err != nil {
			return e, err
		}
		e.Address.Text = quota.AddressText(ip)
	}
	return e, nil
}

// address returns the address of a flag.
func address(s string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return ip, app.Usage("--ip %q is not an address, such as 10.0.0.7; names of hosts are not resolved", s)
	}
	return ip, nil
}

// entry is the quotas of one entity in answers.
type entry struct {
	// Entity has the names of the entity's parts: user, client-id, ip. null stands for the default.
	Entity map[string]*string `json:"entity"`
	Limits map[string]float64 `json:"limits"`

	of quota.Entity
}

// cells returns the entity as table columns.
func cells(e quota.Entity) []any {
	var all []any
	for _, p := range parts() {
		text := "-"
		switch n := p.of(&e); n.Kind {
		case quota.Named:
			text = n.Text
		case quota.Default:
			text = "<default>"
		case quota.None:
		}
		all = append(all, text)
	}
	return all
}

// number writes a limit's value.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// fetch returns the quotas of the entities that have the parts of e, sorted as the broker has it.
func fetch(ctx context.Context, adm *kadm.Client, e quota.Entity) ([]entry, error) {
	var filter []kadm.DescribeClientQuotaComponent
	for _, p := range parts() {
		switch n := p.of(&e); n.Kind {
		case quota.Named:
			filter = append(filter, kadm.DescribeClientQuotaComponent{Type: p.kind, MatchName: &n.Text})
		case quota.Default:
			filter = append(filter, kadm.DescribeClientQuotaComponent{Type: p.kind, MatchType: 1})
		case quota.None:
		}
	}
	described, err := adm.DescribeClientQuotas(ctx, false, filter)
	if err != nil {
		return nil, refused("list quotas", err, app.OnCluster("describe-configs"))
	}
	all := make([]entry, 0, len(described))
	for _, d := range described {
		x := entry{Entity: map[string]*string{}, Limits: map[string]float64{}}
		for _, c := range d.Entity {
			x.Entity[c.Type] = c.Name
			for _, p := range parts() {
				switch {
				case p.kind != c.Type:
				case c.Name == nil:
					*p.of(&x.of) = quota.Any()
				default:
					*p.of(&x.of) = quota.Of(*c.Name)
				}
			}
		}
		for _, v := range d.Values {
			x.Limits[v.Key] = v.Value
		}
		all = append(all, x)
	}
	return all, nil
}

// refused is app.Refused with the message that kadm keeps in the error, and the right that the
// request needs.
func refused(what string, err error, right app.Right) error {
	if m := (*kadm.ErrAndMessage)(nil); errors.As(err, &m) {
		return app.Refused(what, app.Needs(m.Err, right), m.ErrMessage)
	}
	return app.Refused(what, app.Needs(app.BrokerError(err), right), "")
}

// limitsOf returns the limits of an entry in Kafka's order, and then those that are unknown.
func limitsOf(x entry) []string {
	var names []string
	for _, name := range quota.LimitNames() {
		if _, ok := x.Limits[name]; ok {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.Limits)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
