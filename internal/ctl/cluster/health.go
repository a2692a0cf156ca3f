package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/ctl/app"
	"github.com/chronik-io/chronik/internal/ctl/output"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
)

// Checkup gathers findings. doctor adds its own to those of health.
type Checkup struct {
	Meta     kadm.Metadata // the cluster as it was at the beginning
	adm      *kadm.Client
	findings []health.Finding
	examined []string // what was examined
	at       time.Time
	// reported is the id of the broker whose own report is among the findings, -1 for none.
	reported int32
}

// NewCheckup begins with the cluster's metadata.
func NewCheckup(ctx context.Context, adm *kadm.Client) (*Checkup, error) {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return nil, app.Refused("examine the cluster", app.Words(err), "")
	}
	return &Checkup{adm: adm, Meta: m, findings: []health.Finding{}, reported: -1, at: time.Now().UTC()}, nil
}

// Add notes something that is wrong, with what to do about it.
func (c *Checkup) Add(check string, severity health.Severity, subject, problem, remedy string) {
	c.findings = append(c.findings, health.Finding{Check: check, Severity: severity, Subject: subject, Problem: problem, Remedy: remedy, Since: c.at})
}

// Reported reports whether there is a finding of a check about a subject.
func (c *Checkup) Reported(check, subject string) bool {
	return slices.ContainsFunc(c.findings, func(f health.Finding) bool { return f.Check == check && f.Subject == subject })
}

// Examined notes what was examined, so that "healthy" is not mistaken for more than it is.
func (c *Checkup) Examined(what string) { c.examined = append(c.examined, what) }

// Health examines brokers, partitions and log directories. ask asks the admin port p, nil for none,
// for its broker's report, which knows more than Kafka's protocol carries: what it covers is not
// examined from here, so that no fault is reported twice.
func (c *Checkup) Health(ctx context.Context, p *app.AdminPort, ask func(context.Context) (*health.Report, error)) error {
	c.AdminReport(ctx, p, ask)
	c.brokers(ctx)
	err := c.partitions(ctx)
	c.dirs(ctx)
	return err
}

// Ended makes a finding of an error that ended the examination if something bad was found before:
// that is the likely cause, and what the operator has to know. Otherwise it returns the error.
func (c *Checkup) Ended(ctx context.Context, err error) error {
	bad := slices.ContainsFunc(c.findings, func(f health.Finding) bool { return f.Severity == health.Bad })
	if err == nil || !bad || ctx.Err() != nil {
		return err
	}
	c.Add("examination", health.Bad, "examination", "it could not be completed: "+err.Error(), "repair what is bad above, and run it again")
	return nil
}

func healthCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "Say each thing that is wrong, with its reason and what to do", Args: app.Args(0, 0, "no argument"),
		Long: "health prints what is wrong with brokers, partitions and log directories: the report of a chronik broker, from its admin\n" +
			"port, and what Kafka's protocol carries of the others. It exits with 4 if a finding is bad or warn, so that it can be used\n" +
			"as a check; notes do not change that. --wait waits for a broker that is just starting.",
		Example: "  chronikctl cluster health\n  chronikctl cluster health --wait 30s && start-consumers\n  chronikctl cluster health --watch",
		RunE: a.Admin(func(ctx context.Context, adm *kadm.Client, _ []string) error {
			c, err := NewCheckup(ctx, adm)
			if err == nil {
				port := app.AdminPortOf(a)
				err = c.Ended(ctx, c.Health(ctx, port, func(ctx context.Context) (*health.Report, error) { return port.Health(ctx) }))
			}
			if err != nil {
				return err
			}
			return c.Report(a)
		}),
	}
	cli.Instead(c, map[string]string{"--exit-when-healthy": "--wait 30s ends as soon as nothing is wrong"})
	return a.Watched(a.AddWait(c, "nothing is wrong"))
}

// Report shows the findings, worst first. If there are other than notes, the error ends the process
// with ExitUnhealthy.
func (c *Checkup) Report(a *app.App) error {
	health.Sort(c.findings)
	wrong := 0
	t := &output.Table{Columns: []string{"SEVERITY", "SUBJECT", "PROBLEM", "REMEDY", "STILL WORKS", "SINCE"}, Empty: "healthy"}
	if c.reported < 0 {
		// A broker reports damaged records and ill disks on its admin port only.
		t.Empty = "healthy, as far as Kafka's protocol shows; --admin HOST:PORT reads the broker's own report, too"
	}
	var blocks []string
	for i := range c.findings {
		f := &c.findings[i]
		t.Add(f.Severity, f.Subject, f.Problem, f.Remedy, f.Works, f.Since.Format(time.RFC3339))
		blocks = append(blocks, block(f))
		if f.Severity != health.Note {
			wrong++
		}
	}
	if wrong == 0 && len(blocks) > 0 {
		blocks = slices.Insert(blocks, 0, t.Empty) // notes are no reason not to say so
	}
	answer := struct {
		Healthy  bool             `json:"healthy"`
		Examined []string         `json:"examined"`
		Findings []health.Finding `json:"findings"`
	}{wrong == 0, c.examined, c.findings}
	if len(blocks) > 0 && a.Format() != output.Wide {
		// A line of a terminal does not hold these texts.
		t = &output.Table{Title: strings.Join(blocks, "\n\n")}
	}
	var examined output.Table
	examined.Columns = []string{"EXAMINED"}
	for _, e := range c.examined {
		examined.Add(e)
	}
	if err := a.Print(answer, t, &examined); err != nil {
		return err
	}
	if wrong == 1 {
		return app.WithCode(app.ExitUnhealthy, errors.New("1 thing is wrong, see above"))
	}
	if wrong > 1 {
		return app.WithCode(app.ExitUnhealthy, fmt.Errorf("%d things are wrong, see above", wrong))
	}
	return nil
}

// block is a finding for people.
func block(f *health.Finding) string {
	lines := []string{fmt.Sprintf("%s  %s", f.Severity, f.Subject)}
	add := func(head, s string) {
		for _, line := range text.Wrap(s, textWidth) {
			lines = append(lines, head+line)
			head = "    "
		}
	}
	for _, line := range text.Wrap(f.Problem, textWidth) {
		lines = append(lines, "  "+line)
	}
	add("  + ", f.Works)
	add("  > ", f.Remedy)
	return strings.Join(lines, "\n")
}

// textWidth is how long a line of a finding may be, without what stands before it.
const textWidth = 96

// AdminReport takes over the report of a chronik broker. That the admin port does not answer is a finding,
// unless the port is only where it would be by default.
func (c *Checkup) AdminReport(ctx context.Context, p *app.AdminPort, ask func(context.Context) (*health.Report, error)) {
	const less = "only what Kafka's protocol carries is known of brokers"
	if p == nil {
		c.Examined("no admin port (--admin): " + less)
		return
	}
	report, err := ask(ctx)
	switch {
	case errors.Is(err, app.ErrNoAdminPort) && !p.Named:
		c.Examined("no admin port at " + p.String() + ": " + less)
	case err != nil:
		c.Add("admin_port", health.Warn, "admin port", err.Error(), "check --admin; without the port "+less)
	default:
		c.Examined(fmt.Sprintf("broker %d, by its admin port %s", report.Broker, p))
		c.findings, c.reported = append(c.findings, report.Findings...), report.Broker
	}
}
