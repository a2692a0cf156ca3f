package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/record"
	"github.com/chronik-io/chronik/internal/storage"
)

// keyed builds a batch with a key for each record; "null" stands for none.
func keyed(t *testing.T, keys ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.BatchOptions{})
	for _, key := range keys {
		k := []byte(key)
		if key == "null" {
			k = nil
		}
		b.Append(time.Now().UnixMilli(), k, []byte("v"), nil)
	}
	built, err := b.Build()
	must(t, err)
	return built
}

// A record without a key could never be replaced. The wording is Kafka's.
func TestACompactedTopicTakesNoRecordWithoutAKey(t *testing.T) {
	n := newNode(t)
	id := n.topic(t, "t", 1)
	w := n.dial(t)
	send := func(version int16, keys ...string) (code int16, records []string) {
		t.Helper()
		p := produced(t, w, version, produceRequest("t", id, -1, keyed(t, keys...)))
		for _, r := range p.ErrorRecords {
			records = append(records, fmt.Sprintf("%d %s", r.RelativeOffset, *r.ErrorMessage))
		}
		return p.ErrorCode, records
	}
	if code, _ := send(9, "null"); code != 0 {
		t.Fatalf("with delete a key is asked for: %d", code)
	}
	// The check follows the config of the topic and of the broker.
	const text = " Compacted topic cannot accept message without key in topic partition t-0"
	for _, policy := range []string{"compact", "delete,compact"} {
		mustAlter(t, w, incremental(topicType, "t", "cleanup.policy", set, policy))
		for _, version := range []int16{9, 13} {
			code, records := send(version, "a", "null", "", "null")
			if diff := cmp.Diff([]string{"1" + text, "3" + text}, records); code != kerr.InvalidRecord.Code || diff != "" {
				t.Errorf("%s: code %d (-want +got):\n%s", policy, code, diff)
			}
			if code, _ := send(version, "a", ""); code != 0 {
				t.Errorf("%s: records with keys are refused: %d", policy, code)
			}
		}
	}
	mustAlter(t, w, incremental(topicType, "t", "cleanup.policy", unset, "null"))
	if code, _ := send(9, "null"); code != 0 {
		t.Errorf("after the policy went back: %d", code)
	}
	mustAlter(t, w, incremental(brokerType, "", "log.cleanup.policy", set, "compact"))
	if code, _ := send(9, "null"); code != kerr.InvalidRecord.Code {
		t.Errorf("with the broker's policy: %d", code)
	}
	if end := n.highWatermark(t, id); end != 2+4*2 {
		t.Errorf("the log ends at %d", end)
	}
}

// A change of a topic's configs, or of the defaults, changes its logs at once and without a
// restart.
func TestLogsFollowTheConfigsOfTheirTopic(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.static["log.retention.hours"] = "2" })
	n.topic(t, "t", 1)
	w := n.dial(t)
	want := n.storage.Logs()[0].Config()
	if c := want.Cleanup; c.RetentionTime != 2*time.Hour || !c.Delete || c.Compact || c.RetentionBytes != -1 || c.Internal {
		t.Errorf("at first: %+v", c)
	}
	for _, step := range []struct {
		name, value string
		broker      bool
		change      func()
	}{
		{"cleanup.policy", "compact,delete", false, func() { want.Cleanup.Compact = true }},
		{"retention.ms", "5000", false, func() { want.Cleanup.RetentionTime = 5 * time.Second }},
		{"log.retention.bytes", "1000", true, func() { want.Cleanup.RetentionBytes = 1000 }},
		{"retention.bytes", "2000", false, func() { want.Cleanup.RetentionBytes = 2000 }},
		{"log.retention.bytes", "3000", true, func() {}},
		{"log.roll.jitter.ms", "7", true, func() { want.Segment.JitterMs = 7 }},
		{"log.segment.delete.delay.ms", "8", true, func() { want.Cleanup.DeleteDelay = 8 * time.Millisecond }},
		{"min.cleanable.dirty.ratio", "0.25", false, func() { want.Cleanup.MinDirty = 0.25 }},
		{"log.cleaner.min.compaction.lag.ms", "9", true, func() { want.Cleanup.MinLag = 9 * time.Millisecond }},
		{"max.compaction.lag.ms", "10", false, func() { want.Cleanup.MaxLag = 10 * time.Millisecond }},
		{"delete.retention.ms", "11", false, func() { want.Cleanup.Tombstones = 11 * time.Millisecond }},
		{"cleanup.policy", "", false, func() { want.Cleanup.Compact, want.Cleanup.Delete = false, false }},
		{"retention.ms", "-1", false, func() { want.Cleanup.RetentionTime = -time.Millisecond }},
	} {
		kind, name := topicType, "t"
		if step.broker {
			kind, name = brokerType, ""
		}
		mustAlter(t, w, incremental(kind, name, step.name, set, step.value))
		step.change()
		if got := n.storage.Logs()[0].Config(); got.Cleanup != want.Cleanup || got.Segment != want.Segment {
			t.Fatalf("%s=%s:\ngot  %+v\nwant %+v", step.name, step.value, got, want)
		}
	}
}

