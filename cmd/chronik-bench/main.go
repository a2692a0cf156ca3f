// Command chronik-bench measures brokers that speak the Kafka protocol. Its code is in
// internal/tools/bench. The first signal ends a measurement and prints its result, and a second one
// always ends the process. This package knows only signals, and the version that is linked in.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chronik-io/chronik/internal/tools/bench/command"
)

// version is set by the linker; empty for a program that `go install` builds.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the measured interval and prints the result; a second signal ends the
	// process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(command.Main(ctx, os.Args[1:], version, os.Stdout, os.Stderr))
}
