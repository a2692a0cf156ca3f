package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/view"
)

// Defaults of debug waits.
const (
	defaultWaits  = 20
	defaultTrace  = 10 * time.Second
	maxTrace      = time.Minute
	defaultSlower = 10 * time.Millisecond
)

// waits returns the command debug waits.
func waits(a *app.App) *cobra.Command {
	var limit int
	var client string
	var slower, most time.Duration
	c := &cobra.Command{
		Use: "waits", Short: "Show the requests that wait longest, and for what", Args: app.Args(0, 0, "no argument"),
		Long: "waits lists the oldest requests without an answer of the broker behind --admin. For each it names the step at which\n" +
			"the request waits, and for what: the fdatasync of a log directory, other brokers, a coordinator, a quota. Fetches that\n" +
			"wait for records, as their clients ask, come last. With --trace it follows the next request of a client that takes\n" +
			"--slower or longer, and prints the time of each step. When --for is over, it prints the steps so far of a request\n" +
			"that has no answer yet.",
		Example: "  chronikctl debug waits\n  chronikctl debug waits --trace shop --slower 100ms",
		RunE: func(cmd *cobra.Command, _ []string) error {
			port := app.AdminPortOf(a)
			if port == nil {
				return app.Usage("only the admin port knows what requests wait for; name it with --admin")
			}
			if cmd.Flags().Changed("trace") {
				return printTrace(cmd.Context(), a, port, client, slower, most)
			}
			return printWaits(cmd.Context(), a, port, limit)
		},
	}
	cli.Between(1, view.MaxWaits).Flag(c.Flags(), &limit, "limit", "", defaultWaits, "requests to list")
	c.Flags().StringVar(&client, "trace", "", "client id whose next request is followed")
	cli.AtLeast(time.Duration(0)).Flag(c.Flags(), &slower, "slower", "", defaultSlower, "with --trace: skip requests that take less")
	cli.Between(time.Second, maxTrace).Flag(c.Flags(), &most, "for", "", defaultTrace, "with --trace: how long to wait for such a request")
	return app.Local(c)
}

func printWaits(ctx context.Context, a *app.App, port *app.AdminPort, limit int) error {
	all, err := port.Waits(ctx, limit)
	if err != nil {
		return err
	}
	t := &output.Table{
		Title: fmt.Sprintf("broker %d: %s without an answer, of which %s; %d more of clients that have gone", all.Broker,
			text.Count(all.Waiting, "request"), text.Plural(all.Idle, "fetch waits for records", "fetches wait for records"),
			all.Abandoned),
		Columns: []string{"AGE#", "CLIENT", "REQUEST", "STEP", "PARTITION", "FOR", "+ADDRESS", "+PRINCIPAL", "+DIRECTORY"},
		Empty:   "No request waits.",
	}
	for i := range all.List {
		w := &all.List[i]
		for n, s := range w.Steps {
			since, client, request := age(w.AgeMs), w.ClientID, w.Request
			if n > 0 {
				since, client, request = "", "", "" // another step of the same request
			}
			t.Add(since, client, request, s.Step, s.Partition, s.For, w.Address, w.Principal, s.Dir)
		}
		if w.More > 0 {
			t.Add("", "", "", "", "", fmt.Sprintf("and %d further steps", w.More), "", "", "")
		}
	}
	return a.Print(all, t)
}

func printTrace(ctx context.Context, a *app.App, port *app.AdminPort, client string, slower, most time.Duration) error {
	got, err := port.Trace(ctx, client, slower, most)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s of client %s at %s", got.Request, got.ClientID, got.Address)
	if got.Skipped > 0 {
		title += fmt.Sprintf("; %d faster requests were skipped", got.Skipped)
	}
	t := &output.Table{Title: title, Columns: []string{"AFTER#", "STEP", "PARTITION", "FOR"}}
	for _, at := range got.Seen {
		after := age(at.AtMs)
		for _, s := range at.Steps {
			t.Add(after, s.Step, s.Partition, s.For)
			after = ""
		}
	}
	if got.TookMs > 0 {
		t.Add(age(got.TookMs), "answered", "", "")
	} else {
		t.Add(age(got.AgeMs), "no answer yet", "", "")
	}
	return a.Print(got, t)
}

// age writes milliseconds as people read them: 0.2ms, 45ms, 3.2s.
func age(n float64) string {
	d := time.Duration(n * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + "ms"
}
