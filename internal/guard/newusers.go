package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/audit"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/pause"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/series"
	"github.com/chronik-io/chronik/internal/vfs"
)

// newUsers is the file of the data directory in which `chronikd user add` leaves users for the
// broker of the directory, as lines of login.UserLines with keys in the place of passwords:
//
//	# uid=1000
//	NAME:SCRAM-SHA-256:KEYS
//
// The first line names who has left them. Only who may write into the directory can make it, and
// the metadata of that user's broker are in the same directory.
const newUsers = "new-users"

// takenUsers is the name that the broker gives the file before it reads it. LeaveUser does not
// replace this one, so what the broker removes is what it has read.
const takenUsers = newUsers + ".taken"

// leaving is the lock of LeaveUser. Two at once would lose the users of one of them.
const leaving = newUsers + ".lock"

// by begins the first line of the file.
const by = "# uid="

// takeEvery is how often a broker looks for the file.
const takeEvery = time.Second

// LeaveUser leaves a user's password for the broker of a data directory, which is there. The name
// fits a line (login.FitsLine). own gives a file the owner that the broker, or the next command,
// needs.
func LeaveUser(ctx context.Context, fsys vfs.FS, dir, name string, password secret.Secret, own func(file string) error) (err error) {
	var keys []metadata.Credential
	for _, m := range []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512} {
		c, err := login.NewCredential(m, password, login.DefaultIterations)
		if err != nil {
			return err
		}
		keys = append(keys, c)
	}
	lock, err := lockLeaving(ctx, fsys, path.Join(dir, leaving), name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := own(path.Join(dir, leaving)); err != nil {
		return err
	}
	at := path.Join(dir, newUsers)
	text, err := vfs.ReadFile(fsys, at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = vfs.WriteFile(fsys, at+".tmp", []byte(leave(os.Getuid(), string(text), name, keys)), true)
	if err == nil {
		err = own(at + ".tmp")
	}
	if err == nil {
		err = fsys.Rename(at+".tmp", at)
	}
	if err != nil {
		_ = fsys.Remove(at + ".tmp") // it has keys; the error that counts is the first one
		return err
	}
	return fsys.SyncDir(dir)
}

// lockLeaving takes the lock of LeaveUser, and waits until no other command has it.
func lockLeaving(ctx context.Context, fsys vfs.FS, at, name string) (io.Closer, error) {
	for {
		lock, err := fsys.Lock(at, "chronikd user add "+name)
		if !errors.Is(err, vfs.ErrLocked) {
			return lock, err
		}
		if stopped := pause.Sleep(ctx, takeEvery/10); stopped != nil {
			return nil, errors.Join(stopped, err)
		}
	}
}

// leave returns the content of the file with the keys of another user; text is the former one.
func leave(uid int, text, name string, keys []metadata.Credential) string {
	lines := []string{fmt.Sprintf("%s%d", by, uid)}
	for line := range strings.Lines(text) { // of other users, which no broker has taken yet
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, name+":") {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
	}
	for _, c := range keys {
		lines = append(lines, strings.Join([]string{name, c.Mechanism.String(), login.Stored(c)}, ":"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// AwaitTaken waits until the broker of a data directory has set each password of a user that is
// left there. A later one of the same user counts too: until it is set, the former one is valid.
func AwaitTaken(ctx context.Context, fsys vfs.FS, dir, name string) error {
	for {
		left := false
		for _, file := range []string{newUsers, takenUsers} { // in the order in which a password goes through them
			text, err := vfs.ReadFile(fsys, path.Join(dir, file))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			left = left || strings.Contains("\n"+string(text), "\n"+name+":")
		}
		if !left {
			return nil
		}
		if err := pause.Sleep(ctx, takeEvery/10); err != nil {
			return err
		}
	}
}

// TakeUsers sets the passwords that LeaveUser has left in the data directory of this broker, in the
// metadata of its cluster, and records that in the audit log as a change of the user who left them.
func (g *Guard) TakeUsers(ctx context.Context, fsys vfs.FS, control *controller.Controller) error {
	at := path.Join(g.cfg.DataDir, takenUsers)
	text, err := vfs.ReadFile(fsys, at)
	if errors.Is(err, fs.ErrNotExist) { // otherwise an attempt was not complete
		if err = fsys.Rename(path.Join(g.cfg.DataDir, newUsers), at); err == nil {
			text, err = vfs.ReadFile(fsys, at)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && string(text) != g.taken {
		if err := g.setUsers(ctx, string(text), control); err != nil {
			return fmt.Errorf("%s: not set yet: %w", at, err)
		}
	}
	if err == nil {
		g.taken = string(text) // not again if the file cannot be removed
		if err := fsys.Remove(at); err != nil {
			return fmt.Errorf("the passwords are set, but the file that has them stays: %w", err)
		}
		g.removed = true
	}
	if !g.removed {
		return nil
	}
	if err := fsys.SyncDir(g.cfg.DataDir); err != nil { // a power loss would bring the file back, and the passwords of now
		return fmt.Errorf("the passwords are set, but %s may come back: %w", at, err)
	}
	g.taken, g.removed = "", false
	return nil
}

// setUsers sets the passwords of a file of LeaveUser.
func (g *Guard) setUsers(ctx context.Context, text string, control *controller.Controller) error {
	users, err := login.ParseUsers(text)
	if err != nil {
		return fmt.Errorf("%w; remove the file, and run chronikd user add again", err)
	}
	var changes []controller.UserChange // made together: no former password stays for one of the mechanisms
	var names []string
	for _, u := range users {
		for _, c := range u.Credentials {
			changes = append(changes, controller.UserChange{User: u.Name, Mechanism: c.Mechanism, Set: &c})
		}
		names = append(names, u.Name)
	}
	if _, _, err := control.PrepareLogins(ctx, nil); err != nil {
		return err
	}
	who, _, _ := strings.Cut(text, "\n")
	ctx = audit.With(ctx, audit.Client{Who: strings.TrimPrefix(who, "# "), ID: "chronikd user add"})
	_, errs, err := control.AlterUsers(ctx, changes)
	if err := errors.Join(append(slices.Clone(errs), err)...); err != nil {
		return err
	}
	g.log.Info("set passwords that chronikd user add has left", zap.Strings("users", names))
	return nil
}

// FollowUsers calls TakeUsers until ctx ends. It logs few of many equal errors.
func (g *Guard) FollowUsers(ctx context.Context, fsys vfs.FS, control *controller.Controller) {
	var failed series.Failures
	at := path.Join(g.cfg.DataDir, newUsers)
	for pause.Sleep(ctx, takeEvery) == nil {
		err := g.TakeUsers(ctx, fsys, control)
		if err == nil {
			if failed.Ended(at) {
				g.log.Info("nothing that chronikd user add has left for this broker remains", zap.String("file", at))
			}
			continue
		}
		if n, say := failed.Failed(at, err); say && ctx.Err() == nil {
			g.log.Warn("what chronikd user add has left for this broker is not complete; it is tried again every second",
				zap.String("file", at), zap.Int("failures", n), zap.Error(err))
		}
	}
}
