package app

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
)

// Exit codes. They are stable: scripts may rely on them.
const (
	ExitOK          = cli.ExitOK
	ExitFailed      = cli.ExitFailed      // the broker refused, or not all of it was done in time
	ExitUsage       = cli.ExitUsage       // command line, variable or contexts file is wrong; nothing was sent
	ExitUnreachable = cli.ExitUnreachable // no broker answered, or it let nobody in
	ExitUnhealthy   = cli.ExitUnhealthy   // a check found something wrong
	ExitUnconfirmed = 5                   // it would have destroyed something and nobody said yes

	ExitPipe = 141 // who read standard output has gone; what SIGPIPE ends a process with
)

// ExitCodes is told by --help.
const ExitCodes = "Exit codes: 0 all was done; 1 the broker refused, or not all was done in time; 2 the command line, a variable or a file\n" +
	"is wrong, nothing was sent; 3 no broker answered; 4 a check found something wrong; 5 not confirmed, nothing was done."

// WithCode returns an error that ends the process with this code.
func WithCode(code int, err error) error { return cli.WithCode(code, err) }

// Usage is an error of the command line.
func Usage(format string, args ...any) error { return cli.Usage(format, args...) }

// ExitCode is the code that an error ends the process with.
func ExitCode(err error) int { return cli.ExitCode(err) }

// FlagError says which flags are like the one that does not exist.
func FlagError(cmd *cobra.Command, err error) error {
	text, _ := cli.FlagError(cmd, err)
	return Usage("%s", text)
}
