package kv

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/metadata"
)

// A State returns the same keys for each prefix as a plain map would.
func TestRangeReturnsTheKeysWithAPrefix(t *testing.T) {
	names := rapid.StringOfN(rapid.SampledFrom([]rune("/ab")), 1, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		s, want := NewState(), map[string]string{}
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			key := names.Draw(t, "key")
			if rapid.Bool().Draw(t, "delete") {
				s.Replay(metadata.Txn{Delete: []string{key}})
				delete(want, key)
				continue
			}
			value := names.Draw(t, "value")
			s.Replay(metadata.Txn{Put: []metadata.KV{{Key: key, Value: []byte(value)}}})
			want[key] = value
		}
		prefix := rapid.StringOfN(rapid.SampledFrom([]rune("/ab")), 0, 4, -1).Draw(t, "prefix")
		var keys []string
		bytes := int64(0)
		for k, v := range want {
			bytes += int64(len(k) + len(v))
			if strings.HasPrefix(k, prefix) {
				keys = append(keys, k)
			}
			if got := s.Get(k); string(got.Value) != v {
				t.Fatalf("%s is %q, want %q", k, got.Value, v)
			}
		}
		slices.Sort(keys)
		var got []string
		for _, kv := range s.Range(prefix) {
			got = append(got, kv.Key)
		}
		if !slices.Equal(got, keys) || s.Len() != len(want) || s.Bytes() != bytes {
			t.Fatalf("Range(%q) returns %q, want %q; %d keys of %d bytes, want %d of %d", prefix, got, keys, s.Len(), s.Bytes(),
				len(want), bytes)
		}
	})
}

// The brokers are found without reading the keys of the partitions.
func TestRangeReadsOneFamily(t *testing.T) {
	s := NewState()
	s.Load(metadata.KV{Key: "/brokers/1"})
	s.Load(metadata.KV{Key: "/partitions/a/0"})
	s.families["/partitions/"]["/brokers/2"] = metadata.KV{Key: "/brokers/2"} // returned only if it was read
	if kvs := s.Range(metadata.BrokerPrefix); len(kvs) != 1 {
		t.Errorf("Range returns %v", kvs)
	}
}
