// Package logs implements chronikctl log: it dumps, verifies and repairs a data directory that no
// broker is using.
//
// It contacts no broker. It finds the directories, confirms and prints; internal/inspect reads and
// repairs the files. dump and verify change nothing, and repair changes a file only after it has
// made a copy. Each command is in a file of its name.
package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/vfs"
)

// New returns the command log.
func New(a *app.App) *cobra.Command {
	c := app.Parent("log", "Inspect, verify and repair a data directory that no broker uses", dump(a), verifyCommand(a), repairCommand(a))
	c.Long = "log works on files, without a broker. --dir names a data directory or a log directory. --config names chronikd's\n" +
		"settings file, from which log reads data.dir, log.dirs and journal.dirs. dump prints what the directory holds.\n" +
		"verify reports what is damaged, what the broker would do about it at startup, and which records would be\n" +
		"missing. repair repairs damage that the broker does not repair at startup, on request and after a backup.\n" +
		"docs/log.md lists every kind of damage."
	return app.Local(c)
}

// dirFlags holds the flags that select the directories.
type dirFlags struct {
	dirs, journals []string
	config         string
	node           int32
}

func (w *dirFlags) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.dirs, "dir", nil, "data directory, or a single log directory; repeatable")
	c.Flags().StringArrayVar(&w.journals, "journal", nil,
		"journal of the log directory, if it is elsewhere (journal.dirs); one for each log directory, in the same order")
	c.Flags().StringVar(&w.config, "config", "", "chronikd's YAML file, instead of --dir")
	c.Flags().Int32Var(&w.node, "node-id", 1, "node.id of the broker, to rebuild lost metadata from the logs; --config has it")
	for _, name := range []string{"dir", "journal"} {
		app.CompleteFlag(c, name, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		})
	}
	app.CompleteFlag(c, "config", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
	})
}

// repair returns the command that repairs the selected directories, with more flags.
func (w *dirFlags) repair(more ...string) string {
	words := []string{"chronikctl", "log", "repair"}
	for _, d := range w.dirs {
		words = append(words, "--dir", d)
	}
	for _, j := range w.journals {
		words = append(words, "--journal", j)
	}
	if w.config != "" {
		words = append(words, "--config", w.config)
	}
	return health.Command(append(words, more...)...)
}

// find returns the directories that the flags select. A refusal of their repair names the command
// that repairs the last copy.
func (w *dirFlags) find(cmd *cobra.Command, backup string) (inspect.Options, error) {
	o, err := w.options(cmd)
	if backup == "" && len(o.Locations) > 0 { // as in the remedies of the broker
		backup = o.Locations[0].Path + ".before-repair"
	}
	o.LastCopyCommand = w.repair("--last-copy", "--backup", backup)
	return o, err
}

// options is find without that command.
func (w *dirFlags) options(cmd *cobra.Command) (inspect.Options, error) {
	switch {
	case w.config != "" && len(w.dirs)+len(w.journals) > 0:
		return inspect.Options{}, app.Usage("--config names the directories: remove --dir and --journal")
	case w.config != "":
		return configured(w.config)
	case len(w.dirs) == 0:
		return inspect.Options{}, app.Usage("--dir is missing: give a data directory or a log directory; see %s --help", cmd.CommandPath())
	}
	o, err := inspect.Find(vfs.OS(), w.dirs, w.journals)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return o, denied(err)
	case errors.Is(err, inspect.ErrNotData):
		return o, app.Usage("--dir %w; give chronikd's data.dir or one of its log.dirs", err)
	case failed(err):
		return o, fmt.Errorf("--dir: %w", err)
	case err != nil:
		return o, app.Usage("--dir: %w; give chronikd's data.dir or one of its log.dirs", err)
	}
	o.Node = w.node
	return o, nil
}

// failed reports whether the system failed to say what a directory holds: another name would not
// help.
func failed(err error) bool {
	var of syscall.Errno
	return errors.As(err, &of) && of != syscall.ENOENT && of != syscall.ENOTDIR
}

// configured returns the directories in a broker's configuration file.
func configured(file string) (o inspect.Options, err error) {
	cfg, err := resolve.Read(config.Input{File: file, ReadFile: os.ReadFile})
	if err != nil {
		return o, app.Usage("--config %w", err)
	}
	conf, err := resolve.Registry(cfg.Durability).ResolveBroker(resolve.Static(cfg))
	if err != nil {
		return o, app.Usage("--config %s: %w", file, err)
	}
	o = inspect.Options{FS: vfs.OS(), Data: []string{cfg.DataDir}, Node: conf.NodeID,
		Locations: storage.Locations(conf.LogDirs, conf.JournalDirs)}
	for _, place := range o.Locations {
		if _, err := os.Stat(place.Path); err != nil {
			return o, app.Usage("--config %s: %w; relative paths are relative to the directory in which chronikd was started", file, err)
		}
	}
	return o, nil
}

// explained adds a remedy to an error about a directory.
func explained(what string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return denied(fmt.Errorf("%s: %w", what, err))
	case errors.Is(err, storage.ErrLocked):
		return fmt.Errorf("%s: %w; stop it first, or use a copy or snapshot of the directory", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func denied(err error) error {
	return fmt.Errorf("%w; run it as the broker's user: sudo -u chronik chronikctl log …", err)
}
