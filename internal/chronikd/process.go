package chronikd

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Command is the main function of chronikd: Main with this process's arguments, environment, output
// and signals. It ends the process with Main's exit code.
func Command(version string) {
	signals := make(chan os.Signal, 1) // further signals while one waits mean the same
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is ignored under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	os.Exit(Main(context.Background(), Process{
		Args: os.Args[1:], Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr, Version: version, Signals: signals, Exit: os.Exit,
	}))
}
