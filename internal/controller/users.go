package controller

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/secret"
)

// UserChange sets or removes the credential of one user for one mechanism. Setting the first adds
// the user, and removing the last removes it.
type UserChange struct {
	User      string
	Mechanism metadata.ScramMechanism
	// Set is the new credential; nil removes the present one.
	Set *metadata.Credential
}

// AlterUsers makes changes in their order. Those that can't be made get an error in their place,
// and the others are made together. It returns the first revision that shows them, or 0 if there
// are none. err is for the change as a whole.
func (c *Controller) AlterUsers(ctx context.Context, changes []UserChange) (revision int64, errs []error, err error) {
	if err := checkAtOnce(len(changes), "changes", "passwords"); err != nil {
		return 0, nil, err
	}
	err = c.retry(ctx, "alter users", func() error {
		revision, errs = 0, make([]error, len(changes))
		var users []alteredUser
		for i, x := range changes {
			at := slices.IndexFunc(users, func(u alteredUser) bool { return u.now.Name == x.User })
			if at < 0 {
				u, kv, err := c.user(ctx, x.User)
				if err != nil {
					return err
				}
				at, users = len(users), append(users, alteredUser{kv: kv, now: u})
			}
			u := &users[at]
			switch {
			case x.Set != nil:
				u.now, u.altered = u.now.With(*x.Set), true
			case u.now.Credential(x.Mechanism) == nil:
				errs[i] = refuse(ResourceNotFound, "Attempt to delete a user credential that does not exist")
			default:
				u.now, u.altered = u.now.Without(x.Mechanism), true
			}
		}
		txn := alterUsers(users)
		if len(txn.If) == 0 {
			return nil
		}
		if err := c.roomForUsers(ctx, users); err != nil {
			return err
		}
		var err error
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return revision, errs, err
}

// alteredUser is a user that changes: as it is stored, and as it will be.
type alteredUser struct {
	kv      metadata.KV
	now     metadata.User
	altered bool
}

// alterUsers returns the transaction that stores users that were altered.
func alterUsers(users []alteredUser) (txn metadata.Txn) {
	for _, u := range users {
		if !u.altered {
			continue
		}
		txn.If = append(txn.If, unchanged(u.kv))
		if len(u.now.Credentials) == 0 {
			txn.Delete = append(txn.Delete, u.kv.Key)
		} else {
			txn.Put = append(txn.Put, metadata.KV{Key: u.kv.Key, Value: u.now.Encode()})
		}
	}
	return txn
}

// roomForUsers refuses to add users to a cluster that has as many as it may have.
func (c *Controller) roomForUsers(ctx context.Context, altered []alteredUser) error {
	added := 0
	for _, u := range altered {
		switch is := len(u.now.Credentials) > 0; {
		case is && u.kv.ModRevision == 0:
			added++
		case !is && u.kv.ModRevision != 0:
			added--
		}
	}
	if added <= 0 {
		return nil // the users need not be counted
	}
	kvs, _, err := c.opts.Store.Range(ctx, metadata.UserPrefix)
	if err != nil {
		return err
	}
	return checkEntries(len(kvs), len(kvs)+added, "users", "Remove users that are not needed, or let clients log in with tokens or certificates.")
}

// user reads a user; one that does not exist has no credentials.
func (c *Controller) user(ctx context.Context, name string) (metadata.User, metadata.KV, error) {
	kv, err := c.get(ctx, metadata.UserKey(name))
	if err != nil || kv.ModRevision == 0 {
		return metadata.User{Name: name}, kv, err
	}
	u, err := metadata.DecodeUser(kv)
	return u, kv, err
}

// PrepareLogins writes what brokers need to check logins, unless it is there. If first is not
// empty, it adds these users in the same transaction, and reports that it did: once in the life of
// a cluster, and only if it has had no users yet. It returns the first revision that shows all of
// it.
func (c *Controller) PrepareLogins(ctx context.Context, first []metadata.User) (applied bool, revision int64, err error) {
	err = c.retry(ctx, "prepare logins", func() error {
		applied = false
		kv, err := c.get(ctx, metadata.LoginsKey)
		if err != nil {
			return err
		}
		logins := metadata.Logins{Salt: secret.Of(rand.Text() + rand.Text())}
		if kv.ModRevision != 0 {
			if logins, err = metadata.DecodeLogins(kv); err != nil {
				return err
			}
		}
		users, _, err := c.opts.Store.Range(ctx, metadata.UserPrefix)
		if err != nil {
			return err
		}
		applied = len(first) > 0 && len(users) == 0 && !logins.Bootstrapped
		had := len(users) > 0 && !logins.Bootstrapped // who removes all users later wants none, rather than the first ones again
		if kv.ModRevision != 0 && !applied && !had {
			revision = kv.ModRevision
			return nil
		}
		txn := metadata.Txn{If: []metadata.Compare{unchanged(kv)}}
		logins.Bootstrapped = logins.Bootstrapped || had || applied
		if applied {
			for _, u := range first {
				key := metadata.UserKey(u.Name)
				txn.If = append(txn.If, metadata.Compare{Key: key})
				txn.Put = append(txn.Put, metadata.KV{Key: key, Value: u.Encode()})
			}
		}
		txn.Put = append(txn.Put, metadata.KV{Key: kv.Key, Value: logins.Encode()})
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return applied, revision, err
}
