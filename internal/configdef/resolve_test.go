package configdef

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func find(t *testing.T, values []Value, name string) Value {
	t.Helper()
	for _, v := range values {
		if v.Def.Name == name {
			return v
		}
	}
	t.Fatalf("%s is not described", name)
	return Value{}
}

// Each step removes the strongest layer.
func TestStrongestLayerWins(t *testing.T) {
	r := registry()
	l := Layers{
		Topic:  map[string]string{"segment.bytes": " 2000000 "},
		Broker: map[string]string{"log.segment.bytes": "3000000"},
		All:    map[string]string{"log.segment.bytes": "4000000"},
		Static: map[string]string{"log.segment.bytes": "5000000"},
	}
	all := []Setting{
		{"segment.bytes", "2000000", SourceTopic},
		{"log.segment.bytes", "3000000", SourceDynamicBroker},
		{"log.segment.bytes", "4000000", SourceDynamicAll},
		{"log.segment.bytes", "5000000", SourceStatic},
		{"log.segment.bytes", "1073741824", SourceDefault},
	}
	for i, weaken := range []func(){func() {}, func() { l.Topic = nil }, func() { l.Broker = nil }, func() { l.All = nil },
		func() { l.Static = nil }} {
		weaken()
		v := find(t, r.DescribeTopic(l), "segment.bytes")
		if v.Value != all[i].Value || v.Source != all[i].Source || !reflect.DeepEqual(v.Settings, all[i:]) {
			t.Errorf("step %d: %+v, want %+v", i, v, all[i:])
		}
		typed, err := r.ResolveTopic(l)
		if err != nil || fmt.Sprint(typed.SegmentBytes) != all[i].Value {
			t.Errorf("step %d: typed %d, %v, want %s", i, typed.SegmentBytes, err, all[i].Value)
		}
	}
}

func TestHoursAreConvertedToMilliseconds(t *testing.T) {
	r := registry()
	for _, c := range []struct {
		l      Layers
		want   string
		source Source
	}{
		{Layers{}, "604800000", SourceDefault},
		{Layers{Static: map[string]string{"log.roll.hours": "2"}}, "7200000", SourceStatic},
		{Layers{Static: map[string]string{"log.roll.hours": "2", "log.roll.ms": "5"}}, "5", SourceStatic},
		{Layers{Static: map[string]string{"log.roll.hours": "2"}, All: map[string]string{"log.roll.ms": "7"}}, "7", SourceDynamicAll},
		{Layers{Static: map[string]string{"log.roll.hours": "2147483647"}}, "7730941129200000", SourceStatic},
	} {
		if v := find(t, r.DescribeTopic(c.l), "segment.ms"); v.Value != c.want || v.Source != c.source {
			t.Errorf("%+v: %s from %d, want %s from %d", c.l, v.Value, v.Source, c.want, c.source)
		}
	}
}

