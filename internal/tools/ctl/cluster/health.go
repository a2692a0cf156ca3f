package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// Checkup collects findings.
type Checkup struct {
	Meta     kadm.Metadata // at the start
	adm      *kadm.Client
	findings []health.Finding
	examined []string // what the checks covered
	at       time.Time
	// reported are the brokers whose own findings are among them.
	reported []int32
	// member reports that this broker follows the metadata of a cluster: its report covers all
	// brokers and partitions, one finding for each cause.
	member bool
	silent []int32  // brokers that did not answer
	denied []string // checks that were left out, each with the right that it needs
}

// NewCheckup returns a Checkup of the cluster with its present metadata.
func NewCheckup(ctx context.Context, adm *kadm.Client) (*Checkup, error) {
	m, err := adm.Metadata(ctx)
	if err != nil {
		return nil, app.Refused("examine the cluster", app.BrokerError(err), "")
	}
	c := newCheckup()
	c.adm, c.Meta = adm, m
	return c, nil
}

func newCheckup() *Checkup {
	return &Checkup{findings: []health.Finding{}, at: time.Now().UTC()}
}

// Add adds a finding.
func (c *Checkup) Add(check string, severity health.Severity, subject, problem, remedy string) {
	c.add(check, severity, health.Finding{Subject: subject}, problem, remedy)
}

// add adds a finding that begins as health.OfBroker and its like return it.
func (c *Checkup) add(check string, severity health.Severity, f health.Finding, problem, remedy string) {
	f.Broker, f.Check, f.Severity, f.Problem, f.Remedy, f.Since = health.NoBroker, check, severity, problem, remedy, c.at
	c.findings = append(c.findings, f)
}

// has reports whether a check has a finding for which about is true.
func (c *Checkup) has(check string, about func(*health.Finding) bool) bool {
	return slices.ContainsFunc(c.findings, func(f health.Finding) bool { return f.Check == check && about(&f) })
}

// Examined records what a check covered, so that "healthy" claims no more than that.
func (c *Checkup) Examined(what string) { c.examined = append(c.examined, what) }

// lacks reports whether err means that the user lacks a right. That ends no examination: the report
// names the check that was left out, and the right.
func (c *Checkup) lacks(check string, err error) bool {
	if !app.IsDenied(err) {
		return false
	}
	if right, ok := app.Missing(err); ok {
		check += " (" + right.String() + ")"
	}
	if !slices.Contains(c.denied, check) {
		c.denied = append(c.denied, check)
	}
	return true
}

// maxDenied bounds the checks in the note about missing rights.
const maxDenied = 10

// noteDenied adds a note about the checks that were left out. If there is neither a report nor any
// topic, nothing about records was checked, and that is no healthy cluster.
func (c *Checkup) noteDenied() {
	if len(c.denied) == 0 {
		return
	}
	left := strings.Join(c.denied[:min(len(c.denied), maxDenied)], ", ")
	if more := len(c.denied) - maxDenied; more > 0 {
		left += fmt.Sprintf(", and %d more", more)
	}
	severity := health.Note
	if len(c.reported) == 0 && len(c.Meta.Topics) == 0 {
		severity = health.Warn
	}
	c.Add("examination", severity, "examination", "this user lacks the rights for some checks, which were left out: "+left,
		"give the user these rights (chronikctl acl add), or use another user (--sasl-user)")
	c.denied = nil
}

// ask requests a health report.
type ask func(context.Context) (*health.Report, error)

// answers returns why brokers do not answer at the addresses that they advertise, by broker.
type answers func(context.Context) map[int32]error

// Health checks brokers, partitions and log directories. port requests the health report from the
// admin port p, which may be nil, and listener from a broker's listener for clients. The report
// knows more than Kafka's protocol carries, so Health skips what it covers and reports no fault
// twice. It requests the report after answers has waited for brokers that are silent: the report
// then says what became of them.
func (c *Checkup) Health(ctx context.Context, p *app.AdminPort, port, listener ask, answers answers) error {
	why := answers(ctx)
	c.OwnReport(ctx, p, port, listener)
	c.brokers(why)
	err := c.partitions(ctx)
	c.dirs(ctx)
	return err
}

// Ended turns an error that ended the checks into a finding: what was found before is printed in
// any case. A bad finding, or a broker that does not answer, is the likely cause. It returns the
// error only if the command was interrupted.
func (c *Checkup) Ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if c.member && len(c.silent) > 0 { // the findings about these brokers have the cause
		c.Examined("not everything: " + err.Error())
		return nil
	}
	severity, remedy := health.Warn, "resolve the findings above, if there are any, then run it again; --timeout allows more time"
	if len(c.silent) > 0 || slices.ContainsFunc(c.findings, func(f health.Finding) bool { return f.Severity == health.Bad }) {
		severity, remedy = health.Bad, "resolve the bad findings above, then run it again"
	}
	c.Add("examination", severity, "examination", "it could not be completed: "+err.Error(), cmp.Or(app.QuotaRemedy(err), remedy))
	return nil
}

