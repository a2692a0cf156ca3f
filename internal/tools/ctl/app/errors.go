package app

import (
	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
)

// Exit codes. They are stable: scripts may rely on them.
const (
	ExitOK          = cli.ExitOK
	ExitFailed      = cli.ExitFailed      // the broker refused the request, or only part of the work was done in time
	ExitUsage       = cli.ExitUsage       // the command line, a variable or the contexts file is wrong; nothing was sent
	ExitUnreachable = cli.ExitUnreachable // no broker answered, or it refused the connection (TLS, SASL)
	ExitUnhealthy   = cli.ExitUnhealthy   // a check found something wrong
	ExitUnconfirmed = 5                   // the command would have deleted something and was not confirmed

	ExitPipe = 141 // the reader of standard output is gone; the code of a process that SIGPIPE ended
)

// ExitCodes is the part of --help about exit codes.
const ExitCodes = "Exit codes: 0 everything was done; 1 the broker refused, or not everything was done in time; 2 the command line, a " +
	"variable or a\n" +
	"file is wrong, nothing was sent; 3 the broker or its admin port did not answer; 4 a check found a problem; 5 not confirmed,\n" +
	"nothing was done."

// WithCode attaches an exit code to err. It returns nil if err is nil.
func WithCode(code int, err error) error { return cli.WithCode(code, err) }

// Usage returns an error about the command line.
func Usage(format string, args ...any) error { return cli.Usage(format, args...) }

// ExitCode returns the exit code for err.
func ExitCode(err error) int { return cli.ExitCode(err) }

// FlagError is the root command's FlagErrorFunc. It suggests flags similar to an unknown one.
func FlagError(cmd *cobra.Command, err error) error {
	text, _ := cli.FlagError(cmd, err)
	return Usage("%s", text)
}
