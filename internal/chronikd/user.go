package chronikd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/datadir"
	"github.com/chronik-io/chronik/internal/guard"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/vfs"
)

// userCommand holds the commands that set passwords without a login.
func (c *commandLine) userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Add a user without a login, as the owner of a broker's files", Args: noArgs,
		Long: "user is for the first user of a broker, and for an administrator whose password is lost.\n" +
			"Otherwise use chronikctl user.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var file string
	add := &cobra.Command{
		Use: "add NAME", Short: "Add a user, or give one a new password",
		Long: "add gives a user a password for SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN. It leaves the password's keys in the data directory,\n" +
			"which may be empty; the broker of the directory sets the password within a second, or when it starts. In a cluster, any one broker\n" +
			"sets it for all. add asks for the password on a terminal, or reads a line from its input or from --password-file.",
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
	if !login.FitsLine(args[0]) {
		return usage(errors.New("the name has a colon or begins with #; add such a user with chronikctl user add"))
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

// addUser leaves a user's password in the data directory of the configuration, for its broker.
func (c *commandLine) addUser(ctx context.Context, name string, password secret.Secret) error {
	cfg, conf, log, err := c.stopped()
	if err != nil {
		return err
	}
	fsys := c.fileSystem()
	dirs := datadir.New(fsys, cfg, conf, log)
	if err := vfs.MakeDir(fsys, cfg.DataDir); err != nil {
		return dirs.Error(err)
	}
	own := func(file string) error {
		if fsys != vfs.OS() {
			return nil
		}
		return files.OwnAs(file, cfg.DataDir)
	}
	if err := guard.LeaveUser(ctx, fsys, cfg.DataDir, name, password, own); err != nil {
		return dirs.Error(err)
	}
	if runs, err := dirs.Used(); err != nil || !runs {
		return errors.Join(err, c.later(dirs, name, cfg.DataDir))
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	if err := guard.AwaitTaken(ctx, fsys, cfg.DataDir, name); err != nil {
		return fmt.Errorf("the broker of %s has not set the password within %v, and does so as soon as it can; its log says why: %w",
			cfg.DataDir, takeTime, err)
	}
	fmt.Fprintf(c.Out, "user %s has a password now, for %s, %s and %s\n", name, login.ScramSHA256, login.ScramSHA512, login.Plain)
	if principal := "User:" + name; cfg.Security.ACL && !slices.Contains(cfg.Security.SuperUsers, principal) {
		fmt.Fprintf(c.Out, "it has no rights yet: add %s to super-users, or give it rights with chronikctl acl\n", principal)
	}
	return nil
}

// later writes that a user gets the password when the broker of a directory is started. A directory
// that no broker has used may be a mistake: without --config and --data-dir it is below the working
// directory.
func (c *commandLine) later(dirs *datadir.Dirs, name, dir string) error {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	fmt.Fprintf(c.Out, "user %s gets the password when the broker of %s is started\n", name, dir)
	fresh, err := dirs.Fresh()
	if fresh {
		fmt.Fprintf(c.Out, "no broker has used %s yet; if the user is for another broker, name its configuration with --config, or its "+
			"directory with --data-dir\n", dir)
	}
	return err
}

// takeTime is how long a broker may need to set a password: the cluster may elect a leader
// meanwhile.
const takeTime = 15 * time.Second
