// Package secureinit makes what a broker with TLS and logins needs: a private authority,
// certificates, an admin user, the configuration, and the context of chronikctl. It is what
// `chronikd secure init` does; `chronikd secure add` makes more brokers for a cluster (add.go). New
// brokers never get a directory that has files, or the number or the addresses of another one, and
// after an error of add it can be called again. It knows nothing of a running broker, and none uses
// it.
package secureinit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chronik-io/chronik/internal/cli/contexts"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Context is the context of chronikctl that SaveContext writes.
const Context = "secured"

// Installation is the files of one broker, or of the brokers of a cluster, below a directory. The
// administrator's password is not there, where the broker's data and backups may be: it is in
// chronikctl's file, or only with who has given it.
type Installation struct {
	dir      string
	nodes    []nodePlan
	password secret.Secret
}

// New plans an installation in a directory, which it makes if there is none. advertise lists the
// HOST:PORT under which clients reach a broker alone, each a listener of its own; nodes lists the
// HOST or HOST:PORT of the brokers of a cluster. An error is one of the arguments, with the remedy.
func New(dir string, advertise, nodes []string) (*Installation, error) {
	list, err := plan(dir, advertise, nodes)
	if err == nil {
		err = emptyDir(dir)
	}
	if err != nil {
		return nil, err
	}
	return &Installation{dir, list, secret.Of(random())}, nil
}

// SetPassword replaces the administrator's password, which is a random one otherwise. It must be
// called before Write.
func (x *Installation) SetPassword(password secret.Secret) { x.password = password }

// Write makes all files durably. None of them exists before; after an error, some may.
func (x *Installation) Write(now time.Time) error {
	made, err := makeSecured(x.dir, x.nodes, x.password, now)
	if err != nil {
		return err
	}
	dirs := map[string]bool{x.dir: true}
	for path, text := range made {
		dirs[filepath.Dir(path)] = true
		if err == nil {
			err = writeNew(path, text)
		}
	}
	for dir := range dirs {
		if err == nil {
			err = syncDir(dir)
		}
	}
	if err != nil {
		return fmt.Errorf("%w; remove what is in the directory and try again", err)
	}
	return nil
}

// Summary returns what was made and what to do next. context is the file that SaveContext returned,
// empty if there is none.
func (x *Installation) Summary(context string) string {
	dir, plans := x.dir, x.nodes
	var b strings.Builder
	fmt.Fprintf(&b, "written to %s: a private authority, server certificates, the user admin, and the configuration\n\n", dir)
	for _, p := range plans {
		fmt.Fprintf(&b, "start:         chronikd --config %s\n", filepath.Join(p.dir, "chronikd.yaml"))
	}
	if context != "" {
		fmt.Fprintf(&b, "chronikctl:    chronikctl --context %s topic list\n", Context)
		own := contexts.Properties(context, Context)
		fmt.Fprintf(&b, "Kafka's tools: --bootstrap-server %s --command-config %s\n", bootstrap(plans), own)
		fmt.Fprintf(&b, "password:      of %s, in %s and the file for Kafka's tools only\n", adminUser, context)
	}
	fmt.Fprintf(&b, "clients trust: %s\n", filepath.Join(dir, "ca.pem"))
	fmt.Fprintf(&b, "keep elsewhere: %s (only --renew and secure add need it; who has it can pretend to be the broker)\n", filepath.Join(dir, "ca-key.pem"))
	if len(plans) > 1 {
		fmt.Fprintf(&b, "copy each node's directory to its machine under the same path; nothing else of %s belongs there\n", dir)
		fmt.Fprintf(&b, "keep %s: secure add gives none of its numbers and addresses again\n", rosterPath(dir))
	}
	return b.String()
}

// SaveContext adds the context Context to chronikctl's file, which the environment names, and
// returns the file's path. Next to it, it writes a file for Kafka's tools. A context of the same
// name that leads elsewhere is kept under another name, which SaveContext writes to out.
func (x *Installation) SaveContext(getenv func(string) string, out io.Writer) (string, error) {
	file, err := contexts.Open(getenv)
	if err != nil {
		return "", err
	}
	ca := filepath.Join(x.dir, "ca.pem")
	if old, ok := file.Contexts[Context]; ok && old[contexts.TLSCA] != ca {
		n := 1
		for !file.Free(fmt.Sprintf("%s-%d", Context, n)) {
			n++
		}
		name := fmt.Sprintf("%s-%d", Context, n)
		if err := file.Rename(Context, name); err != nil {
			return "", err
		}
		fmt.Fprintf(out, "the former context %s is now %s; chronikctl context rename gives it another name\n", Context, name)
	}
	delete(file.Contexts, Context)
	admin, token := adminOf(x.nodes)
	settings := map[string]string{
		contexts.Brokers: bootstrap(x.nodes), contexts.TLSCA: ca, contexts.SASL: "SCRAM-SHA-512", contexts.SASLUser: adminUser,
		contexts.SASLPassword: string(x.password.Bytes()), contexts.Admin: admin,
	}
	if token != "" {
		settings[contexts.AdminTokenFile] = token
	}
	for name, value := range settings {
		if err := file.Set(Context, name, value); err != nil {
			return "", err
		}
	}
	if err := file.Save(); err != nil {
		return "", err
	}
	own := contexts.Properties(file.Path, Context)
	if err := os.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := writeNew(own, []byte(clientProperties(x.dir, x.nodes, string(x.password.Bytes())))); err != nil {
		return "", err
	}
	return file.Path, syncDir(filepath.Dir(own))
}

// emptyDir makes a directory that only its owner can read, or accepts an empty one.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := vfs.MakeDir(vfs.OS(), dir); err != nil {
			return fmt.Errorf("%w; name a directory that can be made", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("%w; name a directory that can be made", err)
	case len(entries) > 0:
		remedy := "name a new directory"
		if _, err := os.Stat(filepath.Join(dir, "ca.pem")); err == nil {
			remedy += ", renew its certificates with --renew, or add brokers to its cluster with chronikd secure add"
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
