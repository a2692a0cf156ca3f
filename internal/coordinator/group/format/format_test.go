package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chronik-io/chronik/internal/testing/must"
)

var topicID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func str(s string) *string { return &s }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	must.OK(t, err)
	return p
}

// Kafka 4.3.1's record classes wrote these bytes.
func TestKeysMatchKafka(t *testing.T) {
	for want, k := range map[string]Key{
		"00010001670005746f70696300000007": {Type: TypeOffset, Group: "g", Item: "topic", Partition: 7},
		"0002000167":                       {Type: TypeClassicGroup, Group: "g"},
		"0003000167":                       {Type: TypeGroup, Group: "g"},
		"0004000167":                       {Type: TypeTopics, Group: "g"},
		"000500016700016d":                 {Type: TypeMember, Group: "g", Item: "m"},
		"0006000167":                       {Type: TypeTargetEpoch, Group: "g"},
		"000700016700016d":                 {Type: TypeTarget, Group: "g", Item: "m"},
		"000800016700016d":                 {Type: TypeCurrent, Group: "g", Item: "m"},
		"000a00016700016d":                 {Type: TypeShareMember, Group: "g", Item: "m"},
		"000b000167":                       {Type: TypeShare, Group: "g"},
		"000c000167":                       {Type: TypeShareEpoch, Group: "g"},
		"000d00016700016d":                 {Type: TypeShareTarget, Group: "g", Item: "m"},
		"000e00016700016d":                 {Type: TypeShareCurrent, Group: "g", Item: "m"},
		"000f000167":                       {Type: TypeShareStates, Group: "g"},
		"00100001670003782e2a":             {Type: TypeRegex, Group: "g", Item: "x.*"},
		"0011000167":                       {Type: TypeStreams, Group: "g"},
		"0012000167":                       {Type: TypeStreamsTopics, Group: "g"},
		"001300016700016d":                 {Type: TypeStreamsMember, Group: "g", Item: "m"},
		"0014000167":                       {Type: TypeStreamsEpoch, Group: "g"},
		"001500016700016d":                 {Type: TypeStreamsTarget, Group: "g", Item: "m"},
		"001600016700016d":                 {Type: TypeStreamsCurrent, Group: "g", Item: "m"},
		"0017000167":                       {Type: TypeTopology, Group: "g"},
	} {
		if got := hex.EncodeToString(k.Encode()); got != want {
			t.Errorf("%+v: %s, Kafka writes %s", k, got, want)
		}
		if got, err := DecodeKey(unhex(t, want)); err != nil || got != k {
			t.Errorf("%s: %+v, %v", want, got, err)
		}
	}
}