// A dry run answers as the real request would, and changes nothing.
func TestCleanupConfigsAreValidated(t *testing.T) {
	n := newNode(t)
	n.topic(t, "t", 1)
	w := n.dial(t)
	_, before, err := n.store.Get(t.Context(), metadata.ClusterKey) // the image may not have it yet
	must(t, err)
	for _, c := range []struct {
		ops  []any
		want string
	}{
		{[]any{"retention.ms", set, "5", "cleanup.policy", set, "compact"}, "ok"},
		{[]any{"cleanup.policy", appendTo, "compact"}, "ok"},
		{[]any{"cleanup.policy", set, "shrink"},
			"INVALID_CONFIG: Invalid value shrink for configuration cleanup.policy: String must be one of: compact, delete"},
		{[]any{"retention.ms", set, "-2"}, "INVALID_CONFIG: Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{[]any{"min.compaction.lag.ms", set, "10", "max.compaction.lag.ms", set, "9"},
			"INVALID_CONFIG: conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)"},
		{[]any{"remote.storage.enable", set, "true"},
			"INVALID_CONFIG: Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage. Set archive.url on all brokers first; see docs/tiered-storage.md"},
	} {
		req := incremental(topicType, "t", c.ops...)
		req.ValidateOnly = true
		if got := alter(t, w, req); got != c.want {
			t.Errorf("%v: %s\nwant %s", c.ops, got, c.want)
		}
	}
	_, revision, err := n.store.Get(t.Context(), metadata.ClusterKey)
	must(t, err)
	if revision != before || len(n.image().Topic("t").Configs) != 0 {
		t.Error("a dry run changed something")
	}
	wantConfigs(t, w, describing(topicType, "t", "retention.ms", "min.cleanable.dirty.ratio", "segment.jitter.ms"),
		"min.cleanable.dirty.ratio=0.5 DEFAULT_CONFIG {DEFAULT_CONFIG:log.cleaner.min.cleanable.ratio=0.5}",
		"retention.ms=604800000 DEFAULT_CONFIG {DEFAULT_CONFIG:log.retention.hours=168}",
		"segment.jitter.ms=0 DEFAULT_CONFIG {DEFAULT_CONFIG:log.roll.jitter.hours=0}")
}

// earliest waits until a partition starts at an offset, and fails if it starts after it.
func (n *node) earliest(t *testing.T, topic string, want int64) {
	t.Helper()
	w := n.dial(t)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p := ask[*kmsg.ListOffsetsResponse](t, w, 7, listRequest(topic, 0, -2)).Topics[0].Partitions[0]
		if p.ErrorCode == 0 && p.Offset == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s begins at %d (code %d), want %d", topic, p.Offset, p.ErrorCode, want)
		}
	}
}

