package daemon

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/storage"
)

// acceptCommand is the operator's word that a lost journal stays lost.
func (c *cli) acceptCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "accept-journal-loss", Short: "Give log directories whose journal is lost an empty new one, and name what that may cost", Args: noArgs,
		Long: "A broker refuses to start where the journal of a log directory is missing, damaged or older than the directory: records that were\n" +
			"acknowledged may be in it and nowhere else. Put the journal back if you can. Where you can't, this command gives every log\n" +
			"directory of the configuration an empty journal, and lists the partitions with the offset up to which they are kept. The broker\n" +
			"must be stopped. Nothing is changed without --yes.",
		RunE: func(*cobra.Command, []string) error { return c.accept(yes) },
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (c *cli) accept(yes bool) error {
	cfg, err := Load(c.input())
	if err != nil {
		return &configError{err}
	}
	conf, err := registry(cfg.Durability).ResolveBroker(static(cfg))
	if err != nil {
		return &configError{err}
	}
	for _, place := range places(&conf) {
		lost, err := storage.AcceptJournalLoss(place, storage.Options{FS: c.fileSystem(), Holder: holder()}, yes)
		if err != nil {
			return dirErrors(cfg.Broker, &storage.DirError{Path: place.Path, Journal: place.Journal, Err: err})
		}
		for _, l := range lost {
			if _, err := fmt.Fprintf(c.Out, "%s: %s-%d is kept up to offset %d\n", place.Path, l.Topic, l.Partition, l.Kept); err != nil {
				return err
			}
		}
	}
	if !yes {
		return &ExitError{ExitUsage, errors.New("nothing was changed; what was acknowledged beyond these offsets may be lost for good: add --yes to go on without it")}
	}
	return nil
}
