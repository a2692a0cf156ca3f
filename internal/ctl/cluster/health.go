package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/ctl/adminport"
	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/output"
)

// finding is one thing that is wrong.
type finding struct {
	Severity string `json:"severity"` // bad: records cannot be written or read; warn: one more failure and they cannot
	Where    string `json:"where"`
	Problem  string `json:"problem"`
	Remedy   string `json:"remedy"`
}

// Severities.
const (
	bad  = "bad"
	warn = "warn"
)

// checkup gathers findings.
type checkup struct {
	adm      *kadm.Client
	meta     kadm.Metadata
	findings []finding
	looked   []string // what was looked at
}

func (c *checkup) add(severity, where, problem, remedy string) {
	c.findings = append(c.findings, finding{severity, where, problem, remedy})
}

func health(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Say each thing that is wrong, with its reason and what to do", Args: cli.Args(0, 0, "no argument"),
		Long: "health looks at brokers, partitions and log directories, and, of chronik, at what the admin port says. It ends with 4\n" +
			"where something is wrong, so that it can be used as a check.",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			m, err := adm.Metadata(ctx)
			if err != nil {
				return cli.Refused("look at the cluster", cli.Words(err), "")
			}
			c := &checkup{adm: adm, meta: m, findings: []finding{}}
			c.brokers(ctx)
			if err := c.partitions(ctx); err != nil {
				return err
			}
			if err := c.dirs(ctx); err != nil {
				return err
			}
			c.admin(ctx, adminport.Of(a))
			return c.report(a)
		}),
	}
}

func (c *checkup) report(a *cli.App) error {
	answer := struct {
		Healthy  bool      `json:"healthy"`
		Looked   []string  `json:"lookedAt"`
		Findings []finding `json:"findings"`
	}{len(c.findings) == 0, c.looked, c.findings}
	t := &output.Table{Columns: []string{"SEVERITY", "WHERE", "PROBLEM", "REMEDY"}, Empty: "healthy"}
	for _, f := range c.findings {
		t.Add(f.Severity, f.Where, f.Problem, f.Remedy)
	}
	var looked output.Table
	looked.Columns = []string{"LOOKED AT"}
	for _, l := range c.looked {
		looked.Add(l)
	}
	if err := a.Print(answer, t, &looked); err != nil {
		return err
	}
	if len(c.findings) > 0 {
		return cli.WithCode(cli.ExitUnhealthy, fmt.Errorf("%d things are wrong, see above", len(c.findings)))
	}
	return nil
}

// admin takes over what chronik says of itself.
func (c *checkup) admin(ctx context.Context, p *adminport.Port) {
	if p == nil {
		return
	}
	found, err := p.Health(ctx)
	if errors.Is(err, adminport.ErrAbsent) && !p.Named {
		return // it is only where the port would be by default
	}
	c.looked = append(c.looked, "admin port "+p.String())
	if err != nil {
		c.add(warn, "admin port", err.Error(), "check --admin; without the port health knows only what Kafka's protocol carries")
		return
	}
	for _, f := range found {
		severity := warn
		if f.Severity == "down" {
			severity = bad
		}
		c.add(severity, f.Part, f.Message, "")
	}
}
