package connections

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/internal/tools/bench/report"
)

// Command returns `connections`, with a subcommand for each measurement.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connections",
		Short: "Measure connections: how many clients log in per second, the memory of idle connections",
		Long: "connections measures what connections cost the broker, with and without TLS and logins (SCRAM-SHA-512). The client derives the key of\n" +
			"a password once for all connections, unlike most clients, so that it costs less than the broker.",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(loginsCommand(), idleCommand())
	return cmd
}

// measurement wraps a measuring function in a subcommand.
func measurement(use, short, long string, t *Target, connections int, run func(context.Context) (report.Output, error)) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := run(cmd.Context())
			if err != nil {
				return err
			}
			return report.Print(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&t.Broker, "bootstrap-servers", bench.Default().Brokers[0], "broker, host:port")
	f.StringVar(&t.Authorities, "tls-ca", "", "connect with TLS 1.3, and check the broker's certificate with the authorities in this PEM file")
	f.StringVar(&t.User, "user", "", "log in as this user with "+mechanism)
	f.StringVar(&t.PasswordFile, "password-file", "", "file whose only line is the user's password")
	f.IntVarP(&t.Connections, "connections", "c", connections, "connections at once")
	f.IntVar(&t.PID, "server-pid", 0, "process id of the broker on this machine (Linux)")
	f.BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func loginsCommand() *cobra.Command {
	var c LoginsConfig
	cmd := measurement("logins", "Measure how many clients per second can connect, log in, and leave",
		"logins is a closed loop: each of the clients connects, sends ApiVersions, logs in if there is a user, requests metadata and closes the\n"+
			"connection. TLS sessions are not resumed.",
		&c.Target, 16, func(ctx context.Context) (report.Output, error) { return Logins(ctx, c) })
	f := cmd.Flags()
	f.DurationVarP(&c.Duration, "duration", "d", 10*time.Second, "measured time")
	f.DurationVar(&c.Warmup, "warmup", 2*time.Second, "time before the measured time, not counted")
	return cmd
}

func idleCommand() *cobra.Command {
	var c IdleConfig
	cmd := measurement("idle", "Measure the memory of connections that do nothing",
		"idle opens the connections, each with one ApiVersions and a login if there is a user, and prints the resident memory of the broker's\n"+
			"process before, when all are open, and after a rest. At the end each connection must answer a request.",
		&c.Target, 10_000, func(ctx context.Context) (report.Output, error) { return Idle(ctx, c) })
	cmd.Flags().DurationVar(&c.Rest, "rest", 10*time.Second, "time between the last two readings of the memory")
	return cmd
}
