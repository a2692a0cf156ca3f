package chronikd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/secureinit"
)

// secureFlags are the flags of secure init.
type secureFlags struct {
	advertise []string
	nodes     []string
	renew     bool
	noContext bool
	givenIn   string
}

func (c *commandLine) secureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secure", Short: "Make everything that a broker with TLS and logins needs", Args: noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: c.noSettings,
	}
	var f secureFlags
	create := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a private authority, certificates, an admin user and a configuration to DIR",
		Long: "init writes to DIR, which must be empty: ca.pem and ca-key.pem (a private certificate authority), server.pem and\n" +
			"server-key.pem, users (the user admin, without the password), cluster.secret, admin.token, and chronikd.yaml. It saves the\n" +
			"context \"" + secureinit.Context + "\" for chronikctl, with a random password. Then start the broker and use it:\n\n" +
			"  chronikd --config DIR/chronikd.yaml\n" +
			"  chronikctl --context " + secureinit.Context + " topic list\n\n" +
			"A broker whose addresses are all loopback listens on loopback only, others listen on all interfaces.\n\n" +
			"With --no-context, or without a home directory, it asks for the password on a terminal, or reads a line from its input or\n" +
			"from --password-file.\n\n" +
			"Keep ca-key.pem elsewhere: only --renew and secure add need it. --renew replaces server.pem and server-key.pem; a running broker takes\n" +
			"them within a second.",
		Example: "  chronikd secure init /etc/chronik\n" +
			"  chronikd secure init /etc/chronik --advertise broker.example.com:9093\n" +
			"  chronikd secure init ./cluster --nodes a.example.com,b.example.com,c.example.com\n" +
			"  chronikd secure init /etc/chronik --renew",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(errors.New("secure init needs one directory; write chronikd secure init DIR"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.secureInit(cmd, args[0], &f) },
	}
	create.Flags().StringArrayVar(&f.advertise, "advertise", nil,
		"HOST:PORT under which clients reach the broker; may be repeated, each for a listener of its own")
	create.Flags().StringSliceVar(&f.nodes, "nodes", nil, "HOST or HOST:PORT of 1, 3 or 5 brokers that form a cluster, separated by commas; a broker uses PORT and the two after it")
	create.Flags().BoolVar(&f.renew, "renew", false, "replace the server certificates in DIR with new ones of its authority")
	create.Flags().BoolVar(&f.noContext, "no-context", false, "write no context for chronikctl")
	create.Flags().StringVar(&f.givenIn, "password-file", "",
		"file with the password of admin in its first line; only its owner may be able to read it")
	cmd.AddCommand(create, c.secureAddCommand())
	return cmd
}

// noSettings rejects the flags of settings for a command that does not read them, because they
// would have no effect unnoticed.
func (c *commandLine) noSettings(cmd *cobra.Command, _ []string) (err error) {
	c.root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Changed {
			err = usage(fmt.Errorf("--%s has no effect here: %s writes the settings of a broker to chronikd.yaml; change them there, "+
				"or start the broker with the flag", f.Name, cmd.CommandPath()))
		}
	})
	return err
}

