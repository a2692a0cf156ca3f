package chronikd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/membership"
)

// recoverCommand makes the last voter of a cluster that is left its only one.
func (c *commandLine) recoverCommand() *cobra.Command {
	var lost, from string
	cmd := &cobra.Command{
		Use: "recover", Short: "Recover the metadata of a cluster that has lost most of its voters", Args: noArgs,
		Long: "recover is for a cluster whose metadata has no leader, because the metadata directories of most voters are lost for good.\n" +
			"Run it with the configuration of a broker that has one, while that broker is stopped. It makes this broker the only voter.\n" +
			"The last changes of topics and configs may be lost, and partitions with several replicas have no leader until all brokers\n" +
			"are back and an operator elects one: see docs/cluster.md. It asks all seeds and voters first, and refuses if another voter\n" +
			"answers. Without --lost it changes nothing. With --from, it uses a copy of a metadata directory in the place of a lost one.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.recover(cmd.Context(), lost, from) },
	}
	cmd.Flags().StringVar(&lost, "lost", "", "the node ids of the voters whose metadata directories are lost for good, for example 2,3")
	cmd.Flags().StringVar(&from, "from", "", "a copy of the metadata directory of a broker of this cluster, if all directories of voters are lost")
	return cmd
}

func (c *commandLine) recover(ctx context.Context, lost, from string) error {
	cfg, conf, log, err := c.stopped()
	if err != nil {
		return err
	}
	if conf.Cluster.Name == "" {
		return exit.With(exit.Usage, errors.New("cluster.name is not set, and a broker without a cluster has nothing to recover"))
	}
	if uid, foreign := cli.Foreign(cfg.DataDir); foreign {
		return exit.With(exit.Usage, fmt.Errorf("%s belongs to user %d, who could not open files that root creates there; "+
			"run it as that user: sudo -u '#%d' chronikd recover …", cfg.DataDir, uid, uid))
	}
	listener := resolve.InterListener(cfg, conf)
	certificates, err := guard.OpenCertificates(cfg, log)
	if err != nil {
		return err
	}
	dial := new(net.Dialer).DialContext
	if c.Net != nil {
		dial = c.Net.DialContext
	}
	peers, err := guard.NewPeers(listener, conf.Cluster.SecretFile, certificates, dial)
	if err != nil {
		return err
	}
	dirs := datadir.New(c.fileSystem(), cfg, conf, log)
	lock, err := dirs.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	r, err := cluster.Inspect(ctx, cluster.RecoverOptions{
		FS: c.fileSystem(), Dir: dirs.Metadata(), From: from, Conf: conf.Cluster, Node: conf.NodeID,
		Secrets: peers.Secrets, Dial: peers.Dial, Log: log,
	})
	switch {
	case errors.Is(err, membership.ErrRefused):
		return exit.With(exit.Data, err)
	case err != nil:
		return dirs.ErrorOf(cmp.Or(from, cfg.DataDir), err)
	}
	var nodes []string
	for _, n := range r.Lost {
		nodes = append(nodes, strconv.Itoa(int(n)))
	}
	list, who := strings.Join(nodes, ","), "other voters"
	if from != "" {
		who = "voters"
	}
	given := strings.Split(strings.ReplaceAll(lost, " ", ""), ",")
	slices.Sort(given)
	if slices.Sort(nodes); !slices.Equal(given, nodes) {
		return exit.With(exit.Usage, fmt.Errorf("the metadata of cluster %s in %s end at entry %d of term %d, and the %s are "+
			"the brokers %s, which do not answer; if their metadata directories are lost for good, repeat the command with --lost %s (docs/cluster.md)",
			r.Cluster, cmp.Or(from, dirs.Metadata()), r.Last, r.Term, who, list, list))
	}
	if err := r.Recover(); err != nil {
		return dirs.Error(err)
	}
	_, err = fmt.Fprintf(c.Out, "broker %d is the only voter of cluster %s now\n"+
		"1. start this broker\n"+
		"2. empty the metadata directory, %s in data.dir, of every other broker, keep its log directories, and start it\n"+
		"3. when all brokers are active, elect leaders: chronikctl topic elect --unclean\n",
		conf.NodeID, r.Cluster, resolve.MetadataDir)
	return err
}
