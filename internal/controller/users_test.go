package controller

import (
	"context"
	"testing"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/security/secret"
)

func credential(m metadata.ScramMechanism, key string) *metadata.Credential {
	return &metadata.Credential{Mechanism: m, Iterations: metadata.MinScramIterations, Salt: secret.Of("salt"),
		StoredKey: secret.New(keyOf(m, key)),
		ServerKey: secret.New(keyOf(m, key))}
}

// keyOf returns a key of the mechanism's size.
func keyOf(m metadata.ScramMechanism, text string) []byte {
	return append(make([]byte, m.KeySize()-len(text)), text...)
}

// The passwords of one user for two mechanisms change together: otherwise the former one could stay
// for one of them.
func TestOneUsersCredentialsChangeTogether(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	for _, key := range []string{"former", "new"} {
		before := image(t, s).Version()
		revision, errs, err := c.AlterUsers(ctx, []UserChange{
			{User: "bob", Mechanism: metadata.ScramSHA256, Set: credential(metadata.ScramSHA256, key)},
			{User: "eve", Mechanism: metadata.ScramSHA512},
			{User: "bob", Mechanism: metadata.ScramSHA512, Set: credential(metadata.ScramSHA512, key)},
		})
		if err != nil || revision != before+1 || errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Fatalf("at %d after %d, %v, %v", revision, before, errs, err)
		}
		for _, m := range []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512} {
			if got := image(t, s).User("bob").Credential(m); got == nil || !got.StoredKey.Equal(secret.New(keyOf(m, key))) {
				t.Errorf("%s of %s: %+v", m, key, got)
			}
		}
	}
	remove := []UserChange{{User: "bob", Mechanism: metadata.ScramSHA256}, {User: "bob", Mechanism: metadata.ScramSHA512}}
	if _, _, err := c.AlterUsers(ctx, remove); err != nil {
		t.Fatal(err)
	}
	if image(t, s).User("bob") != nil {
		t.Error("a user without a password is left")
	}
}

// The first users are added only to a cluster that has had none.
func TestFirstUsersAreFirst(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	first := []metadata.User{metadata.User{Name: "eve"}.With(*credential(metadata.ScramSHA512, "e"))}
	change := UserChange{User: "bob", Mechanism: metadata.ScramSHA512, Set: credential(metadata.ScramSHA512, "b")}
	if _, _, err := c.AlterUsers(ctx, []UserChange{change}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if applied, _, err := c.PrepareLogins(ctx, first); applied || err != nil {
			t.Errorf("%v, %v", applied, err)
		}
		if _, _, err := c.AlterUsers(ctx, []UserChange{{User: "bob", Mechanism: metadata.ScramSHA512}}); err != nil {
			t.Fatal(err)
		}
	}
	if image(t, s).User("eve") != nil {
		t.Error("a first user came after others")
	}
}

// A cluster that is full takes no further users and quotas, but changes those that it has. A
// request has a bounded number of changes.
func TestUsersAndQuotasAreBounded(t *testing.T) {
	ctx := context.Background()
	c, s := cluster(t, 1)
	set := func(user string) []UserChange {
		return []UserChange{{User: user, Mechanism: metadata.ScramSHA512, Set: credential(metadata.ScramSHA512, "k")}}
	}
	limits := func(client string) []QuotaChange {
		return []QuotaChange{{Entity: quota.Entity{Client: quota.Of(client)}, Set: map[string]float64{"consumer_byte_rate": 1}}}
	}
	if _, _, err := c.AlterUsers(ctx, set("bob")); err != nil {
		t.Fatal(err)
	}
	full := over(&crowded{Store: s, keys: make([]metadata.KV, MaxEntries)})
	if _, _, err := full.AlterUsers(ctx, set("bob")); err != nil {
		t.Errorf("a new password in a full cluster: %v", err)
	}
	above := over(&crowded{Store: s, keys: make([]metadata.KV, MaxEntries+2)}) // by requests at the same time
	if _, _, err := above.AlterUsers(ctx, set("bob")); err != nil {
		t.Errorf("a new password in a cluster above its limit: %v", err)
	}
	_, _, err := full.AlterUsers(ctx, set("eve"))
	wantError(t, err, PolicyViolation, "The cluster has 100000 users, 100000 are allowed. Remove users that are not needed, or let "+
		"clients log in with tokens or certificates.")
	_, err = full.AlterQuotas(ctx, limits("c"))
	wantError(t, err, PolicyViolation,
		"The cluster has 100000 entities with quotas, 100000 are allowed. Give a default quota instead of one for each.")
	_, _, err = c.AlterUsers(ctx, make([]UserChange, MaxAtOnce+1))
	wantError(t, err, InvalidRequest, "The request changes 1001 passwords, 1000 are allowed.")
	_, err = c.AlterQuotas(ctx, make([]QuotaChange, MaxAtOnce+1))
	wantError(t, err, InvalidRequest, "The request changes the quotas of 1001 entities, 1000 are allowed.")
	if image(t, s).User("eve") != nil || image(t, s).NumQuotas() != 0 {
		t.Error("something was added")
	}
}
