// Command chronikctl administers a broker from a shell. internal/tools/ctl holds its commands. The
// first signal cancels a command, and a second one always ends the process. This package knows only
// signals, and the version that is linked in.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chronik-io/chronik/internal/tools/ctl"
)

// version is set by the linker; empty for a program that `go install` builds.
var version string

func main() {
	// Without SIGPIPE a closed pipe is a write error, so that a consumer can leave its group.
	// ctl then exits with the code that the signal would have caused.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := ctl.Main(ctx, os.Args[1:], version, ctl.Std())
	stop()
	os.Exit(code)
}
