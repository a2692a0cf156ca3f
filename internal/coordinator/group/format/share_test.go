package format

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func shareGolden() []goldenValue {
	share := func(p []byte) (any, error) { return DecodeShare(p) }
	member := func(p []byte) (any, error) { return DecodeShareMember(p) }
	current := func(p []byte) (any, error) { return DecodeShareCurrent(p) }
	states := func(p []byte) (any, error) { return DecodeShareStates(p) }

	g, full := Share{Epoch: 9}, Share{Epoch: 9, Hash: 0x1122334455667788}
	bare := ShareMember{Rack: str(""), ClientID: "c", ClientHost: "/h"}
	nulls := ShareMember{ClientID: "c", ClientHost: "/h"}
	m := ShareMember{Rack: str("r"), ClientID: "c", ClientHost: "/h", Topics: []string{"a", "b"}}
	cur := ShareCurrent{Epoch: 9, Previous: 8, Assigned: []TopicPartitions{{ID: topicID, Partitions: []int32{0, 1}}}}
	st := ShareStates{Initializing: []ShareTopic{{ID: topicID, Name: "t", Partitions: []int32{2}}},
		Initialized: []ShareTopic{{ID: topicID, Name: "t", Partitions: []int32{0, 1}}},
		Deleting:    []ShareTopic{{ID: topicID, Name: "u"}}}
	none := ShareStates{}
	return []goldenValue{
		{"share", "000000000009000000000000000000", g, g.Encode, share},
		{"share with hash", "000000000009112233445566778800", full, full.Encode, share},
		{"share member without topics", "0000010263032f680100", bare, bare.Encode, member},
		{"share member of nulls", "0000000263032f680100", nulls, nulls.Encode, member},
		{"share member", "000002720263032f68030261026200", m, m.Encode, member},
		{"share current", "0000000000090000000800020102030405060708090a0b0c0d0e0f100300000000000000010000", cur, cur.Encode, current},
		{"share states of none", "000001010100", none, none.Encode, states},
		{"share states",
			"0000020102030405060708090a0b0c0d0e0f100274020000000200020102030405060708090a0b0c0d0e0f1002740300000000000000010" +
				"0020102030405060708090a0b0c0d0e0f1002750000",
			st, st.Encode, states},
	}
}

func fuzzShares(t *testing.T, p []byte) {
	if v, err := DecodeShareMember(p); err == nil {
		again, err := DecodeShareMember(v.Encode())
		if d := cmp.Diff(v, again); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	}
	if v, err := DecodeShareStates(p); err == nil {
		again, err := DecodeShareStates(v.Encode())
		if d := cmp.Diff(v, again); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	}
}

// What Kafka does not know of the states of a share group is in a tagged field.
func TestAddedSharePartitions(t *testing.T) {
	list := []ShareTopic{{Name: "t", Partitions: []int32{2, 3}, Added: true, First: 3}, {Name: "u", Partitions: []int32{0}, Added: true},
		{Name: "v", Partitions: []int32{1}}}
	got, err := DecodeShareStates(ShareStates{Initializing: list}.Encode())
	if err != nil || fmt.Sprint(got.Initializing) != fmt.Sprint(list) {
		t.Errorf("%v %v", got.Initializing, err)
	}
}