// Negative values mean forever in every unit.
func TestRetentionInThreeUnits(t *testing.T) {
	r := registry()
	for _, c := range []struct {
		l    Layers
		want string
		time time.Duration
	}{
		{Layers{}, "604800000", 7 * 24 * time.Hour},
		{Layers{Static: map[string]string{"log.retention.hours": "2"}}, "7200000", 2 * time.Hour},
		{Layers{Static: map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3"}}, "180000", 3 * time.Minute},
		{Layers{Static: map[string]string{"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}}, "4",
			4 * time.Millisecond},
		{Layers{Static: map[string]string{"log.retention.hours": "-1"}}, "-1", -time.Millisecond},
		{Layers{Static: map[string]string{"log.retention.minutes": "5"}, All: map[string]string{"log.retention.ms": "-1"}}, "-1",
			-time.Millisecond},
		{Layers{Topic: map[string]string{"retention.ms": "9223372036854775807"}}, "9223372036854775807", math.MaxInt64},
	} {
		typed, err := r.ResolveTopic(c.l)
		if v := find(t, r.DescribeTopic(c.l), "retention.ms"); v.Value != c.want || err != nil || typed.Retention != c.time {
			t.Errorf("%+v: %s and %v, want %s and %v (%v)", c.l, v.Value, typed.Retention, c.want, c.time, err)
		}
	}
}

func TestPoliciesAreResolved(t *testing.T) {
	for policy, want := range map[string][2]bool{"delete": {true, false}, "compact": {false, true}, "compact, delete": {true, true},
		"": {}} {
		c, err := registry().ResolveTopic(Layers{Topic: map[string]string{"cleanup.policy": policy}})
		if got := [2]bool{c.Delete, c.Compact}; err != nil || got != want {
			t.Errorf("%q: delete, compact %v, want %v (%v)", policy, got, want, err)
		}
	}
}

func TestUnlimitedThrottle(t *testing.T) {
	for raw, want := range map[string]int64{"1.7976931348623157E308": 0, "1e19": 0, "1000000.7": 1_000_000} {
		b, err := registry().ResolveBroker(map[string]string{"log.cleaner.io.max.bytes.per.second": raw})
		if err != nil || b.Cleaning.BytesPerSecond != want {
			t.Errorf("%s: %d, want %d (%v)", raw, b.Cleaning.BytesPerSecond, want, err)
		}
	}
}

func TestBrokerDescription(t *testing.T) {
	r := registry()
	values := r.DescribeBroker(Layers{
		Topic:  map[string]string{"compression.type": "gzip"}, // ignored for a broker
		Broker: map[string]string{"message.max.bytes": "1"},
		Static: map[string]string{"broker.id": "7", "message.max.bytes": "2"},
	})
	for _, c := range []struct {
		name, want string
		null       bool
		source     Source
	}{
		{"node.id", "7", false, SourceStatic},
		{"broker.id", "7", false, SourceStatic},
		{"message.max.bytes", "1", false, SourceDynamicBroker},
		{"compression.type", "producer", false, SourceDefault},
		{"broker.rack", "", true, SourceDefault},
		{"log.dirs", "", true, SourceDefault},
	} {
		if v := find(t, values, c.name); v.Value != c.want || v.Null != c.null || v.Source != c.source {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	if got := r.DescribeAll(map[string]string{"log.roll.ms": "+5"}); len(got) != 1 || got[0].Value != "5" ||
		got[0].Source != SourceDynamicAll {
		t.Errorf("default of all brokers: %+v", got)
	}
}

// Every config must have an effect: a config that nothing reads must not be described.
func TestEveryTopicConfigIsRead(t *testing.T) {
	r := registry()
	other := map[string]string{
		"max.message.bytes": "5", "message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "5",
		"message.timestamp.after.max.ms": "5", "min.insync.replicas": "2", "chronik.durability.profile": "os",
		"compression.type": "zstd", "compression.gzip.level": "5", "compression.lz4.level": "5", "compression.zstd.level": "5",
		"cleanup.policy": "compact", "retention.ms": "5", "retention.bytes": "5", "file.delete.delay.ms": "5", "segment.jitter.ms": "5",
		"min.cleanable.dirty.ratio": "0.1", "min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5", "delete.retention.ms": "5",
		"unclean.leader.election.enable": "true", "flush.messages": "5", "flush.ms": "5",
		"segment.bytes": "2000000", "internal.segment.bytes": "3000000", "segment.ms": "5", "segment.index.bytes": "50",
		"index.interval.bytes": "50", "preallocate": "true",
		"remote.storage.enable": "true", "local.retention.ms": "5", "local.retention.bytes": "5",
		"remote.log.copy.disable": "true", "remote.log.delete.on.disable": "true",
		"errors.deadletterqueue.group.enable":   "true",
		"leader.replication.throttled.replicas": "0:1", "follower.replication.throttled.replicas": "0:1",
	}
	codec := map[string]string{"compression.gzip.level": "gzip", "compression.lz4.level": "lz4", "compression.zstd.level": "zstd"}
	for _, d := range r.Topics() {
		without := map[string]string{}
		if c := codec[d.Name]; c != "" {
			without["compression.type"] = c
		}
		if strings.HasPrefix(d.Name, "local.retention.") {
			without[RemoteEnable] = "true"
		}
		with := map[string]string{d.Name: other[d.Name]}
		for k, v := range without {
			with[k] = v
		}
		static := map[string]string{} // of the broker
		if strings.HasPrefix(d.Name, "flush.") {
			static[DurabilityProfile] = "os"
		}
		a, errA := r.ResolveTopic(Layers{Topic: without, Static: static})
		b, errB := r.ResolveTopic(Layers{Topic: with, Static: static})
		if errA != nil || errB != nil || reflect.DeepEqual(a, b) {
			t.Errorf("%s=%s changes nothing (%v, %v)", d.Name, other[d.Name], errA, errB)
		}
	}
}

func TestEveryBrokerConfigIsRead(t *testing.T) {
	r := registry()
	special := map[string]string{"archive.cache.bytes": "50000000", "archive.url": "s3://b/x", "archive.endpoint": "https://b",
		"cluster.name": "home", "cluster.seeds": "a:1,b:2,c:3", "metadata.election.ms": "700",
		"broker.session.timeout.ms":    "700",
		"broker.heartbeat.interval.ms": "700",
		"group.consumer.assignors":     "range", "group.consumer.migration.policy": "Upgrade",
		"offsets.topic.num.partitions":   "7",
		"offsets.topic.segment.bytes":    "2000000",
		"replica.window.bytes":           "2000000",
		"replica.follow.bytes":           "2000000",
		"log.cleaner.dedupe.buffer.size": "2000000", "group.consumer.max.session.timeout.ms": "50000",
		"group.streams.max.session.timeout.ms": "50000", "group.streams.num.standby.replicas": "1",
		"group.share.session.timeout.ms": "46000", "group.share.min.session.timeout.ms": "44000",
		"group.share.max.session.timeout.ms": "50000", "group.share.heartbeat.interval.ms": "6000",
		"group.share.min.heartbeat.interval.ms": "4000", "group.share.max.size": "300", "group.share.min.assignment.interval.ms": "500",
		"group.share.partition.max.record.locks": "2500", "group.share.min.partition.max.record.locks": "200",
		"group.share.max.partition.max.record.locks": "3000", "group.share.delivery.count.limit": "6",
		"group.share.min.delivery.count.limit": "3", "group.share.max.delivery.count.limit": "20",
		"group.share.max.record.lock.duration.ms": "50000", "group.share.record.lock.duration.ms": "25000",
		"producer.id.expiration.ms":            "1020001",
		"transaction.state.log.num.partitions": "7", "transaction.state.log.segment.bytes": "2000000",
		"share.coordinator.state.topic.num.partitions": "7", "share.coordinator.state.topic.segment.bytes": "2000000",
		"share.coordinator.snapshot.update.records.per.snapshot": "7"}
	for _, d := range r.Brokers() {
		if d.Update != ReadOnly || slices.ContainsFunc(otherUnits(), func(o *Def) bool { return o.Name == d.Name }) {
			continue // topics resolve through it
		}
		sample := map[Type]string{Int: "12345", Short: "12345", Long: "12345", String: "low-latency", List: "/x,/y", Boolean: "false",
			Double: "12345"}[d.Type]
		if s := special[d.Name]; s != "" {
			sample = s
		}
		must.OK(t, r.CheckStatic(map[string]string{d.Name: sample}))
		a, errA := r.ResolveBroker(nil)
		b, errB := r.ResolveBroker(map[string]string{d.Name: sample})
		if errA != nil || errB != nil || reflect.DeepEqual(a, b) {
			t.Errorf("%s=%s changes nothing (%v, %v)", d.Name, sample, errA, errB)
		}
	}
}

func TestNoLimitSaturates(t *testing.T) {
	topic, err := registry().ResolveTopic(Layers{})
	if err != nil || topic.TimestampBefore != math.MaxInt64 || topic.TimestampAfter != time.Hour {
		t.Errorf("%v %v %v", topic.TimestampBefore, topic.TimestampAfter, err)
	}
}

func TestMissingProfileIsAnError(t *testing.T) {
	if _, err := registry().ResolveTopic(Layers{Topic: map[string]string{DurabilityProfile: "gone"}}); err == nil {
		t.Error("a topic resolved to a profile that does not exist")
	}
}