// Old records are deleted when a config makes them old, for the topic or for all, and not earlier.
// Neither a restart nor the next round is needed.
func TestRetentionAppliesAtOnce(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) { o.storage = func(s *storage.Options) { s.RetentionInterval = time.Hour } })
	names := []string{"time", "all", "kept", "compacted", "size"}
	for _, name := range names {
		n.topic(t, name, 1, "segment.bytes", "1048576")
	}
	w := n.dial(t)
	mustAlter(t, w, incremental(topicType, "kept", "cleanup.policy", set, ""))
	mustAlter(t, w, incremental(topicType, "compacted", "cleanup.policy", set, "compact"))
	big := strings.Repeat("x", 600_000) // one record in each segment
	yesterday := time.Now().Add(-24 * time.Hour).UnixMilli()
	b := record.NewBuilder(record.BatchOptions{})
	b.Append(yesterday, []byte("k"), []byte(big), nil)
	batch, err := b.Build()
	must(t, err)
	for _, name := range names {
		for range 4 {
			if p := produced(t, w, 9, produceRequest(name, [16]byte{}, -1, slices.Clone(batch))); p.ErrorCode != 0 {
				t.Fatalf("%s: %+v", name, p)
			}
		}
	}
	mustAlter(t, w, incremental(topicType, "time", "retention.ms", set, "3600000"))
	n.earliest(t, "time", 4)
	n.earliest(t, "all", 0)
	mustAlter(t, w, incremental(topicType, "size", "retention.ms", set, "-1", "retention.bytes", set, "1000000"))
	n.earliest(t, "size", 2) // without the third record less would stay
	mustAlter(t, w, incremental(brokerType, "", "log.retention.ms", set, "3600000"))
	n.earliest(t, "all", 4)
	for _, name := range []string{"kept", "compacted"} {
		n.earliest(t, name, 0)
	}
	if p := ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(3,
		named("time", [16]byte{}))).Topics[0].Partitions[0]; p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("a record that went is read: %d", p.ErrorCode)
	}
}

// A compacted topic keeps the last record of each key, at its offset, and everything in the active
// segment or after it.
func TestACompactedTopicKeepsTheLastOfEachKey(t *testing.T) {
	n := newNode(t, func(o *nodeOptions) {
		o.storage = func(s *storage.Options) {
			s.Cleaning.Backoff, s.JournalBytes, s.DeferredBytes = 5*time.Millisecond, 4<<20, 2<<20
		}
	})
	n.topic(t, "t", 1, "segment.bytes", "1048576", "min.cleanable.dirty.ratio", "0.01")
	n.topic(t, "other", 1)
	w := n.dial(t)
	send := func(key, value string) {
		t.Helper()
		b := record.NewBuilder(record.BatchOptions{})
		b.Append(time.Now().UnixMilli(), []byte(key), []byte(value), nil)
		batch, err := b.Build()
		must(t, err)
		if p := produced(t, w, 9, produceRequest("t", [16]byte{}, -1, batch)); p.ErrorCode != 0 {
			t.Fatalf("%+v", p)
		}
	}
	big := strings.Repeat("x", 600_000) // one record in each segment
	for i := range 9 {
		send(fmt.Sprint(i%3), big+fmt.Sprint(i))
	}
	send("last", "y")          // in the segment of the ninth, which is the active one
	n.put(t, "other", 10, big) // so that the journal has no space for t's records
	mustAlter(t, w, incremental(topicType, "t", "cleanup.policy", set, "compact"))
	var got []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got = nil
		for offset := int64(0); offset < 10; {
			p := ask[*kmsg.FetchResponse](t, w, 12, fetchRequest(offset, named("t", [16]byte{}))).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
				t.Fatalf("offset %d: code %d, %d bytes", offset, p.ErrorCode, len(p.RecordBatches))
			}
			for rest := p.RecordBatches; len(rest) > 0; {
				b, more, err := record.Next(rest)
				must(t, err)
				must(t, b.Each(record.Limits{}, func(r record.Record) error {
					got = append(got, fmt.Sprintf("%d:%s", r.Offset, r.Key))
					return nil
				}))
				rest, offset = more, b.LastOffset()+1
			}
		}
		if len(got) <= 5 {
			break
		}
	}
	if diff := cmp.Diff([]string{"5:2", "6:0", "7:1", "8:2", "9:last"}, got); diff != "" {
		t.Errorf("offset:key (-want +got):\n%s", diff)
	}
}
