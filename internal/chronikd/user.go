package chronikd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/cluster"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/membership"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/vfs"
)

// userCommand holds the commands that change users of a broker that is stopped.
func (c *commandLine) userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Add a user to a data directory, while the broker is stopped", Args: noArgs,
		Long: "user is for the first user of a broker, and for an administrator whose password is lost.\n" +
			"While a broker runs, use chronikctl user.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var file string
	add := &cobra.Command{
		Use: "add NAME", Short: "Add a user, or give one a new password",
		Long: "add gives a user a password for SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN, in the data directory of a broker that is stopped.\n" +
			"The directory may be empty. It asks for the password on a terminal, or reads a line from its input or from --password-file.\n" +
			"A member of a cluster gets its first users by bootstrap.users.",
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := c.password(cmd, file)
			if err != nil {
				return err
			}
			return c.addUser(cmd.Context(), args[0], password)
		},
	}
	add.Flags().StringVar(&file, "password-file", "", "file with the password in its first line; only its owner may be able to read it")
	cmd.AddCommand(add)
	return cmd
}

// oneName accepts exactly one argument, a name that a user may have.
func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(errors.New("give the name of the user: chronikd user add NAME"))
	}
	if !login.ValidName(args[0]) {
		return usage(fmt.Errorf("the name of a user has 1 to %d bytes and no control characters", metadata.MaxUserName))
	}
	return nil
}

// password reads a password from a file or from the input, where it is asked for on a terminal.
func (c *commandLine) password(cmd *cobra.Command, file string) (secret.Secret, error) {
	var text []byte
	var err error
	in := cmd.InOrStdin()
	terminal, ok := in.(*os.File)
	switch {
	case file != "":
		if text, _, err = files.ReadSecret(file); err != nil {
			return secret.Secret{}, usage(fmt.Errorf("--password-file %s: %w", file, err))
		}
	case ok && cli.IsTerminal(terminal):
		if text, err = cli.ReadHidden(terminal, c.Err, "Password: "); err != nil {
			return secret.Secret{}, err
		}
	default:
		text, err = bufio.NewReader(io.LimitReader(in, maxPassword+2)).ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return secret.Secret{}, fmt.Errorf("read the password: %w", err)
		}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" || len(line) > maxPassword {
		return secret.Secret{}, usage(fmt.Errorf("the password is empty or has more than %d bytes; write it to the input or to --password-file",
			maxPassword))
	}
	return secret.Of(line), nil
}

// maxPassword bounds passwords, in bytes.
const maxPassword = 1024

// addUser gives a user a password in the data directory of the configuration.
func (c *commandLine) addUser(ctx context.Context, name string, password secret.Secret) error {
	cfg, conf, log, err := c.stopped()
	if err != nil {
		return err
	}
	if conf.Cluster.Name != "" {
		return exit.With(exit.Usage, errors.New("cluster.name is set, and the users of a cluster are not those of one broker: "+
			"set bootstrap.users for the first ones, and use chronikctl user add for others; docs/security.md has the way back "+
			"if the administrator's password is lost"))
	}
	fsys := c.fileSystem()
	dirs := datadir.New(fsys, cfg, conf, log)
	if err := vfs.MakeDir(fsys, dirs.Metadata()); err != nil {
		return dirs.Error(err)
	}
	lock, err := dirs.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	store, err := cluster.OpenAlone(ctx, raftstore.Options{FS: fsys, Dir: dirs.Metadata(), Log: log})
	if errors.Is(err, membership.ErrRefused) {
		return exit.With(exit.Data, fmt.Errorf("directory %s: %w", cfg.DataDir, err))
	}
	if err != nil {
		return dirs.Error(err)
	}
	err = guard.AddUser(ctx, cfg, fsys, store, name, password, conf.NodeID)
	if err = errors.Join(err, store.Close()); err != nil {
		return dirs.Error(err)
	}
	fmt.Fprintf(c.Out, "user %s has a password now, for %s, %s and %s\n", name, login.ScramSHA256, login.ScramSHA512, login.Plain)
	if principal := "User:" + name; cfg.Security.ACL && !slices.Contains(cfg.Security.SuperUsers, principal) {
		fmt.Fprintf(c.Out, "it has no rights yet: add %s to super-users, or give it rights with chronikctl acl\n", principal)
	}
	return nil
}
