// Command man writes the manual pages of chronik's tools, for packages:
//
//	go run ./scripts/man VERSION DIRECTORY
//
// The texts are those of the tools; internal/cli formats them, and the command knows none of them.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chronik-io/chronik/internal/chronikd"
	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/tools/bench/command"
	"github.com/chronik-io/chronik/internal/tools/ctl"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: man VERSION DIRECTORY")
	}
	version, dir := args[0], args[1]
	pages, err := chronikd.Manual(version)
	if err != nil {
		return err
	}
	see := cli.ManSection{Title: "SEE ALSO", Text: "chronikd(8), chronikctl(1), chronik-bench(1)"}
	pages = append(
		pages,
		cli.ManPage{
			Name:    "chronikctl",
			Section: 1,
			Version: version,
			Short:   "administer a broker that speaks the Kafka protocol",
			Command: ctl.Root(app.New(version, ctl.Streams{})),
			Sections: []cli.ManSection{
				{
					Title: "ENVIRONMENT",
					Items: []cli.ManItem{{Term: contexts.EnvBrokers, Text: "Bootstrap brokers, if --brokers is not given."}},
				},
				see,
			},
		},
		cli.ManPage{
			Name:     "chronik-bench",
			Section:  1,
			Version:  version,
			Short:    "measure a broker that speaks the Kafka protocol",
			Command:  command.New(version),
			Sections: []cli.ManSection{see},
		},
	)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range pages {
		if err := writePage(dir, &pages[i]); err != nil {
			return err
		}
	}
	return nil
}

func writePage(dir string, p *cli.ManPage) error {
	f, err := os.Create(filepath.Join(dir, p.File()))
	if err != nil {
		return err
	}
	return errors.Join(p.Write(f), f.Close())
}
