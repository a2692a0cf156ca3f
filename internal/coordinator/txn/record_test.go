package txn

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/chronik-io/chronik/internal/coordinator"
	"github.com/chronik-io/chronik/internal/testing/must"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	must.OK(t, err)
	return p
}

// golden has values as Kafka 4.3.1's record classes wrote them.
func golden() []struct {
	name, bytes string
	tagged      bool
	value       value
} {
	empty := value{state: Empty, pid: 7, previous: none, next: none, epoch: 3, timeout: 60_000, start: none, update: 1000}
	old := empty
	old.state, old.start, old.partitions = Ongoing, 900, []Partition{{"a", 0}, {"a", 2}, {"b", 1}}
	ongoing := old
	ongoing.version = 2
	prepare := ongoing
	prepare.state, prepare.epoch, prepare.next, prepare.previous = PrepareCommit, maxEpoch+1, 8, 6
	abort := prepare
	abort.state, abort.partitions = PrepareAbort, nil
	return []struct {
		name, bytes string
		tagged      bool
		value       value
	}{
		{"empty v0", "0000000000000000000700030000ea6000ffffffff00000000000003e8ffffffffffffffff", false, empty},
		{"empty v1", "0001000000000000000700030000ea60000000000000000003e8ffffffffffffffff00", true, empty},
		{"ongoing v0", "0000000000000000000700030000ea6001000000020001610000000200000000000000020001620000000100000001" +
			"00000000000003e80000000000000384", false, old},
		{"ongoing v1", "0001000000000000000700030000ea600103026103000000000000000200026202000000010000000000000003e8" +
			"00000000000003840102020002", true, ongoing},
		{"prepare v1", "000100000000000000077fff0000ea600203026103000000000000000200026202000000010000000000000003e8" +
			"000000000000038403000800000000000000060108000000000000000802020002", true, prepare},
		{"abort v1", "000100000000000000077fff0000ea60030100000000000003e8000000000000038403000800000000000000060108" +
			"000000000000000802020002", true, abort},
	}
}

func TestRecordsMatchKafka(t *testing.T) {
	for _, c := range golden() {
		got, err := decodeValue(unhex(t, c.bytes))
		if d := cmp.Diff(c.value, got, cmp.AllowUnexported(value{})); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", c.name, err, d)
		}
		if p := hex.EncodeToString(c.value.encode(c.tagged)); p != c.bytes {
			t.Errorf("%s: written as %s, Kafka writes %s", c.name, p, c.bytes)
		}
	}
	if p := hex.EncodeToString(encodeKey("x")); p != "0000000178" {
		t.Error(p)
	}
	if id, err := decodeKey(unhex(t, "0000000178")); id != "x" || err != nil {
		t.Error(id, err)
	}
}

// A truncated record, and one of an unknown version or state, keeps the shard from loading.
func TestUnreadableRecordsEndTheLoad(t *testing.T) {
	for _, c := range golden() {
		p := unhex(t, c.bytes)
		for n := range p {
			if v, err := decodeValue(p[:n:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes: %+v", c.name, n, len(p), v)
			}
		}
		p[1] = 2
		if v, err := decodeValue(p); err == nil {
			t.Errorf("%s as version 2: %+v", c.name, v)
		}
	}
	s := New(DefaultConfig())
	value := unhex(t, golden()[1].bytes)
	for _, key := range []string{"", "00", "000000", "0000000278", "0001000178"} {
		if err := s.Apply(coordinator.Record{Key: unhex(t, key), Value: value}); err == nil {
			t.Errorf("key %q was accepted", key)
		}
	}
	for _, state := range []byte{6, 7, 8, 255} { // Kafka's Dead and PrepareEpochFence are never written
		value[16] = state
		if err := s.Apply(coordinator.Record{Key: encodeKey("x"), Value: value}); err == nil {
			t.Errorf("state %d was accepted", state)
		}
	}
	if len(s.ids) > 0 {
		t.Error("an unreadable record has changed the state")
	}
}

// A tool's marker that got into the topic keeps no shard from loading.
func TestAMarkerInTheLogIsNoRecord(t *testing.T) {
	s := New(DefaultConfig())
	for _, marker := range []coordinator.Marker{{}, {Commit: true}} {
		if err := s.Apply(coordinator.Record{Key: unhex(t, "00000001"), Value: unhex(t, "000000000000"), Marker: &marker}); err != nil {
			t.Error(err)
		}
	}
	if len(s.ids) > 0 {
		t.Error("a marker has become a transactional id")
	}
}

func FuzzRecord(f *testing.F) {
	for _, c := range golden() {
		f.Add(unhex(f, c.bytes))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := decodeValue(p)
		if err != nil {
			return
		}
		again, err := decodeValue(v.encode(true))
		if d := cmp.Diff(v, again, cmp.AllowUnexported(value{}), cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Errorf("%x: %v\n%s", p, err, d)
		}
	})
}
