package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/audit/changes"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/config/resolve"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/health"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/files"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/vfs"
)

// credentialUsers is the name of the first users among systemd's credentials.
const credentialUsers = "chronik-users"

// PrepareLogins makes the metadata ready for logins, with the first users if there are none.
// Without listeners with SASL, it does nothing unless the configuration names users.
func PrepareLogins(ctx context.Context, cfg *config.Config, store metadata.Store, control *controller.Controller, log *zap.Logger) error {
	name := cfg.Security.BootstrapUsers
	if name == "" {
		if located := files.Locate(credentialUsers); located != credentialUsers {
			name = located
		}
	}
	if !cfg.HasSASL() && name == "" {
		return nil
	}
	kv, _, err := store.Get(ctx, metadata.LoginsKey)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	users, _, err := store.Range(ctx, metadata.UserPrefix)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	var first []metadata.User
	switch had := kv.ModRevision != 0 && bootstrapped(kv); {
	case had: // the file may be gone
	case len(users) == 0:
		if first, err = readUsers(name); err != nil {
			return exit.With(exit.Usage, fmt.Errorf("bootstrap.users %s: %w", name, err))
		}
		if len(first) == 0 && onlyUsersLogIn(cfg) {
			return exit.With(exit.Usage, fmt.Errorf("there are no users, so no client can log in; make the first one: "+
				"chronikd user add NAME --data-dir %s, or name a file of users with bootstrap.users", health.Path(cfg.DataDir)))
		}
	case name != "":
		log.Warn("there are users already: bootstrap.users was not applied, and will not be; add its users with chronikctl user add",
			zap.String("file", name), zap.Int("users", len(users)))
	}
	applied, revision, err := control.PrepareLogins(ctx, first)
	if err != nil {
		return err
	}
	if applied {
		log.Info("added the first users; bootstrap.users is not read again", zap.String("file", name), zap.Int("users", len(first)))
	}
	return store.WaitFor(ctx, revision)
}

// onlyUsersLogIn reports whether stored users are all that can connect: then the first one must be
// there before the first start.
func onlyUsersLogIn(cfg *config.Config) bool {
	return cfg.OnlyStoredUsers() && !slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool { return len(l.SASL) == 0 })
}

func bootstrapped(kv metadata.KV) bool {
	l, err := metadata.DecodeLogins(kv)
	return err == nil && l.Bootstrapped
}

// readUsers reads a file of users; none without a name.
func readUsers(name string) ([]metadata.User, error) {
	if name == "" {
		return nil, nil
	}
	text, _, err := files.ReadSecret(name)
	if err != nil {
		return nil, err
	}
	return login.ParseUsers(string(text))
}

// AddUser gives a user a password in the store of a broker that is stopped, and records that in the
// audit log, as the broker does.
func AddUser(ctx context.Context, cfg *config.Config, fsys vfs.FS, store metadata.Store, name string, password secret.Secret,
	node int32) error {
	var failed error // set before Close returns
	mode, sink, place, err := auditSink(cfg, fsys)
	if err != nil {
		return err
	}
	var log *audit.Log
	if mode != audit.Off {
		log = audit.Open(audit.Options{Mode: mode, Sink: sink, Node: node, Failed: func(err error) { failed = errors.Join(failed, err) }})
	}
	by := audit.Client{Who: fmt.Sprintf("uid=%d", os.Getuid()), ID: "chronikd user add"}
	control := controller.New(controller.Options{Store: changes.Watch(store, log), Configs: resolve.Registry(cfg.Durability)})
	err = setUser(audit.With(ctx, by), control, name, password, []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512})
	if e := errors.Join(log.Close(ctx), failed); err == nil && e != nil {
		return fmt.Errorf("the password is set, but the audit log %s could not be written: %w", place, e)
	}
	return err
}

// setUser gives a user a password for some mechanisms.
func setUser(ctx context.Context, c *controller.Controller, name string, password secret.Secret,
	mechanisms []metadata.ScramMechanism) error {
	if _, _, err := c.PrepareLogins(ctx, nil); err != nil {
		return err
	}
	var changes []controller.UserChange // made together: no former password stays for one of them
	for _, m := range mechanisms {
		credential, err := login.NewCredential(m, password, login.DefaultIterations)
		if err != nil {
			return err
		}
		changes = append(changes, controller.UserChange{User: name, Mechanism: m, Set: &credential})
	}
	_, errs, err := c.AlterUsers(ctx, changes)
	return errors.Join(append(errs, err)...)
}
