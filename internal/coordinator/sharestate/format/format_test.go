package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chronik-io/chronik/internal/storage/epochs"
	"github.com/chronik-io/chronik/internal/testing/must"
)

var key = Key{Group: "g", Topic: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Partition: 7}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	must.OK(t, err)
	return p
}

// Kafka 4.4.0's record classes wrote these bytes.
func TestKeysMatchKafka(t *testing.T) {
	for typ, want := range map[Type]string{
		TypeSnapshot: "00000001670102030405060708090a0b0c0d0e0f1000000007",
		TypeUpdate:   "00010001670102030405060708090a0b0c0d0e0f1000000007",
	} {
		if got := hex.EncodeToString(key.Encode(typ)); got != want {
			t.Errorf("type %d: %s, Kafka writes %s", typ, got, want)
		}
		p := unhex(t, want)
		if gotType, got, err := DecodeKey(p); err != nil || got != key || gotType != typ {
			t.Errorf("%s: %d %v, %v", want, gotType, got, err)
		}
		for n := range p {
			if _, _, err := DecodeKey(p[:n:n]); err == nil || errors.Is(err, ErrUnknownType) {
				t.Errorf("cut to %d bytes: %v", n, err)
			}
		}
		if _, _, err := DecodeKey(append(p, 0)); err == nil {
			t.Error("a key with a byte after its end is accepted")
		}
	}
	for _, p := range []string{"0002", "ffff", "000500"} {
		if _, _, err := DecodeKey(unhex(t, p)); !errors.Is(err, ErrUnknownType) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, _, err := DecodeKey(unhex(t, "0000ffff")); err == nil {
		t.Error("a negative length is accepted")
	}
}

// golden has values as Kafka 4.4.0's record classes wrote them.
func golden() []struct {
	name, bytes string
	value       interface{ Encode() []byte }
} {
	whole := Snapshot{Epoch: 3, StateEpoch: 4, Leader: 5, Start: 6, Created: 1000, Written: 2000, Complete: 292,
		Batches: []Batch{{10, 300, 2, 1}, {301, 301, 4, 5}}}
	ours := whole
	ours.Epochs.Assign(2, 10)
	ours.Epochs.Assign(5, 20)
	old := whole
	old.Complete = UnknownComplete
	initial := Snapshot{StateEpoch: 1, Leader: -1, Start: -1, Created: 1000, Written: 1000}
	update := Update{Epoch: 3, Leader: 5, Start: 6, Batches: []Batch{{10, 11, 0, 2}}}
	oldUpdate := update
	oldUpdate.Complete = UnknownComplete
	const batches = "03000000000000000a000000000000012c02000100000000000000012d000000000000012d04000500"
	return []struct {
		name, bytes string
		value       interface{ Encode() []byte }
	}{
		{"snapshot", "0000000000030000000400000005000000000000000600000000000003e800000000000007d0" + batches + "01000400000124",
			&whole},
		{"snapshot of Kafka 4.1", "0000000000030000000400000005000000000000000600000000000003e800000000000007d0" + batches + "00", &old},
		{"snapshot without marks",
			"00000000000000000001ffffffffffffffffffffffff00000000000003e800000000000003e80101000400000000", &initial},
		{"snapshot of zeros", "00000000000000000000000000000000000000000000000000000000000000000000000000000100",
			&Snapshot{Complete: UnknownComplete}},
		{"snapshot with our tag", "0000000000030000000400000005000000000000000600000000000003e800000000000007d0" + batches +
			"02000400000124904e18" + "00000002000000000000000a" + "000000050000000000000014", &ours},
		{"update", "00000000000300000005000000000000000602000000000000000a000000000000000b0000020001000400000000", &update},
		{"update of Kafka 4.1", "00000000000300000005000000000000000602000000000000000a000000000000000b0000020000", &oldUpdate},
		{"update of zeros", "0000000000000000000000000000000000000100", &Update{Complete: UnknownComplete}},
	}
}

// decode decodes a value into the type of like.
func decode(p []byte, like any) (any, error) {
	if _, ok := like.(*Update); ok {
		u, err := DecodeUpdate(p)
		return &u, err
	}
	s, err := DecodeSnapshot(p)
	return &s, err
}

func TestValuesMatchKafka(t *testing.T) {
	for _, c := range golden() {
		p := unhex(t, c.bytes)
		if got := hex.EncodeToString(c.value.Encode()); got != c.bytes {
			t.Errorf("%s: %s, Kafka writes %s", c.name, got, c.bytes)
		}
		got, err := decode(p, c.value)
		if d := cmp.Diff(c.value, got, cmp.AllowUnexported(epochs.Cache{})); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", c.name, err, d)
		}
		for n := range p {
			if v, err := decode(p[:n:n], c.value); err == nil {
				t.Errorf("%s cut to %d of %d bytes: %+v", c.name, n, len(p), v)
			}
		}
		if _, err := decode(append(p[:len(p):len(p)], 0), c.value); err == nil {
			t.Errorf("%s with a byte after its end is accepted", c.name)
		}
		p[1] = 1
		if _, err := decode(p, c.value); err == nil {
			t.Errorf("%s of version 1 is accepted", c.name)
		}
		if n := len(c.value.Encode()); n > valueSize+2*batchSize+8 {
			t.Errorf("%s has %d bytes", c.name, n)
		}
	}
}

