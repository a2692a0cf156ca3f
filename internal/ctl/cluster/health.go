package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/ctl/adminport"
	"github.com/chronik-io/chronik/internal/ctl/cli"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/wrap"
)

// finding is one thing that is wrong.
type finding struct {
	Severity string `json:"severity"` // Bad, Warn or Note
	Where    string `json:"where"`
	Problem  string `json:"problem"`
	Remedy   string `json:"remedy"`
}

// Severities, which chronik's own findings have, too.
const (
	Bad  = "bad"  // records cannot be written or read
	Warn = "warn" // one more failure, or more of the same, and they cannot; or a promise does not hold
	Note = "note" // it works as it was set up; somebody should know
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

// Health looks at brokers, partitions and log directories. told asks one broker
// itself and returns its id, or -1: of its log directories Kafka's protocol knows
// less, and the same is not said twice.
func (c *Checkup) Health(ctx context.Context, told func(context.Context) int32) error {
	c.brokers(ctx)
	err := c.partitions(ctx)
	c.dirs(ctx, told(ctx))
	return err
}

// Ended makes a finding of an error that ended the look, where something bad was
// found before: that is the likely cause, and what somebody has to know. Otherwise
// it returns the error.
func (c *Checkup) Ended(ctx context.Context, err error) error {
	bad := slices.ContainsFunc(c.findings, func(f finding) bool { return f.Severity == Bad })
	if err == nil || !bad || ctx.Err() != nil {
		return err
	}
	c.Add(Bad, "this look", "it could not go on: "+err.Error(), "mend what is bad above, and look again")
	return nil
}

func health(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "Say each thing that is wrong, with its reason and what to do", Args: cli.Args(0, 0, "no argument"),
		Long: "health looks at brokers, partitions and log directories, and, of chronik, at what the admin port says. It ends with 4\n" +
			"where something is wrong, so that it can be used as a check; --wait waits for a broker that is just starting.",
		Example: "  chronikctl cluster health\n  chronikctl cluster health --wait 30s && start-consumers\n  chronikctl cluster health --watch",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			c, err := NewCheckup(ctx, adm)
			if err == nil {
				port := adminport.Of(a)
				err = c.Ended(ctx, c.Health(ctx, func(ctx context.Context) int32 { return c.admin(ctx, port) }))
			}
			if err != nil {
				return err
			}
			return c.Report(a)
		}),
	}
	return a.Watched(a.Awaited(c, "nothing is wrong"))
}

// Report shows the findings; where there are other than notes the error ends the
// process with ExitUnhealthy.
func (c *Checkup) Report(a *cli.App) error {
	wrong := 0
	t := &output.Table{Columns: []string{"SEVERITY", "WHERE", "PROBLEM", "REMEDY"}, Empty: "healthy"}
	var blocks []string
	for _, f := range c.findings {
		t.Add(f.Severity, f.Where, f.Problem, f.Remedy)
		blocks = append(blocks, f.block())
		if f.Severity != Note {
			wrong++
		}
	}
	answer := struct {
		Healthy  bool      `json:"healthy"`
		Looked   []string  `json:"lookedAt"`
		Findings []finding `json:"findings"`
	}{wrong == 0, c.looked, c.findings}
	if len(blocks) > 0 && a.Format() != output.Wide {
		// A line of a terminal does not hold these texts.
		t = &output.Table{Title: strings.Join(blocks, "\n\n")}
	}
	var looked output.Table
	looked.Columns = []string{"LOOKED AT"}
	for _, l := range c.looked {
		looked.Add(l)
	}
	if err := a.Print(answer, t, &looked); err != nil {
		return err
	}
	if wrong == 1 {
		return cli.WithCode(cli.ExitUnhealthy, errors.New("1 thing is wrong, see above"))
	}
	if wrong > 1 {
		return cli.WithCode(cli.ExitUnhealthy, fmt.Errorf("%d things are wrong, see above", wrong))
	}
	return nil
}

// block is a finding for people.
func (f *finding) block() string {
	lines := []string{fmt.Sprintf("%s  %s", f.Severity, f.Where)}
	for _, line := range wrap.Text(f.Problem, textWidth) {
		lines = append(lines, "  "+line)
	}
	for i, line := range wrap.Text(f.Remedy, textWidth) {
		head := "  > "
		if i > 0 {
			head = "    "
		}
		lines = append(lines, head+line)
	}
	return strings.Join(lines, "\n")
}

// textWidth is how long a line of a finding may be, without what stands before it.
const textWidth = 96

// Ask asks the admin port p, nil for none, and says whether it answered. That it
// does not is a finding, unless the port is only where it would be by default.
func (c *Checkup) Ask(p *adminport.Port, ask func() error) bool {
	if p == nil {
		return false
	}
	err := ask()
	if errors.Is(err, adminport.ErrAbsent) && !p.Named {
		return false
	}
	c.Looked("admin port " + p.String())
	if err != nil {
		c.Add(Warn, "admin port", err.Error(), "check --admin; without the port only what Kafka's protocol carries is known")
	}
	return err == nil
}

// admin takes over what a chronik broker says of itself, and returns its id; -1
// where none answers.
func (c *Checkup) admin(ctx context.Context, p *adminport.Port) int32 {
	var h *adminport.Health
	if !c.Ask(p, func() (err error) { h, err = p.Health(ctx); return err }) {
		return -1
	}
	for _, f := range h.Problems {
		severity := Warn
		if f.Severity == "down" {
			severity = Bad
		}
		c.Add(severity, f.Part, f.Message, f.Remedy)
	}
	return h.Broker
}