func (c *commandLine) secureAddCommand() *cobra.Command {
	var (
		nodes []string
		first int
	)
	add := &cobra.Command{
		Use:   "add DIR",
		Short: "Write the files of further brokers of a cluster that secure init has made in DIR",
		Long: "add writes a directory to DIR for each of --nodes, with the number that follows the highest one: configuration, certificate,\n" +
			"the cluster's secret and the admin token. DIR is that of secure init --nodes, with ca.pem, ca-key.pem, nodes, and at least one\n" +
			"node-N. The file nodes has the numbers and addresses that were given; without it, --first-id is the first number.\n" +
			"`chronikctl broker list` shows the numbers in use.\n\n" +
			"The authority signs only the names that its certificate permits. If those of the new brokers are not among them, add issues\n" +
			"ca.pem again, with the same key and subject, and these names more. Brokers and clients need it before the new brokers start;\n" +
			"the output says what to copy in which order.\n\n" +
			"Nothing else changes: the new brokers do not vote, and the running ones keep their cluster.seeds. Keep ca-key.pem elsewhere.",
		Example: "  chronikd secure add ./cluster --nodes d.example.com\n" +
			"  chronikd secure add ./cluster --nodes d.example.com:9093,e.example.com:9093",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(errors.New("secure add needs one directory; write chronikd secure add DIR --nodes HOST"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return usage(err)
			}
			made, err := secureinit.Add(dir, nodes, first, loadFile, time.Now())
			if err != nil {
				return usage(fmt.Errorf("secure add %s: %w", dir, err))
			}
			summary := made.Summary()
			if file, err := contexts.Open(c.getenv); err == nil { // without one, there is none to extend
				for _, command := range made.ContextCommands(file) {
					summary += "when they run: " + command + "\n"
				}
			}
			_, err = fmt.Fprint(c.Out, summary)
			return err
		},
	}
	add.Flags().StringSliceVar(&nodes, "nodes", nil, "HOST or HOST:PORT of the brokers that join, separated by commas; a broker uses PORT and the two after it")
	cli.AtLeast(1).Or(0, "the file nodes in DIR has them").Flag(add.Flags(), &first, "first-id", "", 0,
		"the number of the first new broker, above all that were given")
	return add
}

// loadFile returns the configuration in a file.
func loadFile(file string) (*config.Config, error) {
	return resolve.Load(config.Input{File: file, ReadFile: os.ReadFile})
}

func (c *commandLine) secureInit(cmd *cobra.Command, dir string, f *secureFlags) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return usage(err)
	}
	if f.renew {
		if len(f.advertise)+len(f.nodes)+len(f.givenIn) > 0 {
			return usage(errors.New("--renew keeps the names of the certificates and the users; leave out --advertise, --nodes and " +
				"--password-file, or make a new directory"))
		}
		done, err := secureinit.Renew(dir, advertisedHosts, time.Now())
		if err != nil {
			return usage(fmt.Errorf("renew %s: %w", dir, err))
		}
		_, err = fmt.Fprintf(c.Out, "renewed %s; a running broker takes it within a second\n", strings.Join(done, ", "))
		return err
	}
	made, err := secureinit.New(dir, f.advertise, f.nodes)
	if err != nil {
		return usage(err)
	}
	saves := !f.noContext
	if _, err := contexts.Open(c.getenv); saves && errors.Is(err, contexts.ErrNoPlace) { // as in a unit of systemd, where it is not needed
		fmt.Fprintf(c.Err, "note: chronikctl gets no context: %v\n", err)
		saves = false
	}
	if !saves || f.givenIn != "" {
		password, err := c.password(cmd, f.givenIn)
		if err != nil {
			return err
		}
		made.SetPassword(password)
	}
	if err := made.Write(time.Now()); err != nil {
		return fmt.Errorf("secure init %s: %w", dir, err)
	}
	context := ""
	if saves {
		if context, err = made.SaveContext(c.getenv, c.Err); err != nil {
			return fmt.Errorf("everything in %s is written, but not the context of chronikctl with the password: %w; "+
				"remove %s and try again, with --no-context and a password of yours", dir, err, dir)
		}
	}
	_, err = fmt.Fprint(c.Out, made.Summary(context))
	return err
}

// advertisedHosts returns the hosts that the listeners of a configuration file advertise.
func advertisedHosts(file string) (hosts []string, err error) {
	cfg, err := loadFile(file)
	if err != nil {
		return nil, err
	}
	for _, l := range cfg.Listeners {
		if l.Advertise != "" {
			host, _ := config.HostPort(l.Advertise)
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

func (c *commandLine) getenv(name string) string {
	i := slices.IndexFunc(c.Environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if i < 0 {
		return ""
	}
	return c.Environ[i][len(name)+1:]
}
