package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// passwordChange is one entry of a request; one without iterations is a removal.
type passwordChange struct {
	user       string
	mechanism  int8
	iterations int32
	salt, key  int // sizes
}

func set256(user string) passwordChange { return passwordChange{user, 1, 8192, 4, 32} }
func set512(user string) passwordChange { return passwordChange{user, 2, 4096, 4, 64} }
func drop(user string, mechanism int8) passwordChange {
	return passwordChange{user: user, mechanism: mechanism}
}

// alterUsers sends one request and returns "user code message" for each user, sorted.
func (n *node) alterUsers(t *testing.T, changes ...passwordChange) []string {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, x := range changes {
		if x.iterations == 0 {
			d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
			d.Name, d.Mechanism = x.user, x.mechanism
			req.Deletions = append(req.Deletions, d)
			continue
		}
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations = x.user, x.mechanism, x.iterations
		u.Salt, u.SaltedPassword = make([]byte, x.salt), make([]byte, x.key)
		req.Upsertions = append(req.Upsertions, u)
	}
	resp := ask[*kmsg.AlterUserSCRAMCredentialsResponse](t, n.dial(t), 0, req)
	var got []string
	for _, x := range resp.Results {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d %s", x.User, x.ErrorCode, deref(x.ErrorMessage))))
	}
	slices.Sort(got)
	return got
}

// describeUsers returns "user code message [{mechanism iterations}...]" for each user.
func (n *node) describeUsers(t *testing.T, users ...string) []string {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range users {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		req.Users = append(req.Users, u)
	}
	resp := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](t, n.dial(t), 0, req)
	if resp.ErrorCode != 0 {
		t.Error(resp.ErrorCode)
	}
	var got []string
	for _, x := range resp.Results {
		text := fmt.Sprintf("%s %d %s", x.User, x.ErrorCode, deref(x.ErrorMessage))
		for _, c := range x.CredentialInfos {
			text += fmt.Sprintf("{%d %d}", c.Mechanism, c.Iterations)
		}
		got = append(got, strings.TrimSpace(text))
	}
	return got
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// The codes and texts are Apache Kafka 4.3.1's, unless a line says otherwise.
func TestUsersAreChangedAsInKafka(t *testing.T) {
	n := newNode(t)
	few, many := set256("u4"), set256("u4")
	few.iterations, many.iterations = 4095, 16385
	const (
		twice   = "92 A user credential cannot be altered twice in the same request"
		missing = "91 Attempt to delete a user credential that does not exist"
		unknown = "33 Unknown SCRAM mechanism"
		tooFew  = "93 Too few iterations: 4095; there must be 4096 to 16384" // Kafka does not name the bounds
		noName  = "93 Username must not be empty"
	)
	other := func(x passwordChange, salt, key int) passwordChange { x.salt, x.key = salt, key; return x }
	mechanism := func(x passwordChange, m int8) passwordChange { x.mechanism = m; return x }
	fewD3 := few
	fewD3.user = "d3"
	for i, x := range []struct {
		changes []passwordChange
		want    []string
	}{
		{nil, nil},
		{[]passwordChange{set256("u1")}, []string{"u1 0"}},
		{[]passwordChange{set512("u1")}, []string{"u1 0"}},
		{[]passwordChange{set256("u2"), few}, []string{"u2 0", "u4 " + tooFew}},
		{[]passwordChange{many}, []string{"u4 93 Too many iterations: 16385; there must be 4096 to 16384"}},
		{[]passwordChange{mechanism(set256("u5"), 0)}, []string{"u5 " + unknown}},
		{[]passwordChange{mechanism(few, 3)}, []string{"u4 " + unknown}},
		{[]passwordChange{mechanism(set256(""), 9)}, []string{noName}},
		{[]passwordChange{set256("d1"), set512("d1")}, []string{"d1 " + twice}},
		{[]passwordChange{set256("u1"), drop("u1", 2)}, []string{"u1 " + twice}},
		{[]passwordChange{fewD3, set512("d3")}, []string{"d3 " + tooFew}},
		{[]passwordChange{set256("d4"), set512("ok1"), set512("d4"), set256("d4")}, []string{"d4 " + twice, "ok1 0"}},
		{[]passwordChange{set256("z"), set256("a"), drop("nope", 1), drop("b", 9)},
			[]string{"a 0", "b " + unknown, "nope " + missing, "z 0"}},
		{[]passwordChange{drop("u2", 2)}, []string{"u2 " + missing}},
		{[]passwordChange{drop("", 1)}, []string{noName}},
		{[]passwordChange{drop("u1", 1), drop("u1", 2)}, []string{"u1 " + twice}},
		// Kafka takes these four, and no client can log in with any of them.
		{[]passwordChange{other(set256("u6"), 0, 32)}, []string{"u6 93 The salt must have 1 to 256 bytes"}},
		{[]passwordChange{other(set256("u6"), 4, 5)}, []string{"u6 93 The salted password of SCRAM-SHA-256 must have 32 bytes"}},
		{[]passwordChange{other(set512("u6"), 4, 32)}, []string{"u6 93 The salted password of SCRAM-SHA-512 must have 64 bytes"}},
		{[]passwordChange{set256("a\nb")}, []string{"a\nb 93 Username has control characters, or more than 256 bytes"}},
	} {
		if i == 0 {
			if got := n.alterUsers(t); len(got) != 0 {
				t.Error(got)
			}
			continue
		}
		for k := range x.want {
			x.want[k] = strings.TrimSpace(x.want[k])
		}
		if got := n.alterUsers(t, x.changes...); !slices.Equal(got, x.want) {
			t.Errorf("%v: %q, want %q", x.changes, got, x.want)
		}
	}
	if got, want := n.describeUsers(t), []string{"a 0 {1 8192}", "ok1 0 {2 4096}", "u1 0 {1 8192}{2 4096}", "u2 0 {1 8192}",
		"z 0 {1 8192}"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := n.describeUsers(t, "u2", "nope", "", "u1", "z", "z"), []string{
		"91 Attempt to describe a user credential that does not exist:",
		"nope 91 Attempt to describe a user credential that does not exist: nope", "u1 0 {1 8192}{2 4096}", "u2 0 {1 8192}",
		"z 92 Cannot describe SCRAM credentials for the same user twice in a single request: z"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	n.alterUsers(t, drop("u1", 1))
	n.alterUsers(t, drop("u1", 2), drop("z", 1))
	if got, want := n.describeUsers(t), []string{"a 0 {1 8192}", "ok1 0 {2 4096}", "u2 0 {1 8192}"}; !slices.Equal(got, want) {
		t.Errorf("after removals: %q, want %q", got, want)
	}
}
