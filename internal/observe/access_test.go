package observe

import (
	"reflect"
	"testing"

	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestOddRights(t *testing.T) {
	rule := func(who string, op acl.Operation, pattern acl.Pattern, name string, p acl.Permission) acl.Binding {
		return acl.Binding{Type: acl.Topic, Name: name, Pattern: pattern, Principal: who, Host: "*", Operation: op, Permission: p}
	}
	users := map[string]bool{"User:bob": true, "User:admin": true, "User:idle": true}
	allow := rule("User:bob", acl.Read, acl.Literal, "orders", acl.Allow)
	rules := []acl.Binding{allow, rule("User:gone", acl.Read, acl.Literal, "a", acl.Allow)}
	got := accessOf(rules, users, []string{"User:admin", "User:lost"}, true)
	want := checks.Access{WithoutRights: []string{"User:idle"}, WithoutUser: []string{"User:gone"}, SuperWithoutUser: []string{"User:lost"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := accessOf(rules, users, []string{"User:admin", "User:lost"}, false); got.WithoutUser != nil || got.SuperWithoutUser != nil {
		t.Errorf("users that are not stored: %+v", got)
	}
	other := allow
	other.Host = "10.0.0.1"
	hosted := rule("User:bob", acl.Read, acl.Literal, "orders", acl.Deny)
	hosted.Host = "10.0.0.1"
	everything := rule("User:bob", acl.Read, acl.Literal, "*", acl.Allow)
	for _, c := range []struct {
		name        string
		deny, allow acl.Binding
		shadowed    bool
	}{
		{"the same", rule("User:bob", acl.Read, acl.Literal, "orders", acl.Deny), allow, true},
		{"for everybody", rule("User:*", acl.Read, acl.Literal, "orders", acl.Deny), allow, true},
		{"for another user", rule("User:x", acl.Read, acl.Literal, "orders", acl.Deny), allow, false},
		{"all operations", rule("User:bob", acl.All, acl.Literal, "orders", acl.Deny), allow, true},
		{"another operation", rule("User:bob", acl.Write, acl.Literal, "orders", acl.Deny), allow, false},
		{"every name", rule("User:bob", acl.Read, acl.Literal, "*", acl.Deny), allow, true},
		{"a prefix", rule("User:bob", acl.Read, acl.Prefixed, "ord", acl.Deny), allow, true},
		{"another prefix", rule("User:bob", acl.Read, acl.Prefixed, "x", acl.Deny), allow, false},
		{"a part", rule("User:bob", acl.Read, acl.Literal, "orders", acl.Deny),
			rule("User:bob", acl.Read, acl.Prefixed, "orders", acl.Allow), false},
		{"a part of everything", rule("User:bob", acl.Read, acl.Prefixed, "*", acl.Deny), everything, false},
		{"one address", hosted, allow, false},
		{"that address", hosted, other, true},
	} {
		if got := accessOf([]acl.Binding{c.allow, c.deny}, users, nil, true); (len(got.Shadowed) == 1) != c.shadowed {
			t.Errorf("%s: %v", c.name, got.Shadowed)
		}
	}
}

func TestUsersOfTheBootstrapFile(t *testing.T) {
	c, err := login.NewCredential(metadata.ScramSHA512, secret.Of("x"), login.DefaultIterations)
	must.OK(t, err)
	img, _, err := metadata.Empty().Apply(metadata.Batch{Revision: 1,
		Events: []metadata.Event{{Key: metadata.UserKey("admin"), Value: metadata.User{Name: "admin"}.With(c).Encode()}}})
	must.OK(t, err)
	text := "# first:users\n\nadmin:SCRAM-SHA-512:changed since\nadmin:SCRAM-SHA-256:x\neve:SCRAM-SHA-256:y\neve:SCRAM-SHA-256:y\n"
	if got := missingUsers(text, img); !reflect.DeepEqual(got, []string{"User:admin for SCRAM-SHA-256", "User:eve for SCRAM-SHA-256"}) {
		t.Errorf("%v", got)
	}
}
