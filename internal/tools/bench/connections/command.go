package connections

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/bench/frame"
	"github.com/chronik-io/chronik/internal/tools/bench/settings"
)

// Command returns `connections`, with a subcommand for each measurement.
func Command() *cobra.Command {
	return frame.Parent("connections",
		"Measure connections: how many clients log in per second, the memory of idle connections",
		"connections measures what connections cost the broker, with and without TLS and logins (SCRAM-SHA-512). The client derives the key of\n"+
			"a password once for all connections, unlike most clients, so that it costs less than the broker.",
		loginsCommand(), idleCommand())
}

// bind adds the flags of the target; pid is what that flag may be.
func (t *Target) bind(f *pflag.FlagSet, connections int, pid fmt.Stringer) {
	f.StringVar(&t.Broker, "bootstrap-servers", settings.Broker, "broker, host:port")
	f.StringVar(&t.Authorities, "tls-ca", "", "connect with TLS 1.3, and check the broker's certificate with the authorities in this PEM file")
	f.StringVar(&t.User, "user", "", "log in as this user with "+mechanism)
	f.StringVar(&t.PasswordFile, "password-file", "", "file whose only line is the user's password")
	f.IntVarP(&t.Connections, "connections", "c", connections, "connections at once, "+settings.Range(1, maxConnections))
	f.IntVar(&t.PID, "server-pid", 0, "process id of the broker on this machine (Linux), "+pid.String())
}

func loginsCommand() *cobra.Command {
	var c LoginsConfig
	cmd := frame.Command("logins", "Measure how many clients per second can connect, log in, and leave",
		"logins is a closed loop: each of the clients connects, sends ApiVersions, logs in if there is a user, requests metadata and closes the\n"+
			"connection. TLS sessions are not resumed.",
		func(ctx context.Context, _ io.Writer) (*LoginsResult, error) { return Logins(ctx, c) })
	c.Target.bind(cmd.Flags(), 16, settings.PID())
	c.Interval.Bind(cmd.Flags(), "", 10*time.Second, 2*time.Second)
	return cmd
}

func idleCommand() *cobra.Command {
	var c IdleConfig
	cmd := frame.Command("idle", "Measure the memory of connections that do nothing",
		"idle opens the connections, each with one ApiVersions and a login if there is a user, and prints the resident memory of the broker's\n"+
			"process before, when all are open, and after a rest. At the end each connection must answer a request.",
		func(ctx context.Context, _ io.Writer) (*IdleResult, error) { return Idle(ctx, c) })
	c.Target.bind(cmd.Flags(), 10_000, cli.AtLeast(1))
	cmd.Flags().DurationVar(&c.Rest, "rest", 10*time.Second,
		"time between the last two readings of the memory, "+settings.NotNegative().String())
	return cmd
}