// Tagged fields of a later version are skipped.
func TestUnknownTagsAreSkipped(t *testing.T) {
	p := unhex(t, "00000000000300000005000000000000000602000000000000000a000000000000000b0000020105017f02000400000009070100")
	want := Update{Epoch: 3, Leader: 5, Start: 6, Batches: []Batch{{10, 11, 0, 2}}, Complete: 9}
	if got, err := DecodeUpdate(p); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"0000000000000000000000000000000000000101000400",         // the field is cut
		"000000000000000000000000000000000000010100050000000000", // complete has 5 bytes
		"00000000000000000000000000000000000000ffffffff0f00",     // more batches than bytes
		"000000000000000000000000000000000000000101904e00",       // no leader epoch
	} {
		if got, err := DecodeUpdate(unhex(t, bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add(key.Encode(TypeSnapshot))
	f.Add(key.Encode(TypeUpdate))
	f.Fuzz(func(t *testing.T, p []byte) {
		if typ, k, err := DecodeKey(p); err == nil && !bytes.Equal(k.Encode(typ), p) {
			t.Errorf("%x is %+v, which is %x", p, k, k.Encode(typ))
		}
	})
}

func fuzz(f *testing.F, like any) {
	f.Helper()
	for _, c := range golden() {
		f.Add(unhex(f, c.bytes))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := decode(p, like)
		if err != nil {
			return
		}
		again, err := decode(v.(interface{ Encode() []byte }).Encode(), like)
		if d := cmp.Diff(v, again, cmpopts.EquateEmpty(), cmp.AllowUnexported(epochs.Cache{})); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	})
}

func FuzzSnapshot(f *testing.F) { fuzz(f, &Snapshot{}) }

func FuzzUpdate(f *testing.F) { fuzz(f, &Update{}) }

// Kafka hashes this text, and clients send it in FindCoordinator.
func TestCoordinatorKeys(t *testing.T) {
	topic := [16]byte{0x93, 0x66, 0xeb, 0x88, 0x25, 0xd1, 0x44, 0x6e, 0xac, 0xfd, 0xd6, 0x0e, 0x49, 0x7f, 0x0b, 0x7e}
	for want, k := range map[string]Key{
		"g:k2briCXRRG6s_dYOSX8Lfg:0":             {Group: "g", Topic: topic},
		"a:b::k2briCXRRG6s_dYOSX8Lfg:2147483647": {Group: "a:b:", Topic: topic, Partition: math.MaxInt32},
	} {
		if got := k.Coordinator(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, err := ParseCoordinator(want); err != nil || got != k {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "g", "g:0", "::", "g:k2briCXRRG6s_dYOSX8Lfg:", ":k2briCXRRG6s_dYOSX8Lfg:0",
		"g:k2briCXRRG6s_dYOSX8Lfg:-1",
		"g:k2briCXRRG6s_dYOSX8Lfg:00", "g:k2briCXRRG6s_dYOSX8Lfg:+0", "g:k2briCXRRG6s_dYOSX8Lfg:2147483648", "g:k2briCXRRG6s_dYOSX8Lf:0",
		"g:k2briCXRRG6s_dYOSX8Lfgg:0", "g:k2briCXRRG6s_dYOSX8Lfh:0", strings.Repeat("g", MaxGroup+1) + ":k2briCXRRG6s_dYOSX8Lfg:0"} {
		if k, err := ParseCoordinator(text); err == nil {
			t.Errorf("%q is the key of %v", text, k)
		}
	}
}
