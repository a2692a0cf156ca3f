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
	Bad  = "bad"
	Warn = "warn"
)

// Checkup gathers findings. doctor adds its own to those of health.
type Checkup struct {
	Meta     kadm.Metadata // the cluster as it was at the beginning
	adm      *kadm.Client
	findings []finding
	looked   []string // what was looked at
}

// NewCheckup begins with the cluster's metadata.
func NewCheckup(ctx context.Context, adm *kadm.Client) (*Checkup, error) {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return nil, cli.Refused("look at the cluster", cli.Words(err), "")
	}
	return &Checkup{adm: adm, Meta: m, findings: []finding{}}, nil
}

// Add notes something that is wrong, with what to do about it.
func (c *Checkup) Add(severity, where, problem, remedy string) {
	c.findings = append(c.findings, finding{severity, where, problem, remedy})
}

// Looked notes what was looked at, so that nobody takes "healthy" for more than
// it is.
func (c *Checkup) Looked(at string) { c.looked = append(c.looked, at) }

// Health looks at brokers, partitions, log directories and what the admin port
// says; p may be nil.
func (c *Checkup) Health(ctx context.Context, p *adminport.Port) error {
	c.brokers(ctx)
	if err := c.partitions(ctx); err != nil {
		return err
	}
	c.dirs(ctx)
	c.admin(ctx, p)
	return nil
}

func health(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Say each thing that is wrong, with its reason and what to do", Args: cli.Args(0, 0, "no argument"),
		Long: "health looks at brokers, partitions and log directories, and, of chronik, at what the admin port says. It ends with 4\n" +
			"where something is wrong, so that it can be used as a check.",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			c, err := NewCheckup(ctx, adm)
			if err == nil {
				err = c.Health(ctx, adminport.Of(a))
			}
			if err != nil {
				return err
			}
			return c.Report(a)
		}),
	}
}

// Report shows the findings; where there are some the error ends the process with
// ExitUnhealthy.
func (c *Checkup) Report(a *cli.App) error {
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
func (c *Checkup) admin(ctx context.Context, p *adminport.Port) {
	if p == nil {
		return
	}
	found, err := p.Health(ctx)
	if errors.Is(err, adminport.ErrAbsent) && !p.Named {
		return // it is only where the port would be by default
	}
	c.Looked("admin port " + p.String())
	if err != nil {
		c.Add(Warn, "admin port", err.Error(), "check --admin; without the port health knows only what Kafka's protocol carries")
		return
	}
	for _, f := range found {
		severity := Warn
		if f.Severity == "down" {
			severity = Bad
		}
		c.Add(severity, f.Part, f.Message, "")
	}
}
