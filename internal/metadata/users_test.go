package metadata

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chronik-io/chronik/internal/security/secret"
)

func someCredential(m ScramMechanism, fill byte) Credential {
	key := func(b byte) secret.Secret { return secret.New(bytes.Repeat([]byte{b}, m.KeySize())) }
	return Credential{Mechanism: m, Iterations: 8192, Salt: secret.Of("some salt"), StoredKey: key(fill), ServerKey: key(fill + 1)}
}

func someUser() User {
	return User{Name: "b/ö b", Credentials: []Credential{someCredential(ScramSHA256, 1), someCredential(ScramSHA512, 3)}, Revision: 9}
}

func TestUsersRoundTrip(t *testing.T) {
	want := someUser()
	got, err := DecodeUser(KV{Key: UserKey(want.Name), Value: want.Encode(), ModRevision: 9})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	logins := Logins{Salt: secret.New(make([]byte, 32)), Bootstrapped: true}
	if got, err := DecodeLogins(KV{Key: LoginsKey, Value: logins.Encode(), ModRevision: 1}); err != nil || !reflect.DeepEqual(got, logins) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, key := range []string{UserKey("a"), UserKey("a/b %\x00\xffü"), LoginsKey} {
		if k, err := ParseKey(key); err != nil || k.String() != key {
			t.Errorf("%s: %+v, %v", key, k, err)
		}
	}
	for _, key := range []string{"/users/", "/users/a/b", "/users/%41", "/logins/"} {
		if k, err := ParseKey(key); err == nil {
			t.Errorf("%s is parsed as %+v", key, k)
		}
	}
	if m, ok := ParseScramMechanism("SCRAM-SHA-512"); m != ScramSHA512 || !ok {
		t.Errorf("%v %v", m, ok)
	}
}

func TestInvalidUsersAreRefused(t *testing.T) {
	valid := string(someUser().Encode())
	for _, change := range [][2]string{
		{`"iterations":8192`, `"iterations":4095`}, {`"iterations":8192`, `"iterations":16385`}, {"SCRAM-SHA-256", "SCRAM-SHA-1"},
		{"SCRAM-SHA-256", "SCRAM-SHA-512"}, {`"salt":"c29tZSBzYWx0"`, `"salt":""`}, {`"v":1`, `"v":2`}, {`"v":1`, `"v":1,"x":1`},
	} {
		value := strings.Replace(valid, change[0], change[1], 1)
		if u, err := DecodeUser(KV{Key: UserKey("a"), Value: []byte(value), ModRevision: 1}); err == nil || value == valid {
			t.Errorf("%v is taken: %+v", change, u)
		} else if strings.Contains(err.Error(), "c29tZSBzYWx0") {
			t.Errorf("the error shows the value: %v", err)
		}
	}
	if _, err := DecodeUser(KV{Key: UserKey("a"), Value: User{}.Encode(), ModRevision: 1}); err == nil {
		t.Error("a user without a credential is taken")
	}
	if _, err := DecodeLogins(KV{Key: LoginsKey, Value: Logins{Salt: secret.Of("short")}.Encode()}); err == nil {
		t.Error("a short salt is taken")
	}
}

func TestImagesHaveUsers(t *testing.T) {
	u := someUser()
	m, d := apply(t, Empty(), set(UserKey(u.Name), u.Encode()), set(UserKey("a"), u.Encode()),
		set(LoginsKey, Logins{Salt: secret.New(make([]byte, 32))}.Encode()))
	if got := m.User(u.Name); !slices.Equal(d.Users, []string{"a", u.Name}) || !d.Logins || got == nil || got.Revision != 1 ||
		m.User("c") != nil || m.NumUsers() != 2 || m.Logins().Salt.Len() != 32 ||
		got.Credential(ScramSHA512) == nil || got.Credential(0) != nil {
		t.Fatalf("%+v %+v", d, got)
	}
	if full := Diff(Empty(), m); !reflect.DeepEqual(full.Users, d.Users) || !full.Logins {
		t.Errorf("%+v", full)
	}
	changed := m.User("a").Without(ScramSHA256)
	next, d := apply(t, m, set(UserKey("a"), changed.Encode()), gone(UserKey(u.Name)), gone(UserKey("never")))
	if !slices.Equal(d.Users, []string{"a", u.Name}) || d.Logins || next.User(u.Name) != nil || len(next.User("a").Credentials) != 1 ||
		next.User("a").Revision != 2 || len(m.User("a").Credentials) != 2 || len(slices.Collect(next.Users())) != 1 {
		t.Errorf("%+v %+v", d, next.User("a"))
	}
	if diff := Diff(m, next); !slices.Equal(diff.Users, d.Users) || diff.Empty() {
		t.Errorf("%+v", diff)
	}
	back := changed.With(someCredential(ScramSHA256, 7))
	if back.Credentials[0].Mechanism != ScramSHA256 || len(back.Credentials) != 2 || len(changed.Credentials) != 1 {
		t.Errorf("%+v", back)
	}
}

// A user that is printed, or an error about it, shows no key.
func TestPrintedUsersHideKeys(t *testing.T) {
	u := someUser()
	for _, text := range []string{fmt.Sprintf("%+v", u), fmt.Sprintf("%#v", &u), fmt.Sprint(Logins{Salt: secret.Of("some salt")})} {
		if strings.Contains(text, "some salt") || strings.Contains(text, "1 1 1") || !strings.Contains(text, "[hidden]") {
			t.Error(text)
		}
	}
}
