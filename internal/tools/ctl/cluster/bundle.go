package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Runner runs another command line of chronikctl in this process and returns its exit code.
type Runner func(ctx context.Context, args []string, out, errs io.Writer) int

// Bounds of the time between the two samples of the metrics.
const (
	defaultInterval = 3 * time.Second
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Minute
)

// NewDebug returns the command debug.
func NewDebug(a *app.App, run Runner) *cobra.Command {
	return app.Parent("debug", "Find out what requests wait for, and collect data for a bug report", bundle(a, run), waits(a))
}

func bundle(a *app.App, run Runner) *cobra.Command {
	var interval time.Duration
	var file, dir string
	c := &cobra.Command{
		Use: "bundle", Short: "Write one file with the data for a bug report", Args: app.Args(0, 0, "no argument; --file names the file"),
		Long: "bundle collects version, configs, topics, groups, log directories, the health report of each broker, and facts about this\n" +
			"machine. Of the broker behind --admin it adds two samples of the metrics, clients, the last log lines and goroutines. It\n" +
			"masks passwords and keys and reads no records; the names of topics, groups, clients and hosts are in the file. In the archive, manifest.json\n" +
			"lists the other files, and the reason for each one that is missing. If files are missing, bundle still writes the\n" +
			"archive, but exits with 1. If the broker hangs, the archive has the data that arrived within --timeout. With --dir it\n" +
			"describes the data directory of a stopped broker.",
		Example: "  chronikctl debug bundle\n  chronikctl debug bundle --file /tmp/ticket-17.tar.gz --timeout 5s\n" +
			"  chronikctl debug bundle --dir /var/lib/chronik",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k := &collector{run: run, given: given(cmd), interval: interval, timeout: a.Settings.Timeout(),
				port: app.AdminPortOf(a)}
			list := k.online
			if dir != "" {
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					return app.Usage("--dir %s is not a directory; give the data directory, as in chronikctl log verify --dir", dir)
				}
				list = func(context.Context) []bundleMember { return k.offline(dir) }
			}
			return writeBundle(cmd.Context(), a, k, list, file)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "",
		"file to write, - for standard output; default: chronik-debug-TIME.tar.gz in this directory")
	c.Flags().StringVar(&dir, "dir", "", "data directory of a stopped broker, to describe instead of a running one")
	cli.Between(minInterval, maxInterval).Flag(c.Flags(), &interval, "interval", "", defaultInterval,
		"time between the two samples of the metrics")
	return app.Local(c)
}

// given returns the global flags of this run, to pass them on.
func given(cmd *cobra.Command) (args []string) {
	every := cmd.Root().PersistentFlags()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if every.Lookup(f.Name) != nil && f.Name != contexts.Output && f.Name != "yes" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// writeBundle collects the members and writes the file.
func writeBundle(ctx context.Context, a *app.App, k *collector, list func(context.Context) []bundleMember, file string) error {
	now := time.Now().UTC()
	name := "chronik-debug-" + now.Format("20060102T150405Z")
	if file == "" {
		file = name + ".tar.gz"
	}
	out, err := createFile(a, file)
	if err != nil {
		return err
	}
	members := k.collect(ctx, list(ctx))
	m := manifest{Created: now, Version: a.Version, Brokers: strings.Join(a.Settings.Seeds(), ",")}
	if k.port != nil {
		m.Admin = k.port.String()
	}
	err = m.archive(out, name, members, newRedactor(a))
	if file != "-" {
		err = errors.Join(err, out.Close())
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		if file != "-" {
			err = errors.Join(err, os.Remove(file))
		}
		return fmt.Errorf("write %s: %w", file, err)
	}
	return reportBundle(a, &m, file)
}

// createFile creates the file, readable by its owner only.
func createFile(a *app.App, file string) (io.WriteCloser, error) {
	if file == "-" {
		if cli.IsTerminal(a.Out) {
			return nil, app.Usage("--file -: standard output is a terminal; give a file, or pipe the output into another program")
		}
		return nopCloser{a.Out}, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, app.Usage("--file %s exists; give another name", file)
	}
	if err != nil {
		return nil, app.Usage("--file: %w", err)
	}
	return f, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// reportBundle reports the file, what it lacks, and why.
func reportBundle(a *app.App, m *manifest, file string) error {
	there, missing := 0, 0
	var reasons []string
	names := map[string][]string{} // by reason
	for _, e := range m.Members {
		switch e.Status {
		case statusOK, statusPartly:
			there++
		case statusMissing:
			missing++
		}
		if e.Error != "" && e.Status != statusSkipped {
			why := e.Status + ": " + strings.ReplaceAll(e.Error, "\n", "; ")
			if names[why] == nil {
				reasons = append(reasons, why)
			}
			names[why] = append(names[why], e.Name)
		}
	}
	for _, why := range reasons {
		a.Note("%s: %s", strings.Join(names[why], ", "), why)
	}
	if file != "-" {
		done := bundleResult{File: file, Members: there, Missing: missing}
		if !a.Format().ForPeople() {
			if err := a.Print(done); err != nil {
				return err
			}
		} else if _, err := fmt.Fprintf(a.Out, "%s written, %s; check its contents before you share it\n", file,
			text.Count(done.Members, "member")); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	if missing > 0 {
		return fmt.Errorf("%s missing, see above; manifest.json in the file has the reasons", text.Count(missing, "member"))
	}
	return nil
}

// bundleResult is the answer of debug bundle.
type bundleResult struct {
	File    string `json:"file"`
	Members int    `json:"members"`
	Missing int    `json:"missing"`
}
