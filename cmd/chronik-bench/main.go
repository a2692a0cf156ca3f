// Command chronik-bench measures brokers that speak the Kafka protocol. What it
// does is in internal/bench.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chronik-io/chronik/internal/bench/command"
)

// version is what `make build` stamps.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the measured interval and shows what was measured; a
	// second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(command.Main(ctx, os.Args[1:], version, os.Stdout, os.Stderr))
}
