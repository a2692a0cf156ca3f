package quota

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/sorts"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
)

// change is what set and remove have in common.
type change struct {
	whom
	dryRun bool
}

func (x *change) flags(c *cobra.Command) {
	x.whom.flags(c)
	c.Flags().BoolVar(&x.dryRun, "dry-run", false, "only check and list what would be done")
}

// command returns a RunE that calls do with the limits that an entity has now.
func (x *change) command(a *app.App, do func(ctx context.Context, adm *kadm.Client, e quota.Entity, was entry, args []string) error,
	check func(e quota.Entity, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		e, err := x.entity(cmd)
		if err == nil && e == (quota.Entity{}) {
			err = app.Usage("whose quotas? Name a --user, a --client-id, both, or an --ip; --user-default, --client-id-default and --ip-default mean everyone without a quota of their own")
		}
		if err == nil {
			err = check(e, args)
		}
		if err != nil {
			return err
		}
		return a.Admin(func(ctx context.Context, adm *kadm.Client, args []string) error {
			all, err := fetch(ctx, adm, e)
			if err != nil {
				return err
			}
			was := entry{Limits: map[string]float64{}}
			if i := slices.IndexFunc(all, func(one entry) bool { return one.of == e }); i >= 0 {
				was = all[i]
			}
			return do(ctx, adm, e, was, args)
		})(cmd, args)
	}
}

func set(a *app.App) *cobra.Command {
	var x change
	var values map[string]float64
	c := &cobra.Command{
		Use: "set LIMIT=VALUE...", Short: "Set quotas", Args: app.Args(1, -1, "LIMIT=VALUE"),
		Long: "set sets limits of a user, a client id, both together, or an address. Other limits stay. A quota applies to the next\n" +
			"request, on every broker, each of which counts for itself. " + limitHelp,
		Example: "  chronikctl quota set producer_byte_rate=10MiB consumer_byte_rate=20MiB --user bob\n" +
			"  chronikctl quota set request_percentage=50 --user-default --client-id batch --dry-run\n" +
			"  chronikctl quota set connection_creation_rate=20 --ip-default",
	}
	c.RunE = x.command(a, func(ctx context.Context, adm *kadm.Client, e quota.Entity, was entry, _ []string) error {
		var ops []kadm.AlterClientQuotaOp
		for name, v := range values {
			ops = append(ops, kadm.AlterClientQuotaOp{Key: name, Value: v})
		}
		sortOps(ops)
		var out app.Outcomes
		if err := alter(ctx, adm, x.dryRun, e, ops); err != nil {
			out.Failed(e.String(), fmt.Errorf("set quotas of %s: %w", e, err))
			return a.PrintOutcomes(&out)
		}
		for _, op := range ops {
			name := e.String() + " " + op.Key + "=" + number(op.Value)
			old, had := was.Limits[op.Key]
			switch {
			case had && old == op.Value:
				out.Done(name, "was set already")
			case x.dryRun && had:
				out.Done(name, "would be set, is %s", number(old))
			case x.dryRun:
				out.Done(name, "would be set")
			case had:
				out.Done(name, "set, was %s", number(old))
			default:
				out.Done(name, "set")
			}
		}
		return a.PrintOutcomes(&out)
	}, func(e quota.Entity, args []string) (err error) {
		values, err = valuesOf(e, args)
		return err
	})
	x.flags(c)
	return c
}

// valuesOf parses LIMIT=VALUE for an entity.
func valuesOf(e quota.Entity, args []string) (map[string]float64, error) {
	texts, err := parse.KeyValues(args)
	if err != nil {
		return nil, app.Usage("%w; write for example producer_byte_rate=10MiB", err)
	}
	values := map[string]float64{}
	for name, text := range texts {
		l, err := limitOf(name, e)
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil && (l == quota.Produced || l == quota.Fetched) {
			var n int64
			if n, err = parse.Size(text); err != nil {
				return nil, app.Usage("%s: %w", name, err)
			}
			v = float64(n)
		}
		if err != nil {
			return nil, app.Usage("%s: %q is not a number", name, text)
		}
		if why := l.Check(v); why != "" {
			return nil, app.Usage("%s; quota remove removes a quota", strings.TrimSuffix(why, "."))
		}
		values[name] = v
	}
	return values, nil
}

