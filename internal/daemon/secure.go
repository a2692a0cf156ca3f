package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli/contexts"
)

// securedContext is the context of chronikctl that secure init writes.
const securedContext = "secured"

// secureFlags are the flags of secure init.
type secureFlags struct {
	advertise []string
	nodes     []string
	renew     bool
	noContext bool
}

func (c *commandLine) secureCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secure", Short: "Make everything that a broker with TLS and logins needs", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f secureFlags
	create := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a private authority, certificates, an admin user and a configuration to DIR",
		Long: "init writes to DIR, which must be empty: ca.pem and ca-key.pem (a private certificate authority), server.pem and\n" +
			"server-key.pem, users (the user admin with a random password), cluster.secret, chronikd.yaml, and admin.properties for\n" +
			"Kafka's tools. It saves the context \"" + securedContext + "\" for chronikctl. Then start the broker and use it:\n\n" +
			"  chronikd --config DIR/chronikd.yaml\n" +
			"  chronikctl --context " + securedContext + " topic list\n\n" +
			"Keep ca-key.pem elsewhere: only --renew needs it. --renew replaces server.pem and server-key.pem; a running broker takes\n" +
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
		RunE: func(_ *cobra.Command, args []string) error { return c.secureInit(args[0], &f) },
	}
	create.Flags().StringArrayVar(&f.advertise, "advertise", nil,
		"HOST:PORT under which clients reach the broker; may be repeated, each for a listener of its own")
	create.Flags().StringSliceVar(&f.nodes, "nodes", nil, "HOST or HOST:PORT of 1, 3 or 5 brokers that form a cluster, separated by commas; a broker uses PORT and the two after it")
	create.Flags().BoolVar(&f.renew, "renew", false, "replace the server certificates in DIR with new ones of its authority")
	create.Flags().BoolVar(&f.noContext, "no-context", false, "write no context for chronikctl")
	cmd.AddCommand(create)
	return cmd
}

func (c *commandLine) secureInit(dir string, f *secureFlags) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return usage(err)
	}
	if f.renew {
		if len(f.advertise)+len(f.nodes) > 0 {
			return usage(errors.New("--renew keeps the names of the certificates; leave out --advertise and --nodes, or make a new directory"))
		}
		done, err := renewLeaves(dir, time.Now())
		if err != nil {
			return usage(fmt.Errorf("renew %s: %w", dir, err))
		}
		_, err = fmt.Fprintf(c.Out, "renewed %s; a running broker takes it within a second\n", strings.Join(done, ", "))
		return err
	}
	plans, err := plan(dir, f)
	if err != nil {
		return usage(err)
	}
	if err := emptyDir(dir); err != nil {
		return usage(err)
	}
	made, err := makeSecured(dir, plans, time.Now())
	if err != nil {
		return fmt.Errorf("secure init %s: %w", dir, err)
	}
	for path, text := range made {
		if err := writeNew(path, text); err != nil {
			return fmt.Errorf("secure init %s: %w; remove what is in the directory and try again", dir, err)
		}
	}
	context := ""
	if !f.noContext {
		switch context, err = c.saveContext(dir, plans); {
		case errors.Is(err, contexts.ErrNoPlace): // as in a unit of systemd, where it is not needed
			fmt.Fprintf(c.Err, "note: chronikctl got no context: %v\n", err)
		case err != nil:
			return fmt.Errorf("everything in %s is written, but not the context of chronikctl: %w; --no-context leaves it out", dir, err)
		}
	}
	_, err = fmt.Fprint(c.Out, report(dir, plans, context))
	return err
}

// report says what was made and what to do next.
func report(dir string, plans []nodePlan, context string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "written to %s: a private authority, server certificates, the user admin, and the configuration\n\n", dir)
	for _, p := range plans {
		fmt.Fprintf(&b, "start:         chronikd --config %s\n", filepath.Join(p.dir, "chronikd.yaml"))
	}
	if context != "" {
		fmt.Fprintf(&b, "chronikctl:    chronikctl --context %s topic list        (saved in %s)\n", securedContext, context)
	}
	fmt.Fprintf(&b, "Kafka's tools: --bootstrap-server %s --command-config %s\n", bootstrap(plans), filepath.Join(dir, "admin.properties"))
	fmt.Fprintf(&b, "clients trust: %s\n", filepath.Join(dir, "ca.pem"))
	fmt.Fprintf(&b, "keep elsewhere: %s (only --renew needs it; who has it can pretend to be the broker)\n", filepath.Join(dir, "ca-key.pem"))
	if len(plans) > 1 {
		fmt.Fprintf(&b, "copy each node's directory to its machine under the same path; nothing else of %s belongs there\n", dir)
	}
	return b.String()
}

// emptyDir makes a directory that only its owner can read, or accepts an empty one.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w; name a directory that can be made", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("%w; name a directory that can be made", err)
	case len(entries) > 0:
		remedy := "name a new directory"
		if _, err := os.Stat(filepath.Join(dir, "ca.pem")); err == nil {
			remedy += ", or renew its certificates with --renew"
		}
		return fmt.Errorf("%s is not empty (%s); %s", dir, entries[0].Name(), remedy)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("%w; name a new directory, or one that belongs to you", err)
	}
	return nil
}

// writeNew writes a file that does not exist, readable by its owner only unless it is public. The
// umask does not change that: the broker may be another user than the one who makes the files.
func writeNew(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if filepath.Base(path) == "ca.pem" || filepath.Base(path) == "server.pem" || filepath.Base(path) == "chronikd.yaml" {
		mode = 0o644
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// saveContext adds the context to chronikctl's file and returns the file's path. A context of the
// same name that leads elsewhere is kept under another name.
func (c *commandLine) saveContext(dir string, plans []nodePlan) (string, error) {
	file, err := contexts.Open(c.getenv)
	if err != nil {
		return "", err
	}
	ca := filepath.Join(dir, "ca.pem")
	if old, ok := file.Contexts[securedContext]; ok && old[contexts.TLSCA] != ca {
		n := 1
		for file.Contexts[fmt.Sprintf("%s-%d", securedContext, n)] != nil {
			n++
		}
		file.Contexts[fmt.Sprintf("%s-%d", securedContext, n)] = old
		fmt.Fprintf(c.Err, "the former context %s is now %s-%d\n", securedContext, securedContext, n)
	}
	delete(file.Contexts, securedContext)
	settings := map[string]string{
		contexts.Brokers: bootstrap(plans), contexts.TLSCA: ca, contexts.SASL: "SCRAM-SHA-512", contexts.SASLUser: adminUser,
		contexts.SASLPasswordFile: filepath.Join(dir, "admin.password"), contexts.Admin: defaultAdminOf(plans),
	}
	for name, value := range settings {
		if err := file.Set(securedContext, name, value); err != nil {
			return "", err
		}
	}
	return file.Path, file.Save()
}

func (c *commandLine) getenv(name string) string {
	i := slices.IndexFunc(c.Environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if i < 0 {
		return ""
	}
	return c.Environ[i][len(name)+1:]
}
