package app

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/pause"
)

// Intervals between two runs of a command.
const (
	watchGap  = 2 * time.Second // default of --watch
	minGap    = 100 * time.Millisecond
	waitedGap = 500 * time.Millisecond
)

// clearScreen moves the cursor to the start of a terminal and erases everything after it (ECMA-48
// CUP, ED).
const clearScreen = "\x1b[H\x1b[J"

// Watched adds --watch to a command: it repeats the command until interrupted. Errors, such as a
// broker that is away, do not end it.
func (a *App) Watched(c *cobra.Command) *cobra.Command {
	var every time.Duration
	cli.AtLeast(minGap).Or(0, "once").Flag(c.Flags(), &every, "watch", "", 0,
		"repeat at this interval until interrupted; without a value every "+watchGap.String()+" (--watch=10s)")
	c.Flags().Lookup("watch").NoOptDefVal = watchGap.String()
	cli.Instead(c, map[string]string{"-w": "--watch repeats the command, -o wide shows more columns"})
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if every == 0 {
			return run(cmd, args)
		}
		for {
			text, err := a.captured(func() error { return run(cmd, args) })
			if ExitCode(err) == ExitUsage {
				return err
			}
			if cmd.Context().Err() != nil {
				return nil
			}
			if cli.IsTerminal(a.Out) {
				text = append(fmt.Appendf(nil, "%severy %v, %s\n\n", clearScreen, every, time.Now().Format(time.TimeOnly)), text...)
			}
			if _, err := a.Out.Write(text); err != nil {
				return fmt.Errorf("standard output: %w", err)
			}
			if err != nil {
				for _, line := range strings.Split(err.Error(), "\n") {
					a.Note("chronikctl: %s", line)
				}
			}
			if pause.Sleep(cmd.Context(), every) != nil {
				return nil // interrupted
			}
		}
	}
	return c
}

// AddWait adds --wait to a command that checks something: it repeats the command until it succeeds,
// and prints only the last run.
func (a *App) AddWait(c *cobra.Command, what string) *cobra.Command {
	var limit time.Duration
	cli.AtLeast(time.Duration(0)).Flag(c.Flags(), &limit, "wait", "", 0, "wait until "+what+", up to this long")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		end := time.Now().Add(limit)
		for {
			text, err := a.captured(func() error { return run(cmd, args) })
			left := time.Until(end)
			if err == nil || left <= 0 || ExitCode(err) == ExitUsage || pause.Sleep(cmd.Context(), min(left, waitedGap)) != nil {
				_, printed := a.Out.Write(text)
				return errors.Join(printed, err)
			}
		}
	}
	return c
}

// captured returns what run prints to standard output.
func (a *App) captured(run func() error) ([]byte, error) {
	var b bytes.Buffer
	out := a.Out
	a.Out = &b
	defer func() { a.Out = out }()
	err := run()
	return b.Bytes(), err
}