// limitOf returns the limit of a name, which must be one that the entity can have.
func limitOf(name string, e quota.Entity) (quota.Limit, error) {
	l, known := quota.ParseLimit(name)
	switch {
	case !known:
		return l, app.Usage("%q is no limit: take one of %s", name, strings.Join(quota.LimitNames(), ", "))
	case l.OfAddress() && e.Address.Kind == quota.None:
		return l, app.Usage("%s is a limit of addresses: write --ip ADDRESS or --ip-default", name)
	case !l.OfAddress() && e.Address.Kind != quota.None:
		return l, app.Usage("%s is a limit of users and client ids: an address has only %s", name, quota.Connections)
	}
	return l, nil
}

func remove(a *app.App) *cobra.Command {
	var x change
	c := &cobra.Command{
		Use: "remove [LIMIT...]", Short: "Remove quotas", Args: app.Args(0, -1, "names of limits"),
		Long: "remove removes limits of a user, a client id, both together, or an address; without a LIMIT all that it has. Then the\n" +
			"next quota counts that applies: see quota explain. It asks first; --yes confirms, --dry-run only lists. " + limitHelp,
		Example: "  chronikctl quota remove --user bob --dry-run\n  chronikctl quota remove producer_byte_rate --user bob",
	}
	c.RunE = x.command(a, func(ctx context.Context, adm *kadm.Client, e quota.Entity, was entry, names []string) error {
		var out app.Outcomes
		var losses []string
		var ops []kadm.AlterClientQuotaOp
		if len(names) == 0 {
			if names = limitsOf(was); len(names) == 0 {
				out.Failed(e.String(), fmt.Errorf("remove quotas of %s: it has none; quota list shows all", e))
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			v, had := was.Limits[name]
			what := e.String() + " " + name + "=" + number(v)
			switch {
			case !had:
				out.Failed(e.String()+" "+name, fmt.Errorf("remove %s of %s: it has no such quota; quota list shows all", name, e))
			case x.dryRun:
				out.Done(what, "would be removed")
			default:
				ops, losses = append(ops, kadm.AlterClientQuotaOp{Key: name, Remove: true}), append(losses, what)
			}
		}
		if len(ops) == 0 {
			return a.PrintOutcomes(&out)
		}
		if err := a.Confirm(fmt.Sprintf("remove %d quotas", len(ops)), "quota set sets them again.", losses); err != nil {
			return err
		}
		err := alter(ctx, adm, false, e, ops)
		for _, what := range losses {
			if err != nil {
				out.Failed(what, fmt.Errorf("remove %s: %w", what, err))
			} else {
				out.Done(what, "removed")
			}
		}
		return a.PrintOutcomes(&out)
	}, func(e quota.Entity, names []string) error {
		for _, name := range names {
			if _, err := limitOf(name, e); err != nil {
				return err
			}
		}
		return nil
	})
	x.flags(c)
	c.ValidArgsFunction = app.OneOf(quota.LimitNames()...)
	return c
}

func sortOps(ops []kadm.AlterClientQuotaOp) {
	sorts.Sort(ops, func(a, b kadm.AlterClientQuotaOp) int { return strings.Compare(a.Key, b.Key) })
}

// alter changes the quotas of one entity, or only checks whether it could.
func alter(ctx context.Context, adm *kadm.Client, dryRun bool, e quota.Entity, ops []kadm.AlterClientQuotaOp) error {
	one := kadm.AlterClientQuotaEntry{Ops: ops}
	for _, p := range parts() {
		switch n := p.of(&e); n.Kind {
		case quota.Named:
			one.Entity = append(one.Entity, kadm.ClientQuotaEntityComponent{Type: p.kind, Name: &n.Text})
		case quota.Default:
			one.Entity = append(one.Entity, kadm.ClientQuotaEntityComponent{Type: p.kind})
		case quota.None:
		}
	}
	do := adm.AlterClientQuotas
	if dryRun {
		do = adm.ValidateAlterClientQuotas
	}
	answers, err := do(ctx, []kadm.AlterClientQuotaEntry{one})
	switch {
	case err != nil:
		return refused("alter quotas", err, app.OnCluster("alter-configs"))
	case len(answers) != 1:
		return kerr.UnknownServerError
	case answers[0].Err != nil:
		return app.Refused("alter quotas", app.Needs(answers[0].Err, app.OnCluster("alter-configs")), answers[0].ErrMessage)
	}
	return nil
}
