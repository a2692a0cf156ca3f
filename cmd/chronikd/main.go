// Command chronikd is the broker. What it does is in internal/daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chronik-io/chronik/internal/daemon"
)

// version is what `make build` stamps.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal drains; a second one finds the default handling again and
	// ends the process at once, which loses nothing that was acknowledged.
	context.AfterFunc(ctx, stop)
	os.Exit(daemon.Main(ctx, daemon.Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Version: version,
	}))
}
