package configdef

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/pkg/durability"
)

var _ Profiles = (*durability.Set)(nil)

// profiles is a set of two durability profiles.
type profiles struct{}

func (profiles) Lookup(name string) (durability.Profile, error) {
	if name != "sync" && name != "os" {
		return durability.Profile{}, fmt.Errorf("unknown durability profile %q (known: os, sync)", name)
	}
	p := durability.Profile{Name: name}
	if name == "os" {
		p.Ack = durability.Written
	}
	return p, nil
}

func registry() *Registry {
	return New(Options{Profiles: profiles{}, ProduceProfiles: []string{"low-latency", "balanced"}})
}

func wantMsg(t *testing.T, err error, want string) {
	t.Helper()
	var e *Error
	switch {
	case want == "" && err != nil:
		t.Errorf("error %q, want none", err)
	case want != "" && err == nil:
		t.Errorf("no error, want %q", want)
	case want != "" && (!errors.As(err, &e) || e.Error() != want):
		t.Errorf("error %q (%T)\nwant  %q", err, err, want)
	}
}

// The texts are Apache Kafka 4.3.1's answers, value by value.
func TestRefusedTopicValuesMatchKafka(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"},
		{"segment.bytes", "abc", "Invalid value abc for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "5", "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "99999999999", "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "0x10", "Invalid value 0x10 for configuration segment.bytes: Not a number of type INT"},
		{"preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"preallocate", " TRUE ", ""},
		{"segment.ms", " 5 ", ""},
		{"segment.ms", "+5", ""},
		{"segment.ms", "5.0", "Invalid value 5.0 for configuration segment.ms: Not a number of type LONG"},
		{"segment.ms", "", "Invalid value  for configuration segment.ms: Not a number of type LONG"},
		{"message.timestamp.type", "createtime",
			"Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"message.timestamp.type", "",
			"Invalid value  for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"compression.type", "foo",
			"Invalid value foo for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.type", " gzip ", ""},
		{"cleanup.policy", "foo", "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "delete,compact,delete", ""},
		{"cleanup.policy", "delete, compact", ""},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."},
		{"cleanup.policy", "Compact", "Invalid value Compact for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "none", "Invalid value none for configuration cleanup.policy: String must be one of: compact, delete"},
		{"segment.bytes", "1048575", "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "1048576", ""},
		{"segment.jitter.ms", "-1", "Invalid value -1 for configuration segment.jitter.ms: Value must be at least 0"},
		{"segment.jitter.ms", "99999999999", ""},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "0", ""},
		{"retention.bytes", "-9223372036854775808", ""},
		{"delete.retention.ms", "-1", "Invalid value -1 for configuration delete.retention.ms: Value must be at least 0"},
		{"file.delete.delay.ms", "-1", "Invalid value -1 for configuration file.delete.delay.ms: Value must be at least 0"},
		{"max.compaction.lag.ms", "0", "Invalid value 0 for configuration max.compaction.lag.ms: Value must be at least 1"},
		{"min.compaction.lag.ms", "-1", "Invalid value -1 for configuration min.compaction.lag.ms: Value must be at least 0"},
		{"min.cleanable.dirty.ratio", "1.1", "Invalid value 1.1 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "-0.1", "Invalid value -0.1 for configuration min.cleanable.dirty.ratio: Value must be at least 0"},
		{"min.cleanable.dirty.ratio", "1e-1", ""},
		{"unclean.leader.election.enable", "x",
			"Invalid value x for configuration unclean.leader.election.enable: Expected value to be either true or false"},
		{"compression.gzip.level", "0",
			"Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "-1", ""},
		{"compression.lz4.level", "18", "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"},
		{"compression.zstd.level", "23", "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22"},
		{"min.cleanable.dirty.ratio", "x", "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
		{"max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"},
		{"no.such.config", "1", "Unknown topic config name: no.such.config"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			wantMsg(t, registry().CheckTopic(map[string]string{c.name: c.value}), c.want)
		})
	}
}

func TestThrottledReplicas(t *testing.T) {
	const name = "leader.replication.throttled.replicas"
	const bad = " for configuration " + name + ": " + name + " must be the literal '*' or a list of replicas in the following format: " +
		"[partitionId]:[brokerId],[partitionId]:[brokerId],..."
	for text, want := range map[string]string{"": "", "*": "", "0:1": "", "0:1,5:2": "",
		"0": "Invalid value 0" + bad, "0:x": "Invalid value 0:x" + bad,
		"-1:1": "Invalid value -1:1" + bad, "*,0:1": "Invalid value *,0:1" + bad} {
		wantMsg(t, registry().CheckTopic(map[string]string{name: text}), want)
	}
	for _, c := range []struct {
		text              string
		partition, broker int32
		want              bool
	}{
		{"*", 3, 4, true}, {"3:4", 3, 4, true}, {"3:4", 4, 3, false}, {"0:1,3:4", 3, 4, true}, {"", 3, 4, false},
	} {
		conf, err := registry().ResolveTopic(Layers{Topic: map[string]string{name: c.text}})
		others := conf.FollowerThrottled.Has(c.partition, c.broker)
		if got := conf.LeaderThrottled.Has(c.partition, c.broker); got != c.want || err != nil || others {
			t.Errorf("%q has %d:%d: %t (%v)", c.text, c.partition, c.broker, got, err)
		}
	}
	for text, want := range map[string]int64{"": 0, "9223372036854775807": 0, "0": 1, "100": 100} {
		l := Layers{}
		if text != "" {
			l.Broker = map[string]string{LeaderRate: text}
		}
		if got := registry().CopyRate(LeaderRate, l); got != want {
			t.Errorf("rate %q: %d, want %d", text, got, want)
		}
	}
}

func TestUnsupportedConfigsAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"chronik.durability.profile", "fast",
			`Invalid value fast for configuration chronik.durability.profile: unknown durability profile "fast" (known: os, sync)`},
		{"chronik.durability.profile", "os", ""},
	} {
		wantMsg(t, registry().CheckTopic(map[string]string{c.name: c.value}), c.want)
	}
}

// An unknown name is reported before a bad value, whatever their order.
func TestUnknownNamesAreReportedFirst(t *testing.T) {
	err := registry().CheckTopic(map[string]string{"a.typo": "1", "compression.type": "x", "flush.ms": "1"})
	wantMsg(t, err, "Unknown topic config name: a.typo")
}

func TestRefusedBrokerConfigsMatchKafka(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		all  bool
		want string
	}{
		{map[string]string{"message.max.bytes": "1100000"}, false, ""},
		{map[string]string{"log.roll.ms": "5000000"}, true, ""},
		{map[string]string{"log.dirs": "/x"}, false, "Cannot update these configs dynamically: [log.dirs]"},
		{map[string]string{"node.id": "5", "log.dirs": "/x"}, true, "Cannot update these configs dynamically: [log.dirs, node.id]"},
		{map[string]string{"log.roll.hours": "5"}, false, "Cannot update these configs dynamically: [log.roll.hours]"},
		{map[string]string{"message.max.bytes": "abc"}, false,
			"Invalid value abc for configuration message.max.bytes: Not a number of type INT"},
		{map[string]string{"message.max.bytes": "-1"}, false,
			"Invalid value -1 for configuration message.max.bytes: Value must be at least 0"},
		{map[string]string{"segment.bytes": "5000000"}, false, "Unknown broker config name: segment.bytes"},
		{map[string]string{"log.flush.scheduler.interval.ms": "5"}, false,
			"Broker config log.flush.scheduler.interval.ms exists in Kafka, but this version of chronik does not support it; leave it out: the durability profile determines when records are synced (wal.profile, chronik.durability.profile of a topic)"},
		{map[string]string{"log.flush.interval.ms": "5"}, false, ""},
		{map[string]string{"log.retention.ms": "5", "log.roll.jitter.ms": "5", "log.segment.delete.delay.ms": "5"}, false, ""},
		{map[string]string{"log.retention.ms": "0"}, false, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{map[string]string{"log.retention.ms": "-1"}, true, ""},
		{map[string]string{"log.retention.hours": "5"}, true, "Cannot update these configs dynamically: [log.retention.hours]"},
		{map[string]string{"log.cleaner.enable": "false", "log.retention.check.interval.ms": "5"}, true,
			"Cannot update these configs dynamically: [log.cleaner.enable, log.retention.check.interval.ms]"},
		{map[string]string{"log.cleaner.min.cleanable.ratio": "5"}, false,
			"Invalid value 5.0 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1"},
		{map[string]string{"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "9"}, false,
			"conflict broker config setting log.cleaner.min.compaction.lag.ms (10) > log.cleaner.max.compaction.lag.ms (9)"},
	} {
		wantMsg(t, registry().CheckDynamic(c.set, c.all), c.want)
	}
}

func TestStaticConfigs(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"num.partitions": "4", "log.dirs": "/a,/b", "log.roll.hours": "1"}, ""},
		{map[string]string{"num.partition": "4"}, "Unknown broker config name: num.partition"},
		{map[string]string{"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"},
		{map[string]string{"node.id": "2", "broker.id": "+2"}, ""},
		{map[string]string{"node.id": "2", "broker.id": "3"},
			"node.id and broker.id are two names of one config and must have the same value"},
		{map[string]string{"chronik.produce.profile": "x"},
			"Invalid value x for configuration chronik.produce.profile: String must be one of: low-latency, balanced"},
		{map[string]string{"zookeeper.connect": "x"},
			"Broker config zookeeper.connect exists in Kafka, but this version of chronik does not support it; leave it out: every broker can be the controller; see cluster.name and cluster.seeds"},
		{map[string]string{"unclean.leader.election.interval.ms": "1"},
			"Broker config unclean.leader.election.interval.ms exists in Kafka, but this version of chronik does not support it; leave it out: replication has no such setting; docs/configuration.md lists those that begin with replica."},
		{map[string]string{"log.retention.hours": "-1", "log.retention.minutes": "5", "log.cleanup.policy": ""}, ""},
		{map[string]string{"log.retention.hours": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{map[string]string{"log.cleaner.dedupe.buffer.size": "1000000"},
			"log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{map[string]string{"log.cleaner.io.max.bytes.per.second": "0.5"},
			"Invalid value 0.5 for configuration log.cleaner.io.max.bytes.per.second: Value must be at least 1"},
		{map[string]string{"chronik.disk.min.free.bytes": "-2"},
			"Invalid value -2 for configuration chronik.disk.min.free.bytes: Value must be at least -1"},
		{map[string]string{"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "9"},
			"conflict broker config setting log.cleaner.min.compaction.lag.ms (10) > log.cleaner.max.compaction.lag.ms (9)"},
	} {
		wantMsg(t, registry().CheckStatic(c.set), c.want)
	}
}

// kafkaConfig is a config of Apache Kafka 4.4.0.
type kafkaConfig struct {
	kind, name, typ, def string
	internal             bool
}

func kafkaConfigs(t *testing.T) []kafkaConfig {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-4.4-configs.txt")
	must.OK(t, err)
	var all []kafkaConfig
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		c := kafkaConfig{kind: f[0], name: f[1], typ: f[2], def: f[3]}
		c.def, c.internal = strings.CutPrefix(c.def, "internal ")
		c.def = strings.TrimPrefix(c.def, `""`)
		all = append(all, c)
	}
	return all
}

// Each config of Kafka is either used or refused by its name, and nothing else is refused as one of
// Kafka's.
func TestEveryConfigOfKafkaIsKnown(t *testing.T) {
	r := registry()
	foreign := map[string][]string{"broker": strings.Fields(foreignBrokerNames), "topic": r.ForeignTopics(), "group": r.ForeignGroups()}
	kafka := map[string][]string{}
	for _, c := range kafkaConfigs(t) {
		used := map[string]*Def{"broker": r.Broker(c.name), "topic": r.topic[c.name], "group": r.group[c.name]}[c.kind]
		if !slices.Contains(foreign[c.kind], c.name) && (used == nil || !used.Supported) {
			t.Errorf("the %s config %s is neither used nor refused", c.kind, c.name)
		}
		kafka[c.kind] = append(kafka[c.kind], c.name)
	}
	for kind, names := range foreign {
		for _, name := range names {
			if !slices.Contains(kafka[kind], name) {
				t.Errorf("Kafka has no %s config %s", kind, name)
			}
		}
	}
}

// Names, types and defaults of topic and group configs are those of Kafka.
func TestDefaultsMatchKafka(t *testing.T) {
	r := registry()
	want := map[string]string{}
	for _, c := range kafkaConfigs(t) {
		foreign := slices.Contains(map[string][]string{"topic": r.ForeignTopics(), "group": r.ForeignGroups()}[c.kind], c.name)
		if c.kind != "broker" && !c.internal && !foreign {
			want[c.kind+" "+c.name] = c.typ + " " + c.def
		}
	}
	got := map[string]string{}
	for kind, values := range map[string][]Value{"topic": r.DescribeTopic(Layers{}), "group": r.DescribeGroup(Layers{})} {
		for _, v := range values {
			if !strings.HasPrefix(v.Def.Name, "chronik.") {
				got[kind+" "+v.Def.Name] = v.Def.Type.String() + " " + v.Value
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			t.Errorf("%s: %q, in Kafka %q", name, got[name], want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not described: %v", want)
	}
}

// As in Kafka, a config that is for tests is described only where it is set.
func TestInternalConfigsAreDescribedWhereTheyAreSet(t *testing.T) {
	const name = "internal.segment.bytes"
	got := find(t, registry().DescribeTopic(Layers{Topic: map[string]string{name: "3000000"}}), name)
	if got.Value != "3000000" || got.Null || got.Source != SourceTopic {
		t.Errorf("%+v", got)
	}
	for _, v := range registry().DescribeTopic(Layers{}) {
		if v.Def.Internal {
			t.Errorf("%s is described", v.Def.Name)
		}
	}
}

func TestEveryDefinitionIsComplete(t *testing.T) {
	r := registry()
	for _, d := range append(slices.Clone(r.Topics()), r.Brokers()...) {
		if len(d.Doc) < 10 || !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("%s: documentation %q is not a sentence", d.Name, d.Doc)
		}
		if d.HasDefault && d.Check(d.Default) != nil {
			t.Errorf("%s: its default is refused: %v", d.Name, d.Check(d.Default))
		}
		for _, s := range d.Synonyms {
			if r.Broker(s.Name) == nil {
				t.Errorf("%s: synonym %s is not a broker config", d.Name, s.Name)
			}
		}
		if r.foreign[d.Name] {
			t.Errorf("%s is both used and listed as foreign", d.Name)
		}
	}
}

func FuzzCheck(f *testing.F) {
	r := registry()
	for _, s := range []string{"", "1", "-1", "+7", " true", "a,b", "1e400", "NaN", "9223372036854775808", "delete,,compact"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, d := range r.topic {
			if d.Check(raw) != nil {
				continue
			}
			c := d.Canonical(raw)
			if d.Check(c) != nil || d.Canonical(c) != c {
				t.Errorf("%s: %q is accepted, its canonical form %q is not, or changes again", d.Name, raw, c)
			}
			if d.Supported {
				if _, err := r.ResolveTopic(Layers{Topic: map[string]string{d.Name: raw}}); err != nil {
					t.Errorf("%s=%q is accepted and does not resolve: %v", d.Name, raw, err)
				}
			}
		}
	})
}

func TestGroupTimeoutsMustFitTogether(t *testing.T) {
	r := registry()
	for _, set := range []map[string]string{
		{"group.min.session.timeout.ms": "5000", "group.max.session.timeout.ms": "4999"}, {"group.max.session.timeout.ms": "5999"},
		{"group.consumer.session.timeout.ms": "5000"}, {"group.consumer.heartbeat.interval.ms": "45000"},
		{"group.consumer.assignors": ""}, {"group.consumer.assignors": "uniform,mine"}, {"group.consumer.migration.policy": "sideways"},
	} {
		if err := r.CheckStatic(set); err == nil {
			t.Errorf("%v is accepted", set)
		}
	}
	for _, set := range []map[string]string{
		{"group.min.session.timeout.ms": "5000", "group.max.session.timeout.ms": "5000"}, {"group.consumer.migration.policy": "DISABLED"},
		{"group.consumer.session.timeout.ms": "200", "group.consumer.heartbeat.interval.ms": "199"},
	} {
		if err := r.CheckStatic(set); err != nil {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// The minimum compaction lag must not exceed the maximum, whether the topic or the broker sets
// them.
func TestCompactionLagsMustFitTogether(t *testing.T) {
	r := registry()
	wantMsg(t, r.CheckTopic(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}),
		"conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)")
	wantMsg(t, r.CheckTopic(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"}), "")
	wantMsg(t, r.CheckTopic(map[string]string{"min.compaction.lag.ms": "10"}), "")
	c, err := r.ResolveTopic(Layers{Topic: map[string]string{"min.compaction.lag.ms": "10"},
		Static: map[string]string{"log.cleaner.max.compaction.lag.ms": "5"}})
	if err != nil || c.MinLag != 10*time.Millisecond || c.MaxLag != c.MinLag {
		t.Errorf("a topic's lag above the broker's maximum: %v to %v, %v", c.MinLag, c.MaxLag, err)
	}
}

func TestDoublesAreWrittenAsInJava(t *testing.T) {
	d := registry().Broker("log.cleaner.io.max.bytes.per.second")
	for raw, want := range map[string]string{
		"1.7976931348623157E308": "1.7976931348623157E308", "1": "1.0", "0.5": "0.5", "1e-4": "1.0E-4", "1e-3": "0.001",
		"12345678": "1.2345678E7", "9999999": "9999999.0", "0": "0.0", "-2.5e10": "-2.5E10", "1e7": "1.0E7",
	} {
		if got := d.Canonical(raw); got != want {
			t.Errorf("%s is written %s, want %s", raw, got, want)
		}
	}
}

// A remedy without a matching name is a mistake in the list.
func TestEveryRemedyHasAName(t *testing.T) {
	r := registry()
	used := make(map[string]bool)
	for _, name := range slices.Concat(r.ForeignBrokers(), r.ForeignTopics(), r.ForeignGroups()) {
		used[Remedy(name)] = true
		if r.Broker(name) != nil || r.Topic(name) != nil && r.Topic(name).Supported {
			t.Errorf("%s is both used and refused", name)
		}
	}
	for _, i := range remedies() {
		if !used[i.remedy] {
			t.Errorf("no config has the remedy %q", i.remedy)
		}
	}
}

// Comparing each entry with each would take minutes, and a stopping broker waits for its handlers.
func TestListWithManyEntries(t *testing.T) {
	d := registry().Topic("cleanup.policy")
	var b strings.Builder
	const n = 200_000
	for i := range n {
		fmt.Fprintf(&b, "%d,%d,", i, i/2)
	}
	if got := strings.Count(d.Canonical(b.String()), ","); got != n-1 {
		t.Errorf("%d commas", got)
	}
}
