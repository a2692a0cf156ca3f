package broker

import (
	"testing"

	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
)

// askedAgain returns a question that a session has answered before.
func askedAgain() func() bool {
	rules := denying([]right{topicRight(acl.Write, "t")}, nil)
	b := &Handler{opt: Options{Rules: func() *acl.Rules { return rules }}}
	r := &network.Request{Session: &network.Session{Principal: network.Anonymous, Host: "127.0.0.1"}}
	return func() bool { return b.rights(r).mayTopic(acl.Write, "t") }
}

// A session remembers its client and the last answers, so that asking again costs no memory.
func TestAskingAgainAllocatesNothing(t *testing.T) {
	ask := askedAgain()
	if n := testing.AllocsPerRun(100, func() {
		if !ask() {
			t.Error("the right is missing")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRights(b *testing.B) {
	ask := askedAgain()
	for b.Loop() {
		ask()
	}
}