// examination is one run of cluster health.
type examination struct {
	*Checkup
	healthFlags
	a    *app.App
	adm  *kadm.Client
	cl   *kgo.Client
	port *app.AdminPort // nil for none
}

type healthFlags struct {
	groups time.Duration // how long groups are watched
	probe  bool
}

func healthCommand(a *app.App) *cobra.Command {
	var f healthFlags
	c := &cobra.Command{
		Use: "health", Short: "List what is wrong, with cause and remedy", Args: app.Args(0, 0, "no argument"),
		Long: "health lists what is wrong, and with -o wide what it examined. It asks a chronik broker for its health report,\n" +
			"which has what all brokers of its cluster find. The admin port (--admin) answers, or a listener for clients if the port is off. It checks\n" +
			"what Kafka's protocol shows of brokers, partitions, log directories, configs, groups and transactions, whether this machine reaches each\n" +
			"advertised address, and whether the clocks agree. If no broker answers clients, it shows the report of the admin port.\n" +
			"Each finding has a remedy.\n" +
			"bad: some records cannot be written or read. warn: a guarantee is not met, or the problem becomes bad if it grows or if something\n" +
			"else fails. note: everything works as configured, but the operator should know, for example of configs that contradict each other.\n" +
			"It exits with 4 if a finding is bad or warn, so that scripts can use it; notes do not change the exit code. --wait\n" +
			"waits for a broker that is starting.",
		Example: "  chronikctl cluster health\n  chronikctl cluster health --wait 30s && start-consumers\n  chronikctl cluster health --watch\n" +
			"  chronikctl cluster health --probe-disk",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.probe && app.AdminPortOf(a) == nil {
				return app.Usage("--probe-disk needs the broker's admin port; give it with --admin HOST:PORT")
			}
			connected := false
			err := a.Both(func(ctx context.Context, adm *kadm.Client, cl *kgo.Client, _ []string) error {
				connected = true
				return examine(ctx, a, adm, cl, f)
			})(cmd, args)
			if !connected {
				return examineWithout(cmd.Context(), a, f, err)
			}
			return err
		},
	}
	c.Flags().BoolVar(&f.probe, "probe-disk", false,
		"let the broker measure fdatasync on its disks: a few seconds of small writes to unnamed files")
	cli.Between(0, time.Hour).Flag(c.Flags(), &f.groups, "groups", "", 0,
		"watch groups for this long; those that commit nothing are reported; the report of a chronik broker has them without it")
	cli.Instead(c, map[string]string{"--exit-when-healthy": "--wait 30s exits as soon as nothing is wrong",
		"--broker": "the report has all brokers; --brokers HOST:PORT names the one that answers"})
	return a.Watched(a.AddWait(c, "nothing is wrong"))
}

func examine(ctx context.Context, a *app.App, adm *kadm.Client, cl *kgo.Client, f healthFlags) error {
	c, err := NewCheckup(ctx, adm)
	if err != nil {
		return examineWithout(ctx, a, f, err)
	}
	x := &examination{Checkup: c, a: a, adm: adm, cl: cl, port: app.AdminPortOf(a), healthFlags: f}
	if err := c.Ended(ctx, a.Throttle.Explain(x.everything(ctx))); err != nil {
		return err
	}
	return c.PrintFindings(a)
}

// everything runs all checks until one returns an error.
func (x *examination) everything(ctx context.Context) error {
	err := x.Health(ctx, x.port, x.broker, x.listener, x.answers)
	x.addresses(ctx) // also if that could not check everything
	if err != nil {
		return err
	}
	x.clock(ctx)
	if err := x.configs(ctx); err != nil {
		return err
	}
	if x.member && x.leaderless() {
		// The coordinators of this broker ask for patience until there is a leader again.
		x.Examined("no transactions and no groups, except by the reports, because this broker knows no metadata leader")
		return nil
	}
	if x.member && len(x.silent) > 0 {
		// Each request to all brokers would wait for them; the report has what the others found.
		x.Examined("no transactions and no groups, except by the reports, because these brokers did not answer: " + text.Numbers(x.silent))
		return nil
	}
	x.transactions(ctx)
	return x.consumers(ctx)
}

// leaderless reports whether the broker of the report has lost the metadata leader.
func (c *Checkup) leaderless() bool {
	return slices.ContainsFunc(c.findings, func(f health.Finding) bool {
		return f.Check == health.CheckQuorum && f.Severity == health.Bad && len(c.reported) > 0 && f.Broker == c.reported[0]
	})
}