func TestKeyOfAnotherType(t *testing.T) {
	legacy, err := DecodeKey(unhex(t, "00000001670005746f70696300000007"))
	if want := (Key{Type: TypeOffset, Group: "g", Item: "topic", Partition: 7}); err != nil || legacy != want {
		t.Errorf("a key of version 0: %+v, %v", legacy, err)
	}
	for _, p := range []string{"0009000167", "0009", "0018000167", "ffff"} {
		if _, err := DecodeKey(unhex(t, p)); !errors.Is(err, ErrUnknownType) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"", "00", "0001", "0003000267", "000300016700", "0003ffff"} {
		if _, err := DecodeKey(unhex(t, p)); err == nil || errors.Is(err, ErrUnknownType) {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func classicOf(version int16) ClassicGroup {
	m := ClassicMember{ID: "m", ClientID: "c", ClientHost: "/h", SessionTimeout: 10, RebalanceTimeout: 10, Subscription: []byte{1, 2},
		Assignment: []byte{3}}
	g := ClassicGroup{ProtocolType: "consumer", Generation: 5, Protocol: str("range"), Leader: str("m"), Since: -1}
	if version >= 1 {
		m.RebalanceTimeout = 20
	}
	if version >= 2 {
		g.Since = 1000
	}
	if version >= 3 {
		m.Instance = str("i")
	}
	g.Members = []ClassicMember{m}
	return g
}

// goldenValue is a value as Kafka 4.3.1 writes it. encode is nil for versions that chronik only
// reads.
type goldenValue struct {
	name, bytes string
	value       any
	encode      func() []byte
	decode      func([]byte) (any, error)
}

func golden() []goldenValue { return slices.Concat(groupGolden(), streamsGolden(), shareGolden()) }

func groupGolden() []goldenValue {
	offset := func(p []byte) (any, error) { return DecodeOffset(p) }
	classic := func(p []byte) (any, error) { return DecodeClassic(p) }
	group := func(p []byte) (any, error) { return DecodeGroup(p) }
	member := func(p []byte) (any, error) { return DecodeMember(p) }
	epoch := func(p []byte) (any, error) { return DecodeTargetEpoch(p) }
	target := func(p []byte) (any, error) { return DecodeTarget(p) }
	current := func(p []byte) (any, error) { return DecodeCurrent(p) }
	regex := func(p []byte) (any, error) { return DecodeRegex(p) }

	plain := Offset{Offset: 42, LeaderEpoch: -1, Metadata: "meta", Committed: 1000, Expires: -1}
	expiring, v3, v4 := plain, plain, plain
	expiring.Expires = 2000
	v3.LeaderEpoch = 3
	v4.LeaderEpoch, v4.Topic = 3, topicID
	empty := ClassicGroup{Since: 9}
	g, gHash := Group{Epoch: 9}, Group{Epoch: 9, Hash: 0x1122334455667788}
	full := Member{Instance: str("i"), Rack: str("r"), ClientID: "c", ClientHost: "/h", Topics: []string{"a", "b"}, Regex: str("x.*"),
		RebalanceTimeout: 300, Assignor: str("uniform")}
	nulls := Member{ClientID: "c", ClientHost: "/h", RebalanceTimeout: -1}
	old := Member{ClientID: "c", ClientHost: "/h", Topics: []string{"a"}, RebalanceTimeout: 300,
		Classic: &Classic{SessionTimeout: 45, Protocols: []Protocol{{"range", []byte{9, 8}}}}}
	te, teTime := TargetEpoch{Epoch: 9}, TargetEpoch{Epoch: 9, Time: 1234}
	tg := Target{{ID: topicID, Partitions: []int32{0, 1, 300}}}
	cur := Current{Epoch: 9, Previous: 8, State: 1,
		Assigned: []TopicPartitions{{ID: topicID, Partitions: []int32{0, 1}, Epochs: []int32{7, 9}}},
		Revoking: []TopicPartitions{{ID: topicID, Partitions: []int32{2}}}}
	rx := Regex{Topics: []string{"xa", "xb"}, Version: 3, Time: 1000}
	return []goldenValue{
		{"offset v0", "0000000000000000002a00046d65746100000000000003e8", plain, nil, offset},
		{"offset v1", "0001000000000000002a00046d65746100000000000003e800000000000007d0", expiring, expiring.Encode, offset},
		{"offset v2", "0002000000000000002a00046d65746100000000000003e8", plain, nil, offset},
		{"offset v3", "0003000000000000002a0000000300046d65746100000000000003e8", v3, nil, offset},
		{"offset v4", "0004000000000000002a00000003056d65746100000000000003e80100100102030405060708090a0b0c0d0e0f10", v4, v4.Encode,
			offset},
		{"classic v0", "00000008636f6e73756d657200000005000572616e676500016d0000000100016d00016300022f680000000a0000000201020000000103",
			classicOf(0), nil, classic},
		{"classic v1",
			"00010008636f6e73756d657200000005000572616e676500016d0000000100016d00016300022f68000000140000000a0000000201020000000103",
			classicOf(1), nil, classic},
		{"classic v2",
			"00020008636f6e73756d657200000005000572616e676500016d00000000000003e80000000100016d00016300022f68000000140000000a0000000201020000000103",
			classicOf(2), nil, classic},
		{"classic v3",
			"00030008636f6e73756d657200000005000572616e676500016d00000000000003e80000000100016d00016900016300022f68000000140000000a0000000201020000000103",
			classicOf(3),
			classicOf(3).Encode, classic},
		{"classic v4", "000409636f6e73756d6572000000050672616e6765026d00000000000003e802026d02690263032f68000000140000000a03010202030000",
			classicOf(4), nil, classic},
		{"classic empty", "0003000000000000ffffffff000000000000000900000000", empty, empty.Encode, classic},
		{"group", "00000000000900", g, g.Encode, group},
		{"group with hash", "0000000000090100081122334455667788", gHash, gHash.Encode, group},
		{"member", "0000026902720263032f68030261026204782e2a0000012c08756e69666f726d00", full, full.Encode, member},
		{"member of nulls", "000000000263032f680100ffffffff0000", nulls, nulls.Encode, member},
		{"classic member", "000000000263032f68020261000000012c00010011010000002d020672616e67650309080000", old, old.Encode, member},
		{"target epoch", "00000000000900", te, te.Encode, epoch},
		{"target epoch with time", "00000000000901000800000000000004d2", teTime, teTime.Encode, epoch},
		{"target", "0000020102030405060708090a0b0c0d0e0f100400000000000000010000012c0000", tg, tg.Encode, target},
		{"current",
			"0000000000090000000801020102030405060708090a0b0c0d0e0f10030000000000000001010009030000000700000009020102030405060708090a0b0c0d0e0f1002000000020000",
			cur, cur.Encode, current},
		{"regex", "000003037861037862000000000000000300000000000003e800", rx, rx.Encode, regex},
	}
}

func TestValuesMatchKafka(t *testing.T) {
	for _, c := range golden() {
		got, err := c.decode(unhex(t, c.bytes))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff(c.value, got); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
		if c.encode != nil && !bytes.Equal(c.encode(), unhex(t, c.bytes)) {
			t.Errorf("%s: written as %x, Kafka writes %s", c.name, c.encode(), c.bytes)
		}
	}
}

// A truncated value is an error, never a value with missing parts.
func TestTruncatedValueIsAnError(t *testing.T) {
	for _, c := range golden() {
		p := unhex(t, c.bytes)
		for n := range p {
			if v, err := c.decode(p[:n:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes: %+v", c.name, n, len(p), v)
			}
		}
		if v, err := c.decode(append(bytes.Clone(p), 0xff)); err == nil {
			t.Errorf("%s with one extra byte: %+v", c.name, v)
		}
	}
}

func TestUnknownVersionIsAnError(t *testing.T) {
	for _, c := range golden() {
		p := unhex(t, c.bytes)
		p[1] = 9
		if v, err := c.decode(p); err == nil {
			t.Errorf("%s as version 9: %+v", c.name, v)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add(Key{Type: TypeOffset, Group: "g", Item: "topic", Partition: 7}.Encode())
	f.Add(Key{Type: TypeRegex, Group: "g", Item: "x.*"}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		k, err := DecodeKey(p)
		if err != nil {
			return
		}
		if again, err := DecodeKey(k.Encode()); err != nil || again != k {
			t.Errorf("%x: %+v, and encoded again %+v, %v", p, k, again, err)
		}
	})
}

func FuzzValue(f *testing.F) {
	all := golden()
	for _, c := range all {
		f.Add(unhex(f, c.bytes))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, c := range all {
			_, _ = c.decode(p)
		}
		if m, err := DecodeMember(p); err == nil {
			again, err := DecodeMember(m.Encode())
			if d := cmp.Diff(m, again); err != nil || d != "" {
				t.Errorf("%x: %v\n%s", p, err, d)
			}
		}
		if g, err := DecodeClassic(p); err == nil && p[1] >= 3 {
			again, err := DecodeClassic(g.Encode())
			if d := cmp.Diff(g, again, cmpopts.EquateEmpty()); err != nil || d != "" {
				t.Errorf("%x: %v\n%s", p, err, d)
			}
		}
		if c, err := DecodeCurrent(p); err == nil {
			again, err := DecodeCurrent(c.Encode())
			if d := cmp.Diff(c, again); err != nil || d != "" {
				t.Errorf("%x: %v\n%s", p, err, d)
			}
		}
		fuzzStreams(t, p)
		fuzzShares(t, p)
		if o, err := DecodeOffset(p); err == nil && o.Expires < 0 {
			if again, err := DecodeOffset(o.Encode()); err != nil || again != o {
				t.Errorf("%x: %+v, then %+v, %v", p, o, again, err)
			}
		}
	})
}

// A target has no epochs of partitions: what a later version of Kafka puts in their place is
// skipped, as any unknown field is.
func TestATargetHasNoEpochs(t *testing.T) {
	p := append(appendOwned(version0(64), []TopicPartitions{{ID: topicID, Partitions: []int32{1}, Epochs: []int32{7}}}), 0)
	if got, err := DecodeTarget(p); err != nil || len(got) != 1 || got[0].Epochs != nil {
		t.Errorf("decoded %+v, %v", got, err)
	}
}
