// Package ctl is what chronikctl does: topics, producing and consuming, from a
// shell, against any broker that speaks the Kafka protocol.
//
// It owns the command line, its texts and its exit codes. It promises that
// standard output carries only what was asked for (everything else goes to
// standard error), and that it ends with 0 only when all of it was done.
// cmd/chronikctl calls it. It knows nothing of chronikd's insides and reads no
// configuration file.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Exit codes. They are stable: scripts may rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the broker refused, or not all of it was done in time
	ExitUsage       = 2 // the command line is wrong; nothing was sent
	ExitUnreachable = 3 // no broker answered
)

// DefaultBrokers is where a broker on this machine listens.
const DefaultBrokers = "127.0.0.1:9092"

// EnvBrokers is the variable that stands for --brokers.
const EnvBrokers = "CHRONIK_BROKERS"

// Streams are the standard ones of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Brokers is what EnvBrokers says; empty for DefaultBrokers.
	Brokers string
}

// app is one run of chronikctl.
type app struct {
	Streams
	version string
	brokers []string
	timeout time.Duration
}

// exitError is an error with the code it ends the process with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// Main runs one command line and returns the exit code. The context ends it:
// an interrupted consume is a success.
func Main(ctx context.Context, args []string, version string, s Streams) int {
	a := &app{Streams: s, version: version}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(s.Err, "chronikctl: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	if e := (*exitError)(nil); errors.As(err, &e) {
		return e.code
	}
	return ExitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "chronikctl",
		Short: "Topics and records of a Kafka-compatible broker",
		Long: "chronikctl makes topics, writes and reads records of chronik or any other broker that speaks the Kafka protocol.\n\n" +
			"It exits with 0 when all was done, 1 when the broker refused or time ran out, 2 for a wrong command line, 3 when no broker answered.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	brokers := DefaultBrokers
	if a.Brokers != "" {
		brokers = a.Brokers
	}
	f.StringSliceVar(&a.brokers, "brokers", strings.Split(brokers, ","), "comma-separated HOST:PORT of brokers to ask first ("+EnvBrokers+")")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "longest time for one request, or for one record to be acknowledged")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w; --help lists the flags", err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.topic(), a.produce(), a.consume(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, a.version)
			return err
		},
	})
	return root
}

// args is cobra.RangeArgs with a text that says what is wanted. most < 0 is any
// number.
func args(least, most int, wanted string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) < least || most >= 0 && len(given) > most {
			return usage("%s takes %s, not %d; see %s --help", cmd.CommandPath(), wanted, len(given), cmd.CommandPath())
		}
		return nil
	}
}

// client connects, and fails quickly where nobody answers.
func (a *app) client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(a.brokers...),
		kgo.ClientID("chronikctl"),
		kgo.SoftwareNameAndVersion("chronikctl", softwareVersion(a.version)),
		kgo.RetryTimeout(a.timeout),
		kgo.RecordDeliveryTimeout(a.timeout),
		kgo.DialTimeout(min(a.timeout, 10*time.Second)),
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, min(a.timeout, 10*time.Second))
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		cl.Close()
		return nil, &exitError{code: ExitUnreachable, err: fmt.Errorf("no broker answers at %s: %w; is it running, and is --brokers right?",
			strings.Join(a.brokers, ", "), err)}
	}
	return cl, nil
}

// admin is client for requests that are no data.
func (a *app) admin(ctx context.Context) (*kadm.Client, error) {
	cl, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(min(a.timeout.Milliseconds(), 1<<31-1)))
	return adm, nil
}

// softwareVersion keeps what KIP-511 allows: letters, digits, dots and dashes.
func softwareVersion(v string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, v)
	if clean = strings.Trim(clean, ".-"); clean == "" {
		return "unknown"
	}
	return clean
}

// Std returns the streams and the variable of the process.
func Std() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Brokers: os.Getenv(EnvBrokers)}
}
