package cluster

import (
	"context"
	"testing"

	"github.com/chronik-io/chronik/internal/membership"
)

// A broker that has registered as another member has lost the vote of the former one. Of what does
// not answer nothing is known.
func TestVotesOfFormerMembersAreLost(t *testing.T) {
	b := newBook([]string{"a:1", "b:1", "c:1"}, func() uint64 { return 13 },
		func(context.Context, uint16, []byte) ([]byte, error) { return nil, nil })
	b.registered = []listed{
		{Member: membership.Member{Node: 2, ID: 12, Address: "b:1"}},
		{Member: membership.Member{Node: 1, ID: 99, Address: "a:1"}, former: []uint64{11}},
	}
	want := []membership.Vote{{Node: -1}, {Node: 1, Address: "a:1", Lost: true}, {Node: 2, Address: "b:1"}}
	got := b.votes([]uint64{12, 13, 11, 14})
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