// PrintFindings prints the findings, worst first. It returns an error with ExitUnhealthy if there
// are findings other than notes.
func (c *Checkup) PrintFindings(a *app.App) error {
	c.noteDenied()
	health.Sort(c.findings)
	wrong := 0
	t := &output.Table{Columns: []string{"SEVERITY", "SUBJECT", "PROBLEM", "REMEDY", "STILL WORKS", "SINCE"}, Empty: "healthy"}
	if len(c.reported) == 0 {
		// Only a broker's own report has damaged records and faulty disks.
		t.Empty = "healthy, as far as Kafka's protocol shows; --admin HOST:PORT adds the broker's own report"
	}
	var blocks []string
	together := health.Together(c.findings)
	for i := range together {
		f := &together[i]
		t.Add(f.Severity, f.Where(), f.Problem, f.Remedy, f.Works, f.Since.Format(time.RFC3339))
		blocks = append(blocks, block(f))
		if f.Severity != health.Note {
			wrong++
		}
	}
	if wrong == 0 && len(blocks) > 0 {
		blocks = slices.Insert(blocks, 0, t.Empty) // despite the notes
	}
	answer := struct {
		Healthy  bool             `json:"healthy"`
		Examined []string         `json:"examined"`
		Findings []health.Finding `json:"findings"`
	}{wrong == 0, c.examined, c.findings}
	if len(blocks) > 0 && a.Format() != output.Wide {
		// These texts do not fit in one line of a terminal.
		t = &output.Table{Title: strings.Join(blocks, "\n\n")}
	}
	tables := []*output.Table{t}
	if a.Format() == output.Wide {
		examined := output.Table{Columns: []string{"EXAMINED"}}
		for _, e := range c.examined {
			examined.Add(e)
		}
		tables = append(tables, &examined)
	}
	if err := a.Print(answer, tables...); err != nil {
		return err
	}
	if wrong > 0 {
		return app.WithCode(app.ExitUnhealthy, fmt.Errorf("%s wrong, see above", text.Plural(wrong, "thing is", "things are")))
	}
	return nil
}

// block formats a finding for people.
func block(f *health.Shared) string {
	lines := []string{fmt.Sprintf("%s  %s", f.Severity, f.Where())}
	switch fresh := time.Since(f.Since) < time.Minute; {
	case f.Since.IsZero() || fresh && f.Broker == health.NoBroker: // what this command has found
	case fresh:
		lines[0] += ", since less than a minute ago"
	default:
		lines[0] += ", since " + f.Since.Format(time.RFC3339)
	}
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

// textWidth is the width of a finding's text without its indentation.
const textWidth = 96

// OwnReport adds the health report of a chronik broker, which has the findings of all brokers of
// its cluster: from the admin port, or if that does not answer, from a listener for clients. An
// admin port that does not answer is a finding, unless its address is only the default, or the
// report says that as many brokers are down: then the port may be that of one, which has a finding.
func (c *Checkup) OwnReport(ctx context.Context, p *app.AdminPort, port, listener ask) {
	missing := "no admin port (--admin)"
	var silent error // of a port that is named
	if p != nil {
		report, err := port(ctx)
		if err == nil {
			c.adopt("its admin port "+p.String(), report)
			return
		}
		missing = "no admin port at " + p.String()
		if !errors.Is(err, app.ErrNoAdminPort) || p.Named {
			silent = err
		}
	}
	const less = ": only what Kafka's protocol shows is known of brokers"
	report, err := listener(ctx)
	switch {
	case silent == nil:
	case err == nil && app.Unreached(silent) && p.Addresses() <= c.down(report):
		c.Examined(missing + ", which may be that of a broker that is down")
	default:
		c.Add("admin_port", health.Warn, "admin port", silent.Error(), "check --admin")
	}
	switch {
	case err == nil:
		c.adopt("its listener for clients", report)
	case errors.Is(err, app.ErrNoReport):
		c.Examined(missing + less)
	default:
		c.lacks("the health report of the brokers", err)
		c.Examined(missing + ", and no report of a broker: " + err.Error() + less)
	}
}

// down returns how many brokers did not answer the command, or have sent the one of the report no
// current one of their own.
func (c *Checkup) down(r *health.Report) int {
	ids := slices.Clone(c.silent)
	for _, o := range r.Brokers {
		if !o.Current && !slices.Contains(ids, o.Broker) {
			ids = append(ids, o.Broker)
		}
	}
	return len(ids)
}

// adopt adds the findings of a broker's own report.
func (c *Checkup) adopt(by string, report *health.Report) {
	c.Examined(fmt.Sprintf("broker %d, by %s", report.Broker, by))
	c.findings = append(append(c.findings, report.Findings...), report.More(health.NoBroker)...)
	c.reported = append(c.reported, report.Broker)
	for _, o := range report.Brokers {
		if o.Current {
			c.Examined(fmt.Sprintf("broker %d, by its report to broker %d", o.Broker, report.Broker))
			c.reported = append(c.reported, o.Broker)
		}
	}
	c.member = follows(report)
}

// follows reports whether a report is of a member of a cluster. If that has lost the others, its
// report says so.
func follows(r *health.Report) bool {
	return slices.ContainsFunc(r.Checks, func(x health.Examined) bool { return x.Name == health.CheckMembership && len(x.Saw) > 0 })
}
