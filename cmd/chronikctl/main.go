// Command chronikctl administers a broker from a shell. What it does is in
// internal/ctl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chronik-io/chronik/internal/ctl"
)

// version is what `make build` stamps.
var version = "dev"

func main() {
	// A reader that has gone is an error of a write, so that a member of a group
	// takes its leave; ctl ends with the code that the signal would have given.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who interrupts once more does not wait for what is still to be finished
	code := ctl.Main(ctx, os.Args[1:], version, ctl.Std())
	stop()
	os.Exit(code)
}
