// Command chronikd is the broker. Its implementation is in internal/daemon.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/chronik-io/chronik/internal/daemon"
)

// version is set by `make build`.
var version = "dev"

func main() {
	signals := make(chan os.Signal, 1) // further signals while one waits mean the same
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is ignored under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	os.Exit(daemon.Main(context.Background(), daemon.Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Version: version, Signals: signals, Exit: os.Exit,
	}))
}
